"""`fsage age`: layouts read and made a study of replicas, what if they changed, and what is refused."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from records import CONFIG
from small_filesystems import MIB, small
from test_requests import claim_of
from typer.testing import CliRunner

from fsage.cli import app
from fsage.commands import Where
from fsage.evidence import Free, read_free, save_free
from fsage.host.system import mounting
from fsage.host.targets.opening import open_target
from fsage.layouts import ext4, extents, filesystems, verdict
from fsage.layouts.extents import Head
from fsage.layouts.inspect import inspect
from fsage.layouts.store import Geometry, of_extents
from fsage.model.filesystems import takes
from fsage.plan import Plan, load_plan, results
from fsage.plan.target import load_target
from fsage.run import request
from fsage.studies.replica import age
from fsage.studies.replica import free as changed
from fsage.studies.replica.command import percents
from fsage.studies.replica.whole import Base, measures_on
from fsage.study import Study, StudyError
from fsage.study.files import load_study

root = pytest.mark.root
EVIDENCE = Path(__file__).parent / "data" / "evidence"
EXAMPLE = CONFIG / "layouts" / "example.gz"
INVENTORIES = CONFIG.parent / "inventories"


def prepared(folder: Path, *sources: object, samples: int | None = 1, target: str = "local", **what_if: object):
    """The study that is made of sources, as it is read again from a folder, and what is said."""
    base = Base(load_target(INVENTORIES / target), INVENTORIES / target, None)
    study, said = age.prepare(list(map(str, sources)), CONFIG, folder, samples, age.WhatIf(**what_if), base)
    return load_study(folder / study / f"{study}.yaml"), said


def planned(study: Study, folder: Path) -> Plan:
    """The plan of such a study; results lie beside it."""
    return age.planned(study.name, folder, Where("local", INVENTORIES, folder.parent, CONFIG))


def test_age_makes_a_study_of_what_was_read_and_the_same_again_of_the_same(tmp_path):
    given, folder = tmp_path / "ost.with.dots", tmp_path / "age"
    shutil.copy(EVIDENCE / "dumpe2fs.txt", given)
    study, said = prepared(folder, given, given, samples=2)
    assert "ost: 9.0% full" in said[0] and said[1].startswith("ost_2: ")
    assert study.states.structures == 2 and len(study.states.layouts) == 2 and len(study.headline) == 2
    assert all((folder / study.name / "layouts" / layout).is_file() for layout in study.states.layouts)
    again, _ = prepared(tmp_path / "other", given, given, samples=2)
    assert again.name == study.name, "wherever and by whichever process it is read"
    assert prepared(folder, given, samples=2)[0].name != study.name
    with pytest.raises(ValueError, match=r"no text|begins with"):
        prepared(tmp_path / "none", EVIDENCE / "README.md")
    assert not (tmp_path / "none").exists()


@root
def test_a_text_of_sizes_is_a_state_for_each_draw(tmp_path):
    """`fsage age freesp.txt`: the text itself is the layout, and each step draws from it with its own number."""
    text = EVIDENCE.parent / "trials" / "22-xfs-freesp-histogram" / "freesp-s-ag15.txt"
    made, said = prepared(tmp_path / "age", text, samples=None)
    assert "what it does not say is drawn 5 times, each a structure of its own" in said[1]
    assert made.states.structures == 5
    layout = tmp_path / "age" / made.name / "layouts" / made.states.layouts[0]
    assert layout.read_bytes() == text.read_bytes()
    drawn_once, again = (read_free(str(layout), (1, draw)).places for draw in (1, 2))
    assert len(drawn_once) == len(again) == 75_606 and not (drawn_once == again).all()
    with pytest.raises(ValueError, match="freesp says nothing of where free extents lie"):
        save_free(str(text), tmp_path / "saved.gz")
    with pytest.raises(ValueError, match="--at and --delete need its free extents"):
        prepared(tmp_path / "age", text, samples=None, at=(90.0,))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=40), st.integers(1, 99))
def test_what_ifs_change_a_layout_by_so_much_and_in_no_other_place(runs, percent):
    ends = np.cumsum(np.array(runs).ravel()).reshape(-1, 2) * 4096  # in use, then free
    device_bytes = int(ends[-1, 1])
    whole = Free(Head(device_bytes, 4096, 1 << 20, "ext4", "a test"), ends.astype(np.int64), {})
    before = [(int(start), int(end)) for start, end in ends]
    left = device_bytes * (100 - percent) // 100 // 4096 * 4096
    if 0 < left < extents.size(before):
        after = list(changed.filled(whole, percent, 1).pairs())
        assert extents.size(after) == left and extents.common(before, after) == after
        assert len(set(after) - set(before)) <= 1, "but for the last, a free extent stays whole or goes"
    else:
        with pytest.raises(ValueError, match="full: it can be filled further"):
            changed.filled(whole, percent, 1)
    after = list(changed.deleted(whole, percent, 1).pairs())
    used = device_bytes - extents.size(before)
    assert extents.size(after) - extents.size(before) == max(4096, used * percent // 100 // 4096 * 4096)
    assert extents.common(before, after) == before
    assert all(each[1] < other[0] for each, other in itertools.pairwise(after)), "neighbours are one"


def test_age_asks_what_if_and_refuses_what_cannot_be(tmp_path):
    given, folder = tmp_path / "ost1.gz", tmp_path / "age"
    shutil.copy(EXAMPLE, given)
    study, _ = prepared(folder, given, at=(80, 90), deleted=(10,))
    names = ["ost1", "ost1_at_80", "ost1_at_90", "ost1_deleted_10"]
    assert list(study.states.layouts) == [f"{name}.gz" for name in names] and len(study.headline) == 4
    texts = [str(folder / study.name / "layouts" / layout) for layout in study.states.layouts]
    full = [read_free(text).store["fullness_percent"] for text in texts]
    assert full[1:3] == pytest.approx([80, 90], abs=0.01) and full[3] == pytest.approx(0.9 * full[0], abs=0.01)
    long = tmp_path / f"{'a_name_as_long_as_a_path_' * 2}.gz"
    shutil.copy(given, long)
    layouts = prepared(folder, long, at=(80.25, 90))[0].states.layouts
    assert [layout.partition("_as_long_at")[2] for layout in layouts] == ["", "_80_25.gz", "_90.gz"]
    best, _ = prepared(folder, given, defragmented=True)
    _, against_copied, against_empty = best.headline
    assert (against_copied.state, against_copied.against) == ("ost1.joined", "ost1.copied")
    assert (against_empty.state, against_empty.against) == ("ost1.joined", "empty")
    # Of two rates a pair, the least p is 2 / C(2n, n); times as many tests at most 0.05.
    many, _ = prepared(folder, *24 * [given])
    assert [designed(best), designed(many)] == [(1, 5, 5), (1, 7, 7)]
    assert designed(prepared(folder, given, samples=3)[0]) == (3, 2, 2)
    with pytest.raises(ValueError, match=r"ost1: --at 60: it is 70\.4% full: it can be filled further"):
        prepared(folder, given, at=(60,))
    for text in ("10%,10%", "x", "100", "-5", "80,"):
        with pytest.raises(ValueError, match="percents below 100 are wanted"):
            percents(text, "--at")


def designed(study: Study) -> tuple[int, int, int]:
    """In how many layouts a study measures, at how many places of each, how often."""
    return study.states.structures, study.cells.places, study.cells.iterations


def filled(tmp_path: Path, percent: float) -> Plan:
    """The plan of a layout that is so full, on a claimed target of 16 GiB that moves 384 MiB a sample."""
    statfs = {"f_frsize": 4096, "f_bfree": 4_000_000, "f_bavail": 4_000_000 - 4096}
    results.write(tmp_path / "targets/local.json", {**claim_of("replica", "loop", 1), "statfs_empty": [statfs]})
    shutil.copy(EXAMPLE, tmp_path / "old.gz")
    study, _ = prepared(tmp_path / "age", tmp_path / "old.gz", at=(percent,))
    return planned(study, tmp_path / "age")


def test_what_is_measured_fits_into_the_fullest_layout_alike_in_all_states(tmp_path):
    plan = filled(tmp_path, 97.9)
    said = (
        "each task measures 320 MiB, reduced from 384 MiB in all states: state old_at_97_9.copied has room for 323 MiB"
    )
    assert age.amount_line(plan) == [said]
    for state, cells in plan.cells.items():
        asked = request.make(plan, state, cells)
        assert (asked["amount_mib"], asked["amount_source"]) == (320, said.split(", ", 1)[1])
        assert {cell["makes_bytes"] for cell in asked["cells"]} == {320 * MIB}
    assert age.amount_line(filled(tmp_path, 85)) == []
    why = r"take 64 MiB at least, and state old_at_99_9.copied has room for 0 MiB.*nothing was touched"
    with pytest.raises(StudyError, match=why):
        age.amount_line(filled(tmp_path, 99.9))


@pytest.mark.parametrize(("places", "amount_mib"), [(5, 384), (6, 320)])
def test_files_at_all_places_have_room_on_the_disk_below_a_sparse_target(places: int, amount_mib: int, tmp_path: Path):
    study = yaml.safe_load((CONFIG / "quickstart.yaml").read_text())
    study["cells"] |= {"places": places, "iterations": places}
    path = tmp_path / "quickstart.yaml"
    path.write_text(yaml.safe_dump(study))
    results.write(tmp_path / "targets/large.json", claim_of("quickstart", "loop", 1))
    plan = load_plan(path, INVENTORIES / "large", tmp_path)
    most_bytes = 0
    for state, cells in plan.cells.items():
        asked = request.make(plan, state, cells)
        assert asked.get("amount_mib", 384) == amount_mib
        most_bytes = max(most_bytes, *(cell["makes_bytes"] for cell in asked["cells"]))
    assert most_bytes == places * amount_mib * MIB <= takes(plan.target.spec).written_bytes == 5 * 384 * MIB


def test_the_same_command_again_measures_what_failed(tmp_path):
    plan = filled(tmp_path, 90)
    (first, second, *_) = plan.all_cells()
    for (state, cell), status in ((first, "failed"), (second, "valid")):
        results.write(plan.results.record(state, cell.name), {"status": status, "attempt": 1})
    assert age.measured_again(plan) == ["1 cell failed before, to be measured again"]
    assert [plan.results.record(state, cell.name).exists() for state, cell in (first, second)] == [False, True]
    assert age.measured_again(plan) == []


@pytest.mark.parametrize(
    ("free_mib", "cells", "more"),
    [(300, "limits", []), (600, "sequential", ["limits"]), (2000, "sequential", [])],
)
def test_of_a_full_one_it_is_tried_what_can_still_be_had(tmp_path, free_mib, cells, more):
    head = Head(16 << 30, 4096, 128 * MIB, "ext4", "a test", None, None)
    (tmp_path / "full").write_bytes(b"".join(extents.written(head, [(1 << 30, (1 << 30) + free_mib * MIB)])))
    study, said = prepared(tmp_path / "age", tmp_path / "full")
    assert study.cells.workload == cells and [block.cells.workload for block in study.additional_cells] == more
    assert any("what can still be had is tried" in line for line in said) == (free_mib < 1474)


GEOMETRY = {
    **{"blocks": 1 << 27, "block_bytes": 4096, "group_blocks": 32768, "inodes": 1 << 20, "inode_bytes": 512},
    **{"flex_groups": 256, "journal_blocks": 1024, "features": ["flex_bg", "64bit", "sparse_super", "uninit_bg"]},
}


def larger_layout(place, **changes):
    """A saved text of a device of 512 GiB, or as changed, with three free extents."""
    geometry = {**GEOMETRY, **changes}
    size = geometry["blocks"] * geometry["block_bytes"]
    head = Head(size, geometry["block_bytes"], 128 * MIB, "ext4", "a test", None, geometry)
    places = [(at, at + size // 64) for at in (size // 8, size // 4, size // 2)]
    place.write_bytes(b"".join(extents.written(head, places)))
    return place


@pytest.mark.long
@root
def test_a_layout_larger_than_the_target_gets_one_of_its_own_unless_samples_are_wanted(tmp_path):
    folder = tmp_path / "age"

    def made(*sources, samples=None):
        study, said = prepared(folder, *sources, samples=samples)
        return planned(study, folder), " ".join(said[len(sources) :])

    ost = larger_layout(tmp_path / "ost1")
    whole, said = made(ost)
    assert "the layout is laid whole on target whole-" in said and "a sparse ext4 (ldiskfs) of 512 GiB, made as" in said
    assert [whole.target.spec[key] for key in ("size_gib", "sparse", "geometry")] == [512, True, GEOMETRY]
    sampled, said = made(ost, samples=1)
    assert sampled.target.name == "local" and sampled.study.name != whole.study.name and "laid whole" not in said
    again, _ = made(larger_layout(tmp_path / "other"))
    assert again.target.name == whole.target.name, "one target for all made alike"
    assert again.study.name != whole.study.name
    for changes, why in (
        ({"features": [*GEOMETRY["features"], "bigalloc"]}, "it has feature bigalloc"),
        ({"blocks": 1 << 38, "group_blocks": 256}, r"takes \d+\.\d\d GiB below: .* has \d+\.\d\d GiB free"),
    ):
        sampled, said = made(larger_layout(tmp_path / "odd", **changes))
        assert sampled.target.name == "local" and re.search(f"is not laid whole, but sampled: .*{why}", said), said
        assert designed(sampled.study) == (5, 2, 2)
    _, said = made(ost, larger_layout(tmp_path / "unlike", flex_groups=16))
    assert said.endswith("they are not all made alike; give them one at a time"), said


UNLIKE = {
    "ext4 -b 1024": "it has blocks of 1024 bytes, and every target has blocks of 4096",
    "ext3 -b 4096": "it is ext3 without extents",
    "ext4 -b 4096 -O ^extent,^64bit": "it is ext4 without extents",
    "ext4 -O bigalloc -C 65536": "it has feature bigalloc",
    "xfs -b size=1024": "it has blocks of 1024 bytes",
    "btrfs -d dup": "it keeps data twice (profile DUP)",
    "btrfs --mixed": "it has data and metadata in the same block groups",
}
OF_ITS_OWN = {  # laid on a target of its own that is made alike
    "xfs -d su=64k,sw=4": {"stride": 16, "stripe_blocks": 64, "sector_bytes": 512},
    "ext4 -b 4096 -g 8192": {"group_blocks": 8192},
    "ext4 -b 4096 -E stride=16,stripe_width=64": {"stride": 16, "stripe_blocks": 64},
    "ext4 -b 4096 -m 5 -O quota,project,inline_data": {"group_blocks": 32768},
}


def made_as(how, place):
    """An image of such a make, and whether it is read through its mount only."""
    name, *options = how.split()
    image = place / "odd.img"
    image.touch()
    os.truncate(image, 1024 * MIB)
    subprocess.run([f"mkfs.{name}", "-q", *options, str(image)], check=True, capture_output=True)
    return image, name == "btrfs"


@root
@pytest.mark.parametrize(("how", "why"), {**UNLIKE, **OF_ITS_OWN}.items())
def test_what_no_copy_is_like_is_refused_when_it_is_read_and_what_needs_its_own_target_gets_it(tmp_path, how, why):
    source, needs_mount = made_as(how, tmp_path)
    point, folder = tmp_path / "odd", tmp_path / "age"
    if needs_mount:
        point.mkdir()
        subprocess.run(["mount", "-o", "loop", str(source), str(point)], check=True)
        source = point
    try:
        if how in UNLIKE:
            with pytest.raises(ValueError, match=re.escape(f"{source}: its age cannot be measured: {why}")):
                prepared(folder, source, samples=None)
            assert not folder.exists()
            looked = inspect(str(source), 0)
            assert "cannot be measured: " in " ".join(verdict.verdicts(looked)[0].sentences)
            return
        study, said = prepared(folder, source, samples=None)
    finally:
        if needs_mount:
            mounting.unmount(point)
    target = planned(study, folder).target
    assert f"laid whole on target {target.name}: a sparse" in " ".join(said) and target.name != "local"
    assert target.spec["filesystem"] == how.split()[0]
    assert why.items() <= (target.spec["geometry"] or {}).items()


def test_a_saved_text_of_such_a_file_system_is_refused_too(tmp_path):
    how = "ext3 -b 4096"
    image, _ = made_as(how, tmp_path)
    dumped = tmp_path / "dumped.txt"
    dumped.write_bytes(subprocess.run(["dumpe2fs", str(image)], check=True, capture_output=True).stdout)
    kept = tmp_path / "kept.gz"
    save_free(str(image), kept)
    for text in (dumped, kept):
        with pytest.raises(ValueError, match=re.escape(UNLIKE[how])):
            prepared(tmp_path / "age", text)


def test_a_target_on_which_nothing_is_laid_is_refused_before_anything_is_read(tmp_path):
    for name, why in (("directory", "is of kind directory"), ("osts", "has 16 stores")):
        with pytest.raises(ValueError, match=f"target {name} {why}.*`--target local`.*nothing was touched"):
            prepared(tmp_path / "age", "/dev/null", target=name)
    image, _ = made_as("xfs -f", tmp_path)
    with pytest.raises(ValueError, match=r"`--target large_xfs` has xfs\): --samples .*nothing was touched"):
        prepared(tmp_path / "age", image, samples=2)


@root
def test_a_layout_smaller_than_the_target_is_laid_on_its_own_file_system_made_alike(tmp_path):
    folder = tmp_path / "age"
    blocks, group_blocks = (6 << 30) // 4096, 98304
    xfs = {"blocks": blocks, "block_bytes": 4096, "group_blocks": group_blocks}
    path = tmp_path / "grown"

    def laid_on(geometry, filesystem="xfs"):
        head = Head(6 << 30, 4096, 4096 * group_blocks, filesystem, "a test", None, geometry)
        path.write_bytes(b"".join(extents.written(head, [(1 << 30, 2 << 30)])))
        return planned(prepared(folder, path, samples=None)[0], folder).target

    target = laid_on(xfs)
    declared = [target.spec[key] for key in ("filesystem", "size_gib", "sparse", "geometry")]
    assert declared == ["xfs", 6, True, xfs], "16 GiB and ext4 are the target's at hand"
    assert target.spec["amount_mib"] == 384, "as the shipped targets have it"
    assert measures_on(target).endswith("a second) at most, and not the device that the layout comes from")
    with pytest.raises(ValueError, match=r"has ext4.*: its geometry.block_bytes is 1024: 4096 is wanted; nothing was"):
        laid_on({**xfs, "block_bytes": 1024})
    target = laid_on(None, "btrfs")
    assert [target.spec[key] for key in ("filesystem", "geometry")] == ["btrfs", None]


@pytest.mark.parametrize("claimed", [{}, {"target": "local", "stores": [{"mount": 1}]}])
def test_age_refuses_the_claim_of_an_earlier_release_before_anything_is_read(tmp_path, claimed):
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets/local.json").write_text(json.dumps(claimed))
    words = ["--results", str(tmp_path), "--target", "local", "age", str(EVIDENCE / "dumpe2fs.txt"), "--samples", "1"]
    done = CliRunner().invoke(app, words)
    why = str(done.exception)
    assert re.search(r"local\.json: the target's claim .*fsage release.*nothing was touched", why), done.output
    assert not (tmp_path / "age").exists()


@root
def test_a_source_that_is_written_to_while_it_is_read_is_told_so(tmp_path, monkeypatch):
    with small("ext4", tmp_path / "live") as live:
        save = save_free

        def and_write(what, path, *seed):
            found = save(what, path)
            (live.point / "new").write_bytes(b"x" * MIB)
            os.sync()
            return found

        monkeypatch.setattr(age, "save_free", and_write)
        _, said = prepared(tmp_path / "age", live.point)
    assert said[1] == "live: warning: it changed while it was read, so its layout is not of one moment"
    torn = [(5, 9), (7, 2)]
    monkeypatch.setattr(ext4, "of_mount", lambda *_: of_extents("ext4", "x", "g", Geometry(100, 1, 9), torn))
    absent = filesystems.ALL["ext4"].of_mount("/dev/none", tmp_path).absent["free_extents"]
    assert "written to while it was read, and what was read cannot be (a free extent at 7" in absent


@root
def test_age_of_the_target_itself_is_refused_by_mount_device_and_image(spec):
    target = open_target(spec)
    for own in (target.mounts[0], target.mounts[0] / ".fsage", target.devices[0], target.claim["stores"][0]["image"]):
        with pytest.raises(ValueError, match="is on the target itself, which is emptied to measure"):
            age.refuse_target(str(own), target.claim)
    age.refuse_target("/var/tmp", target.claim)
