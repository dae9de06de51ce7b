"""No step and no cell takes more of a target than its claim allows, on whatever kind of target, however it ends."""

from __future__ import annotations

import ast
import contextlib
import errno
import json
import os
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from local_targets import claimed
from small_filesystems import small
from states import bring, populate
from tiers import first_of

from fsage.base import Failure, Refusal, typed
from fsage.host.cells import measure
from fsage.host.instruments import eviction
from fsage.host.structure import files, work
from fsage.host.structure.quota import Quota
from fsage.host.targets import claims, kinds
from fsage.host.targets.target import Target
from fsage.model import plugins, structure
from fsage.model.structure import ALONE, Step
from fsage.records.record import make_record
from fsage.studies.aged import model as uses
from fsage.studies.allocator import host as measured_calls
from fsage.studies.blast import host as database
from fsage.studies.blast import model
from fsage.studies.lustre.host import space, stripes
from fsage.studies.replica.host import free_space_layout, whole_extents
from fsage.studies.replica.model import Replica

MIB = 1 << 20
KINDS = ["loop", "directory", pytest.param("lustre", marks=pytest.mark.long)]
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
        | {"method": st.sampled_from(["fallocate", "write", "buffered"]), "request_bytes": st.just(MIB)}
        | {"files_at_once": st.integers(1, 4)}
    ),
    "interleave": st.fixed_dictionaries(
        {"files": st.integers(1, 5), "granularity_bytes": st.sampled_from([64 << 10, MIB])}
        | {"method": st.sampled_from(["fallocate", "together"])}
    ),
    "age": st.fixed_dictionaries(
        {"way": st.sampled_from(sorted(uses.WAYS)), "percent": percents, "written_percent": st.integers(1, 150)}
        | {"seed": st.just(1)}
    ),
    "contended_files": st.fixed_dictionaries({"percent": st.integers(1, 40), "piece_bytes": st.just(256 << 10)}),
    "fragmented_file": st.fixed_dictionaries({"percent": st.integers(1, 50), "extents": st.integers(1, 40)}),
    "sqlite": st.fixed_dictionaries({"percent": st.integers(20, 130), "seed": st.just(1)}),
    "stripe": st.fixed_dictionaries({"eviction_file": st.one_of(st.none(), percents)}),
    "database": st.fixed_dictionaries({"percent": st.integers(50, 400), "volumes": st.integers(2, 4)}),
}
STUDIES = {structure.step_type(kind).__module__.split(".")[2] for kind in structure.kinds()}
NOT_BY_QUOTA = {
    measured_calls: {"os.posix_fallocate", "os.write"},  # of its workload; its step is in free_space_layout
}
LAYOUT = {"realisation": "segments", "segments": SEGMENTS, "nominal_bytes": 32 * MIB, "largest_count": 2}


def test_every_kind_of_step_either_makes_nothing_or_is_held_to_the_budget() -> None:
    assert set(structure.kinds()) == MAKE_NOTHING | TAKE_ALL | REPLACES_ALL | set(STEPS)


