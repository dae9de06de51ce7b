"""Kernels that run as programs: what is refused; what a panic, a hang and a kill leave; what one that works does."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fsage.evidence import free
from fsage.host.device import models
from fsage.host.verbs import checks, count
from fsage.model import GIB, MIB, device
from fsage.model.answers import Obstacle
from fsage.model.declaration import complete
from fsage.model.errors import Failure, Refusal
from fsage.plan import target
from fsage.report.parts import Data
from fsage.run import request
from fsage.studies.kernels import building, images, report
from fsage.studies.kernels.bisection import Bisection, Lies
from fsage.studies.kernels.host import uml
from fsage.studies.kernels.model import TASK, boot, programs, run
from fsage.studies.kernels.model import images as kept
from fsage.studies.kernels.model.boot import Kernel
from fsage.studies.kernels.model.images import Image
from fsage.studies.kernels.workloads import new_file as counted_file
from fsage.studies.limits.workloads import limits
from fsage.studies.paf.model import Fragment, Populate
from fsage.workloads import Unsupported, sequential, shared

KERNELS = programs.here()
needs_kernel = pytest.mark.skipif(
    not KERNELS, reason="no kernel that is a program is here (fsage kernels --fetch bookworm)"
)


def newest() -> Kernel:
    return KERNELS[-1]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"#!/bin/sh\n", "is no program (not ELF)"),
        (b"\x7fELF" + bytes(14) + b"\xf3\x00", "is for another architecture (ELF machine 243)"),
        (None, "No such file"),
    ],
)
def test_what_is_no_kernel_is_refused(tmp_path: Path, content: bytes | None, why: str) -> None:
    program = tmp_path / "linux"
    if content is not None:
        program.write_bytes(content)
    with pytest.raises(Refusal) as refused:
        boot.boot(Kernel("a", program), [], [])
    assert why in str(refused.value)


def test_a_program_that_is_no_kernel_ends_without_an_answer(tmp_path: Path) -> None:
    ended = boot.boot(Kernel("true", Path("/bin/true").resolve()), [{"do": "try"}], [])
    assert ended.answers == [] and ended.why == "kernel true ended without an answer (status 0): it printed nothing"


def test_a_kernel_that_says_garbage_without_end_is_ended_and_fills_no_disk(tmp_path: Path) -> None:
    ended = boot.boot(Kernel("endless", Path("/usr/bin/yes").resolve()), [{"do": "try"}], [], limit_s=0.5)
    assert ended.why and "did not end within 0.5 s, and was ended" in ended.why
    assert 0 < len(ended.console) <= boot.CONSOLE_BYTES and len(ended.why) < 4000


def test_no_memory_place_is_a_refusal_that_names_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "_places", lambda: [Path("/proc")])
    with pytest.raises(Refusal, match=r"/proc .*plain directory"):
        boot.memory_place(256)


def test_an_unknown_kernel_and_release_are_refused() -> None:
    with pytest.raises(Refusal, match=r"kernel '2\.2': there is .* here"):
        programs.named("2.2")
    with pytest.raises(Refusal, match="the name of a release is wanted"):
        programs.fetch("../x")


@needs_kernel
def test_a_kernel_makes_mounts_and_reads_each_file_system() -> None:
    release, reasons = programs.attempt(newest())
    assert release.startswith(newest().name.split("-")[0]) and reasons["ext4"] is None
    assert set(reasons) >= {"ext4", "xfs", "btrfs"}
    assert not shutil.which("mkfs.f2fs") or reasons["f2fs"] is None, "a module of the distribution's kernel"


@needs_kernel
def test_a_panic_and_a_hang_are_answers() -> None:
    panicked = boot.boot(newest(), [{"do": "nothing that there is", "disk": 0}], [])
    assert panicked.why and "the kernel panicked (Kernel panic - not syncing" in panicked.why
    assert "KeyError" in panicked.why, "the last lines are kept"
    hung = boot.boot(newest(), [{"do": "try"}], [], limit_s=0.2)
    assert hung.why and "did not end within 0.2 s, and was ended" in hung.why


@needs_kernel
def test_a_kill_leaves_no_guest(tmp_path: Path) -> None:
    """Of fsage, by SIGKILL: the guest's processes go, and the next guest removes the folder."""
    code = (
        "from fsage.studies.kernels.model import boot, programs\n"
        "boot.boot(programs.here()[-1], [{'do': 'try', 'disk': 0, 'filesystem': 'ext4'}], [])\n"
    )
    mine = {**os.environ, "TMPDIR": str(tmp_path)}
    fsage = subprocess.Popen([sys.executable, "-c", code], env=mine)
    assert eventually(lambda: guests(tmp_path)), "it has begun"
    fsage.send_signal(signal.SIGKILL)
    fsage.wait()
    assert eventually(lambda: not guests(tmp_path))
    [left] = tmp_path.glob(f"{boot.PREFIX}*")
    os.utime(left, (0, 0))
    again = "from fsage.studies.kernels.model import boot\nwith boot.folder(): pass"
    subprocess.run([sys.executable, "-c", again], env=mine, check=True)
    assert not list(tmp_path.glob(f"{boot.PREFIX}*"))


