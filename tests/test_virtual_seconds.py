"""Virtual seconds in a guest are those of the disk that is declared, and have no noise."""

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from guests import KERNELS, ask, asked_of, cell, observations, target

from fsage.base import MIB, Refusal
from fsage.host.device import models
from fsage.model import device
from fsage.model.declaration import complete
from fsage.studies.kernels.host import uml
from fsage.studies.kernels.model import programs
from fsage.studies.paf.model import Fragment, Populate
from fsage.studies.slowdisk.host import seekdisk, virtual
from fsage.studies.slowdisk.host.seekdisk import PAGE_BYTES
from fsage.workloads import metadata, sequential

needs_virtual_time = pytest.mark.skipif(
    all(map(programs.why_not_virtual, KERNELS)),
    reason="no kernel with time travel is here (fsage kernels --build linux-source-6.1)",
)
VIRTUAL = {"kind": "virtual"}
CLAIM: Any = {"amount_mib": 64, "stores": [{"mount": "/mnt"}], "tools": {"fio": "3.33", "ior": None}}
DISK = {"bytes_per_s": 200_000_000, "seek_s": 0.005, "outer_to_inner": 2.0}


def seen(params: Any, phases: list[Any], answers: list[dict[str, Any]], model: Any, **more: object) -> Any:
    """What is seen of a cell whose phases answered so."""
    ended = [
        {**phase, "rc": 0, "stdout": json.dumps(answer), "stderr": "", **more}
        for phase, answer in zip(phases, answers, strict=True)
    ]
    return {"status": "done", "params": params.model_dump(), "phases": ended, "conditions": {"device_model": model}}


def sequential_cells(claimed: Any, transfers: list[int], again: str) -> list[dict[str, object]]:
    """Cells that write and read a file, as a request has them: one for each size of a transfer and each letter."""
    cells: list[dict[str, object]] = []
    for name in again:
        for size in transfers:
            params = sequential.Params(transfer_size=size, iteration=1, place=1 + (size == MIB))
            cells.append(cell(f"{size}{name}", params.model_dump(), sequential.commands(params, claimed)))
    return cells


@pytest.mark.long
@pytest.mark.timeout(1800)
@needs_virtual_time
@pytest.mark.parametrize(
    ("filesystem", "percent", "within"), [("ext4", 80, 0.002), ("xfs", 80, 0.002), ("btrfs", 60, 0.02)]
)
def test_virtual_seconds_have_no_noise_and_are_those_of_the_declared_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filesystem: str, percent: int, within: float
) -> None:
    """A/A of reads and writes, whatever else the machine does; and against what the same disk is computed to take."""
    model = {"kind": "virtual", **DISK}
    declared = {"filesystem": filesystem, "size_gib": 4, "amount_mib": 256, "device_model": model}
    spec, claimed = target(tmp_path, monkeypatch, **declared)
    label = claimed["device_model"]["label"]
    assert label.startswith("virtual seconds of a modelled device (") and "5 ms a seek" in label
    ways = [MIB, 8 * MIB, 64 * MIB]
    for deleted in (0, 50):
        steps = [Populate(1, percent, (16 * MIB,), 1, "fallocate", 4 * MIB, 4)]
        steps += [Fragment(1, deleted, 1)] if deleted else []  # type: ignore[list-item] # a step as well
        about = asked_of(claimed, f"{percent}.{deleted}", *steps)
        assert ask(spec, "measure", **about, cells=sequential_cells(claimed, ways, "abc"))["undone"] is None
    seconds: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for path, observation in observations(tmp_path):
        outcome = sequential.read(observation)
        assert outcome.status == "valid", outcome.why
        observation["conditions"]["device_model"] = models.computed(model)
        computed = sequential.read(observation).metrics
        for phase in ("write", "read"):
            key = (f"{path.parent.name} {path.name.split('.')[0][:-1]}", phase)
            pair = (outcome.metrics[f"{phase}_seconds"], computed[f"{phase}_seconds"])
            seconds.setdefault(key, []).append(pair)
    assert len(seconds) == 2 * 2 * len(ways)
    for (name, phase), pairs in seconds.items():
        times = [measured for measured, _ in pairs]
        assert len(times) == 3 and max(times) / min(times) - 1 < {"read": 0.001, "write": 0.01}[phase], (name, times)
        for measured, charged in pairs:
            assert charged == pytest.approx(measured, rel=within), (name, phase)


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
        programs.some("9.9", virtual=True)


