"""F2FS: how one is made, and its own call that moves a range of a file."""

from __future__ import annotations

import errno
import fcntl
import struct

from fsage.api.host import FileSystem, Mover

from . import model as facts

F2FS_IOC_DEFRAGMENT = 0xC010F508  # include/uapi/linux/f2fs.h
DEFRAGMENT = struct.Struct("=QQ")  # start, length


class Defragment(Mover):
    """The kernel writes the range anew, at the head of a log (fs/f2fs/file.c, f2fs_defragment_range)."""

    name = "F2FS_IOC_DEFRAGMENT"
    donor = False
    wants = "where F2FS writes over in place, as up to 16 GiB, kernels before 6.1 may move nothing"

    def move(self, descriptor: int, donor: int, part: tuple[int, int]) -> None:
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


FILESYSTEM = F2fs()