def guests(place: Path) -> list[str]:
    """Processes of guests whose folder is below `place`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(f"uml_dir={place}".encode()) for word in words):
            found.append(path.parent.name)
    return found


def eventually(true: object) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if true():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def ask(target: dict[str, object], verb: str, **of: object) -> dict[str, Any]:
    """What guests answer to a verb on a target of kind `uml`."""
    given = {"target": target, "request": of, "hosts": None}
    answer = uml.Uml.answered(verb, given, checks.checked(of, None), False)
    assert answer is not None
    return answer


def new_file(name: str, release: str, mount: str | None = None) -> dict[str, object]:
    """A cell that writes a file of 64 MiB on a kernel, as a request has it."""
    task = {"bytes": 64 * MIB, "request_bytes": 4 * MIB, "direct": True, "device": {"kind": "iocost"}}
    phase = {"name": "write", "argv": ["new_file"], "reads": False, "allocator": "warm"}
    phase["files"] = {TASK: json.dumps(task)}
    if mount:
        phase["mount_options"] = mount
    params = {"workload": "new_file", "kernel": release, "mount": mount}
    return {"name": name, "kind": "planned", "attempt": 1, "order": 1, "params": params, "phases": [phase]}


@needs_kernel
def test_states_are_images_and_each_cell_has_a_guest_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same cell twice has the same layout. A kernel that ends, or is not here, is the result of its cell."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FSAGE_VENV", str(tmp_path))
    place = programs.unpacked()
    (place / "1.0").mkdir(parents=True)
    shutil.copy(Path("/bin/true").resolve(), place / "1.0/linux")
    (place / newest().name).symlink_to(newest().program.parent)
    spec = {"name": "images", "kind": "uml", "size_gib": 1, "amount_mib": 64, "home": str(tmp_path / "home")}
    claimed = ask(spec, "claim")["claim"]
    assert claimed["kernel"].startswith(newest().name) and claimed["capacity_bytes"] > 900 * MIB
    assert not ask(spec, "claim")["changed"]

    steps = [Populate(1, 60, (4 * MIB,), 1, "fallocate", MIB, 4), Fragment(1, 50, 1)]
    cells = [
        new_file("a", newest().name),
        new_file("b", newest().name),
        new_file("ends", "1.0"),
        new_file("none", "8.1"),
    ]
    cells.append(new_file("option", newest().name, mount="nonsense=1"))
    cells.append(new_file("timed", newest().name))
    cells[-1]["params"] = {"workload": "metadata"}
    asked_for = limits.Params(looks=4, iteration=1)
    cells.append(new_file("full", newest().name))
    cells[-1] |= {"params": asked_for.model_dump(), "phases": limits.commands(asked_for, claimed)}
    about = {"study": "s", "state": "60.50", "steps": [step.to_json() for step in steps], "claim": claimed["id"]}
    assert ask(spec, "scrub", **about)["changed"] and not ask(spec, "scrub", **about)["changed"]
    assert not ask(spec, "apply_step", **about)["due"]
    assert ask(spec, "evidence", **about)["evidence"]["filler_files"] > 50
    [image] = (tmp_path / "cache/fsage/images").glob("*.img")
    before = image.read_bytes()
    answer = ask(spec, "measure", **about, cells=cells)
    assert (answer["measured"], answer["undone"]) == (7, None)
    assert image.read_bytes() == before, "each cell had a copy"
    assert ask(spec, "measure", **about, cells=cells)["measured"] == 0
    seen = {
        path.name.split(".")[0]: json.loads(path.read_text()) for path in tmp_path.glob("home/images/outbox/**/*.json")
    }
    lies = [seen[name]["phases"][0]["extents"] for name in ("a", "b")]
    assert lies[0] == lies[1] and lies[0]["bytes"] == 64 * MIB
    assert seen["a"]["phases"][0]["left"] == seen["b"]["phases"][0]["left"]
    assert seen["ends"]["status"] == "failed" and "kernel 1.0 ended without an answer" in seen["ends"]["why"]
    assert seen["none"]["status"] == "unsupported" and "kernel '8.1': there is" in seen["none"]["why"]
    assert seen["option"]["status"] == "unsupported" and "nonsense=1: mounting" in seen["option"]["why"]
    assert seen["timed"]["why"].startswith("workload metadata is timed, and a guest's seconds are not a disk's")
    outcome = limits.read(seen["full"])
    assert outcome.status == "valid" and outcome.metrics["piece_256m_fails_pieces"] > 1
    assert outcome.metrics["directory_fails_at_percent"] > 99 > outcome.metrics["piece_256m_fails_at_percent"]
    assert "computed from counts, not timed" in seen["a"]["conditions"]["device_model"]["label"]

    job = {
        "spec": {key: value for key, value in spec.items() if key != "home"},
        "device_bytes": GIB,
        "capacity_bytes": None,
        "rotational": 1,
        "places": 1,
    }
    job |= {"states": [("60.50", about["steps"])], "inputs": {}, "cpu": 0, "kernel": newest().name}
    job |= {"wanted": [{"file_bytes": 64 * MIB, "transfer_bytes": 4 * MIB, "direct": True}]}
    [row] = count.count(job)
    assert sum(length for *_, length in row["extents"]) == 64 * MIB
    assert row["kernel"].startswith(newest().name), "it was counted in a guest"


def able(kernel: Kernel) -> bool:
    return programs.why_not_virtual(kernel) is None


needs_virtual_time = pytest.mark.skipif(
    not any(map(able, KERNELS)), reason="no kernel with time travel is here (fsage kernels --build linux-source-6.1)"
)
DISK = {"bytes_per_s": 200_000_000, "seek_s": 0.005, "outer_to_inner": 2.0}


def sequential_cells(claimed: dict[str, Any], transfers: list[int], again: str) -> list[dict[str, object]]:
    """Cells that write and read a file, as a request has them: one for each size of a transfer and each letter."""
    cells: list[dict[str, object]] = []
    for name in again:
        for size in transfers:
            params = sequential.Params(transfer_size=size, iteration=1, place=1 + (size == MIB))
            phases = sequential.commands(params, claimed)  # type: ignore[arg-type] # as a guest gives it
            cell = {"name": f"{size}{name}", "kind": "planned", "attempt": 1, "order": 1, "params": params.model_dump()}
            cells.append({**cell, "phases": phases})
    return cells


@pytest.mark.long
@pytest.mark.timeout(1800)
@needs_virtual_time
def test_virtual_seconds_have_no_noise_and_are_those_of_the_declared_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A/A of reads and writes, whatever else the machine does; and against what the same disk is computed to take."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec = {"name": "slow", "kind": "uml", "size_gib": 4, "amount_mib": 256, "home": str(tmp_path / "home")}
    # No tracks: what is computed takes a file's mean place for all of it, which is 2% off where it lies far apart.
    spec["device_model"] = {"kind": "virtual", **DISK, "outer_to_inner": 1.0}
    claimed = ask(spec, "claim")["claim"]
    label = claimed["device_model"]["label"]
    assert label.startswith("virtual seconds of a modelled device (") and "5 ms a seek" in label
    ways = [MIB, 8 * MIB, 64 * MIB]
    for deleted in (0, 50):
        steps = [Populate(1, 80, (16 * MIB,), 1, "fallocate", 4 * MIB, 4)]
        steps += [Fragment(1, deleted, 1)] if deleted else []  # type: ignore[list-item] # a step as well
        about = {"study": "s", "state": f"80.{deleted}", "steps": [step.to_json() for step in steps]}
        cells = sequential_cells(claimed, ways, "abc")
        unable = next((kernel.name for kernel in KERNELS if not able(kernel)), None)
        if unable and deleted:
            cells.append({**cells[0], "name": "unable", "params": {**cells[0]["params"], "kernel": unable}})  # type: ignore[dict-item]
        assert ask(spec, "measure", **about, claim=claimed["id"], cells=cells)["undone"] is None
    seconds: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for path in sorted(tmp_path.glob("home/slow/outbox/**/*.json")):
        seen = json.loads(path.read_text())
        if seen["status"] == "unsupported":
            assert "has no virtual time: CONFIG_" in seen["why"]
            continue
        outcome = sequential.read(seen)
        assert outcome.status == "valid", outcome.why
        of_file = next(phase["extents"] for phase in seen["phases"] if phase["name"] == "write")
        moved = sequential.moved(sequential.Params(**seen["params"]), of_file, 256 * MIB)
        charged = device.Computed.charges_s(models.computed(spec["device_model"]), moved)
        for phase in ("write", "read"):
            key = (f"{path.parent.name} {path.name.split('.')[0][:-1]}", phase)
            seconds.setdefault(key, []).append((outcome.metrics[f"{phase}_seconds"], charged))
    assert len(seconds) == 2 * 2 * len(ways)
    for (cell, phase), pairs in seconds.items():
        times = [measured for measured, _ in pairs]
        assert len(times) == 3 and max(times) / min(times) - 1 < {"read": 0.001, "write": 0.01}[phase], (cell, times)
        for measured, charged in pairs:
            assert charged <= measured <= 1.02 * charged, (cell, phase)


def test_a_kernel_without_time_travel_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it is a program that is no kernel, but for its name."""
    monkeypatch.setenv("FSAGE_VENV", str(tmp_path))
    monkeypatch.setattr(programs.shutil, "which", lambda name: None)
    (programs.unpacked() / "9.9").mkdir(parents=True)
    shutil.copy(Path("/bin/true").resolve(), programs.unpacked() / "9.9/linux")
    spec = {"name": "v", "kind": "uml", "home": str(tmp_path / "home"), "device_model": {"kind": "virtual"}}
    why = r"device_model virtual needs a kernel with time travel; there is 9\.9 here: `fsage kernels --build"
    with pytest.raises(Refusal, match=why):
        ask(spec, "claim")
    assert re.search(why, "; ".join(uml.Uml.lacking(complete(spec)).missing))
    with pytest.raises(Refusal, match=r"kernel 9\.9 has no virtual time: CONFIG_UML_TIME_TRAVEL_SUPPORT, .* not built"):
        programs.with_virtual_time("9.9")


