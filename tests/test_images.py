"""States in guests are images: each cell has a copy of its own, and counts that do not differ."""

import base64
import hashlib
import json
import os
import re
import shutil
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import guests
import pandas as pd
import pytest
from guests import KERNELS, ask, asked_of, fsage, needs_kernel, new_file, newest, observations, target
from records import CONFIG, make_records, store
from test_count import job

from fsage import dataset
from fsage.base import GIB, MIB, Failure
from fsage.base.shell import run
from fsage.host.cells import observed
from fsage.host.verbs import count
from fsage.layouts import extents
from fsage.model.declaration import complete
from fsage.report import counted
from fsage.report.parts import Data
from fsage.run import request
from fsage.studies.kernels import images, report
from fsage.studies.kernels.host import asked, uml
from fsage.studies.kernels.model import images as kept
from fsage.studies.kernels.model import programs
from fsage.studies.kernels.model.images import Image
from fsage.studies.limits import workloads as limits
from fsage.studies.paf.model import Fragment, Populate
from fsage.studies.replica.model import Replica
from fsage.study.files import load_study
from fsage.workloads import shared


@needs_kernel
def test_states_are_images_and_each_cell_has_a_guest_of_its_own(tmp_path, monkeypatch):
    """The same cell twice has the same layout. A kernel that ends, or is not here, is the result of its cell."""
    monkeypatch.setenv("FSAGE_VENV", str(tmp_path))
    place = programs.unpacked()
    (place / "1.0").mkdir(parents=True)
    shutil.copy(Path("/bin/true").resolve(), place / "1.0/linux")
    (place / newest().name).symlink_to(newest().program.parent)
    spec, claimed = target(tmp_path, monkeypatch)
    assert claimed["kernel"].startswith(newest().name) and claimed["capacity_bytes"] > 900 * MIB
    assert not ask(spec, "claim")["changed"]

    about = asked_of(claimed, "60.50", *FRAGMENTED)
    cells = [new_file("a", newest().name), new_file("b", newest().name)]
    cells += [new_file("ends", "1.0"), new_file("none", "8.1"), new_file("option", newest().name, mount="nonsense=1")]
    assert ask(spec, "scrub", **about)["changed"] and not ask(spec, "scrub", **about)["changed"]
    assert not ask(spec, "apply_step", **about)["changed"]
    assert ask(spec, "evidence", **about)["evidence"]["filler_files"] > 50
    [image] = (tmp_path / "cache/fsage/images").glob("*.img")
    before = image.read_bytes()
    other = asked_of(claimed, "60.00", FRAGMENTED[0])
    with ThreadPoolExecutor() as pool:  # two states of a run are visited at once
        beside = pool.submit(ask, spec, "measure", **other, cells=[new_file("c", newest().name)])
        answer = ask(spec, "measure", **about, cells=cells)
        assert beside.result()["measured"] == 1
    assert (answer["measured"], answer["undone"]) == (5, None)
    assert observed.bundle(spec, other, False)["count"] == 1, "what waits of the other state is its own visit's"
    assert image.read_bytes() == before, "each cell had a copy"
    assert ask(spec, "measure", **about, cells=cells)["measured"] == 0
    seen = {path.name.split(".")[0]: observation for path, observation in observations(tmp_path)}
    first, again = (seen[name]["phases"][0] for name in ("a", "b"))
    assert first["extents"] == again["extents"] and first["extents"]["bytes"] == 64 * MIB
    assert first["left"] == again["left"]
    assert seen["ends"]["status"] == "failed" and "kernel 1.0 ended without an answer" in seen["ends"]["why"]
    assert seen["none"]["status"] == "unsupported" and "kernel '8.1': there is" in seen["none"]["why"]
    assert seen["option"]["status"] == "unsupported" and "nonsense=1: mounting" in seen["option"]["why"]
    assert "computed from counts, not timed" in seen["a"]["conditions"]["device_model"]["label"]

    [row] = count.count(job(spec, ("60.50", FRAGMENTED), kernel=newest().name))
    assert sum(length for *_, length in row["extents"]) == 64 * MIB
    assert row["kernel"].startswith(newest().name), "it was counted in a guest"

    text = b"".join(extents.written(extents.Head(GIB, 4096, GIB, "ext4", "x"), [(300 * MIB, 500 * MIB)]))
    step = Replica(1, "x", False, 1, 1, 1, hashlib.sha256(text).hexdigest())
    inputs = {step.input: base64.b64encode(zlib.compress(text)).decode()}
    assert ask(spec, "scrub", **asked_of(claimed, "x.copied", step), inputs=inputs)["changed"], "no XFS is below"


