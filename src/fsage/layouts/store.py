"""What is known of layouts, of one store and of all of a target; evidence files and `fsage evidence` share it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from fsage.base import Json
from fsage.base.typed import Check
from fsage.layouts.freespace import ONCE, Buckets, Counting, FreeSpace

SCHEMA = 1

OF_EXTENTS = ("free_extents", "bitmap", "aligned_free_share")  # what only a list of free extents can give
OF_FREE_SPACE = ("used_bytes", "free_bytes", "fullness_percent", *OF_EXTENTS)
OF_DEVICE = ("device_bytes", "block_bytes", *OF_FREE_SPACE, "groups")
KEYS = (*OF_DEVICE, "files")


MOST_EXTENTS = 1_000_000
MOST_BLOCK_BYTES = 1 << 30
MOST_DEVICE_BYTES = (1 << 63) - 1


def shown(line: bytes) -> str:
    """The beginning of a line, for a message."""
    return line[:60].decode(errors="backslashreplace")


class NotThisText(ValueError):
    """A text is not what its reader reads, or not all of it; the message says where and why."""


def number_of(digits: bytes) -> int:
    """A count or a place as a text has it. Raises NotThisText for more than any file system holds."""
    if len(digits) > 19:
        raise NotThisText(f"it has a number of {len(digits)} digits; no file system counts so far")
    if not digits.isdigit():
        raise NotThisText(f"{shown(digits)!r} is no number")
    return int(digits)


def runs_of(numbers: list[int], most: int = 5) -> str:
    """Ascending numbers in words: '2-5, 9'; of many runs the first."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = [f"{begin}-{end}" if begin < end else str(begin) for begin, end in runs[:most]]
    return ", ".join(words) + (", ..." if len(runs) > most else "")


def check_extents(extents: int) -> None:
    """Raise NotThisText for more extents of one file than are kept while it is read."""
    if extents > MOST_EXTENTS:
        raise NotThisText(f"it lists more than {MOST_EXTENTS:,} extents of one file, the most that are read")


def check_device(blocks: int, block_bytes: int) -> None:
    """Raise NotThisText for a device that cannot be."""
    if not (blocks > 0 and 0 < block_bytes <= MOST_BLOCK_BYTES and blocks * block_bytes <= MOST_DEVICE_BYTES):
        raise NotThisText(f"it tells of {blocks} blocks of {block_bytes} bytes, which no device has")


@dataclass
class Store:
    """One store as an input shows it.

    `source`: {"free": what told the free extents, "files": what told the extents of files}. `found`: of KEYS what the
    input has; `absent`: of KEYS what it cannot give, and why. `geometry`: how it was made (fsage.layouts.geometry).
    `warnings`: sentences on damage, which stand before all numbers. `unknown_bytes`: of the device, where damage hides
    what is free; they are in no other number.
    `unread`: that there are files, of which none could be read, and why. `unlike`: why no file of a copy of its free
    space would lie, or be written, as here; None: nothing is known that speaks against one.
    """

    filesystem: str | None
    source: dict[str, str]
    found: Json
    absent: dict[str, str] = field(default_factory=dict)
    geometry: Json | None = None
    warnings: list[str] = field(default_factory=list)
    unknown_bytes: int = 0
    unread: str | None = None
    unlike: str | None = None

    def summary(self, number: int) -> Json:
        """All KEYS, None where `absent` has the reason, with store (number) and the other fields.

        Shapes and units of the larger ones: FreeSpace.summary, Buckets.summary, FileLayouts.summary; `files` holds one
        of the latter for each named set of files.
        """
        values = {key: self.found.get(key) for key in KEYS}
        return {
            "store": number,
            "filesystem": self.filesystem,
            "source": self.source,
            **values,
            "geometry": self.geometry,
            "unlike": self.unlike,
            "warnings": self.warnings,
            "unknown_bytes": self.unknown_bytes,
            "absent": {key: self.absent[key] for key in KEYS if values[key] is None},
        }