def test_a_count_is_no_virtual_second() -> None:
    params = counted_file.Params(file_size=MIB, transfer_size=MIB, iteration=1)
    claim: Any = {"device_model": {"kind": "virtual"}}
    with pytest.raises(Unsupported, match="new_file counts, and computes a rate"):
        counted_file.commands(params, claim)


def test_a_file_that_is_moved_by_the_guest_itself_is_judged_as_one_that_fio_moves() -> None:
    claim: Any = {
        "device_model": {"kind": "virtual"},
        "amount_mib": 64,
        "stores": [{"mount": "/mnt"}],
        "tools": {"fio": "3.33", "ior": None},
    }
    params = sequential.Params(transfer_size=MIB, iteration=1)
    phases = sequential.commands(params, claim)
    assert [phase["argv"] for phase in phases] == [["transfer", "write", "measured"], ["transfer", "read", "measured"]]
    assert "fio" in sequential.commands(params, {**claim, "device_model": {"kind": "seek"}})[0]["argv"]
    said = [{"errno": None, "bytes": 64 * MIB, "seconds": 0.5}, {"errno": "EIO", "bytes": 3 * MIB, "seconds": 0.1}]
    taken = [
        {**phase, "rc": 0, "stdout": json.dumps(what), "stderr": ""} for phase, what in zip(phases, said, strict=True)
    ]
    seen = {
        "status": "done",
        "params": params.model_dump(),
        "phases": taken,
        "conditions": {"device_model": {"kind": "virtual"}},
    }
    outcome = sequential.read(seen)
    assert (outcome.status, outcome.why) == ("failed", "read: moved 3145728 bytes of 67108864 requested: EIO")
    taken[1]["stdout"] = taken[0]["stdout"]
    assert sequential.read(seen).metrics["read_bw_mib_s"] == 128