FRAGMENTED = (Populate(1, 60, (4 * MIB,), 1, "fallocate", MIB, 4), Fragment(1, 50, 1))


@pytest.mark.long
@needs_kernel
def test_an_xfs_is_mounted_again_and_again_as_it_was_left(tmp_path, monkeypatch):
    """On a copy-on-write disk of the guest's, its log was not what had been written: the second mount failed."""
    spec, claimed = target(tmp_path, monkeypatch, filesystem="xfs", size_gib=8)
    for seed in (1, 3):
        filled = Populate(1, 80, (33 * MIB,), seed, "fallocate", 4 * MIB, 16)
        about = asked_of(claimed, f"80.50+{seed}", filled, Fragment(1, 50, seed))
        ask(spec, "measure", **about, cells=[new_file(f"{seed}{number}", newest().name) for number in range(3)])
    assert [(seen["status"], seen["why"]) for _, seen in observations(tmp_path)] == [("done", None)] * 6


@pytest.mark.long
@needs_kernel
def test_what_files_hold_takes_no_room_in_an_image_and_what_fails_first_is_found_in_a_guest(tmp_path, monkeypatch):
    """Else each copy of an aged file system of 8 GiB is 8 GiB long, and eight of them fill the disk."""
    spec, claimed = target(tmp_path, monkeypatch)
    params = limits.Params(looks=4, iteration=1)
    full = guests.cell("full", params.model_dump(), limits.commands(params, claimed))
    about = asked_of(claimed, "60.50", Populate(1, 60, (4 * MIB,), 1, "write", MIB, 4), FRAGMENTED[1])
    done = ask(spec, "measure", **about, cells=[full])
    assert done["undone"] is None
    [image] = (tmp_path / "cache/fsage/images").glob("*.img")
    assert image.stat().st_blocks * 512 < 100 * MIB, "of 1 GiB, a third full"
    [(_, seen)] = observations(tmp_path)
    outcome = limits.read(seen)
    assert outcome.status == "valid" and outcome.metrics["piece_256m_fails_pieces"] > 1
    assert outcome.metrics["directory_fails_at_percent"] > 99 > outcome.metrics["piece_256m_fails_at_percent"]


@pytest.mark.long
@pytest.mark.timeout(1800)
@needs_kernel
def test_forty_cells_that_are_measured_twice_do_not_differ(tmp_path, monkeypatch):
    """Extents, jumps, places and free space, in ten layouts on two kernels with two mount options."""
    spec, claimed = target(tmp_path, monkeypatch, size_gib=2)
    ways = [(release.name, mount) for release in KERNELS[-2:] for mount in ("mb_optimize_scan=0", "mb_optimize_scan=1")]
    for seed in range(1, 11):
        filled = Populate(1, 80, (4 * MIB,), seed, "fallocate", MIB, 4)
        about = asked_of(claimed, f"80.50+{seed}", filled, Fragment(1, 50, seed))
        cells = [new_file(f"{at}{again}", *way) for at, way in enumerate(ways) for again in "ab"]
        assert ask(spec, "measure", **about, cells=cells)["undone"] is None
    counts: dict[str, list[object]] = {}
    for path, seen in observations(tmp_path):
        phase = seen["phases"][0]
        counts.setdefault(f"{path.parent.name} {path.name[0]}", []).append((phase["extents"], phase["left"]))
    assert len(counts) == 10 * len(ways)
    assert [name for name, (first, second) in counts.items() if first != second] == []


def test_what_one_guest_saw_is_kept_where_another_fails_at_the_same_moment(monkeypatch):
    def in_guest(asked, stopped, kernel, cells):
        if cells == ["bad"]:
            raise Failure("no")
        return [(cells[0], {})]

    kept_cells = []
    question = Mock(unmeasured=lambda: ["bad", "good", "good"])
    question.spec = {"device_model": None}
    question.held = lambda: nullcontext(Mock(orphaned=lambda: False))
    question.keep = lambda cell, observation: kept_cells.append(cell)
    monkeypatch.setattr(asked, "wait", lambda running, *more: wait(running))
    monkeypatch.setattr(asked, "state", lambda question: None)
    monkeypatch.setattr(asked, "_batches", lambda question, cells: [asked.Batch(None, [cell]) for cell in cells])
    monkeypatch.setattr(asked, "_in_guest", in_guest)
    for _ in range(9):
        with pytest.raises(Failure, match="no"):
            asked.measure(question, False)
    assert kept_cells == 18 * ["good"]