@dataclass(frozen=True)
class Geometry:
    """A device and its groups, all of one size but the last; bytes. The first group begins at `first_bytes`."""

    device_bytes: int
    block_bytes: int
    group_bytes: int
    first_bytes: int = 0

    def groups_bytes(self) -> list[int]:
        """The length of each group."""
        starts = range(self.first_bytes, self.device_bytes, self.group_bytes)
        return [min(self.group_bytes, self.device_bytes - start) for start in starts]


def of_extents(
    filesystem: str | None,
    source: str,
    kind: str,
    geometry: Geometry,
    extents: Iterable[tuple[int, int]],
    counting: Counting = ONCE,
) -> Store:
    """The store with these free extents, start and length in bytes, ascending; `kind` is what its groups are called.

    Raises ValueError (extents that cannot be).
    """
    free = FreeSpace(counting, geometry.device_bytes, geometry.block_bytes)
    groups = Buckets(kind)
    sizes_bytes = geometry.groups_bytes()
    free_bytes = [0] * len(sizes_bytes)

    def by_group() -> Iterator[tuple[int, int]]:
        """The extents, counted in passing; one may reach over several groups."""
        for start, length in extents:
            at = start - geometry.first_bytes
            end = at + length
            while at < end:
                number = at // geometry.group_bytes
                group_end = min(end, (number + 1) * geometry.group_bytes)
                free_bytes[number] += group_end - at
                at = group_end
            yield start, length

    free.add(by_group())
    groups.add_all(sizes_bytes, free_bytes)
    space = {"device_bytes": geometry.device_bytes, "block_bytes": geometry.block_bytes, **free.summary()}
    return Store(filesystem, {"free": source}, {**space, "groups": groups.summary()})


def without(keys: tuple[str, ...], reason: str) -> dict[str, str]:
    """`absent` of several keys for one reason."""
    return dict.fromkeys(keys, reason)


@dataclass(frozen=True)
class SizeClass:
    """Free extents from `from_bytes` to below twice that."""

    from_bytes: int
    extents: int
    bytes: int


@dataclass(frozen=True)
class FreeExtents:
    """All free extents of a store, and how many there are of each size."""

    count: int
    largest_bytes: int
    mean_bytes: float | None
    histogram: list[SizeClass]


@dataclass(frozen=True)
class Bitmap:
    """Share of each bin's bytes that is free, from the first byte of the device."""

    bin_bytes: int
    free_share: Annotated[list[float], Check(bool, "a share of at least one bin")]


@dataclass(frozen=True)
class Bucket:
    """How many groups have this share of free blocks."""

    label: str
    from_share: float
    to_share: float
    groups: int


@dataclass(frozen=True)
class Groups:
    """Block groups or allocation groups by free share, each in one bucket; `group_bytes`: the largest."""

    kind: str
    group_bytes: int
    count: int
    buckets: list[Bucket]
    inode_buckets: list[Bucket] | None


@dataclass(frozen=True)
class Files:
    """How a set of files lies; extents_per_file: number of extents -> files, extents_of_size: bytes -> extents."""

    files: int
    bytes: int | None
    extents: int
    mean_extent_bytes: float | None
    layout_score: float | None
    extents_of_size: dict[str, int]
    extents_per_file: dict[str, int]


@dataclass(frozen=True)
class StoreLayout:
    """What is known of one store; None where `absent` has the reason. `ost` and `host`: of Lustre's servers."""

    store: int
    filesystem: str | None
    source: dict[str, str]
    device_bytes: int | None
    block_bytes: int | None
    used_bytes: int | None
    free_bytes: int | None
    fullness_percent: float | None
    free_extents: FreeExtents | None
    bitmap: Bitmap | None
    aligned_free_share: dict[str, float | None] | None
    groups: Groups | None
    files: dict[str, Files] | None
    absent: dict[str, str]
    geometry: Json | None = None
    unlike: str | None = None
    ost: str | None = None
    host: str | None = None
    warnings: list[str] = field(default_factory=list)
    unknown_bytes: int = 0


@dataclass(frozen=True)
class StoresLayout:
    """The layouts of all stores, and how long it took to see them."""

    schema: Literal[1]
    stores: list[StoreLayout]
    seconds: float | None = None
