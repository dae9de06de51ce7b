"""The layout of a mounted btrfs on one device, from its trees (BTRFS_IOC_TREE_SEARCH_V2, btrfs.h, btrfs_tree.h)."""

from __future__ import annotations

import fcntl
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from fsage.base import Failure
from fsage.layouts.fragmentation import Extent as Piece
from fsage.layouts.freespace import Buckets, Counting, FreeSpace
from fsage.layouts.machine import opened
from fsage.layouts.store import Store

BTRFS_IOC_TREE_SEARCH_V2 = 0xC0709411
BTRFS_IOC_FS_INFO = 0x8400941F
EXTENT_TREE = 2
CHUNK_TREE = 3
EXTENT_ITEM = 168
METADATA_ITEM = 169
DEV_ITEM = 216
CHUNK_ITEM = 228
SEARCH = struct.Struct("=7Q4L4QQ")  # struct btrfs_ioctl_search_key and the size of the buffer behind it
ITEM = struct.Struct("=3Q2L")  # transaction, objectid, offset, type, length
FS_INFO = struct.Struct("=8xQ16xLL984x")  # devices, bytes of a tree node, bytes of a sector
DEVICE = struct.Struct("<8xQ")  # bytes
CHUNK = struct.Struct("<Q16xQ12xH2x")  # length, type, stripes
DATA = 1 << 0
METADATA = 1 << 2  # types of chunks
STRIPE = struct.Struct("<8xQ16x")  # place on the device
BUFFER_BYTES = 1 << 18
HIGHEST = 2**64 - 1
RESERVED = ((0, 1 << 20), (64 << 20, 64 << 10), (256 << 30, 64 << 10))

Extent = tuple[int, int]  # start, length
Key = tuple[int, int, int]  # objectid, type, offset


class Chunk(NamedTuple):
    """A block group: `logical` its address, `places` on the device, as many as it has copies; bytes.

    `mixed`: it has metadata beside data.
    """

    logical: int
    length: int
    data: bool
    mixed: bool
    places: list[int]


def of_mount(mount: Path, counting: Counting) -> Store:
    """The store of a mounted btrfs. Raises OSError, Failure.

    The extent tree lists what is in use, in btrfs' own addresses. The chunk tree maps these to the device: once, or
    twice with the profile DUP. Free is what files can get: the rest of every data chunk, and what no chunk has. The
    first MiB and the copies of the superblock are never free. Chunks of metadata count as in use. The trees are those
    of the last commit with later changes, so synchronise a mount first where the exact state matters.
    """
    with opened(mount) as fd:
        devices, node_bytes, sector_bytes = FS_INFO.unpack(fcntl.ioctl(fd, BTRFS_IOC_FS_INFO, bytes(FS_INFO.size)))
        if devices != 1:
            raise Failure(f"{mount}: a btrfs on {devices} devices; only of one on a single device is the layout known")
        device_bytes, chunks = _chunks(fd)
        places = sorted((place, chunk.length) for chunk in chunks for place in chunk.places)
        extents = list(gaps(0, device_bytes, places))
        groups = Buckets("block group")
        for chunk in chunks:
            if not chunk.data:
                continue
            inside = list(gaps(chunk.logical, chunk.logical + chunk.length, _taken(fd, chunk, node_bytes)))
            for copy, place in enumerate(chunk.places):
                free_here = list(_usable((start - chunk.logical + place, length) for start, length in inside))
                extents += free_here
                if not copy:
                    groups.add_all([chunk.length], [sum(length for _, length in free_here)])
    free = FreeSpace(counting, device_bytes, sector_bytes)
    free.add(_usable(sorted(extents)))
    values = {"device_bytes": device_bytes, "block_bytes": sector_bytes, **free.summary(), "groups": groups.summary()}
    store = Store("btrfs", {"free": "btrfs' extent tree and chunk tree, of data and of what no chunk has"}, values)
    if any(chunk.data and len(chunk.places) > 1 for chunk in chunks):
        store.unlike = "it keeps data twice (profile DUP), so each write is two, and a target keeps them once"
    elif any(chunk.mixed for chunk in chunks):
        store.unlike = "it has data and metadata in the same block groups (mkfs.btrfs --mixed), and a target has not"
    return store


