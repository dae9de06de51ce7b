"""No step and no cell takes more of a target than its claim allows, on whatever kind of target, however it ends."""

from __future__ import annotations

import errno
import os
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from local_targets import claimed
from measuring import asked, cell, observed
from small_filesystems import small
from states import bring, populate

from fsage.base import Failure, Refusal, typed
from fsage.host.cells import measure
from fsage.host.structure import files, work
from fsage.host.structure.quota import Quota
from fsage.host.targets import Target, kinds
from fsage.model import structure
from fsage.model.structure import ALONE, Step
from fsage.records import make_record
from fsage.studies.aged import model as uses
from fsage.studies.blast import host as database
from fsage.studies.blast import model
from fsage.studies.lustre.host import space, stripes
from fsage.studies.replica.model import Replica

MIB = 1 << 20
MAKE_NOTHING = {"fragment", "delete_files", "free_reserved_run", "defragment"}
TAKE_ALL = {"replica", "keep_free_space", "plant_free_space"}
"""Fill what is fsage's own to the last block, by Quota.rest, and are refused on anything else."""
REPLACES_ALL = {"restore", "mkfs"}
"""Take the place of a file system of fsage's own, as large as that at most, and are refused on anything else."""
OSTS_MIB = (60, 90, 120)
SEGMENTS = [[8 * MIB, 1, MIB], [None, 2, MIB]]

percents = st.integers(1, 130)
STEPS: dict[str, Any] = {
    "populate": st.fixed_dictionaries(
        {"percent": percents, "file_bytes": st.lists(st.integers(1, 9).map(lambda n: n * MIB), min_size=1, max_size=3)}
        | {"method": st.sampled_from(["fallocate", "write", "buffered"])}
        | {"files_at_once": st.integers(1, 4)}
    ),
    "interleave": st.fixed_dictionaries(
        {"files": st.integers(1, 5), "granularity_bytes": st.sampled_from([64 << 10, MIB])}
        | {"method": st.sampled_from(["fallocate", "together"])}
    ),
    "age": st.fixed_dictionaries(
        {"way": st.sampled_from(sorted(uses.WAYS)), "percent": percents, "written_percent": st.integers(1, 150)}
    ),
    "contended_files": st.fixed_dictionaries({"percent": st.integers(1, 40), "piece_bytes": st.just(256 << 10)}),
    "fragmented_file": st.fixed_dictionaries({"percent": st.integers(1, 50), "extents": st.integers(1, 40)}),
    "sqlite": st.fixed_dictionaries({"percent": st.integers(20, 130)}),
    "stripe": st.fixed_dictionaries({"eviction_file": st.one_of(st.none(), percents)}),
    "database": st.fixed_dictionaries({"percent": st.integers(50, 400), "volumes": st.integers(2, 4)}),
}
OFTEN = [("populate", "loop"), *((kind, "directory") for kind in STEPS if kind != "age")]
SELDOM = [case for case in product(STEPS, ("loop", "directory", "lustre")) if case not in OFTEN]
LAYOUT = {"realisation": "segments", "segments": SEGMENTS, "nominal_bytes": 32 * MIB, "largest_count": 2}


def test_every_kind_of_step_either_makes_nothing_or_is_held_to_the_budget() -> None:
    assert set(structure.kinds()) == MAKE_NOTHING | TAKE_ALL | REPLACES_ALL | set(STEPS)


