"""What is known of the layout of a target's stores, as evidence has it (fsage.model.evidence.store, Store.summary)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from fsage.model.typed import Check, Json


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
    """How many groups have such a share of free blocks."""

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
