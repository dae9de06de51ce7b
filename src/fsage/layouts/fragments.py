"""How the files below some paths lie: in how many extents, which are worst, what defragmenting would gain at most."""

from __future__ import annotations

import errno
import heapq
import itertools
import mmap
import os
import random
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fsage.base import Json, Misuse, message
from fsage.layouts import fiemap, filesystems, fragmentation
from fsage.layouts.fragmentation import Extent, Fragmentation
from fsage.layouts.machine import Mount, Unread, mount_of, regular_files, remedy

STATEMENT = "an upper bound: a whole seek for each extent, none hidden by reading ahead"
MEASURE_S = 0.5  # for each of the two
LONGEST = 64  # extents to measure in
AT_LEAST_BYTES = 8 << 20
SEQUENTIAL_BYTES = 1 << 20
RANDOM_BYTES = 4096
SEED = 67005

Place = tuple[int, str, int]  # length, path, offset in the file


@dataclass(frozen=True)
class Device:
    """The cost of a seek, the transfer rate, and the source of both.

    What it says is a bound and no forecast, for a file that is read cold, from its first byte to its last. The model:
    each extent costs a seek, and each byte its share of the transfer rate, so reading takes
    `extents * seek_s + bytes / bytes_per_s`. A contiguous file would cost `ideal_extents` seeks. A short jump, a jump
    within read-ahead, or one that is queued with others, costs less than a seek. Other orders of reading gain other
    amounts.
    """

    seek_s: float
    bytes_per_s: float
    source: str

    def read_s(self, file: Fragmentation) -> float:
        """Seconds that reading the file cold takes at most."""
        return file.extents * self.seek_s + file.bytes / self.bytes_per_s

    def gain_s(self, file: Fragmentation) -> float:
        """Seconds that defragmenting it could save at most."""
        return file.excess * self.seek_s

    def ratio(self, file: Fragmentation) -> float:
        """The factor by which reading it could become faster at most."""
        left_s = self.read_s(file) - self.gain_s(file)
        if left_s:
            return self.read_s(file) / left_s
        return 1.0


class Longest:
    """The longest written extents of all files that were added (`add`), on which the device can be measured."""

    def __init__(self) -> None:
        self._heap: list[Place] = []

    def add(self, path: Path, extents: list[Extent]) -> None:
        """Consider the extents of one file."""
        for extent in extents:
            if not extent.unwritten and extent.length >= SEQUENTIAL_BYTES:
                heapq.heappush(self._heap, (extent.length, str(path), extent.logical))
                if len(self._heap) > LONGEST:
                    heapq.heappop(self._heap)

    def measure(self) -> Device:
        """Read at most half a second in order, and half a second at random places, past the cache. Raises ValueError.

        The seek is the mean time of a random read of 4 KiB, its transfer in it. Nothing is written, not even the time
        of access where that can be helped.
        """
        places = [place for place in sorted(self._heap, reverse=True) if _whole(place)]
        if sum(length for length, *_ in places) < AT_LEAST_BYTES:
            raise ValueError("less than 8 MiB lies in extents of 1 MiB and more, too little to measure the device")
        try:
            bytes_per_s = 1 / _seconds_per(_in_order(places), SEQUENTIAL_BYTES) * SEQUENTIAL_BYTES
            seek_s = _seconds_per(_at_random(places), RANDOM_BYTES)
        except OSError as error:
            raise ValueError(f"the device cannot be measured: {error.filename}: {error.strerror}") from error
        return Device(seek_s, bytes_per_s, "measured on these files by reading, past the cache")


def _whole(place: Place) -> bool:
    """Whether the extent lies within the file: a read beyond its end returns nothing."""
    length, path, offset = place
    try:
        return os.stat(path).st_size >= offset + length
    except OSError:
        return False


def _in_order(places: list[Place]) -> Iterator[tuple[str, int]]:
    for length, path, offset in places:
        for at in range(offset, offset + length - SEQUENTIAL_BYTES + 1, SEQUENTIAL_BYTES):
            yield path, at


