"""Files whose pieces lie in turns, deleted one by one: on real file systems, as exact as asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_targets import claimed
from states import MIB, bring

from fsage.host import states
from fsage.host.structure import verify
from fsage.host.targets.opening import open_target
from fsage.layouts import fiemap
from fsage.model import structure
from fsage.model.structure import path_of
from fsage.studies.prealloc import model as prealloc

FILES = 5


def mingled(piece_bytes, method="fallocate"):
    of = {"files": FILES, "granularity_bytes": piece_bytes, "method": method}
    return structure.read({"kind": "interleave", "generation": 1, **of})


def thinned(deleted):
    return structure.read({"kind": "delete_files", "generation": 1, "deleted": deleted, "seed": 67005})


@given(st.integers(2, 40), st.sampled_from([MIB, 2 * MIB, 8 * MIB]), st.integers(1 << 30, 1 << 44))
def test_sizes_are_whole_pieces_that_fill_the_target(count, piece, capacity):
    sizes = prealloc.Interleave(1, count, piece).file_sizes(capacity)
    assert len(sizes) == count and max(sizes) - min(sizes) in (0, piece)
    assert all(size % piece == 0 for size in sizes)
    accounting_bytes = (
        capacity // piece * prealloc.MAP_BYTES + (count + 2) * prealloc.RESERVE_BYTES + prealloc.OWN_BYTES
    )
    assert capacity - accounting_bytes - piece < sum(sizes) <= capacity - accounting_bytes


def test_a_target_on_which_a_file_would_have_no_piece_is_refused():
    why = prealloc.Interleave(1, 20, 64 * MIB).unavailable_because(1 << 30)
    assert "preallocation_size: of 20 files some get no piece of 67108864 bytes in 1073741824. Give a smaller" in why
    assert prealloc.Interleave(1, 14, 64 * MIB).unavailable_because(1 << 30) is None


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_every_file_goes_once_and_in_the_same_order(seed, count):
    order = prealloc.DeleteFiles(1, count, seed).going(count)
    assert sorted(order) == list(range(count)) and order == prealloc.DeleteFiles(1, count, seed).going(count)


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
def test_pieces_lie_in_turns_and_nothing_else_is_free(local_target, filesystem):
    local_target["filesystem"] = filesystem
    claimed(local_target)
    full = bring(local_target, mingled(MIB))
    target = open_target(local_target)
    assert full["free_bytes"] < prealloc.OWN_BYTES, "slack hides what pieces cost; what it keeps for itself does not"
    pieces = [extent.length for index in range(FILES) for extent in fiemap.extents(path_of(target.mounts, 1, index))]
    assert sum(pieces) / len(pieces) < 1.3 * MIB, "a piece in its turn is an extent of its own"

    done = [bring(local_target, mingled(MIB), thinned(deleted)) for deleted in (1, 2, FILES)]
    assert len({each["instance"] for each in [full, *done]}) == 1, "each is reached from the one before"
    sizes = mingled(MIB).file_sizes(target.capacity_bytes)
    order = prealloc.DeleteFiles(1, FILES, 67005).going(FILES)
    for each, deleted in zip(done, (1, 2, FILES), strict=True):
        freed = each["free_bytes"] - full["free_bytes"]
        assert freed >= sum(sizes[index] for index in order[:deleted])
        assert each["achieved"][0]["deleted_files"] == deleted
    assert states.diagnose(local_target, {"steps": [mingled(MIB), thinned(2)]}, False)["todo"] == [
        "scrub",
        "interleave",
        "delete_files",
    ]
    assert bring(local_target)["files"] == 0, "clean is a state as well"


@pytest.mark.root
def test_files_written_together_fill_it_too(spec):
    done = bring(spec, mingled(2 * MIB, "together"), thinned(1))
    assert done["files"] == FILES  # of FILES and the one of what was left
    target = open_target(spec)
    verify(target.mounts, structure.read_all(done["done"]), target.capacity_bytes, {})
