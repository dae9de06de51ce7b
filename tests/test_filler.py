"""How filler is laid on real file systems: in turns, alike each time, and what real writes do in the same requests."""

import pytest
from small_filesystems import MIB, small

from fsage.host import filesystems
from fsage.host.structure import files
from fsage.layouts import fiemap
from fsage.model import filesystems as known
from fsage.studies.paf import host

pytestmark = pytest.mark.root
COUNT, SIZE = 4, 16 * MIB


def laid(filesystem, place, request_bytes, method):
    """Extents of COUNT files that grew at once on an empty file system."""
    with small(filesystem, place / f"{method}{request_bytes}") as made:
        paths = [made.point / str(number) for number in range(COUNT)]
        with filesystems.one_cpu():
            files.in_turns(paths, [SIZE] * COUNT, request_bytes, method)
        assert [path.stat().st_size for path in paths] == [SIZE] * COUNT
        return [fiemap.merged(fiemap.extents(path)) for path in paths]


@pytest.mark.parametrize("filesystem", known.names())
def test_files_that_grow_at_once_lie_in_turns_a_request_each(tmp_path, filesystem):
    """And real writes lie like fallocate, but on ext4, whose allocator gives who writes more than was asked for."""
    few, many = (laid(filesystem, tmp_path, size, "fallocate") for size in (4 * MIB, MIB))
    assert [len(each) for each in few] == [SIZE // (4 * MIB)] * COUNT
    assert [len(each) for each in many] == [SIZE // MIB] * COUNT
    written = laid(filesystem, tmp_path, MIB, "write")
    if filesystem == "ext4":
        assert all(1 <= len(each) < SIZE // MIB for each in written)
    elif filesystem == "btrfs":  # now and then a request or two are cut where the file system's own blocks lie
        assert all(SIZE // MIB <= len(extents) <= SIZE // MIB + 2 for extents in written)
    else:
        assert [len(extents) for extents in written] == [SIZE // MIB] * COUNT
    flushed = [len(extents) for extents in laid(filesystem, tmp_path, MIB, "buffered")]
    # Whole files are flushed at the end. The kernel may begin earlier on a busy machine, which cuts a file in two.
    assert all(1 <= extents <= 2 for extents in flushed), f"whole files are flushed: {flushed}"
    if filesystem != "btrfs":
        (tmp_path / "again").mkdir()
        assert laid(filesystem, tmp_path / "again", MIB, "write") == written, "the same files lie alike each time"


def test_batches_take_every_file_of_a_shard_once_and_so_many_of_a_store():
    for count, shards, stores, at_once in [(37, 3, 2, 4), (5, 2, 4, 16), (0, 1, 2, 4), (16, 4, 4, 1)]:
        seen = []
        for shard in range(shards):
            for batch in host.batches(range(shard, count, shards), stores, at_once):
                assert all(sum(index % stores == store for index in batch) <= at_once for store in range(stores))
                seen += batch
        assert sorted(seen) == list(range(count))
