"""Small files that must survive a kill: JSON that is written atomically, and a lock between processes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from fsage.base import Failure, Refusal
from fsage.host.system import kernel, places

PATIENCE_S = 60.0  # what is done under a lock of ours takes seconds


def write_json(path: Path | str, obj: object, mode: int = places.PRIVATE_FILE) -> None:
    """Write `obj` to `path` atomically and durably: temporary file, fsync, rename, fsync of the directory."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with places.naming(path), places.opened(path.parent, places.PRIVATE, sticky=True) as above:
        with contextlib.suppress(FileNotFoundError):  # a killed process with the same number may have left one
            os.unlink(temporary.name, dir_fd=above)
        try:
            with open(places.file_in(above, temporary, os.O_WRONLY | os.O_CREAT), "w", encoding="utf-8") as out:
                out.write(f"{json.dumps(obj, indent=1, sort_keys=True)}\n")
                out.flush()
                os.fchmod(out.fileno(), mode)
                os.fsync(out.fileno())
        except OSError:  # as of a full file system
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary.name, dir_fd=above)
            raise
        os.replace(temporary.name, path.name, src_dir_fd=above, dst_dir_fd=above)
        os.fsync(above)


def read_json(path: Path | str) -> Any:
    """The content of `path`, or None when there is no such file. Raises Failure when it is not JSON.

    Raises Refusal where others could have written it (fsage.host.system.places).
    """
    try:
        with open(places.file(path, os.O_RDONLY), encoding="utf-8") as text:
            return json.load(text)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Failure(f"{path} is not JSON ({error}); fsage writes it atomically, so somebody edited it") from error


Stamp = Optional[tuple[int, int, int, int]]


def stamp(path: Path | str) -> Stamp:
    """Inode, size and both times of a file, which change when it is written or replaced; None where it is missing."""
    try:
        seen = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def remove(path: Path | str) -> None:
    """Remove a file durably; a missing one is no error."""
    path = Path(path)
    with (
        contextlib.suppress(FileNotFoundError),
        places.naming(path),
        places.opened(path.parent, sticky=True) as above,
    ):
        os.unlink(path.name, dir_fd=above)
        os.fsync(above)


def sync_dir(path: Path | str) -> None:
    """Make a rename or removal in this directory durable."""
    with kernel.opened_folder(path) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def locked(path: Path | str) -> Iterator[None]:
    """Hold an exclusive lock (flock) on `path` while the block runs; the kernel unlocks when a process ends.

    Raises Refusal naming the holder after PATIENCE_S.
    """
    with kernel.closing(places.file(path, os.O_RDWR | os.O_CREAT)) as descriptor:
        for last in kernel.attempts(PATIENCE_S, 0.01):
            if lock(descriptor):
                break
            if last:
                raise Refusal(
                    f"{path} has been locked for {PATIENCE_S:.0f} s by {describe_holders(descriptor)}; nothing was "
                    "touched. Wait for it or stop it, then give the same command again"
                )
        yield


def lock(descriptor: int, shared: bool = False) -> bool:
    """Lock an open file if nobody else has locked it; whether it did."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def boot_id() -> str:
    """The id of this boot: notes of an earlier boot describe settings that the kernel has lost."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


SHOWN = 80  # characters of a command line


def describe_holders(descriptor: int) -> str:
    """The processes that hold a lock on an open file, described for a message."""
    inode = os.fstat(descriptor).st_ino
    device = _device_of(descriptor)
    numbers = []
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()  # 1: FLOCK ADVISORY WRITE 4711 fe:00:131090 0 EOF; who waits has -> as the second word
        if "->" not in words and words[5] == f"{device}:{inode}":
            numbers.append(int(words[4]))
    return (
        ", ".join(map(describe_process, sorted(set(numbers)))) or "a process that has just ended, or is on another host"
    )


def describe_process(pid: int) -> str:
    """A process, described by number, command line and start time."""
    if pid <= 0:
        return "a process of another host or of another namespace of process numbers"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        ticks = int(stat_of(pid)[19])
    except (OSError, IndexError):
        return f"process {pid}, which has ended, or a child of it"
    began = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    command = " ".join(word if word.isprintable() else ascii(word) for word in words)
    shown = command if len(command) <= SHOWN else command[: SHOWN - 3] + "..."
    return f"process {pid} (`{shown}`, since {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(began))})"


def stat_of(pid: int) -> list[str]:
    """What the kernel has of a process, proc(5): its state is the first, its start in ticks since boot number 19."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _device_of(descriptor: int) -> str:
    """The device of an open file's file system, as in /proc/locks; fstat(2) names another one for btrfs.

    A chroot's root, which is no mount, is not in the table of mounts: there fstat(2) has to do.
    """
    device = os.fstat(descriptor).st_dev
    major = os.major(device)
    minor = os.minor(device)
    fields = dict(line.split(":", 1) for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines())
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").split("\n")[:-1]:
        number, _, numbers = line.split(" ")[:3]
        if number == fields["mnt_id"].strip():
            major, minor = map(int, numbers.split(":"))
    return f"{major:02x}:{minor:02x}"