class Place:
    """Where targets are made: a file system of the tests' own, which a step may fill without harm."""

    def __init__(self, point: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.point = point
        monkeypatch.setattr(space, "LOOK_EVERY_S", 0.0)
        monkeypatch.setattr(space, "UNSEEN_S", 0.0)
        monkeypatch.setattr(space, "read_osts", self.osts)
        monkeypatch.setattr(stripes, "components_of", self.lying)
        monkeypatch.setattr(stripes, "set_on", lambda *_: None)
        monkeypatch.setattr(stripes, "cut", lambda *_: [])
        monkeypatch.setattr(database, "_verify_stripes", lambda *_: None)
        monkeypatch.setattr(database, "_make_all", self.made)

    def target(self, kind: str, capacity: int, alone: bool = False, stripe_count: int = 1) -> Target:
        shutil.rmtree(self.point / "target", ignore_errors=True)
        for name in ("filler", "measured"):
            (self.point / "target" / name).mkdir(mode=0o700, parents=True)
        self.stripe_count = stripe_count
        store = {"mount": str(self.point / "target"), "filesystem": None}
        lustre = {"fsname": "small", "stripe_count": stripe_count, "stripe_size_mib": 1, "first_ost": -1, "osts": None}
        free = os.statvfs(self.point)
        claim = {
            "stores": [store],
            "capacity_bytes": free.f_bfree * free.f_frsize if kind == "loop" else capacity,
            "filesystem_state_known": alone or kind == "loop",
            "kind": kind,
            "amount_mib": 16,
            "lustre": {"osts": {str(number): {} for number in range(len(OSTS_MIB))}},
            "tools": {},
        }
        spec = {"name": "small", "kind": kind, "filesystem": "ext4", "home": str(self.point / "home"), "lustre": lustre}
        return kinds.named(kind)(spec, claim)

    def lying(self, path: Path) -> list[stripes.Component]:
        """Where files lie on OSTs: one each as their names have it, or on all of them."""
        on = range(len(OSTS_MIB))
        if self.stripe_count != structure.ALL_OSTS:
            number = zlib.crc32(str(path).encode()) % len(OSTS_MIB)
            on = range(number, number + 1)
        return [stripes.Component(0, len(on), MIB, on[0], tuple(on))]

    def osts(self, mount: Path, needed: object = None) -> list[space.Ost]:
        used = [0] * len(OSTS_MIB)
        for path in (self.point / "target").rglob("*"):
            if path.is_file():
                on = self.lying(path)[0].osts
                for number in on:
                    used[number] += path.stat().st_blocks * 512 // len(on)
        return [
            space.Ost(f"OST{number}", number, total * MIB, used[number], total * MIB - used[number])
            for number, total in enumerate(OSTS_MIB)
        ]

    def made(self, target: Target, step: Any, each: int, check_lease: Any, place: Path) -> dict:
        """Files as large as makeblastdb's."""
        for number in range(step.volumes):
            for suffix in model.SUFFIXES:
                (place / f"{model.name_of(number)}{suffix}").write_bytes(b"")
            os.truncate(place / f"{model.name_of(number)}.nsq", each * model.PACKED_BYTES)
        return {"bytes": 0}


@pytest.fixture(scope="module")
def filesystem(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    point = tmp_path_factory.mktemp("budget") / "point"
    with small("ext4", point):
        yield point


@pytest.fixture
def place(filesystem: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    yield Place(filesystem, monkeypatch)
    shutil.rmtree(filesystem / "target", ignore_errors=True)
    shutil.rmtree(filesystem / "home", ignore_errors=True)


def steps_of(kind: str) -> st.SearchStrategy[Step]:
    more = {"kind": kind, "generation": 1, "pattern": "two", "seed": 1, "queries": 1, "eviction_file": None}
    more["request_bytes"] = MIB
    known = typed.hints(structure.step_type(kind)).keys() | {"kind"}
    whole = STEPS[kind].map(lambda drawn: {**more, **LAYOUT, **drawn})
    return whole.map(lambda found: structure.read({key: found[key] for key in found if key in known}))


@pytest.mark.root
@pytest.mark.parametrize(("kind", "of"), [*OFTEN, *(pytest.param(*case, marks=pytest.mark.long) for case in SELDOM)])
def test_never_more_than_the_claim_allows(kind: str, of: str, place: Place) -> None:
    """Two steps one after the other, of any size: done or refused with a sentence, no byte too many."""

    @settings(max_examples=5, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(
        steps_of(kind), st.sampled_from(sorted(STEPS)).flatmap(steps_of), st.integers(4, 120), st.booleans(),
        st.sampled_from([1, structure.ALL_OSTS]),
    )  # fmt: skip
    def held(first: Step, second: Step, capacity_mib: int, alone: bool, stripe_count: int) -> None:
        target = place.target(of, capacity_mib * MIB, alone, stripe_count)
        for number, step in enumerate((first, replace(second, generation=5)), 1):
            try:
                work(step, target, [step], ALONE, lambda: None)
            except (Failure, Refusal):
                pass
            except OSError as error:  # on a file system of its own the kernel may say it; the agent gives it in words
                if of != "loop" or error.errno != errno.ENOSPC:
                    raise
            taken = sum(path.lstat().st_blocks * 512 for path in (place.point / "target").rglob("*"))
            assert taken <= target.capacity_bytes, (number, step)
            if of == "lustre":
                assert all(ost.available_bytes >= 0 for ost in place.osts(place.point)), step

    held()


@pytest.mark.root
@pytest.mark.parametrize("of", ["directory", "lustre"])
def test_what_fills_all_is_refused_on_what_is_not_of_fsage_alone(of: str, place: Place) -> None:
    target = place.target(of, 60 * MIB)
    with pytest.raises(Failure, match=r"onto one (file system that fsage made|OST)"):
        work(Replica(1, "ost0012.txt.gz", False, 1, 16, 67005), target, [], ALONE, lambda: None)
    assert {path.name for path in (place.point / "target").rglob("*")} == {"filler", "measured"}


@pytest.mark.root
def test_what_is_left_is_of_the_claim_and_what_others_have_filled_is_theirs(place: Place) -> None:
    target = place.target("directory", 100 * MIB)
    rest = place.point / "target/filler/rest"
    Quota(target).rest(rest)
    assert 98 * MIB < rest.stat().st_blocks * 512 < 100 * MIB
    rest.unlink()
    free = os.statvfs(place.point)
    others = place.point / "others"
    try:
        files.fallocate(others, free.f_bavail * free.f_frsize - 120 * MIB)
        with pytest.raises(Failure, match=r"40000000 bytes are wanted, and .*/target has \d+ left, without the"):
            Quota(target).fallocate(rest, 40_000_000)
        assert Quota(target).rest(rest) <= 20 * MIB
    finally:
        others.unlink()


@pytest.mark.root
def test_no_ost_is_filled_although_others_have_room(place: Place) -> None:
    """What files that grow at once were promised is counted before they have it."""
    target = place.target("lustre", 200 * MIB)
    names = [place.point / f"target/filler/{number}" for number in range(99)]
    first, second = [path for path in names if place.lying(path)[0].osts == (0,)][:2]
    why = r"of it would lie on OST0, which has \d+ left for the target"
    with pytest.raises(Failure, match=why):
        Quota(target).fallocate(first, 80 * MIB)
    assert first.stat().st_blocks == 0
    with pytest.raises(Failure, match=why):
        Quota(target).in_turns([first, second], [35 * MIB] * 2, MIB, "fallocate", lambda: None)
    quota = Quota(target)
    quota.in_turns([first], [35 * MIB], MIB, "fallocate", lambda: None)
    quota.in_turns([second], [20 * MIB], MIB, "fallocate", lambda: None)
    assert place.osts(place.point)[0].available_bytes > 0


@pytest.mark.root
def test_a_rest_is_what_its_ost_has_or_the_target_is_not_full(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """For some seconds after an OST said once that it has no space, it gives none."""

    def nothing(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = place.target("lustre", 260 * MIB)
    path = place.point / "target/filler/rest"
    with monkeypatch.context() as refusing:
        refusing.setattr(os, "posix_fallocate", nothing)
        with pytest.raises(Failure, match=r"/rest got 0 of \d+ bytes, then there was no space. The target is not fu"):
            Quota(target).rest(path)
    size = Quota(target).rest(path)
    ost = place.osts(place.point)[place.lying(path)[0].osts[0]]
    assert size > 0.9 * ost.total_bytes and ost.available_bytes > 0.9 * space.OTHERS_SHARE * ost.total_bytes


def test_a_record_of_a_target_that_held_a_byte_too_much_is_a_failure(tmp_path: Path) -> None:
    raw = tmp_path / "raw.json"
    raw.write_text("{}")
    layout = {"steps": [populate(80).to_json()], "capacity_bytes": 2 << 30, "free_bytes": -1, "state_known": True}
    observation = {"layout": layout, "nominal": {"recipe": "paf"}, "params": {"workload": "sequential"}, "phases": []}
    observation |= {"conditions": {"tunables": {}}, "hosts": []}
    failed = make_record({**observation, "status": "done"}, raw, tmp_path)
    assert (failed["status"], failed["metrics"]) == ("failed", {})
    assert "held 1 bytes more than the 2147483648 that its claim allows" in failed["why"]


def test_a_cell_that_would_take_more_is_not_run(directory_target: dict) -> None:
    """Its state leaves 3/4 of 256 MiB; one that makes 64 MiB runs beside it, one of 300 does not."""
    directory_target["budget_gib"] = 0.25
    claimed(directory_target)
    step = populate(25)
    bring(directory_target, step)
    phases = [{"name": "write", "argv": ["true"]}]
    cells = [{**cell(directory_target, f"of{mib}"), "makes_bytes": mib * MIB, "phases": phases} for mib in (64, 300)]
    measure.measure(directory_target, {**asked(cells), "steps": [step], "state": "wanted"}, False)
    fits, _ = observed(directory_target, "of64")
    full, _ = observed(directory_target, "of300")
    assert (fits["status"], full["status"], full["phases"]) == ("done", "failed", []), fits["why"]
    assert full["why"].startswith(f"cell of300: {300 * MIB} bytes are wanted, and ")
    assert fits["layout"]["free_bytes"] == 192 * MIB
