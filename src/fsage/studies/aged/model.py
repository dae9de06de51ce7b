"""Steps of states that are original: aged by use, or restored from an image.

What users do to a file system is a seeded sequence of writes and deletions. There are three ways to age it:

- `churn`: files of 4 KiB to 64 MiB (lognormal, median 256 KiB), each written at once; any of them is deleted.
- `logs`: several logs grow at the same time, a flushed piece each in turn. A full file of a log is closed. The oldest
  files are deleted, those of some logs later than those of others.
- `packages`: trees of small files (lognormal, median 24 KiB), unpacked as a whole and removed as a whole.

Sizes of files are lognormal in their body (Agrawal et al., A Five-Year Study of File-System Metadata, 2007).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, TypeVar

from fsage.api.model import BLOCK_BYTES, MIB, Achieved, Json, Step

T = TypeVar("T")
KIB = 1024
Way = Literal["churn", "logs", "packages"]
LARGEST_BYTES = 64 * MIB
LOGS = 24
PIECE_BYTES = (16 * KIB, 256 * KIB)
LOG_BYTES = (8 * MIB, 48 * MIB)
TREE_FILES = (100, 1500)
FOLDERS = 50


class Change(NamedTuple):
    """So many bytes more of a file (`folder`/`name`), or its end where `size` is None.

    `first`: these are a new file's; `flush`: they reach the device at once.
    """

    folder: str
    name: str
    size: int | None
    first: bool = True
    flush: bool = False


class Kept(NamedTuple):
    """A file that is there."""

    folder: str
    name: str
    size: int


def blocks_bytes(size: int) -> int:
    """Bytes of the blocks of a file."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def changes(way: Way, full_bytes: int, written_bytes: int, seed: int) -> Iterator[Change]:
    """What happens until `written_bytes` were written, `full_bytes` at most in use."""
    return WAYS[way](full_bytes, written_bytes, random.Random(f"{seed} {way}"))