def test_phases_are_mounted_with_the_options_that_a_cell_names():
    phases: list[Any] = [{"name": "a", "argv": []}, {"name": "b", "argv": [], "mount_options": "noatime"}]
    mounted = request.mounted(phases, shared.CellParams(mount="mb_optimize_scan=0"))
    assert [phase["mount_options"] for phase in mounted] == ["mb_optimize_scan=0", "noatime,mb_optimize_scan=0"]
    assert request.mounted(phases, shared.CellParams(mount="defaults")) == phases
    for wrong in ({"kernel": "../linux"}, {"mount": "a b"}):
        with pytest.raises(ValueError, match=r"is not a (release of Linux|list of options)"):
            shared.CellParams(**wrong)


@pytest.mark.long
@needs_kernel
@pytest.mark.parametrize("filesystem", ["ext4", "f2fs"])
def test_an_image_has_the_same_layout_each_time(tmp_path, filesystem):
    """Files of F2FS are written, because what is only allocated lies nowhere there."""
    if not shutil.which(f"mkfs.{filesystem}"):
        pytest.skip(f"mkfs.{filesystem} is not here")
    digests = set()
    for name in ("a", "b"):
        mine = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / name)}
        image = str(tmp_path / f"{name}.img")
        words = ["image", "40.50", "-o", image, "--filesystem", filesystem, "--size", "1G", "--file-size", "8M"]
        digests.add(fsage([*words, "--file-extents", "9"], mine).split()[-1])
        assert Path(image).stat().st_blocks * 512 < 64 << 20, "sparse"
        assert "exists, and is left as it is" in fsage(words, mine, 1)
        if filesystem == "ext4":
            assert run(["debugfs", "-R", "ex /pieces", image]).stdout.count("Uninit") == 9
    assert len(digests) == 1
    if filesystem == "ext4":
        layout = str(tmp_path / "a layout, with a comma.gz")
        fsage(["evidence", image, "--save", layout], mine)
        argv = [sys.executable, "-m", "fsage", "image", layout, "-o", str(tmp_path / "copy.img")]
        said = run(argv, env=mine).stderr
        agreed = re.search(r"([\d.]+)% of the free bytes lie as in", said)
        assert agreed and float(agreed[1]) > 99.5, said


def cell(
    release: str, layout: int, extents: int, mount: str = "defaults", cache: str = "warm", **more: object
) -> dict[str, object]:
    """A row of the table of records, of a cell that was counted."""
    return {
        "kind": "planned",
        "workload": "new_file",
        "state": "80.50+1@264M",
        "structure": layout,
        "filesystem": "ext4",
        "status": "valid",
        "why": None,
        "iteration": 1,
        "param.workload": "new_file",
        "param.kernel": release,
        "param.mount": mount,
        "param.cache": cache,
        "param.file_size": 384 << 20,
        "measured_extents": extents,
        "measured_jumps": extents - 1,
        "measured_mean_position": 0.5,
        "requests": 384 + extents,
        "left_bytes": 7,
        "computed_write_bw_mib_s": 300.0,
        **more,
    }


def shown(rows: list[dict[str, object]]) -> Data:
    frame = pd.DataFrame(rows)
    return Data(frame.iloc[:0], [], frame.iloc[:0], [], frame)


