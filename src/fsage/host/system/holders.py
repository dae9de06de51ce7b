"""The holders of a lock on a file, from /proc/locks, and a description of a process."""

from __future__ import annotations

import os
import time
from pathlib import Path

SHOWN = 80  # characters of a command line


def describe(descriptor: int) -> str:
    """The processes that hold a lock on an open file, described for a message."""
    inode, device = os.fstat(descriptor).st_ino, _device(descriptor)
    numbers = []
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        words = line.split()  # 1: FLOCK ADVISORY WRITE 4711 fe:00:131090 0 EOF; who waits has -> as the second word
        if "->" not in words and words[5] == f"{device}:{inode}":
            numbers.append(int(words[4]))
    return ", ".join(map(process, sorted(set(numbers)))) or "a process that has just ended, or is on another host"


def process(pid: int) -> str:
    """A process, described by number, command line and start time."""
    if pid <= 0:
        return "a process of another host or of another namespace of process numbers"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])  # proc(5), stat, field 22
    except (OSError, IndexError):
        return f"process {pid}, which has ended, or a child of it"
    began = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    command = " ".join(word if word.isprintable() else ascii(word) for word in words)
    shown = command if len(command) <= SHOWN else command[: SHOWN - 3] + "..."
    return f"process {pid} (`{shown}`, since {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(began))})"


def _device(descriptor: int) -> str:
    """The device of an open file's file system, as in /proc/locks; fstat(2) names another one for btrfs."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines())
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        number, _, device = line.split(" ")[:3]
        if number == fields["mnt_id"].strip():
            major, minor = map(int, device.split(":"))
            return f"{major:02x}:{minor:02x}"
    return "unknown"
