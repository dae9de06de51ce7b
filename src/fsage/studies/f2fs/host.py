"""F2FS: how one is made, and what its kernel tells of it.

Its free space, while it is mounted, is from /proc/fs/f2fs/DEVICE/segment_bits: a bitmap of the blocks in use of each
segment (fs/f2fs/sysfs.c). Where segments begin is in the superblock (fs/f2fs/f2fs_fs.h). What F2FS holds back for its
cleaning is in free segments, and counts as free; the bitmaps do not tell it from the rest. Its own tables lie before
the first segment, and are in use.
"""

from __future__ import annotations

import errno
import fcntl
import struct
from collections.abc import Iterator
from pathlib import Path

from fsage.host.stores.filesystem import FileSystem, Mover, Range
from fsage.model.errors import Failure
from fsage.model.evidence.freespace import Counting
from fsage.model.evidence.store import Geometry, Store, of_extents
from fsage.studies.f2fs import model as facts

F2FS_IOC_DEFRAGMENT = 0xC010F508  # include/uapi/linux/f2fs.h
DEFRAGMENT = struct.Struct("=QQ")  # start, length
SUPERBLOCK_AT = 1024
SUPERBLOCK = struct.Struct("<L12xLL12xQ48xL")  # magic, log2 of block bytes and of blocks a segment, blocks, first one
MAGIC = 0xF2F52010
HEAD_LINES = 2  # of segment_bits


class Defragment(Mover):
    """The kernel writes the range anew, at the head of a log (fs/f2fs/file.c, f2fs_defragment_range)."""

    name = "F2FS_IOC_DEFRAGMENT"
    donor = False
    wants = "where F2FS writes over in place, as up to 16 GiB, kernels before 6.1 may move nothing"

    def move(self, descriptor: int, donor: int, part: Range) -> None:
        begin, end = part
        try:
            fcntl.ioctl(descriptor, F2FS_IOC_DEFRAGMENT, DEFRAGMENT.pack(begin, end - begin))
        except OSError as error:
            if error.errno == errno.EINVAL:  # "if in-place-update policy is enabled, don't waste time here"
                raise OSError(errno.EOPNOTSUPP, error.strerror) from error
            if error.errno == errno.EAGAIN:
                raise OSError(errno.ENOSPC, f"{end - begin} bytes need free segments, and there are too few") from error
            raise


class F2fs(FileSystem, facts.F2fs):
    """F2FS, with no cleaning in the background: that would move blocks beside a cell."""

    programs = ("mkfs.f2fs",)
    options = "nodiscard,background_gc=off"
    mover = Defragment()
    no_preallocation = "F2FS has no preallocation to set: a block has its place when it is written"

    def make_command(self, fs_uuid: str, hash_seed: str) -> list[str]:
        # -f overwrites fsage's own last file system; -t 0: no discard. -r and -T: the same number and time each time.
        return ["mkfs.f2fs", "-q", "-f", "-t", "0", "-r", "-T", "0", "-U", fs_uuid]

    def free_space(self, device: str, mount: Path, counting: Counting) -> Store:
        path = Path("/proc/fs/f2fs") / Path(device).name / "segment_bits"
        try:
            lines = path.read_text(encoding="ascii").splitlines()[HEAD_LINES:]
        except FileNotFoundError:
            raise Failure(f"{path} is not there, which alone tells which blocks of F2FS are free") from None
        block_bytes, segment_blocks, blocks, first = _superblock(device)
        geometry = Geometry(blocks * block_bytes, block_bytes, segment_blocks * block_bytes, first * block_bytes)
        free = ((begin * block_bytes, length * block_bytes) for begin, length in _free(lines, segment_blocks, first))
        source = "F2FS' bitmaps of segments (/proc/fs/f2fs), with what it holds back for cleaning"
        store = of_extents(self.name, source, "segment", geometry, free, counting)
        store.unlike = (
            "its free blocks are written by logs, segment by segment, and no list of them says in which order"
        )
        return store


def _superblock(device: str) -> tuple[int, int, int, int]:
    """Bytes of a block, blocks of a segment, blocks of the device, and the first one of the first segment."""
    with open(device, "rb") as file:
        file.seek(SUPERBLOCK_AT)
        magic, block_power, segment_power, blocks, first = SUPERBLOCK.unpack(file.read(SUPERBLOCK.size))
    if magic != MAGIC:
        raise Failure(f"{device} has no superblock of F2FS")
    return 1 << block_power, 1 << segment_power, blocks, first


def _free(lines: list[str], segment_blocks: int, first: int) -> Iterator[tuple[int, int]]:
    """Free runs, in blocks: `number type|used| bytes`, the first block in the highest bit of the first byte."""
    for number, line in enumerate(lines):
        used = "".join(f"{byte:08b}" for byte in bytes.fromhex(line.rpartition("|")[2]))
        at = used.find("0")
        while at >= 0:
            end = used.find("1", at)
            if end < 0:
                end = segment_blocks
            yield first + number * segment_blocks + at, end - at
            at = used.find("0", end)


FILESYSTEM = F2fs()