def test_what_a_disk_costs_in_a_guest_is_computed_for_the_declared_one() -> None:
    moved = device.Moved(200_000_000, 200, 30, position=0.5)
    for kind in ("seek", "virtual"):
        spec = complete({"kind": "uml", "device_model": {"kind": kind, **DISK}})
        computed = models.computed(spec["device_model"])  # type: ignore[arg-type] # it is declared
        assert device.Computed.charges_s(computed, moved) == pytest.approx(1 / 0.75 + 0.15)
        assert device.Computed.jump_bytes(computed) == 0
    assert (
        "not timed, for a modelled device (a disk that charges for seeks, 191 MiB/s"
        in models.computed(
            complete({"kind": "uml", "device_model": {"kind": "seek", **DISK}})["device_model"]  # type: ignore[arg-type]
        )["label"]
    )
    assert device.Computed.jump_bytes({"kind": "computed"}) == device.RANDOM_FROM_BYTES, "as in older claims"
    for wrong, why in (
        ({"kind": "seek", "noise_cov": 0.02}, "has noise or drift: where kind is uml"),
        ({"kind": "virtual", "noise_cov": 0.02}, "has no key 'noise_cov'"),
    ):
        with pytest.raises(Refusal, match=why):
            complete({"kind": "uml", "device_model": wrong})
    assert "declare kind: uml" in str(models.why_refused({"kind": "virtual"}))


