"""Reading the files of workload file_requests by turns, in this process, and counting what reaches the device."""

from __future__ import annotations

import contextlib
import mmap
import os
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from fsage.api.host import Instrument
from fsage.api.model import Cell, Device, Failure, Json, counting
from fsage.layouts import fiemap
from fsage.layouts.fragmentation import Extent
from fsage.studies.kernels import host as modules

from .model import TASK

SECTOR_BYTES = 512
READS = 0
SECTORS = 2  # fields of a block device's stat (Documentation/block/stat.rst)
COUNTS = ("reads", "bytes", "requests", "requests_by_map", "jumps", "jump_bytes", "far_jumps")


class Reader:
    """A group's file, open past the cache, with where it lies."""

    def __init__(self, group: Json, extents: list[Extent]) -> None:
        self.name = group["name"]
        self.reads_a_turn = group["reads_a_turn"]
        self.extents = extents
        self.starts = [extent.logical for extent in extents]
        self.size = Path(group["path"]).stat().st_size
        self.descriptor = os.open(group["path"], os.O_RDONLY | os.O_DIRECT)
        self.offset = 0
        self.seen: Json = {**dict.fromkeys(COUNTS, 0), "extents": len(extents)}

    def pieces(self, size: int) -> list[tuple[int, int, int]]:
        """Where the next `size` bytes lie: place in the file, place on the device, length."""
        end = self.offset + size
        found = []
        for extent in self.extents[bisect_right(self.starts, self.offset) - 1 :]:
            if extent.logical >= end:
                break
            begin = max(extent.logical, self.offset)
            stop = min(extent.logical + extent.length, end)
            found.append((begin, extent.physical + begin - extent.logical, stop - begin))
        return found


class FileRequests(Instrument):
    """Its phases print the counts of each group."""

    task = TASK

    def unsupported(self, cell: Cell) -> str | None:
        params = cell["params"]
        if params.get("workload") != "file_requests" or "failed" in cell:
            return None
        name = params["scheduler"]
        modules.provide(name)
        [queue] = self.target.queues()
        offered = [word.strip("[]") for word in (queue / "scheduler").read_text(encoding="ascii").split()]
        if name in offered:
            return None
        return f"Linux {os.uname().release} offers {self.target.devices[0]} {', '.join(offered)}, not {name}"

    def do(self, task: Json, said: Json, check_alive: Callable[[], None]) -> None:
        [queue] = self.target.queues()
        (queue / "scheduler").write_text(task["scheduler"], encoding="ascii")  # the disk is this cell's own
        most_bytes = 1024 * int((queue / "max_sectors_kb").read_text(encoding="ascii"))
        with contextlib.ExitStack() as opened:
            readers = [Reader(group, self._extents(Path(group["path"]))) for group in task["groups"]]
            for reader in readers:
                opened.callback(os.close, reader.descriptor)
            _by_turns(queue.parent, readers, task["request_bytes"], most_bytes, check_alive)
        said.update(most_bytes=most_bytes, groups={reader.name: reader.seen for reader in readers})

    def _extents(self, path: Path) -> list[Extent]:
        """Where a file lies; telling it brings all that a file system must read for this into memory."""
        extents = fiemap.extents(path)
        system = self.target.system
        return system.on_device(self.target.mounts[0], extents) if system else extents


def _by_turns(
    device: Path, readers: list[Reader], request_bytes: int, most_bytes: int, check_alive: Callable[[], None]
) -> None:
    """Read until a file has ended. Raises Failure where other bytes reached the device than were read.

    `device`: its folder in sysfs.
    """
    buffer = memoryview(mmap.mmap(-1, request_bytes))
    at = None
    while all(reader.offset < reader.size for reader in readers):
        check_alive()
        for reader in readers:
            seen = reader.seen
            for _ in range(reader.reads_a_turn):
                if reader.offset >= reader.size:
                    break
                pieces = reader.pieces(request_bytes)
                before = _counted(device)
                size = os.preadv(reader.descriptor, [buffer], reader.offset)
                after = _counted(device)
                if size != request_bytes or after[1] - before[1] != size:
                    raise Failure(
                        f"group {reader.name} read {size} bytes of {request_bytes} at {reader.offset}, and "
                        f"{after[1] - before[1]} reached {device.name}: something else reads from it"
                    )
                seen["reads"] += 1
                seen["bytes"] += size
                seen["requests"] += after[0] - before[0]
                seen["requests_by_map"] += counting.requests(pieces, request_bytes, most_bytes)
                for _, place, length in pieces:
                    distance = 0 if at is None else abs(place - at)
                    seen["jumps"] += distance > 0
                    seen["jump_bytes"] += distance
                    seen["far_jumps"] += distance > Device.FAR_BYTES
                    at = place + length
                reader.offset += size


def _counted(device: Path) -> tuple[int, int]:
    """Reads that the device has completed, and their bytes."""
    fields = (device / "stat").read_text(encoding="ascii").split()
    return int(fields[READS]), int(fields[SECTORS]) * SECTOR_BYTES