def churn(full_bytes: int, written_bytes: int, draw: random.Random) -> Iterator[Change]:
    """Files come and go, one by one."""
    files: list[Kept] = []
    in_use = written = count = 0
    while written < written_bytes:
        size = _lognormal(draw, 256 * KIB, 2.0, min(LARGEST_BYTES, full_bytes // 8))
        while files and in_use + blocks_bytes(size) > full_bytes:
            gone = _any_of(files, draw)
            in_use -= blocks_bytes(gone.size)
            yield Change(gone.folder, gone.name, None)
        made = Kept(f"churn{count % FOLDERS:03d}", f"{count:08d}", size)
        count += 1
        files.append(made)
        in_use = in_use + blocks_bytes(size)
        written = written + size
        yield Change(made.folder, made.name, size)


def logs(full_bytes: int, written_bytes: int, draw: random.Random) -> Iterator[Change]:
    """Logs grow in turns and are closed when full; the oldest go, those of some logs later than those of others."""
    patience = [draw.uniform(0.5, 4) for _ in range(LOGS)]  # a log that is kept four times as long goes as much later
    closed: list[list[Kept]] = [[] for _ in range(LOGS)]
    most = max(BLOCK_BYTES, full_bytes // (4 * LOGS))  # those that grow stay, and must not be all
    growing = [_log(draw, log, 0, most) for log in range(LOGS)]
    sizes = [0] * LOGS
    in_use = 0
    written = 0
    count = LOGS
    while written < written_bytes:
        for log in range(LOGS):
            if sizes[log] >= growing[log].size:
                closed[log].append(growing[log]._replace(size=sizes[log]))
                growing[log] = _log(draw, log, count, most)
                sizes[log] = 0
                count = count + 1
            size = draw.randrange(PIECE_BYTES[0], PIECE_BYTES[1])
            while any(closed) and in_use + size + LOGS * BLOCK_BYTES > full_bytes:
                of = max((log for log in range(LOGS) if closed[log]), key=lambda log: len(closed[log]) / patience[log])
                gone = closed[of].pop(0)
                in_use -= blocks_bytes(gone.size)
                yield Change(gone.folder, gone.name, None)
            before = sizes[log]
            sizes[log] = sizes[log] + size
            in_use = in_use + blocks_bytes(sizes[log]) - blocks_bytes(before)
            written = written + size
            flush = before // MIB != sizes[log] // MIB
            yield Change(growing[log].folder, growing[log].name, size, before == 0, flush)


def packages(full_bytes: int, written_bytes: int, draw: random.Random) -> Iterator[Change]:
    """Trees are unpacked, and any of them is removed."""
    trees: list[list[Kept]] = []
    in_use = written = count = 0
    while written < written_bytes:
        folder = f"package{count:06d}"
        count = count + 1
        most = full_bytes // 4
        wanted = 0
        sizes = list[int]()
        for _ in range(draw.randrange(*TREE_FILES)):
            size = _lognormal(draw, 24 * KIB, 1.8, min(16 * MIB, most))
            if wanted + blocks_bytes(size) > most:
                break
            sizes.append(size)
            wanted += blocks_bytes(size)
        while trees and in_use + wanted > full_bytes:
            gone = _any_of(trees, draw)
            in_use -= sum(blocks_bytes(file.size) for file in gone)
            yield from (Change(file.folder, file.name, None) for file in gone)
        tree = [Kept(folder, f"{number:05d}", size) for number, size in enumerate(sizes)]
        trees.append(tree)
        in_use = in_use + wanted
        written = written + sum(sizes)
        yield from (Change(*file) for file in tree)


WAYS: dict[Way, Callable[[int, int, random.Random], Iterator[Change]]] = {
    "churn": churn,
    "logs": logs,
    "packages": packages,
}


def left(way: Way, full_bytes: int, written_bytes: int, seed: int) -> dict[tuple[str, str], int]:
    """(folder, name) -> size of the files that are there in the end, as `changes` has them."""
    sizes: dict[tuple[str, str], int] = {}
    for change in changes(way, full_bytes, written_bytes, seed):
        if change.size is None:
            del sizes[change.folder, change.name]
        else:
            sizes[change.folder, change.name] = sizes.get((change.folder, change.name), 0) + change.size
    return sizes


def _any_of(kept: list[T], draw: random.Random) -> T:
    """Take one out of a list; the last one then has its place."""
    at = draw.randrange(len(kept))
    gone = kept[at]
    kept[at] = kept[-1]
    kept.pop()
    return gone


def _log(draw: random.Random, log: int, number: int, most: int) -> Kept:
    return Kept(f"log{log:02d}", f"{number:06d}", min(most, draw.randrange(*LOG_BYTES)))


def _lognormal(draw: random.Random, median: int, sigma: float, most: int) -> int:
    return max(BLOCK_BYTES, min(most, round(median * draw.lognormvariate(0, sigma))))


@dataclass(frozen=True)
class Age(Step):
    """Use it as `way` says until `percent` of the capacity are in use and `written_percent` of it were written."""

    SIMULATED: ClassVar[bool] = True
    ONE_STORE: ClassVar[bool] = True

    way: Way
    percent: int
    written_percent: int
    seed: int | None

    def describe(self) -> str:
        return f"age by {self.way} to {self.percent}%, with {self.written_percent}% of the capacity written"

    def writes_bytes(self, capacity_bytes: int) -> int:
        return self._bytes(capacity_bytes)[1]

    def left(self, capacity_bytes: int) -> dict[tuple[str, str], int]:
        """(folder, name) -> size of the files that are there in the end."""
        return left(self.way, *self._bytes(capacity_bytes), self.seed or 0)

    def named(self, mounts: list[Path], noted: Json) -> list[Path]:
        """Its files have names of their own; which are left follows from what it did."""
        left = self.left(noted["capacity_bytes"]) if noted else ()
        return [mounts[0] / "filler" / folder / name for folder, name in left]

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """What is left of its files."""
        left = self.left(capacity_bytes)
        shares.append(self.filled(left.values(), capacity_bytes, self.percent))

    def _bytes(self, capacity_bytes: int) -> tuple[int, int]:
        return capacity_bytes * self.percent // 100, capacity_bytes * self.written_percent // 100


@dataclass(frozen=True)
class Restore(Step):
    """Restore `image`; `input`: its SHA-256, under which the request has its place."""

    ONE_STORE: ClassVar[bool] = True
    WANTS: ClassVar[tuple[str, ...]] = ("own_stores",)

    image: str
    input: str | None = None

    def describe(self) -> str:
        return f"restore {self.image}"