def test_the_first_sentence_says_what_each_kernel_gives():
    rows = [
        cell(kernel, layout, extents + layout) for kernel, extents in (("5.10", 0), ("7.2", 40)) for layout in (1, 2)
    ]
    rows += [cell("7.2", layout, layout, "mb_optimize_scan=0") for layout in (1, 2)]
    rows += [cell(kernel, 1, 30, filesystem="xfs") for kernel in ("5.10", "7.2")]
    refused = cell("5.10", 1, 0, "mb_optimize_scan=0", status="unsupported", why="Invalid argument")
    said = report.answer(shown([*rows, refused, cell("7.2", 1, 42, iteration=2)]))
    assert said and said.sentences == [
        "In the same free space, ext4 80.50, a new file of 384M gets 1 to 2 extents with 5.10 and 7.2, "
        "mb_optimize_scan=0; 41 to 42 extents with 7.2.",
        "Kernels and options give as many extents, layout by layout, on xfs 80.50.",
        "Measured again on the same image, 1 of 1 cells differ in a count.",
    ]
    others = report.not_counted(shown([*rows, refused]))
    assert others and others.table[1:] == [["5.10, mb_optimize_scan=0", "unsupported", "Invalid argument"]]
    [_, first, *_] = report.table(shown(rows)).table
    assert first == ["ext4 80.50", "5.10", "1, 2", "1.5", "385.5", "300"]
    small = [cell(kernel, 1, 1, **{"param.file_size": 64 << 20}) for kernel in ("5.10", "7.2")]
    several = report.answer(shown([*rows[:1], *rows[2:3], *small]))
    assert several and several.sentences == [
        "In the same free space, ext4 80.50, file_size 402653184, a new file gets 1 extent with 5.10; "
        "41 extents with 7.2.",
        "Kernels and options give as many extents, layout by layout, on ext4 80.50, file_size 67108864.",
        "No cell was measured twice, so nothing is said of chance.",
    ]


def test_kernels_are_compared_with_the_same_memory_and_of_many_ways_two_that_differ_in_one_thing():
    medians = {("5.10", "defaults"): 1, ("6.12", "mb_optimize_scan=0"): 1, ("6.12", "defaults"): 40}
    medians |= {(f"7.{minor}", option): 20 for minor in range(3) for option in ("defaults", "mb_optimize_scan=0")}
    rows = [cell(release, 1, extents, mount, "cold") for (release, mount), extents in medians.items()]
    rows += [cell("5.10", 1, 30), cell("6.12", 1, 32)]
    said = report.answer(shown(rows))
    assert said and said.sentences[:2] == [
        "In the same free space, ext4 80.50 just mounted, a new file of 384M gets 1 extent with 5.10; "
        "40 extents with 6.12.",
        "In the same free space, ext4 80.50, a new file of 384M gets 30 extents with 5.10; 32 extents with 6.12.",
    ]


def test_options_of_mkfs_are_ways_too_with_an_interval_over_layouts():
    layouts = range(1, 7)
    rows = [cell("6.1", layout, 2, **{"axis.mkfs": "default"}) for layout in layouts]
    rows += [cell("6.1", layout, 12 + layout, **{"axis.mkfs": "-G 1"}) for layout in layouts]
    said = report.answer(shown(rows))
    assert said and said.sentences[0] == (
        "Filled and emptied alike, ext4 80.50, a new file of 384M gets 2 extents with 6.1; "
        "13 to 18 extents with 6.1, mkfs -G 1."
    )
    medians = [line[3] for line in report.table(shown(rows)).table[1:]]
    assert medians == ["15.5 (13 to 18, 96.9%)", "2 (2 to 2, 96.9%)"]


def test_what_cannot_be_an_image_is_refused_before_the_work(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="not one file fits"):
        images.recipe("80.50", 1, "ext4", 512 * MIB, "1G")
    with pytest.raises(ValueError, match="5 may mean 05 or 50") as refused:
        images.recipe("80.5", 1, "ext4", 1 << 30, "33M")
    assert "input_value" not in str(refused.value), "in the notation's own words"
    with pytest.raises(ValueError, match="No such file"):
        images.recipe_of(str(tmp_path / "layout.gz"), 1)
    head = {"device_bytes": GIB, "block_bytes": 4096, "group_bytes": 4096, "filesystem": None, "source": "x"}
    (tmp_path / "sizes.txt").write_text(f"fsage free extents 1\n{json.dumps(head)}\n10 20\nend 1 20\n")
    with pytest.raises(ValueError, match="no image can be made of it: it names no file system"):
        images.recipe_of(str(tmp_path / "sizes.txt"), 1)
    with pytest.raises(ValueError, match="no folder that you may write to"):
        images.check_new(tmp_path / "none/disk.img")
    for wrong in ("many", "0", "nan"):
        monkeypatch.setenv("FSAGE_IMAGES_GIB", wrong)
        why = f"FSAGE_IMAGES_GIB is '{wrong}': a number above 0 is wanted"
        assert why in "; ".join(uml.Uml.lacking(complete({"name": "v", "kind": "uml"})).missing), "before the claim"