@pytest.mark.parametrize(
    "module",
    [
        *(plugins.of_study(study, "host") for study in sorted(STUDIES)),
        eviction,
        free_space_layout,
        whole_extents,
    ],
)
def test_bytes_are_given_in_one_place(module: ModuleType) -> None:
    """Nothing of a step gives a file bytes but Quota, which counts them; a punched hole is none."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    named = {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("posix_fallocate", "fallocate", "allocate", "write", "write_bytes", "copyfileobj", "copy")
    }
    others = {name for name in named if not name.startswith(("quota.", "self.quota."))}
    assert others == NOT_BY_QUOTA.get(module, set())


class Place:
    """Where targets are made: a file system of the tests' own, which a step may fill without harm."""

    def __init__(self, point: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.point, self.used_mib = point, [0] * len(OSTS_MIB)
        self.stripe_count = 1
        monkeypatch.setattr(space, "LOOK_EVERY_S", 0.0)
        monkeypatch.setattr(space, "UNSEEN_S", 0.0)
        monkeypatch.setattr(space, "read_osts", self.osts)
        monkeypatch.setattr(stripes, "components_of", self.lying)
        monkeypatch.setattr(stripes, "set_on", lambda *_: None)
        monkeypatch.setattr(stripes, "cut", lambda *_: [])
        monkeypatch.setattr(database, "_verify_stripes", lambda *_: None)
        monkeypatch.setattr(database, "make_once", self.made)

    def target(self, kind: str, capacity: int, alone: bool = False, stripe_count: int = 1) -> Target:
        shutil.rmtree(self.point / "target", ignore_errors=True)
        (self.point / "target/measured").mkdir(parents=True)
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
        on = (
            range(len(OSTS_MIB))
            if self.stripe_count == structure.ALL_OSTS
            else [zlib.crc32(str(path).encode()) % len(OSTS_MIB)]
        )
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

    def made(self, target: Target, seed: int, volumes: int, each: int, check_lease: Any) -> tuple[Path, dict]:
        """Files as large as makeblastdb's."""
        place = target.home / claims.KEPT
        place.mkdir(parents=True, exist_ok=True)
        for number in range(volumes):
            for suffix in model.SUFFIXES:
                (place / f"{model.name_of(number)}{suffix}").write_bytes(b"")
            os.truncate(place / f"{model.name_of(number)}.nsq", each * model.PACKED_BYTES)
        return place, {"bytes": 0}


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


@contextlib.contextmanager
def enough_if(own: bool) -> Iterator[None]:
    """On a file system of its own it may be the kernel who says that there is no space; the agent gives it in words."""
    try:
        yield
    except OSError as error:
        if not own or error.errno != errno.ENOSPC:
            raise


def steps_of(kind: str) -> st.SearchStrategy[Step]:
    more = {"kind": kind, "generation": 1, "pattern": "two", "seed": 1, "queries": 1, "eviction_file": None}
    known = typed.hints(structure.step_type(kind)).keys() | {"kind"}
    whole = STEPS[kind].map(lambda drawn: {**more, **LAYOUT, **drawn})
    return whole.map(lambda found: structure.read({key: found[key] for key in found if key in known}))


@pytest.mark.root
@pytest.mark.parametrize("of", KINDS)
@pytest.mark.parametrize("kind", [*first_of("populate", "age"), *sorted({*STEPS} - {"age", "populate"})])
def test_never_more_than_the_claim_allows(kind: str, of: str, place: Place) -> None:
    """Two steps one after the other, of any size: done or refused with a sentence, no byte too many."""

    @settings(max_examples=5, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(
        steps_of(kind), st.sampled_from(sorted(STEPS)).flatmap(steps_of), st.integers(4, 120), st.booleans(),
        st.sampled_from([1, structure.ALL_OSTS]),
    )  # fmt: skip
    def held(first: Step, second: Step, capacity_mib: int, alone: bool, stripe_count: int) -> None:
        target = place.target(of, capacity_mib * MIB, alone, stripe_count)
        free = os.statvfs(place.point)
        for number, step in enumerate((first, replace(second, generation=5)), 1):
            with contextlib.suppress(Failure, Refusal), enough_if(of == "loop"):
                work(step, target, [step], ALONE, lambda: None)
            taken = sum(path.lstat().st_blocks * 512 for path in (place.point / "target").rglob("*"))
            assert taken <= target.capacity_bytes, (number, step)
            if of == "lustre":
                assert all(ost.available_bytes >= 0 for ost in place.osts(place.point)), step
        now = os.statvfs(place.point)
        home = sum(path.lstat().st_blocks * 512 for path in (place.point / "home").rglob("*"))
        assert (free.f_bfree - now.f_bfree) * free.f_frsize <= target.capacity_bytes + home + 4 * MIB

    held()


@pytest.mark.root
@pytest.mark.parametrize("of", ["directory", "lustre"])
def test_what_fills_all_is_refused_on_what_is_not_of_fsage_alone(of: str, place: Place) -> None:
    target = place.target(of, 60 * MIB)
    with pytest.raises(Failure, match=r"onto one (file system that fsage made|OST)"):
        work(Replica(1, "ost0012.txt.gz", False, 1, 16, 67005), target, [], ALONE, lambda: None)
    assert not list((place.point / "target").rglob("*.*")) and not (place.point / "target/filler").exists()


@pytest.mark.root
def test_what_is_left_is_of_the_claim_and_not_of_the_disk(place: Place) -> None:
    target = place.target("directory", 24 * MIB)
    (place.point / "target/filler").mkdir()
    free = os.statvfs(place.point).f_bavail * 4096
    size = Quota(target).rest(place.point / "target/filler/rest")
    assert 22 * MIB < size <= 23 * MIB
    assert free - os.statvfs(place.point).f_bavail * 4096 < 24 * MIB


@pytest.mark.root
def test_a_disk_that_others_have_filled_is_left_to_them(place: Place) -> None:
    target = place.target("directory", 100 * MIB)
    (place.point / "target/filler").mkdir()
    free = os.statvfs(place.point)
    others = place.point / "others"
    try:
        files.fallocate(others, free.f_bavail * free.f_frsize - 120 * MIB)
        with pytest.raises(Failure, match=r"40000000 bytes are wanted, and .*/target has \d+ left, without the"):
            Quota(target).fallocate(place.point / "target/filler/one", 40_000_000)
        assert Quota(target).rest(place.point / "target/filler/rest") <= 20 * MIB
    finally:
        others.unlink()


@pytest.mark.root
def test_a_target_that_cannot_be_filled_is_not_full(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an OST does for some seconds after it said once that it has no space."""

    def nothing(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = place.target("lustre", 100 * MIB)
    (place.point / "target/filler").mkdir()
    monkeypatch.setattr(os, "posix_fallocate", nothing)
    with pytest.raises(Failure, match=r"/rest got 0 of \d+ bytes, then there was no space. The target is not fu"):
        Quota(target).rest(place.point / "target/filler/rest")


@pytest.mark.root
def test_what_files_that_grow_at_once_were_promised_is_counted_before_they_have_it(place: Place) -> None:
    target = place.target("lustre", 200 * MIB)
    (place.point / "target/filler").mkdir()
    names = (place.point / f"target/filler/{number}" for number in range(99))
    first, second = [path for path in names if place.lying(path)[0].osts == (0,)][:2]
    with pytest.raises(Failure, match=r"of it would lie on OST0, which has \d+ left for the target"):
        Quota(target).in_turns([first, second], [35 * MIB] * 2, MIB, "fallocate", lambda: None)
    quota = Quota(target)
    quota.in_turns([first], [35 * MIB], MIB, "fallocate", lambda: None)
    quota.in_turns([second], [20 * MIB], MIB, "fallocate", lambda: None)
    assert place.osts(place.point)[0].available_bytes >= 0


@pytest.mark.root
def test_no_ost_is_filled_although_others_have_room(place: Place) -> None:
    target = place.target("lustre", 200 * MIB)
    (place.point / "target/filler").mkdir()
    path = next(
        found for number in range(99) if place.lying(found := place.point / f"target/filler/{number}")[0].osts == (0,)
    )
    with pytest.raises(Failure, match=r"of it would lie on OST0, which has \d+ left for the target"):
        Quota(target).fallocate(path, 80 * MIB)
    assert path.stat().st_blocks == 0
    Quota(target).fallocate(path, 50 * MIB)
    assert place.osts(place.point)[0].available_bytes > 0


@pytest.mark.root
def test_a_rest_is_what_its_ost_has(place: Place) -> None:
    target = place.target("lustre", 260 * MIB)
    (place.point / "target/filler").mkdir()
    path = place.point / "target/filler/rest"
    size = Quota(target).rest(path)
    ost = place.osts(place.point)[place.lying(path)[0].osts[0]]
    assert size > 0.9 * ost.total_bytes and ost.available_bytes > 0.9 * space.OTHERS_SHARE * ost.total_bytes


@pytest.mark.parametrize("too_much", [1, 7_960_000_000])
def test_a_record_of_a_target_that_held_too_much_is_a_failure(tmp_path: Path, too_much: int) -> None:
    raw = tmp_path / "raw.json"
    raw.write_text("{}")
    step = {"kind": "populate", "generation": 1, "percent": 80, "file_bytes": [8 * MIB], "seed": 1}
    layout = {"steps": [step], "capacity_bytes": 2 << 30, "free_bytes": -too_much, "state_known": True}
    observation = {"layout": layout, "nominal": {"recipe": "paf"}, "params": {"workload": "sequential"}, "phases": []}
    observation |= {"conditions": {"tunables": {}}, "hosts": []}
    failed = make_record({**observation, "status": "done"}, raw, tmp_path)
    assert (failed["status"], failed["metrics"]) == ("failed", {})
    assert f"held {too_much} bytes more than the 2147483648 that its claim allows" in failed["why"]


def test_a_cell_that_would_take_more_is_not_run(directory_target: dict) -> None:
    """Its state leaves 3/4 of 256 MiB; one that makes 64 MiB runs beside it, one of 300 does not."""
    directory_target["budget_gib"] = 0.25
    claimed(directory_target)
    step = populate(25)
    bring(directory_target, step)
    made = Path(directory_target["directory"]) / "measured/one"
    cells = [
        {"name": f"of{mib}", "kind": "planned", "order": 1, "attempt": 1, "params": {}, "makes_bytes": mib * MIB}
        | {"phases": [{"name": "write", "argv": ["dd", "if=/dev/zero", f"of={made}", "bs=1M", f"count={mib}"]}]}
        for mib in (64, 300)
    ]
    request = {"study": "test", "state": "wanted", "steps": [step], "cells": cells}
    assert measure.measure(directory_target, request, False)["measured"] == 2
    box = Path(directory_target["home"]) / directory_target["name"] / "outbox"
    fits, full = (json.loads(next(box.rglob(f"of{mib}.1.json")).read_text()) for mib in (64, 300))
    assert (fits["status"], full["status"], full["phases"]) == ("done", "failed", []), fits["why"]
    assert full["why"].startswith(f"cell of300: {300 * MIB} bytes are wanted, and ")
    assert fits["layout"]["free_bytes"] == 192 * MIB