def _at_random(places: list[Place]) -> Iterator[tuple[str, int]]:
    draw = random.Random(SEED)
    while True:
        length, path, offset = draw.choices(places, weights=[place[0] for place in places])[0]
        yield path, offset + draw.randrange(length // RANDOM_BYTES) * RANDOM_BYTES


def _seconds_per(reads: Iterator[tuple[str, int]], size: int) -> float:
    """Mean time of a read of `size` bytes at these places, in MEASURE_S of them or as many as there are."""
    buffer = mmap.mmap(-1, size)  # aligned, as O_DIRECT asks
    spent_s = 0.0
    done = 0
    for path, same in itertools.groupby(reads, key=lambda read: read[0]):
        fd = _open(path)
        try:
            for _, offset in same:
                began = time.perf_counter()
                if os.preadv(fd, [buffer], offset) != size:
                    raise OSError(errno.EIO, "it ended early: somebody writes to it", path)
                spent_s += time.perf_counter() - began
                done += 1
                if spent_s > MEASURE_S:
                    return spent_s / done
        finally:
            os.close(fd)
    return spent_s / done


def _open(path: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECT
    try:
        return os.open(path, flags | os.O_NOATIME)
    except PermissionError:  # somebody else's file
        return os.open(path, flags)


SCHEMA = 1


class Found(NamedTuple):
    """A file that has more extents than it needs."""

    file: Fragmentation
    path: Path


class Look:
    """All files that were read, each under one name; the fragmented ones are kept, worst first."""

    def __init__(self, paths: Sequence[Path], files_at_most: int) -> None:
        """Look at files, and at all below directories, each on its own file system only. Raises ValueError.

        Nothing is changed, and nothing synchronised: what the kernel has not placed yet is not seen.
        """
        self.all = fragmentation.NONE
        self.classes: dict[int, Fragmentation] = {}  # by power of two of the number of extents; -1: none
        self.in_pieces: list[Found] = []
        self.longest = Longest()
        self.unread = Unread()
        seen: set[tuple[int, int]] = set()
        try:
            candidates = itertools.chain.from_iterable(_files(path, self.unread) for path in paths)
            for path in itertools.islice(candidates, files_at_most):
                self._add(path, seen)
            self.truncated = next(candidates, None) is not None
        except OSError as error:
            raise ValueError(f"{error.filename}: {error.strerror}{remedy(error)}") from error
        if not self.all.files and (unread := self.unread.words()):
            raise ValueError(f"no file's extents are known: {unread}{self.unread.remedy}")
        self.in_pieces.sort(key=lambda seen: (-seen.file.excess, seen.path))

    def _add(self, path: Path, seen: set[tuple[int, int]]) -> None:
        try:
            stat = os.stat(path)
            if (stat.st_dev, stat.st_ino) in seen:
                return
            seen.add((stat.st_dev, stat.st_ino))
            extents = fiemap.extents(path, synchronise=False)
        except OSError as error:
            self.unread.add(path, error)
            return
        file = fragmentation.of_file(extents)
        self.all = self.all.plus(file)
        power = file.extents.bit_length() - 1
        self.classes[power] = self.classes.get(power, fragmentation.NONE).plus(file)
        self.longest.add(path, extents)
        if file.excess:
            self.in_pieces.append(Found(file, path))


def _files(path: Path, unread: Unread) -> Iterator[Path]:
    """The files that a path stands for; one that is named has to be there (OSError), and a file (ValueError)."""
    if os.path.isdir(path):
        return regular_files(path, unread)
    try:
        message.check_regular(os.stat(path).st_mode)
    except message.NotTaken as why:
        raise ValueError(f"{path}: {why}") from None
    return iter([path])


# What `fsage fragments` can order by: the number of jumps, which is what cold reading could gain in time, or how many
# times as fast it could become.
ORDERS: dict[str, Callable[[Fragmentation, Device], float]] = {
    "extents": lambda file, _: file.excess,
    "ratio": lambda file, device: device.ratio(file),
}


def look_at(
    paths: Sequence[Path],
    files_at_most: int,
    worst: int,
    order: str,
    seek_ms: float | None,
    rate_mb_s: float | None,
) -> Json:
    """Look at files; a `summary`, with the device's two numbers as given or measured. Raises ValueError."""
    if order not in ORDERS:
        raise Misuse(f"--by {order}: no such order; there are {', '.join(ORDERS)}")
    look = Look(paths, files_at_most)
    return summary(look, _device(look, seek_ms, rate_mb_s), worst, order)


def _device(look: Look, seek_ms: float | None, rate_mb_s: float | None) -> Device | str:
    """The two numbers of the cost model, given or measured; or why there are none."""
    for name, value in (("--seek-ms", seek_ms), ("--rate-mb-s", rate_mb_s)):
        if value is not None and not 0 < value < float("inf"):
            raise Misuse(f"{name} {value}: allowed is a number above 0")
    if seek_ms is not None and rate_mb_s is not None:
        return Device(seek_ms / 1e3, rate_mb_s * 1e6, "given")
    if not look.in_pieces:
        return "no file is in more extents than it has to be"
    try:
        device = look.longest.measure()
    except ValueError as error:
        return f"{error}; give --seek-ms and --rate-mb-s"
    if seek_ms is not None:
        return Device(seek_ms / 1e3, device.bytes_per_s, f"seek given; transfer {device.source}")
    if rate_mb_s is not None:
        return Device(device.seek_s, rate_mb_s * 1e6, f"transfer given; seek {device.source}")
    return device


def summary(look: Look, device: Device | str, worst: int, order: str) -> Json:
    """What was found, with a bound on what cold reading from beginning to end would gain.

    all: Fragmentation.summary; histogram: from_extents (to below twice that), files, extents, bytes; files_in_pieces:
    their number; worst: so many of them; device: seek_s, bytes_per_s, source, statement. `all` and each of the worst
    have read_s_at_most, gain_s_at_most, speedup_at_most. `device` may be the reason why there is none: then these are
    None, and device_absent has the reason. Not seen: unmapped (folders, files, last), truncated (there are more files).
    commands: for each file system of the worst filesystem, files, gain_s_at_most, command (a line for a shell), risk.
    """
    cost_model = device if isinstance(device, Device) else None
    in_order = look.in_pieces
    if cost_model:
        in_order = sorted(in_order, key=lambda seen: (-ORDERS[order](seen.file, cost_model), seen.path))
    in_order = in_order[:worst]
    return {
        "schema": SCHEMA,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "all": {**look.all.summary(), **_gain(look.all, cost_model)},
        "histogram": [
            {"from_extents": 1 << power if power >= 0 else 0, **of._asdict()}
            for power, of in sorted(look.classes.items())
        ],
        "files_in_pieces": len(look.in_pieces),
        "worst": [{"path": str(seen.path), **seen.file.summary(), **_gain(seen.file, cost_model)} for seen in in_order],
        "commands": _commands(in_order, cost_model),
        "device": {**vars(cost_model), "statement": STATEMENT} if cost_model else None,
        "device_absent": None if cost_model else device,
        "unmapped": look.unread.summary(),
        "truncated": look.truncated,
    }


def _commands(files: Sequence[Found], device: Device | None) -> list[Json]:
    """The commands that defragment these files: for each mount that of its file system, where it has one."""
    by_mount: dict[Mount, list[Found]] = {}
    for seen in files:
        by_mount.setdefault(mount_of(seen.path), []).append(seen)
    commands = []
    for mount, seen_there in by_mount.items():
        filesystem = filesystems.ALL.get(mount.type)
        if not (filesystem and filesystem.defragmenter):
            continue
        words = [*filesystem.defragmenter.command]
        of_all = fragmentation.NONE
        for seen in seen_there:
            words.append(str(seen.path.absolute()))
            of_all = of_all.plus(seen.file)
        commands.append(
            {
                "filesystem": mount.type,
                "files": len(seen_there),
                "gain_s_at_most": device.gain_s(of_all) if device else None,
                "command": " ".join(map(for_shell, words)),
                "risk": filesystem.risk(mount.point),
            }
        )
    return commands


def for_shell(word: str) -> str:
    """A word of a command line; what is not printable as `$'\\012'`, which bash, zsh and ksh read."""
    if word.isprintable():
        return shlex.quote(word)
    quoted = ""
    for byte in os.fsencode(word):
        quoted += chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\{byte:03o}"
    return f"$'{quoted}'"


def _gain(file: Fragmentation, device: Device | None) -> dict[str, float | None]:
    numbers: tuple[float | None, ...] = (None, None, None)
    if device:
        numbers = (device.read_s(file), device.gain_s(file), device.ratio(file))
    return dict(zip(("read_s_at_most", "gain_s_at_most", "speedup_at_most"), numbers))