@pytest.mark.long
@needs_kernel
def test_an_xfs_is_mounted_again_and_again_as_it_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a copy-on-write disk of the guest's, its log was not what had been written: the second mount failed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec = {"name": "again", "kind": "uml", "filesystem": "xfs", "size_gib": 8, "amount_mib": 64}
    spec["home"] = str(tmp_path / "home")
    claimed = ask(spec, "claim")["claim"]
    for seed in (1, 3):
        steps = [Populate(1, 80, (33 * MIB,), seed, "fallocate", 4 * MIB, 16), Fragment(1, 50, seed)]
        about = {"study": "s", "state": f"80.50+{seed}", "steps": [step.to_json() for step in steps]}
        cells = [new_file(f"{seed}{number}", newest().name) for number in range(3)]
        ask(spec, "measure", **about, claim=claimed["id"], cells=cells)
    seen = [json.loads(path.read_text()) for path in tmp_path.glob("home/again/outbox/**/*.json")]
    assert [(each["status"], each["why"]) for each in seen] == [("done", None)] * 6


def test_a_kernel_is_the_default_where_nothing_can_be_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what is counted; what must be timed tells more in a directory."""
    obstacle = Obstacle("mount: Operation not permitted", "EPERM", "run it as root")
    monkeypatch.setattr(target.seam, "why_no_loops", lambda: [obstacle])
    works = bool(KERNELS)
    assert target.default_target("sequential") == ("kernel" if works else "directory")
    assert target.default_target("random_access") == "directory"
    assert "mounts them, as target kernel" in str(target.why_default("kernel"))
    assert "fsage measures in a plain directory" in str(target.why_default("directory"))
    assert target.why_default("seek") is None


@needs_kernel
def test_what_files_hold_takes_no_room_in_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each copy of an aged file system of 8 GiB is 8 GiB long, and eight of them fill the disk."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec = {"name": "written", "kind": "uml", "size_gib": 1, "amount_mib": 64, "home": str(tmp_path / "home")}
    claimed = ask(spec, "claim")["claim"]
    about = {"study": "s", "state": "50.00", "steps": [Populate(1, 50, (4 * MIB,), 1, "write", MIB, 4).to_json()]}
    done = ask(spec, "measure", **about, claim=claimed["id"], cells=[new_file("a", newest().name)])
    assert done["undone"] is None
    [image] = (tmp_path / "cache/fsage/images").glob("*.img")
    assert image.stat().st_blocks * 512 < 100 * MIB, "of 1 GiB, half full"


@pytest.mark.long
@pytest.mark.timeout(1800)
@needs_kernel
def test_forty_cells_that_are_measured_twice_do_not_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Extents, jumps, places and free space, in ten layouts on two kernels with two mount options."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec = {"name": "twice", "kind": "uml", "size_gib": 2, "amount_mib": 64, "home": str(tmp_path / "home")}
    claimed = ask(spec, "claim")["claim"]
    ways = [(release.name, mount) for release in KERNELS[-2:] for mount in ("mb_optimize_scan=0", "mb_optimize_scan=1")]
    for seed in range(1, 11):
        steps = [Populate(1, 80, (4 * MIB,), seed, "fallocate", MIB, 4), Fragment(1, 50, seed)]
        about = {"study": "s", "state": f"80.50+{seed}", "steps": [step.to_json() for step in steps]}
        cells = [new_file(f"{at}{again}", *way) for at, way in enumerate(ways) for again in "ab"]
        assert ask(spec, "measure", **about, claim=claimed["id"], cells=cells)["undone"] is None
    counts: dict[str, list[object]] = {}
    for path in sorted(tmp_path.glob("home/twice/outbox/**/*.json")):
        phase = json.loads(path.read_text())["phases"][0]
        counts.setdefault(f"{path.parent.name} {path.name[0]}", []).append((phase["extents"], phase["left"]))
    assert len(counts) == 10 * len(ways)
    assert [name for name, (first, second) in counts.items() if first != second] == []


def test_phases_are_mounted_with_the_options_that_a_cell_names() -> None:
    phases: list[Any] = [{"name": "a", "argv": []}, {"name": "b", "argv": [], "mount_options": "noatime"}]
    params = shared.CellParams(mount="mb_optimize_scan=0")
    assert [phase["mount_options"] for phase in request.mounted(phases, params)] == [
        "mb_optimize_scan=0",
        "noatime,mb_optimize_scan=0",
    ]
    assert request.mounted(phases, shared.CellParams(mount="defaults")) == phases
    assert shared.CellParams().model_dump() == {}, "what is not named is not on record"
    for wrong in ({"kernel": "../linux"}, {"mount": "a b"}):
        with pytest.raises(ValueError, match=r"is not a (release of Linux|list of options)"):
            shared.CellParams(**wrong)


@pytest.mark.long
@needs_kernel
def test_an_image_is_the_same_each_time(tmp_path: Path) -> None:
    """`image` makes it, and fsck finds it clean."""
    mine = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [
        "image",
        "80.50",
        "-o",
        str(tmp_path / "a.img"),
        "--size",
        "512M",
        "--file-size",
        "4M",
        "--file-extents",
        "7",
    ]
    first = fsage(words, mine)
    [image] = (tmp_path / "cache/fsage/images").glob("*.img")
    assert (tmp_path / "a.img").stat().st_blocks * 512 < 64 << 20, "sparse"
    assert "exists, and is left as it is" in fsage(words, mine, 1)
    image.unlink()
    words[3] = str(tmp_path / "b.img")
    assert fsage(words, mine).split()[-1] == first.split()[-1], "the layout's digest"
    pieces = subprocess.run(["debugfs", "-R", "ex /pieces", words[3]], capture_output=True, text=True, check=True)
    assert pieces.stdout.count("Uninit") == 7
    layout, copy = str(tmp_path / "layout.gz"), str(tmp_path / "copy.img")
    fsage(["evidence", words[3], "--save", layout], mine)
    done = subprocess.run(
        [sys.executable, "-m", "fsage", "image", layout, "-o", copy], capture_output=True, text=True, env=mine
    )
    agreed = re.search(r"([\d.]+)% of the free bytes lie as in", done.stderr)
    assert agreed and float(agreed[1]) > 99.9, done.stderr
    one_by_one = [free.read(path).places for path in (words[3], copy)]
    assert abs(len(one_by_one[0]) - len(one_by_one[1])) <= 2


def fsage(words: list[str], environment: dict[str, str], code: int = 0) -> str:
    """What a command prints, or says where it fails."""
    done = subprocess.run([sys.executable, "-m", "fsage", *words], capture_output=True, text=True, env=environment)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def cell(release: str, layout: int, extents: int, mount: str = "defaults", **more: object) -> dict[str, object]:
    """A row of the table of records, of a cell that was counted."""
    params = {"workload": "new_file", "kernel": release, "mount": mount, "cache": "warm", "file_size": 384 << 20}
    row = {
        "kind": "planned",
        "workload": "new_file",
        "state": "80.50+1@264M",
        "filesystem": "ext4",
        "status": "valid",
        "axes": None,
    }
    counts = {"measured_extents": extents, "measured_jumps": extents - 1, "requests": 384 + extents, "left_bytes": 7}
    more = {"measured_mean_position": 0.5, "computed_write_bw_mib_s": 300.0, "why": None, "iteration": 1, **more}
    return {**row, **counts, "structure": layout, "params": json.dumps(params), **more}


def shown(rows: list[dict[str, object]]) -> Data:
    frame = pd.DataFrame(rows)
    return Data(frame.iloc[:0], [], frame.iloc[:0], [], frame)


def test_the_first_sentence_says_what_each_kernel_gives() -> None:
    rows = [
        cell(kernel, layout, extents + layout) for kernel, extents in (("5.10", 0), ("7.2", 40)) for layout in (1, 2)
    ]
    rows += [cell("7.2", layout, layout, "mb_optimize_scan=0") for layout in (1, 2)]
    rows += [cell(kernel, 1, 30, filesystem="xfs") for kernel in ("5.10", "7.2")]
    refused = cell("5.10", 1, 0, "mb_optimize_scan=0", status="unsupported", why="Invalid argument")
    said = report.answer(shown([*rows, refused, cell("7.2", 1, 42, iteration=2)]), None)  # type: ignore[arg-type]
    assert said and said.sentences == [
        "In the same free space, ext4 80.50, a new file of 384M gets 1 to 2 extents with 5.10 and 7.2, "
        "mb_optimize_scan=0; 41 to 42 extents with 7.2.",
        "Kernels and options give as many extents, layout by layout, on xfs 80.50.",
        "Measured again on the same image, 1 of 1 cells differ in a count.",
    ]
    others = report.not_counted(shown([*rows, refused]))
    assert others and others.table[1:] == [["5.10, mb_optimize_scan=0", "unsupported", "Invalid argument"]]
    [_, first, *_] = report.table(shown(rows)).table  # type: ignore[union-attr]
    assert first == ["ext4 80.50", "5.10", "1, 2", "1.5", "385.5", "300"]


def test_options_of_mkfs_are_ways_too_with_an_interval_over_layouts() -> None:
    made = [(options, 10 * number) for number, options in enumerate(("default", "-G 1"))]
    rows = [
        cell("6.1", layout, 2 + extents + layout * bool(extents), axes=json.dumps({"mkfs": options}))
        for options, extents in made
        for layout in range(1, 7)
    ]
    said = report.answer(shown(rows), None)  # type: ignore[arg-type] # no study is asked
    assert said and said.sentences[0] == (
        "Filled and emptied alike, ext4 80.50, a new file of 384M gets 2 extents with 6.1; "
        "13 to 18 extents with 6.1, mkfs -G 1."
    )
    medians = [line[3] for line in report.table(shown(rows)).table[1:]]  # type: ignore[union-attr] # there is a table
    assert medians == ["15.5 (13 to 18)", "2 (2 to 2)"]


def test_what_cannot_be_an_image_is_refused_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="not one file fits"):
        images.recipe("80.50", 1, "ext4", 512 * MIB, "1G")
    with pytest.raises(ValueError, match="No such file"):
        images.recipe_of(str(tmp_path / "layout.gz"), 1)
    (tmp_path / "sizes.txt").write_text(
        "fsage free extents 1\n"
        '{"device_bytes": 1073741824, "block_bytes": 4096, "group_bytes": 4096, "filesystem": null, "source": "x"}\n'
        "10 20\nend 1 20\n"
    )
    with pytest.raises(ValueError, match="no image can be made of it: it names no file system"):
        images.recipe_of(str(tmp_path / "sizes.txt"), 1)
    with pytest.raises(ValueError, match="no folder that you may write to"):
        images.check_new(tmp_path / "none/disk.img")
    monkeypatch.setenv("FSAGE_IMAGES_GIB", "many")
    with pytest.raises(Refusal, match="FSAGE_IMAGES_GIB is 'many': a number is wanted"):
        kept.limit_gib()


def test_an_image_that_cannot_be_copied_whole_is_not_there(tmp_path: Path) -> None:
    """Here its copy is no file system, and fsck says so; a full disk ends the same way."""
    made = tmp_path / "made.img"
    made.write_bytes(bytes(1 << 20))
    with pytest.raises(Failure, match="ended with status"):
        images.put(Image(made, {}), "ext4", tmp_path / "disk.img")
    assert list(tmp_path.iterdir()) == [made]


def test_a_state_that_is_none_is_refused_in_the_notations_own_words() -> None:
    with pytest.raises(ValueError, match="5 may mean 05 or 50") as refused:
        images.recipe("80.5", 1, "ext4", 1 << 30, "33M")
    assert "input_value" not in str(refused.value)


def test_what_is_no_source_of_a_kernel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in building.NEEDED:
        (tmp_path / program).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    empty = tmp_path / "empty"
    empty.mkdir()
    for source, why in (
        (str(empty), "is no source of Linux: arch/um is not there"),
        (f"{tmp_path}/none.tar.xz", "a package linux-source-VERSION, a tarball, a folder, or TREE@COMMIT is wanted"),
        (f"{empty}@v9", "has no commit v9"),
    ):
        with pytest.raises(Refusal, match=re.escape(why)):
            building.build(source)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Refusal, match=r"building a kernel needs make, gcc, .*: `apt install make gcc "):
        building.build(str(empty))


def tree_of(place: Path, files: list[str]) -> list[str]:
    """A git tree that has one file with another content in each commit; the commits."""
    place.mkdir()
    git = ["git", "-C", str(place), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number, content in enumerate(files):
        (place / "file").write_text(f"{number} {content}")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", f"commit {number}"], check=True)
    told = subprocess.run([*git, "rev-list", "--reverse", "HEAD"], capture_output=True, text=True, check=True)
    return told.stdout.split()


@pytest.mark.parametrize("changed", range(1, 9))
def test_the_first_commit_with_other_counts_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: int
) -> None:
    """Here the counts stand in the tree; a long test builds kernels."""
    commits = tree_of(tmp_path / "tree", [f"{3 if number < changed else 40 + number}" for number in range(9)])

    def counts(of: Bisection, commit: str, *_: object) -> Lies:
        shown = run(["git", "-C", str(of.tree), "show", f"{commit}:file"])
        extents = int(shown.split()[1])
        return Lies(extents, extents - 1)

    monkeypatch.setattr(building, "refuse_unready", lambda: None)
    monkeypatch.setattr(Bisection, "_counted", counts)
    monkeypatch.setattr(Bisection, "_job", lambda of: {})
    monkeypatch.setattr(Bisection, "_recipe", lambda of: None)
    monkeypatch.setattr(images, "of", lambda recipe, kernel: Image(tmp_path, {}))
    monkeypatch.setattr(programs, "some", lambda name: None)
    search = Bisection(None, "80.50", tmp_path / "tree")  # type: ignore[arg-type] # counts stand in the tree
    found = search.find(commits[0], commits[-1], lambda line: None)
    assert (found.commit, found.subject) == (commits[changed], f"commit {changed}")
    assert (found.before.extents, found.after.extents) == (3, 40 + changed) and found.tried <= 5
    with pytest.raises(Refusal, match="--good names an ancestor of --bad"):
        search.find(commits[-1], commits[0], lambda line: None)


SOURCE = "linux-source-6.1"
LIMIT = "#define MB_DEFAULT_LINEAR_SCAN_THRESHOLD\t16"


@pytest.mark.long
@pytest.mark.timeout(5400)
@needs_kernel
def test_of_eight_commits_the_one_that_changes_the_allocator_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small tree made from linux-source: kernels are built, and one cell is counted in each."""
    try:
        building.refuse_unready()
        run(["apt-get", "download", SOURCE], tmp_path)
    except (Refusal, Failure) as why:
        pytest.skip(str(why))
    run(["dpkg-deb", "--extract", str(next(tmp_path.glob("*.deb"))), str(tmp_path / "package")])
    tree = tmp_path / "tree"
    tree.mkdir()
    run(["tar", "-x", "-f", str(next(tmp_path.glob("package/usr/src/*.tar.xz"))), "--strip-components=1"], tree)
    git = ["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]
    header = tree / "fs/ext4/mballoc.h"
    assert LIMIT in header.read_text()
    run([*git, "init", "-q"])
    for number in range(9):
        if number == 6:
            header.write_text(header.read_text().replace(LIMIT, LIMIT.replace("16", "1000000")))
        else:
            (tree / f"fs/ext4/number{number}.h").write_text(f"/* {number} */\n")
        run([*git, "add", "-A", "-f"])
        run([*git, "commit", "-q", "-m", f"ext4: commit {number}"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FSAGE_VENV", str(tmp_path / "venv"))
    (tmp_path / "venv/programs/kernels").mkdir(parents=True)
    words = ["bisect", "kernels", "--target", "kernel", "--state", "80.50+1@264M", "--tree", str(tree)]
    said = fsage([*words, "--good", "HEAD~8", "--bad", "HEAD"], dict(os.environ))
    assert said.split("\n")[0].endswith("ext4: commit 6"), said


FORBIDS_PTRACE = """
import ctypes, struct
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 101), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]  # linux/filter.h
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
from fsage.studies.kernels.model import boot, programs
print(boot.boot(programs.here()[-1], [{"do": "try", "disk": 0, "filesystem": "ext4"}], []).why)
"""


@needs_kernel
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter has the number that ptrace has on x86_64")
def test_where_ptrace_is_forbidden_that_is_said() -> None:
    """As containers forbid it: by a filter of system calls (seccomp)."""
    done = subprocess.run(
        [sys.executable, "-c", FORBIDS_PTRACE], capture_output=True, text=True, check=True, timeout=60
    )
    assert "cannot trace its processes here (ptrace is forbidden, e.g. by seccomp)" in done.stdout