def test_a_file_that_is_moved_by_the_guest_itself_is_judged_as_one_that_fio_moves() -> None:
    params = sequential.Params(transfer_size=MIB, iteration=1)
    phases = sequential.commands(params, {**CLAIM, "device_model": VIRTUAL})
    assert [phase["argv"] for phase in phases] == [["transfer", "write", "measured"], ["transfer", "read", "measured"]]
    assert "fio" in sequential.commands(params, {**CLAIM, "device_model": {"kind": "seek"}})[0]["argv"]
    moved = {"errno": None, "bytes": 64 * MIB, "seconds": 0.5}
    failed = {"errno": "EIO", "bytes": 3 * MIB, "seconds": 0.1}
    outcome = sequential.read(seen(params, phases, [moved, failed], VIRTUAL))
    assert (outcome.status, outcome.why) == ("failed", "read: moved 3145728 bytes of 67108864 requested: EIO")
    assert sequential.read(seen(params, phases, [moved, moved], VIRTUAL)).metrics["read_bw_mib_s"] == 128


def test_a_disk_in_a_guest_has_no_noise_and_no_short_jumps() -> None:
    for kind in ("seek", "virtual"):
        with pytest.raises(Refusal, match=r"has noise or drift: where kind is uml|has no key 'noise_cov'"):
            complete({"kind": "uml", "device_model": {"kind": kind, "noise_cov": 0.02}})
    assert device.Computed(models.computed({"kind": "virtual", **DISK})).jump_bytes == 0
    assert device.Computed({"kind": "computed"}).jump_bytes == device.RANDOM_FROM_BYTES, "as in older claims"
    assert "declare kind: uml" in str(models.why_refused(VIRTUAL))


def test_what_a_file_system_reads_beside_a_file_is_a_seek_each_and_one_back_amid_a_piece() -> None:
    """As a disk's requests were seen: XFS reads three blocks before a write, btrfs 14 nodes amid a read."""
    params = sequential.Params(transfer_size=64 * MIB, iteration=1)
    extents = {"files": 1, "extents": 2, "bytes": 192 * MIB, "jumps": 1}
    counts = [{"reads": 3, "read_bytes": 8704}, {"reads": 398, "read_bytes": 192 * MIB + 14 * 16384}]
    answers = [{"bytes": 192 * MIB, "seconds": 9.0, "device": device} for device in counts]
    computed = models.computed({"kind": "seek", "bytes_per_s": 192 * MIB, "seek_s": 0.005, "outer_to_inner": 1.0})
    phases = sequential.commands(params, {**CLAIM, "amount_mib": 192, "device_model": computed})
    observation = seen(params, phases, answers, computed, extents=extents)
    for filesystem, read_seeks in (("xfs", 58), ("btrfs", 28)):
        observation["conditions"]["filesystem"] = filesystem
        found = sequential.read(observation).metrics
        seconds = [found["write_seconds"], found["read_seconds"]]
        assert seconds == pytest.approx([1 + 5 * 0.005, 1 + read_seeks * 0.005])


def test_metadata_in_a_guest_are_counted_and_have_seconds_in_virtual_time_alone() -> None:
    params = metadata.Params(files_per_task=10, operations=("create",), iteration=1)
    [phase] = metadata.commands(params, {**CLAIM, "device_model": {"kind": "computed"}})
    counts = {"reads": 3, "read_bytes": 12288, "writes": 81, "write_bytes": 331776}
    answer = {"errno": None, "files": 10, "seconds": 2.0, "device": counts}
    counted = {"create_files": 10, **{f"create_device_{key}": count for key, count in counts.items()}}
    assert metadata.read(seen(params, [phase], [answer], {"kind": "computed"})).metrics == counted
    timed = metadata.read(seen(params, [phase], [answer], VIRTUAL))
    assert timed.metrics == {**counted, "create_seconds": 2.0, "create_per_s": 5.0}
    full = metadata.read(seen(params, [phase], [{**answer, "errno": "ENOSPC", "files": 7}], VIRTUAL))
    assert full.why == "create: it ended after 7 files: ENOSPC"


def test_a_guests_disk_gives_back_what_was_written_and_writes_no_zeros(tmp_path: Path) -> None:
    """Against bytes in memory: requests of whole pages and of pieces, of zeros and of other bytes."""
    size = 64 * PAGE_BYTES
    image = tmp_path / "image"
    content = bytearray(random.Random(1).randbytes(size))
    image.write_bytes(content)
    disk = virtual.GuestDisk(image, seekdisk.Costs(1e9, 0.005))
    assert disk.store(0, memoryview(bytearray(8 * PAGE_BYTES))) == 8 * PAGE_BYTES
    assert image.read_bytes() == content  # noted alone
    content[: 8 * PAGE_BYTES] = bytes(8 * PAGE_BYTES)
    chance = random.Random(2)
    for _ in range(2000):
        unit = chance.choice([512, PAGE_BYTES, PAGE_BYTES])
        offset = chance.randrange(size // unit) * unit
        length = min(size - offset, chance.randint(1, 12) * unit)
        if chance.random() < 0.5:
            written = chance.choice([bytes(length), chance.randbytes(length)])
            assert disk.store(offset, memoryview(bytearray(written))) == length
            content[offset : offset + length] = written
        else:
            assert bytes(disk.fetch(offset, length)) == content[offset : offset + length]
    assert bytes(disk.fetch(0, size)) == content