def data_ranges(mount: Path) -> list[tuple[int, int, int]]:
    """Where the data of a btrfs on one device can lie: addresses as FIEMAP tells them, places, and lengths; bytes.

    Of the places of data that has two copies the first. Raises OSError.
    """
    with opened(mount) as fd:
        chunks = [chunk for chunk in _chunks(fd)[1] if chunk.data]
    ranges = []
    for chunk in chunks:
        for place, length in _usable([(chunk.places[0], chunk.length)]):
            ranges.append((chunk.logical + place - chunk.places[0], place, length))
    return ranges


def placed(pieces: Iterable[Piece], ranges: list[tuple[int, int, int]]) -> Iterator[Piece]:
    """Extents at their places on the device, cut where chunks end; `ranges` as `data_ranges` has them."""
    for logical, address, length, unwritten in pieces:
        for begin, place, size in ranges:
            start = max(address, begin)
            end = min(address + length, begin + size)
            if start < end:
                yield Piece(logical + start - address, place + start - begin, end - start, unwritten)


def gaps(start: int, end: int, taken: Iterable[Extent]) -> Iterator[Extent]:
    """What `taken`, ascending, leaves of the bytes from `start` to `end`."""
    for begin, length in taken:
        if begin >= end:
            break
        if begin > start:
            yield start, begin - start
        start = max(start, begin + length)
    if start < end:
        yield start, end - start


def _usable(extents: Iterable[Extent]) -> Iterator[Extent]:
    for start, length in extents:
        yield from gaps(start, start + length, RESERVED)


def _chunks(fd: int) -> tuple[int, list[Chunk]]:
    """The size of the device, and all chunks by address."""
    device_bytes = 0
    chunks = []
    for (_, kind, offset), data in _items(fd, CHUNK_TREE):
        if kind == DEV_ITEM:
            (device_bytes,) = DEVICE.unpack_from(data)
        elif kind == CHUNK_ITEM:
            length, types, copies = CHUNK.unpack_from(data)
            places = [STRIPE.unpack_from(data, CHUNK.size + copy * STRIPE.size)[0] for copy in range(copies)]
            mixed = types & (DATA | METADATA) == DATA | METADATA
            chunks.append(Chunk(offset, length, bool(types & DATA), mixed, places))
    return device_bytes, chunks


def _taken(fd: int, chunk: Chunk, node_bytes: int) -> Iterator[Extent]:
    """What is taken of a chunk, by address."""
    for (start, kind, offset), _ in _items(fd, EXTENT_TREE, chunk.logical, chunk.logical + chunk.length - 1):
        if kind == EXTENT_ITEM:
            yield start, offset
        elif kind == METADATA_ITEM:
            yield start, node_bytes


def _items(fd: int, tree: int, first: int = 0, last: int = HIGHEST) -> Iterator[tuple[Key, memoryview]]:
    """Keys and contents of a tree's items with these objectids, by key."""
    key = (first, 0, 0)
    while True:
        objectid, kind, offset = key
        ask = tree, objectid, last, offset, HIGHEST, 0, HIGHEST, kind, 255, 2**32 - 1, *[0] * 5, BUFFER_BYTES
        buffer = bytearray(SEARCH.pack(*ask) + bytes(BUFFER_BYTES))
        fcntl.ioctl(fd, BTRFS_IOC_TREE_SEARCH_V2, buffer)
        items = SEARCH.unpack_from(buffer)[9]
        at = SEARCH.size
        if not items:
            return
        for _ in range(items):
            _, objectid, offset, kind, length = ITEM.unpack_from(buffer, at)
            at += ITEM.size
            yield (objectid, kind, offset), memoryview(buffer)[at : at + length]
            at += length
        following = ((objectid << 8 | kind) << 64 | offset) + 1  # a key is one number of 136 bits
        key = (following >> 72, following >> 64 & 255, following & HIGHEST)