def test_the_cache_keeps_to_its_limit_but_for_what_is_in_use(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("FSAGE_IMAGES_GIB", "0.0021")  # two of them

    def make(part: Path) -> dict[str, Any]:
        part.write_bytes(os.urandom(MIB))
        return {}

    def image(name: str) -> Path:
        return kept.made(name, {"name": name}, MIB, make).path

    first, second, third = map(image, "abc")
    assert first.exists() and second.exists(), "each may be about to be copied"
    for path, unused_s in ((first, 300), (second, 200)):
        long_ago_s = time.time() - unused_s
        os.utime(path.with_suffix(".json"), (long_ago_s, long_ago_s))
    assert image("a") == first  # used again
    left = image("d")
    assert [path.exists() for path in (first, second, third, left)] == [True, False, True, True]
    unused_s = kept._unused_s

    def removed_meanwhile(path: Path) -> float:
        third.unlink(missing_ok=True)
        return unused_s(path)

    monkeypatch.setattr(kept, "_unused_s", removed_meanwhile)
    assert image("e").exists() and not third.exists()
    with pytest.raises(
        Failure, match=r"/e-\w+\.\w+\.part cannot be a file of 9223372036854771712 bytes.*: File too large"
    ):
        kept.made("e", {}, (1 << 63) - 4096, make)

    def broken(part: Path) -> dict[str, Any]:
        raise Failure("Input/output error")

    for free, why in ((1 << 30, "error$"), (4096, f"error. {first.parent} is full: ")):
        monkeypatch.setattr(shutil, "disk_usage", lambda place, free=free: SimpleNamespace(free=free))
        with pytest.raises(Failure, match=why):
            kept.made("e", {}, MIB, broken)
    monkeypatch.setattr(kept, "_unused_s", unused_s)
    utime = os.utime

    def after_another_removed_it(path: Path) -> None:
        path.unlink()
        utime(path)

    monkeypatch.setattr(os, "utime", after_another_removed_it)
    assert image("e").exists(), "it is made again"


def test_an_image_that_two_commands_make_has_whole_notes_at_each_moment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write_text = Path.write_text
    read = []

    def read_by_a_third(path: Path, text: str, encoding: str) -> None:
        write_text(path, "")
        read.append(kept.made("a", {}, MIB, lambda part: {}).facts)
        write_text(path, text, encoding)

    def make(part: Path) -> dict[str, Any]:
        kept.made("a", {}, MIB, lambda part: {"by": "another"})
        monkeypatch.setattr(Path, "write_text", read_by_a_third)
        return {"by": "this one"}

    assert kept.made("a", {}, MIB, make).facts == {"by": "this one"}
    assert read == [{"by": "another"}]


def test_an_image_that_cannot_be_copied_whole_is_not_there(tmp_path):
    """Here its copy is no file system, and fsck says so; a full disk ends the same way."""
    made = tmp_path / "made.img"
    made.write_bytes(bytes(1 << 20))
    with pytest.raises(Failure, match="ended with status"):
        images.put(Image(made, {}), "ext4", tmp_path / "disk.img")
    assert list(tmp_path.iterdir()) == [made]


def test_counts_of_metadata_stand_in_a_table_and_on_top(tmp_path):
    """Of records as they are stored: a cell that is measured again on the same image differs in one count of three."""
    planned = [record for record in make_records(load_study(CONFIG / "quickstart.yaml")) if record["kind"] == "planned"]
    state = planned[0]["state"]
    records = [record for record in planned if record["state"] == state][:3]
    for record, writes in zip(records, (9, 9, 11), strict=True):
        record["params"] = {"workload": "metadata", "iteration": 1, "files_per_task": 500}
        record["metrics"] = {"create_device_writes": writes, "create_device_reads": 2, "stat_device_reads": 0}
    frame = dataset.load(store(records, tmp_path))
    section = counted.metadata(Data(frame.iloc[:0], [], frame.iloc[:0], [], frame))
    assert section and section.table == [
        ["state", "cell", "create device reads", "create device writes", "stat device reads"],
        [state, "metadata", "2", "9 to 11", "0"],
    ]
    assert section.text.endswith("Measured again on the same image, 1 of 2 cells differ in a count.")
    said = counted.answer(section)
    assert said and said.sentences[0] == f"In {state}, metadata: create device reads 2, create device writes 9 to 11."
