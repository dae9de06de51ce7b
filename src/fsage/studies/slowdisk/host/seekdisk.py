"""A disk that charges for seeks: one file, offered through FUSE, each request as slow as on a spinning disk.

    python3 -m fsage.studies.slowdisk.host.seekdisk BACKING MOUNT COSTS

serves MOUNT/disk, as large as BACKING, until MOUNT is unmounted, in a process of its own: the command itself ends as
soon as it is mounted. That process has BACKING locked (fcntl(2), F_SETLK), and the mount's source names it.

The disk has one arm, so requests are served one after the other. A request takes its bytes at the rate. Before them it
takes a seek, unless it begins where the last request ended, whether a read or a write. Each deadline follows from the
one before, so the server's own time is hidden as long as it is shorter. BACKING is read and written with O_DIRECT.
COSTS (JSON, `Costs`) may add faster outer tracks, noise and drift.

Speaks the kernel's protocol on /dev/fuse itself (include/uapi/linux/fuse.h, version 7.31): a file, a directory and
a dozen kinds of request need no library.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import mmap
import os
import random
import stat
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Union

from fsage.api.host import Call, kernel, leave_mounts, mounting
from fsage.api.model import Json, in_words

FUSE = "/dev/fuse"
PR_SET_TIMERSLACK = 29
PR_SET_IO_FLUSHER = 57  # prctl(2)
MAJOR = 7
MINOR = 31
MAX_REQUEST_BYTES = 1 << 20  # 256 pages: the most that FUSE moves at once
PAGE_BYTES = 4096
ROOT = 1
DISK = 2  # inode numbers
NAME = b"disk"
SOURCE = "fsage-seekdisk-"  # of the mount; the number of the process follows
PAUSE_S = 0.05  # longer than a program at work leaves between two requests, shorter than between two phases

LOOKUP = 1
FORGET = 2
GETATTR = 3
SETATTR = 4
OPEN = 14
READ = 15
WRITE = 16
STATFS = 17
RELEASE = 18
FSYNC = 20
FLUSH = 25
INIT = 26
OPENDIR = 27
READDIR = 28
RELEASEDIR = 29
INTERRUPT = 36
DESTROY = 38
BATCH_FORGET = 42
FALLOCATE = 43
UNANSWERED = (FORGET, INTERRUPT, BATCH_FORGET)

FUSE_ASYNC_READ = 1 << 0
FUSE_BIG_WRITES = 1 << 5
FUSE_ASYNC_DIO = 1 << 15
FUSE_MAX_PAGES = 1 << 22
FOPEN_DIRECT_IO = 1 << 0
ATTRIBUTES_VALID_S = 3600

IN_HEADER = struct.Struct("<IIQQIIIHH")  # len opcode unique nodeid uid gid pid total_extlen padding
OUT_HEADER = struct.Struct("<IiQ")  # len error unique
INIT_IN = struct.Struct("<IIII")  # major minor max_readahead flags
INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")  # … max_write time_gran max_pages map_alignment flags2
ATTR = struct.Struct(
    "<QQQQQQIIIIIIIIII"
)  # ino size blocks atime mtime ctime (ns: 3) mode nlink uid gid rdev blksize flags
ATTR_OUT = struct.Struct("<QII")  # valid valid_nsec dummy
ENTRY_OUT = struct.Struct("<QQQQII")  # nodeid generation entry_valid attr_valid (nsec: 2)
OPEN_OUT = struct.Struct("<QIi")  # fh open_flags backing_id
RW_IN = struct.Struct("<QQIIQII")  # fh offset size flags lock_owner flags padding
WRITE_OUT = struct.Struct("<II")  # size padding
FALLOCATE_IN = struct.Struct("<QQQII")  # fh offset length mode padding
GIVE_BACK = kernel.KEEP_SIZE | kernel.PUNCH_HOLE
STATFS_OUT = struct.Struct("<QQQQQIIII24x")  # blocks bfree bavail files ffree bsize namelen frsize padding


Buffer = Union[bytes, memoryview]
CONTENT = mmap.mmap(-1, MAX_REQUEST_BYTES)  # page-aligned, as O_DIRECT asks
REQUEST = mmap.mmap(-1, MAX_REQUEST_BYTES + PAGE_BYTES)


@dataclass(frozen=True)
class Costs:
    """The costs of a disk's requests.

    - bytes_per_s: rate at the first block;
    - seek_s: time of a request that does not begin where the last one ended, beside its bytes;
    - outer_to_inner: rate at the first block over that at the last; between them it falls linearly;
    - noise_cov: coefficient of variation of a factor on all times, lognormal with median 1. It is drawn anew for each
      burst of requests, after PAUSE_S without any;
    - drift_percent_per_hour: how much faster (negative: slower) all gets in an hour since `since_s`, a time of the
      epoch.
    """

    bytes_per_s: float
    seek_s: float
    outer_to_inner: float = 1.0
    noise_cov: float = 0.0
    noise_seed: int = 1
    drift_percent_per_hour: float = 0.0
    since_s: float = 0.0

    @classmethod
    def of(cls, parameters: Json) -> Costs:
        """Those of a claimed device model, with defaults for what the claim does not name."""
        return cls(**{field.name: parameters[field.name] for field in fields(cls) if field.name in parameters})

    def rate(self, share: float) -> float:
        """Bytes a second at a place, as a share of the size."""
        return self.bytes_per_s * (1 - (1 - 1 / self.outer_to_inner) * share)

    def drift(self, now_s: float) -> float:
        """The factor on all rates at a time of the epoch; never below a tenth."""
        return max(0.1, 1 + self.drift_percent_per_hour / 100 * (now_s - self.since_s) / 3600)


class Arm:
    """Where the arm is and until when it is busy: what the next request costs, in seconds."""

    def __init__(self, costs: Costs, size_bytes: int) -> None:
        self.costs = costs
        self.size_bytes = size_bytes
        self.position_bytes = 0
        self.busy_until_s = 0.0
        self.noise = random.Random(costs.noise_seed)
        self.sigma = math.sqrt(math.log1p(costs.noise_cov**2))
        self.factor = 1.0

    def deadline_s(self, now_s: float, offset_bytes: int, length_bytes: int) -> float:
        """The moment at which a request that arrived at `now_s` (monotonic) is done; the arm is at its end then.

        One that goes on where the last ended may come late by the time of a request: a disk's own buffer streams on
        meanwhile. Without this, the way through the kernel would be added to each.
        """
        if now_s - self.busy_until_s > PAUSE_S:
            self.factor = math.exp(self.sigma * self.noise.gauss(0, 1)) / self.costs.drift(time.time())
        rate = self.costs.rate((offset_bytes + length_bytes / 2) / self.size_bytes)
        if offset_bytes == self.position_bytes:
            begin_s = max(self.busy_until_s, now_s - MAX_REQUEST_BYTES / rate)
        else:
            begin_s = max(self.busy_until_s, now_s) + self.costs.seek_s * self.factor
        self.busy_until_s = begin_s + length_bytes / rate * self.factor
        self.position_bytes = offset_bytes + length_bytes
        return self.busy_until_s


class Disk:
    """Serves the requests of one mount."""

    flags = os.O_RDWR | os.O_DIRECT

    def __init__(self, backing: Path, costs: Costs) -> None:
        self.backing = os.open(backing, self.flags)
        fcntl.lockf(self.backing, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.size_bytes = os.fstat(self.backing).st_size
        self.arm = Arm(costs, self.size_bytes)
        self.answers: dict[int, Callable[[int, memoryview], Buffer]] = {
            INIT: self.init,
            LOOKUP: self.lookup,
            GETATTR: self.getattr,
            SETATTR: self.getattr,
            OPEN: lambda node, body: OPEN_OUT.pack(0, FOPEN_DIRECT_IO, 0),
            OPENDIR: lambda node, body: OPEN_OUT.pack(0, 0, 0),
            READDIR: lambda node, body: b"",
            READ: self.read,
            WRITE: self.write,
            STATFS: self.statfs,
            FSYNC: self.fsync,
            FALLOCATE: self.give_back,
            **dict.fromkeys((RELEASE, RELEASEDIR, FLUSH, DESTROY), lambda node, body: b""),
        }

    def serve(self, device: int) -> None:
        """Answer until the file system is unmounted."""
        while True:
            try:
                length = os.readv(device, [REQUEST])
            except OSError as error:
                if error.errno == errno.ENODEV:  # unmounted
                    return
                if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):  # taken back meanwhile
                    continue
                raise
            _, opcode, unique, node, *_ = IN_HEADER.unpack_from(REQUEST)
            if opcode in UNANSWERED:
                continue
            body: Buffer = b""
            failure = 0
            answer = self.answers.get(opcode)
            try:
                if answer is None:
                    raise OSError(errno.ENOSYS, "not offered")
                body = answer(node, memoryview(REQUEST)[IN_HEADER.size : length])
            except OSError as error:
                failure = error.errno or errno.EIO
            try:
                os.writev(device, [OUT_HEADER.pack(OUT_HEADER.size + len(body), -failure, unique), body])
            except FileNotFoundError:  # interrupted meanwhile: nobody waits for it
                continue

    def init(self, node: int, body: memoryview) -> bytes:
        _major, _minor, readahead, offered = INIT_IN.unpack_from(body)
        flags = offered & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES)
        pages = MAX_REQUEST_BYTES // PAGE_BYTES
        return INIT_OUT.pack(MAJOR, MINOR, readahead, flags, 64, 48, MAX_REQUEST_BYTES, 1, pages, 0, 0)

    def attributes(self, node: int) -> bytes:
        if node not in (ROOT, DISK):
            raise OSError(errno.ENOENT, "no such file")
        mode, size = (stat.S_IFDIR | 0o700, 0) if node == ROOT else (stat.S_IFREG | 0o600, self.size_bytes)
        return ATTR.pack(node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, PAGE_BYTES, 0)

    def lookup(self, node: int, body: memoryview) -> bytes:
        if node != ROOT or bytes(body).rstrip(b"\0") != NAME:
            raise OSError(errno.ENOENT, "no such file")
        valid = ATTRIBUTES_VALID_S
        return ENTRY_OUT.pack(DISK, 0, valid, valid, 0, 0) + self.attributes(DISK)

    def getattr(self, node: int, body: memoryview) -> bytes:
        return ATTR_OUT.pack(ATTRIBUTES_VALID_S, 0, 0) + self.attributes(node)

    def statfs(self, node: int, body: memoryview) -> bytes:
        return STATFS_OUT.pack(self.size_bytes // PAGE_BYTES, 0, 0, 2, 0, PAGE_BYTES, 255, PAGE_BYTES, 0)

    def fsync(self, node: int, body: memoryview) -> bytes:
        os.fdatasync(self.backing)
        return b""

    def give_back(self, node: int, body: memoryview) -> bytes:
        """Give back the blocks below a range (discard), which takes no time; nothing else that fallocate(2) can do."""
        _, offset, length, mode, _ = FALLOCATE_IN.unpack_from(body)
        if mode != GIVE_BACK:
            raise OSError(errno.EOPNOTSUPP, "not offered")
        kernel.allocate(self.backing, mode, offset, length)
        return b""

    def read(self, node: int, body: memoryview) -> Buffer:
        _, offset, size, *_ = RW_IN.unpack_from(body)
        deadline = self.arm.deadline_s(time.monotonic(), offset, size)
        content = self.fetch(offset, size)
        _sleep_until(deadline)
        return content

    def write(self, node: int, body: memoryview) -> bytes:
        _, offset, size, *_ = RW_IN.unpack_from(body)
        deadline = self.arm.deadline_s(time.monotonic(), offset, size)
        done = self.store(offset, body[RW_IN.size : RW_IN.size + size])
        _sleep_until(deadline)
        return WRITE_OUT.pack(done, 0)

    def fetch(self, offset: int, size: int) -> Buffer:
        """Bytes of the backing file. Raises OSError."""
        content = memoryview(CONTENT)[:size]
        got = os.preadv(self.backing, [content], offset)
        return content[:got]

    def store(self, offset: int, content: memoryview) -> int:
        """Write to the backing file; how many bytes were. Raises OSError."""
        aligned = memoryview(CONTENT)[: len(content)]  # as O_DIRECT asks
        aligned[:] = content
        return os.pwritev(self.backing, [aligned], offset)


def _sleep_until(deadline_s: float) -> None:
    left = deadline_s - time.monotonic()
    if left > 0:
        time.sleep(left)


def serve(disk: Disk, point: str, mounted: Call) -> None:
    """Mount a disk at `point`, call `mounted`, and serve until unmounted. Its backing file stays open, and locked."""
    device = os.open(FUSE, os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,max_read={MAX_REQUEST_BYTES}"
    mounting.mount_call(f"{SOURCE}{os.getpid()}", point, "fuse", 0, options)
    with contextlib.suppress(PermissionError):  # a container may keep it from us
        os.setpriority(os.PRIO_PROCESS, 0, -20)  # a disk does not wait for a processor, whoever started it
    # Timers of the kernel may be late by 50 us otherwise: as long as a small request takes.
    kernel.library.prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0)  # ns
    # Memory that we need must not be made free by writing to ourselves.
    kernel.library.prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0)
    mounted()
    disk.serve(device)
    os.close(device)


def main(backing: str, point: str, costs: str) -> None:
    """Leave a process that serves the disk, and return when it is mounted; exit status 1 if it cannot be."""
    ready, tell = os.pipe()
    if os.fork():
        os.close(tell)
        sys.exit(0 if os.read(ready, 1) else 1)
    os.setsid()  # ends by being unmounted, whoever is interrupted meanwhile

    def mounted() -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        os.write(tell, b"!")
        os.close(tell)
        # A file system on this disk is mounted in fsage's namespace. When the last process of a namespace ends, the
        # kernel unmounts what is there, before it closes that process's files (do_exit). If that process were this one,
        # which then answers no more, the kernel would wait for ever, and every sync of the machine too. So it was when
        # a container was killed, whose first process is in the namespace that keeps fsage's.
        with contextlib.suppress(OSError):
            leave_mounts()

    try:
        # The lock on the image ends with this process, so who sees no lock knows that the process is gone.
        serve(Disk(Path(backing), Costs(**json.loads(costs))), point, mounted)
    except OSError as error:
        sys.exit(f"{backing} cannot be served at {point}: {in_words(error)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
