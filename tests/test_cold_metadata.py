"""Names and inodes are cold when they are measured: what a phase reads of the device, cold, warm and ours side by side.

Cold is made by hand (umount, drop_caches, mount), warm by looking every file up. What counts is how many sectors of the
device the phase reads, which no load of the machine changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from local_targets import claimed
from states import phases_of
from tiers import first_of

from fsage.host import filesystems
from fsage.host.cells.phases import Phases
from fsage.host.remote.remote_hosts import Hosts, inventory_of
from fsage.host.states.inspection import remove_measured
from fsage.host.system import caches, mounting
from fsage.host.targets import Target
from fsage.host.targets.directories import measured_files
from fsage.model import filesystems as known
from fsage.workloads import metadata

FILES, WARM_TIMES = 1000, 2
FILESYSTEMS = known.names()


def cold(phases: Measured, phase: dict) -> dict:
    dropped = ours(phases, phase)
    for _, device, point in phases.target.stores():
        mounting.unmount(point)
        caches.DROP.write_text("3\n")
        filesystems.mount(phases.target.spec["filesystem"], device, point)
    return dropped


def warm(phases: Measured, phase: dict) -> dict:
    dropped = ours(phases, phase)
    for path in measured_files(phases.target.mounts):
        path.stat()
    return dropped


def ours(phases: Measured, phase: dict) -> dict:
    return Phases.drop_caches(phases, phase)


class Measured(Phases):
    """Phases that count what their commands read of the device."""

    way: Callable[[Measured, dict], dict] = staticmethod(ours)

    def drop_caches(self, phase: dict) -> dict:
        return self.way(self, phase)

    def call(self, phase: dict, inherited: Sequence[int] = ()) -> dict:
        before = sectors_read(self.target)
        done = super().call(phase, inherited)
        return {**done, "sectors": sectors_read(self.target) - before}


def sectors_read(target: Target) -> int:
    return sum(int((Path("/sys/block") / Path(d).name / "stat").read_text().split()[2]) for d in target.devices)


@pytest.fixture(params=first_of("ext4", *sorted({*FILESYSTEMS} - {"ext4"})))
def phases(local_target: dict, request: pytest.FixtureRequest) -> Iterator[Measured]:
    target = claimed({**local_target, "filesystem": request.param})
    remove_measured(target)
    with closing(Hosts(target.spec, target.claim, inventory_of({}))) as hosts:
        yield phases_of(target, hosts, Measured)


def run(phases: Measured, way: Callable, commands: list[dict]) -> dict[str, dict]:
    """The phases of a cell by name, caches dropped in that way."""
    phases.way = way
    taken, why, _ = phases.run({"phases": commands}, lambda: None)
    assert why is None, (why, taken)
    remove_measured(phases.target)
    return {phase["name"]: phase for phase in taken}


def sectors(phases: Measured, commands: Callable[[], list[dict]]) -> tuple[dict[str, dict], dict[str, dict[str, int]]]:
    """Ours as `run` gives it, and what each phase read: cold, warm and ours.

    Another command of this machine may drop all caches at any moment: warm is what the least was read of a few times.
    """
    mine, made = run(phases, ours, commands()), run(phases, cold, commands())
    warms = [run(phases, warm, commands()) for _ in range(WARM_TIMES)]
    read = {}
    for name in ("stat", "remove"):
        least = min(each[name]["sectors"] for each in warms)
        read[name] = {"cold": made[name]["sectors"], "ours": mine[name]["sectors"], "warm": least}
    return mine, read


def looking_up(target: Target) -> list[dict]:
    """Files made, looked up and removed by commands that touch each once: what is cold stays so until they do."""
    many = f"{target.mounts[0]}/measured/many"
    text = "import os, sys; [getattr(os, sys.argv[1])(f'{sys.argv[2]}/{n}') for n in range(int(sys.argv[3]))]"
    made = ["sh", "-c", f"cd {many} && seq 0 {FILES - 1} | xargs touch"]
    return [
        {"name": "create", "argv": made, "folders": [many]},
        {"name": "stat", "argv": ["python3", "-c", text, "stat", many, str(FILES)], "reads": True},
        {"name": "remove", "argv": ["python3", "-c", text, "unlink", many, str(FILES)]},
    ]


@pytest.mark.root
@pytest.mark.parametrize("reset", first_of("none", "remount"))
def test_a_phase_reads_of_the_device_what_it_reads_of_a_cold_one(phases: Measured, reset: str) -> None:
    phases.target.spec["allocator_reset"] = reset
    mine, read = sectors(phases, lambda: looking_up(phases.target))
    for name, of_way in read.items():
        assert of_way["ours"] > 0.8 * of_way["cold"], (name, of_way)
        assert of_way["ours"] > 3 * of_way["warm"], (name, of_way)
        assert mine[name]["cached_names"] == mine[name]["cached_pages"] == 0
        assert mine[name]["metadata"] == caches.COLD


@pytest.mark.long
@pytest.mark.root
def test_the_engines_of_fio_begin_cold_and_say_that_they_do_not_measure_so(phases: Measured) -> None:
    params = metadata.Params(tool="fio", files_per_task=FILES, iteration=1)
    mine, read = sectors(phases, lambda: metadata.commands(params, phases.target.claim))
    for name, of_way in read.items():
        assert of_way["ours"] > 0.8 * of_way["cold"], (name, of_way)
        assert of_way["ours"] > 1.5 * of_way["warm"], (name, of_way)
        assert mine[name]["metadata"] == metadata.LOOKED_UP
    assert mine["create"]["metadata"] == caches.COLD


@pytest.mark.long
@pytest.mark.root
def test_an_ext4_whose_device_another_has_open_is_cold_all_the_same(phases: Measured) -> None:
    """Its inode tables are pages of the device, which outlive the mount as long as anybody has that open."""
    with open(phases.target.devices[0], "rb"):
        read = {way.__name__: run(phases, way, looking_up(phases.target)) for way in (cold, ours)}
    assert read["ours"]["stat"]["sectors"] > 0.8 * read["cold"]["stat"]["sectors"]


def test_names_are_asked_for_without_bringing_them_in(tmp_path: Path) -> None:
    there, never = tmp_path / "there", tmp_path / "never"
    there.touch()
    if caches.known([there]) is None:
        pytest.skip("this kernel cannot be asked (before Linux 5.12)")
    assert caches.known([there, never]) == [there]
    assert caches.left_of([there]) == {"cached_pages": 0, "cached_names": 1, "metadata": caches.WARM}


def test_without_root_the_record_says_that_metadata_is_warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "DROP", tmp_path / "not to be written")
    path = tmp_path / "file"
    path.write_bytes(b"x" * 8192)
    dropped = caches.drop([path])
    assert dropped["metadata"] == caches.KEPT and dropped["cached_names"] in (1, None)
    assert (dropped["cached_pages"], dropped["method"]) == (0, "posix_fadvise(DONTNEED)")


def test_several_hosts_are_as_cold_as_the_warmest() -> None:
    said = [
        {"cached_pages": 0, "cached_names": 0, "metadata": caches.COLD},
        {"cached_pages": 2, "cached_names": 1, "metadata": caches.WARM},
    ]
    assert caches.together(said) == {"cached_pages": 2, "cached_names": 1, "metadata": caches.WARM}
    unasked = {"cached_pages": 0, "cached_names": None, "metadata": caches.UNASKED}
    assert caches.together([said[0], unasked]) == unasked
