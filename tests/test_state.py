"""States of real file systems: built exactly, rebuilt alike, never believed when altered."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from local_targets import claimed
from states import asked, bring, fragment, populate

from fsage.base import Failure
from fsage.host import states
from fsage.host.states.inspection import digest, remove_measured
from fsage.host.structure import files, fillers, verify
from fsage.host.system import mounting
from fsage.host.targets import Target, claims
from fsage.host.targets.opening import open_target
from fsage.model import structure
from fsage.model.structure import path_of

pytestmark = pytest.mark.root
MIB = 1 << 20
P70 = populate(70)
F10 = fragment(10)
F30 = fragment(30)
SECOND = populate(9, 2)


def test_nested_states_delete_more_and_keep_the_instance(spec):
    tokens = [bring(spec, P70, *more) for more in ([], [F10], [F30], [fragment(60)])]
    assert len({token["instance"] for token in tokens}) == 1
    assert all(after["files"] < before["files"] for before, after in pairwise(tokens))
    target = open_target(spec)
    count = tokens[0]["files"]
    kept = {*range(count)} - {*fragment(60).to_delete(count)}
    assert {int(entry.name) for entry in fillers(target.mounts[0])} == kept
    share = tokens[0]["achieved"][0]
    assert 0 <= 70 - share["capacity_percent_achieved"] < 100 * 8 * MIB / target.capacity_bytes
    assert bring(spec, P70, F30)["instance"] != tokens[0]["instance"], "going back means emptying"


def test_the_same_seed_gives_the_same_extents_after_a_rebuild(spec):
    steps = (populate(60), fragment(40))
    first = bring(spec, *steps)
    bring(spec, populate(20))
    again = bring(spec, *steps)
    assert again["instance"] != first["instance"]
    assert again["digest"] == first["digest"] is not None


def test_nothing_is_written_below_a_mount_that_is_gone(spec):
    """After a mount that failed, what cleaned up made a directory in its place, and every later mount was refused."""
    bring(spec, populate(10))
    target = open_target(spec)
    [point] = target.mounts
    mounting.unmount(point)
    with pytest.raises(Failure, match="is not mounted there any more"):
        remove_measured(target)
    assert list(point.iterdir()) == []
    open_target(spec)


@pytest.mark.long
def test_extents_do_not_depend_on_the_cpu_that_the_scheduler_chose(spec, monkeypatch):
    """ext4 serves small files from a preallocation of each CPU; stamp and token are written from two, if allowed."""
    allowed = os.sched_getaffinity(0)
    stamp = Target.stamp
    digests = []

    def move_to(cpu: int) -> None:
        bound_to = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {cpu})
        os.sched_setaffinity(0, bound_to)

    for then in sorted(allowed)[:2]:

        def stamp_and_move(target, index, then=then):
            move_to(min(allowed))
            stamp(target, index)
            move_to(then)

        monkeypatch.setattr(Target, "stamp", stamp_and_move)
        digests.append(bring(spec, populate(60, sizes=(MIB,)))["digest"])
        bring(spec, populate(20))
    assert len(set(digests)) == 1 and digests[0]


def test_several_generations_and_sizes(spec):
    done = bring(spec, populate(50, 1, (8 * MIB, 3 * MIB)), fragment(50), populate(20, 2, (4 * MIB,)), fragment(30, 2))
    shares = done["achieved"]
    assert [share["generation"] for share in shares] == [1, 2]
    assert [share["fragmentation_percent"] for share in shares] == [50, 30]
    target = open_target(spec)
    steps = structure.read_all(done["done"])
    verify(target.mounts, steps, target.capacity_bytes, {})
    assert done["bytes"] == sum(structure.expected(steps, target.capacity_bytes).values())


def test_files_that_do_not_fit_end_the_step_at_one_that_is_named(spec):
    step = populate(90)
    request = asked(step)
    states.scrub(spec, request, False)
    states.begin("populate", spec, request, False)
    target = open_target(spec)
    files.fallocate(target.mounts[0] / "somebody_elses", target.capacity_bytes // 2)
    with pytest.raises(Failure, match=r"populating stopped at file \d+ of \d+ \(.*: No space left.*were 90% of"):
        states.work(spec, request, step)


def test_an_altered_target_is_not_believed(spec):
    bring(spec, P70, F30)
    mount = open_target(spec).mounts[0]
    request = asked(P70, F30)
    some = list(fillers(mount))[2].path
    before = os.stat(some)
    os.utime(some, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert "was changed since epoch" in states.diagnose(spec, request, False)["why"]
    os.utime(some, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert states.diagnose(spec, request, False)["todo"] == []
    (mount / "stray").write_bytes(b"x" * 8192)
    assert "bytes free" in states.diagnose(spec, request, False)["why"]


def test_files_that_moved_show_in_the_digest(spec):
    """e4defrag or a copy in place keeps name and size; the extents tell."""
    bring(spec, populate(50), F30)
    [mount] = open_target(spec).mounts
    path = Path(next(fillers(mount)).path)
    before = digest([mount])
    size = path.stat().st_size
    path.unlink()
    files.fallocate(mount / "elsewhere", MIB)
    files.fallocate(path, size)
    assert digest([mount])["hash"] != before["hash"]


@pytest.mark.parametrize(
    ("done", "steps", "rest"),
    [
        ([], [P70], [P70]),
        ([P70], [P70, F10], [F10]),
        ([P70, F10], [P70, F30], [F30]),
        ([P70, F30], [P70, F30], []),
        ([P70, F30], [P70, F10], None),
        ([P70, F30], [P70], None),
        ([P70], [populate(80)], None),
        ([P70, F10], [P70, replace(F30, seed=1)], None),
        ([P70, F10], [P70, F30, SECOND], [F30, SECOND]),
        ([P70, F30, SECOND], [P70, fragment(40), SECOND], None),
    ],
)
def test_what_is_left_to_do(done, steps, rest):
    assert states.rest_of(done, steps) == rest


@pytest.mark.parametrize("kind", ["populate", "fragment"])
def test_a_shard_stops_when_another_run_takes_the_target_over(spec, monkeypatch, kind):
    """Over its lock, which only hosts know that share a home, by the token, which all hosts see."""
    filled = populate(40, files_at_once=1)
    request = asked(filled, fragment(50))
    if kind == "fragment":
        bring(spec, filled)
    else:
        states.scrub(spec, request, False)
    mount = open_target(spec).mounts[0]
    begun = states.begin(kind, spec, request, False)
    touched = []

    def third_is_late(mounts: list[Path], generation: int, index: int) -> Path:
        touched.append(index)
        if len(touched) == 3:
            claims.token_changed(mount, claims.read_token(mount), step=fragment(1))
        return path_of(mounts, generation, index)

    monkeypatch.setattr("fsage.studies.paf.host.path_of", third_is_late)
    with pytest.raises(Failure, match=f"{kind} stopped: another run took target .* while it was at work"):
        states.work(spec, request, begun)
    assert len(touched) == 3


@pytest.mark.long
def test_a_generation_of_many_files_lies_in_several_directories(new_target, monkeypatch):
    monkeypatch.setattr(structure, "SHARD", 6)
    monkeypatch.setattr(files, "SHARD", 6)
    new_target.update(stores=2, size_gib=2)
    claimed(new_target)
    whole = bring(new_target, populate(20))
    mounts = open_target(new_target).mounts
    by_folder = [[Path(entry.path).parent.name for entry in fillers(mount)] for mount in mounts]
    assert all({*found} >= {"g1", "g1.1", "g1.2"} for found in by_folder)
    assert all(found.count("g1") == 3 for found in by_folder), "six of a directory's name, three on each store"
    assert sum(map(len, by_folder)) == whole["files"] > 12
    half = bring(new_target, populate(20), fragment(50))
    assert 0 < half["files"] < whole["files"], "and what is deleted is found there"
    assert bring(new_target, populate(30))["files"] > whole["files"]
