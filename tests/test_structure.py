"""Which files a structure has and which of them go: arithmetic that every host must agree on."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsage.host.structure import verify, work
from fsage.host.targets.budget import UNLIMITED, Limits
from fsage.model import structure
from fsage.model.structure import Shard, path_of
from fsage.studies.paf import model as paf

MIB = 1 << 20
sizes = st.lists(st.integers(1, 512).map(lambda n: n * MIB), min_size=1, max_size=4, unique=True).map(tuple)
capacities = st.integers(1 << 30, 1 << 44)
percents = st.integers(1, 99)


@given(percents, sizes, capacities)
def test_achieved_capacity_is_within_one_file_of_what_was_asked_and_sizes_share_it_equally(percent, several, capacity):
    capacity = min(capacity, 20_000 * min(several))
    made = paf.file_sizes(percent, several, capacity)
    goal = capacity * percent // 100
    assert sum(made) <= goal < sum(made) + max(several)
    shares = [sum(size for size in made if size == each) for each in several]
    assert max(shares) - min(shares) <= max(several)


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 99), st.integers(0, 99), st.integers(0, 500))
def test_exactly_the_share_is_deleted_and_what_a_smaller_bb_deletes_is_among_what_a_larger_one_deletes(
    seed, generation, first, other, count
):
    small, large = sorted((first, other))
    few, many = (paf.Fragment(generation, percent, seed).to_delete(count) for percent in (small, large))
    assert few <= many < set(range(count + 1))
    assert abs(len(many) - count * large / 100) <= 0.5


@pytest.mark.parametrize(
    ("generation", "seed", "deleted"),
    [(1, 67005, {8, 9, 11, 13, 15, 17}), (2, 67005, {0, 2, 3, 13, 14, 17}), (1, 67006, {6, 8, 9, 15, 16, 17})],
)
def test_fates_never_change_between_versions(generation, seed, deleted):
    """Recorded: a structure that was built with a seed must be built the same for ever."""
    assert paf.Fragment(generation, 30, seed).to_delete(20) == deleted


@given(st.integers(0, 99), st.integers(0, 2**20))
def test_what_was_achieved_is_what_is_expected(percent, seed):
    done = [paf.Populate(1, 60, (8 * MIB, 3 * MIB), seed, "fallocate", MIB, 1), paf.Fragment(1, percent, seed)]
    expected = structure.expected(done, 1 << 31)
    (shares,) = structure.achieved(done, 1 << 31)
    assert shares["files"] - shares["deleted_files"] == len(expected)
    assert math.isclose(shares["bytes"] * (1 - shares["deleted_share_bytes"]), sum(expected.values()), abs_tol=1)


def test_generations_lie_apart_and_stores_take_turns(tmp_path):
    mounts = [tmp_path / str(store) for store in range(3)]
    for mount in mounts:
        mount.mkdir()
    done = [
        paf.Populate(1, 40, (MIB,), 7, "fallocate", 4 * MIB, 4),
        paf.Fragment(1, 50, 7),
        paf.Populate(2, 30, (2 * MIB,), 7, "write", 4 * MIB, 4),
    ]
    capacity = 64 * MIB
    target = SimpleNamespace(
        name="small",
        kind="loop",
        filesystem="ext4",
        mounts=mounts,
        capacity_bytes=capacity,
        limits=Limits,
        pace=UNLIMITED,
    )
    for step in done:
        for shard in (Shard(0, 2, 2), Shard(1, 2)):
            work(step, target, done, shard, lambda: None)
    verify(mounts, done, capacity, {})
    deleted = paf.Fragment(1, 50, 7).to_delete(25)
    assert not path_of(mounts, 1, min(deleted)).exists()
    assert [len(list(mount.glob("filler/g2/*"))) for mount in mounts] == [3, 3, 3]
    path_of(mounts, 2, 0).write_bytes(b"short")
    with pytest.raises(Exception, match="1 of another size"):
        verify(mounts, done, capacity, {})
