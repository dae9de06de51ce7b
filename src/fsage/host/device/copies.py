"""Whole file systems that are copied: from metadata images, and between sparse files, without what is not there.

The beginning comes last: a copy that was killed before its end is no file system. Sparse files share their blocks where
the file system below can (reflink).

Metadata images of other file systems (e2image -Q, xfs_metadump, btrfs-image) have all but the contents of their files.
An image is untrusted input. Its tool restores it into a sparse file as user nobody, who owns nothing else. A superblock
that names another device, or mount options, is refused. The file system's own fsck checks it, and it gets a new UUID.
Only then is it written onto a device that fsage made.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import pwd
import shutil
import stat
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from fsage.base import Failure
from fsage.base.shell import run
from fsage.host import filesystems
from fsage.host.filesystems import FileSystem
from fsage.host.system import kernel, places

MOST_BYTES = 8 << 30
"""Most bytes of an image."""
TIMEOUT_S = 1800
COPY_BYTES = 4 << 20
FIRST_BYTES = 1 << 20
"""What tells a file system, its first superblocks, lies within; it is written last."""
FICLONERANGE = 0x4020940D
RANGE = struct.Struct("=qQQQ")  # linux/fs.h: descriptor, offset, length, offset there
NO_REFLINK = {errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EXDEV}
NOBODY = "nobody"
# btrfs' tools look whether what they are given is mounted, and open every loop device with a btrfs on it for that,
# which nobody may not. So they see none: a mount namespace of their own lacks them. What is unmounted there stays in
# fsage's namespace, whose mounts hand nothing on (and unshare(1) cannot see to that in a chroot).
ALONE = (
    *("unshare", "--mount", "--propagation", "unchanged", "--"),
    *("sh", "-c", 'umount --all --types "$1" 2>/dev/null; shift; exec "$@"', "sh"),
)


@contextlib.contextmanager
def restored(filesystem: str, image: Path, digest: str, folder: Path, fs_uuid: str, most_bytes: int) -> Iterator[Path]:
    """The file system in an image, in a sparse file below `folder`, checked and with this UUID, while the block runs.

    `digest`: SHA-256 of the image; `most_bytes`: what it may be restored to. Raises Failure.
    """
    places.remove(folder)  # a killed command's
    places.make(folder)
    nobody = pwd.getpwnam(NOBODY)
    try:
        own = folder / "image"
        raw = folder / "raw"
        _copy(image, digest, own)
        raw.touch(0o600)
        for path in (folder, own, raw):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        limit = ["prlimit", f"--fsize={most_bytes}", "--"]
        made_of = filesystems.named(filesystem)
        restore, *checks = made_of.restoring(own.name, raw.name, fs_uuid)
        try:
            _as_nobody([*limit, *restore], filesystem, folder)
            _refuse_more_than_itself(made_of, raw, folder)  # before fsck looks for what it names
            for command in checks:  # xfs_repair wants no limit of its own
                _as_nobody(command, filesystem, folder)
            _refuse_more_than_itself(made_of, raw, folder)  # as the kernel will read it
        except Failure as why:
            raise Failure(f"the metadata image {image.name} is not taken: {why}") from why
        os.chown(folder, 0, 0)
        yield raw
    finally:
        os.chown(folder, 0, 0)
        shutil.rmtree(folder)


def _as_nobody(command: Sequence[str], filesystem: str, folder: Path) -> str:
    """Run a file system's own tool on what is in `folder`; what it prints. Raises Failure.

    Nobody may not pass through where fsage keeps its notes: names are those of the folder that it runs in.
    """
    nobody = pwd.getpwnam(NOBODY)
    ids = (f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", "--no-new-privs")
    return run([*ALONE, filesystem, "setpriv", *ids, "--", *command], cwd=folder, timeout=TIMEOUT_S).stdout


def _refuse_more_than_itself(filesystem: FileSystem, raw: Path, folder: Path) -> None:
    """Failure where the superblock has the kernel use another device, or other mount options than fsage's."""
    text = _as_nobody(filesystem.superblock(raw.name), filesystem.name, folder)
    why = filesystem.why_more_than_itself(text)
    if why:
        raise Failure(f"its superblock has {why}")


def _copy(image: Path, digest: str, to: Path) -> None:
    """Copy an image, whoever owns it, and see that it is the one that was named. Raises Failure."""
    try:
        source = os.open(image, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Failure(
            f"the metadata image {image} cannot be read on {os.uname().nodename}: {error.strerror}"
        ) from error
    with open(source, "rb") as original, open(places.file(to, os.O_WRONLY | os.O_CREAT), "wb") as copy:
        about = os.fstat(source)
        seen = hashlib.sha256()
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
            raise Failure(f"{image} is no metadata image: a file of at most {MOST_BYTES >> 30} GiB is wanted")
        while block := original.read(COPY_BYTES):
            seen.update(block)
            copy.write(block)
        if seen.hexdigest() != digest:
            raise Failure(f"the metadata image {image} is another one than the request names; give the command again")


def write(raw: Path, device: str) -> int:
    """Write a sparse file onto a device, its beginning last; the bytes that it holds.

    Holes are written as zeros. Otherwise old content of the device, such as the log of another file system in the same
    place, could be taken for a part of this one.
    """
    with (
        kernel.opened(raw, os.O_RDONLY | os.O_NOFOLLOW) as source,
        kernel.opened(device, os.O_WRONLY | os.O_EXCL) as to,
    ):
        size = os.fstat(source).st_size
        held_bytes = sum(end - begin for begin, end in data_ranges(source, 0, size))
        for begin, end in ((FIRST_BYTES, size), (0, min(FIRST_BYTES, size))):
            _copy_range(source, to, begin, end)
            os.fsync(to)
        return held_bytes


def clone(source: Path, to: Path) -> None:
    """Have a file hold what another of its size does, its beginning last: blocks are shared where they can be.

    Killed before its end, it leaves a file without a file system. Raises Failure, OSError.
    """
    with (
        kernel.opened(source, os.O_RDONLY | os.O_NOFOLLOW) as own,
        kernel.opened(to, os.O_RDWR | os.O_NOFOLLOW) as new,
    ):
        size = os.fstat(own).st_size
        if size != os.fstat(new).st_size:
            raise Failure(f"{source} has {size} bytes, and {to} another number: nothing was copied")
        _punch(new, 0, FIRST_BYTES)
        os.fsync(new)
        for begin, end in ((FIRST_BYTES, size), (0, FIRST_BYTES)):
            try:
                fcntl.ioctl(new, FICLONERANGE, RANGE.pack(own, begin, end - begin, begin))
            except OSError as error:
                if error.errno not in NO_REFLINK:
                    raise
                _punch(new, begin, end)
                for part in data_ranges(own, begin, end):
                    _copy_range(own, new, *part)
            os.fsync(new)


def _copy_range(source: int, to: int, begin: int, end: int) -> None:
    while begin < end:
        block = os.pread(source, min(COPY_BYTES, end - begin), begin)
        if not block:
            raise Failure("the restored file system ended before its size")
        begin += os.pwrite(to, block, begin)


def data_ranges(descriptor: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a range that a sparse file holds."""
    while begin < end:
        try:
            begin = os.lseek(descriptor, begin, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # none is left
                return
            raise
        stop = min(end, os.lseek(descriptor, begin, os.SEEK_HOLE))
        if begin < stop:
            yield begin, stop
        begin = stop


def _punch(descriptor: int, begin: int, end: int) -> None:
    kernel.allocate(descriptor, kernel.KEEP_SIZE | kernel.PUNCH_HOLE, begin, end - begin)
