"""The layout of ext4 (and ldiskfs, ext3, ext2) as dumpe2fs shows it, from the program or from its saved text.

dumpe2fs reads the bitmaps through the block device's page cache, where the kernel of a mounted ext4 changes them: what
it lists is what statfs(2) counts, once the file system is synchronised. FS_IOC_GETFSMAP would leave out what the
allocator has set aside for small files, up to 2 MiB a CPU, which comes back at the next mount. The header's own count
of free blocks is brought up to date at umount only. `mb_groups` is not read: in several ldiskfs series that ends in a
read-only target.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from typing import Any

from fsage.agent.errors import Failure
from fsage.agent.evidence.freespace import BINS, FreeSpace
from fsage.agent.evidence.groups import Groups
from fsage.agent.evidence.store import OF_EXTENTS, NotThisText, Store, without

HEADER = re.compile(rb"([A-Z][^:]*): +(\S.*)")
GROUP = re.compile(rb"Group (\d+): \(Blocks (\d+)-(\d+)\)")
COUNTS = re.compile(rb"  (\d+) free (?:blocks|clusters), (\d+) free inodes")
FREE = b"  Free blocks: "
ATTEMPTS, CHANGED = 5, "checksum does not match"
NEEDED = (b"Block count", b"Block size", b"First block", b"Blocks per group", b"Inodes per group", b"Free blocks")


def of_device(device: str, bins: int = BINS) -> Store:
    """The store on a device, mounted or not; read-only. Raises Failure.

    Where files come and go, a bitmap may be read after the checksum that belongs to it was: then once more.
    """
    attempt = 1
    while True:
        try:
            return _of_device(device, bins)
        except Failure as error:
            if attempt == ATTEMPTS or CHANGED not in str(error):
                raise
            attempt += 1


def _of_device(device: str, bins: int) -> Store:
    command = f"dumpe2fs {device}"
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                ["dumpe2fs", device],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                env={**os.environ, "LC_ALL": "C"},
            )
        except FileNotFoundError as error:
            raise Failure(f"dumpe2fs: no such program on {os.uname().nodename}; install e2fsprogs") from error
        with process:
            assert process.stdout is not None
            try:
                store = of_text(process.stdout, bins)
            except NotThisText as error:
                process.stdout.close()
                if process.wait() <= 0:
                    raise Failure(f"`{command}`: {error}") from error
        if process.returncode:
            said.seek(0)
            words = said.read().decode(errors="replace").splitlines()[1:]  # without the version
            raise Failure(
                f"`{command}` ended with status {process.returncode}: {'; '.join(words) or 'it said nothing'}"
            )
    return store


def of_text(lines: Iterable[bytes], bins: int = BINS) -> Store:
    """The store in dumpe2fs' text, read line by line and not kept. Raises NotThisText.

    dumpe2fs -h gives the header alone; then what needs groups is absent.
    """
    lines = iter(lines)
    head: dict[bytes, bytes] = {}
    first_group, line = None, b""
    for line in lines:
        if GROUP.match(line):
            first_group = line
            break
        if match := HEADER.match(line):
            head[match[1]] = match[2].strip()
    if lacking := [name.decode() for name in NEEDED if name not in head]:
        raise NotThisText(f"the header of dumpe2fs lacks {', '.join(lacking)}: not its text, or cut short")
    if first_group is None and line != b"\n":  # what both `dumpe2fs` and `dumpe2fs -h` write below the header
        raise NotThisText("the header of dumpe2fs has no end: it was cut short")
    try:
        blocks, block_bytes, first, per_group, inodes, free = (int(head[name]) for name in NEEDED)
        unit_blocks = int(head.get(b"Cluster size", block_bytes)) // block_bytes
        if min(blocks, block_bytes, per_group) <= 0:
            raise ValueError(f"{blocks} blocks of {block_bytes} bytes, {per_group} a group")
    except (ValueError, ZeroDivisionError) as error:
        raise NotThisText(f"the header of dumpe2fs has numbers that cannot be: {error}") from error
    found: dict[str, Any] = {"device_bytes": blocks * block_bytes, "block_bytes": block_bytes}
    absent = {"files": "dumpe2fs lists no files"}
    if first_group is None:
        found["free_bytes"] = free * block_bytes
        found["used_bytes"] = (blocks - free) * block_bytes
        found["fullness_percent"] = 100 * (blocks - free) / blocks
        absent.update(without((*OF_EXTENTS, "groups"), "dumpe2fs -h lists no groups"))
        return Store("ext4", {"free": "dumpe2fs -h (the superblock's count, of the last umount)"}, found, absent)
    reader = _Groups(FreeSpace(blocks * block_bytes, block_bytes, bins), block_bytes, inodes, unit_blocks)
    reader.read(first_group, lines, expected=-(-(blocks - first) // per_group))
    found.update(reader.free.summary())
    found["groups"] = reader.groups.summary()
    source = "dumpe2fs (block bitmaps)"
    if reader.disagreeing:
        source += f"; {reader.disagreeing} groups list more or less free than they count: in use while it was read"
    return Store("ext4", {"free": source}, found, absent)


class _Groups:
    """The part of the text that lists groups."""

    def __init__(self, free: FreeSpace, block_bytes: int, inodes: int, unit_blocks: int) -> None:
        self.free, self.groups = free, Groups("block group")
        self.block_bytes, self.inodes = block_bytes, inodes
        self.unit_bytes = unit_blocks * block_bytes  # with bigalloc a cluster, which dumpe2fs names by its first block
        self.disagreeing = 0

    def read(self, line: bytes, lines: Iterable[bytes], expected: int) -> None:
        """Read all groups, the first of which begins with `line`. Raises NotThisText."""
        size_bytes = self._begin(line, 0)
        counts = free_bytes = None
        for line in lines:
            if line.startswith(FREE):
                free_bytes = self._free(line)
            elif line.startswith(b"Group "):
                self._end(size_bytes, counts, free_bytes)
                counts = free_bytes = None
                size_bytes = self._begin(line, self.groups.count)
            elif b" free inodes, " in line:
                counts = COUNTS.match(line)
        self._end(size_bytes, counts, free_bytes)
        if self.groups.count != expected or not line.endswith(b"\n"):
            raise NotThisText(f"dumpe2fs' text ends with group {self.groups.count - 1} of {expected}: it was cut short")

    def _begin(self, line: bytes, number: int) -> int:
        match = GROUP.match(line)
        if not match or int(match[1]) != number:
            raise NotThisText(f"dumpe2fs' text goes on with {line[:60]!r} where group {number} should begin")
        return (int(match[3]) - int(match[2]) + 1) * self.block_bytes

    def _free(self, line: bytes) -> int:
        """Count the runs in a list such as `9305-32767, 33000`; return their bytes."""
        block_bytes, unit_bytes = self.block_bytes, self.unit_bytes
        extents = []
        try:
            for run in line[len(FREE) :].split(b", ") if len(line) > len(FREE) + 1 else ():
                first, _, last = run.partition(b"-")
                start = int(first)
                extents.append((start * block_bytes, (int(last or first) - start) * block_bytes + unit_bytes))
            self.free.add(extents)
        except ValueError as error:
            raise NotThisText(f"dumpe2fs' list of free blocks in group {self.groups.count}: {error}") from error
        return sum(length for _, length in extents)

    def _end(self, size_bytes: int, counts: re.Match[bytes] | None, free_bytes: int | None) -> None:
        if counts is None or free_bytes is None:
            raise NotThisText(f"dumpe2fs lists no free blocks for group {self.groups.count}: the text was cut short")
        self.disagreeing += int(counts[1]) * self.unit_bytes != free_bytes
        self.groups.add(size_bytes, free_bytes, self.inodes, int(counts[2]))
