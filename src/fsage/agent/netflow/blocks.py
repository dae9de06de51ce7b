"""A block of the file: its header, and the records in it, once they are known to be those that were written."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Union

from fsage.agent.errors import Failure

HEADER = struct.Struct("<4sIIIQQ")
RECORD = struct.Struct("<IIQ")
ENTRY = struct.Struct("<IQI")
MAGIC = b"FSNF"
CHECKED_FROM = 8  # what the checksum covers begins after it
CHECKSUMS = 2**48
"""Checksums are below that."""

Data = Union[bytes, memoryview]  # noqa: UP007  # hosts: Python 3.9


class Corrupt(Failure):
    """What lies in the file is not what was written there; the message says what, not where."""


def verify(block: Data, number: int, seed: int) -> tuple[int, int]:
    """Bytes used and number of records of a block that is whole, and the one asked for. Raises Corrupt."""
    magic, crc, used, count, found_number, found_seed = HEADER.unpack_from(block)
    if magic != MAGIC:
        raise Corrupt(f"the magic is {magic!r}, not {MAGIC!r}")
    if (found := zlib.crc32(block[CHECKED_FROM:])) != crc:
        raise Corrupt(f"the CRC is {found:#010x}, and {crc:#010x} was written")
    if not HEADER.size <= used <= len(block):
        raise Corrupt(f"the length used is {used}; allowed are {HEADER.size} to {len(block)} bytes")
    if (found_number, found_seed) != (number, seed):
        raise Corrupt(f"it is block {found_number} of seed {found_seed}, not block {number} of seed {seed}")
    return used, count


def records(block: Data, number: int, seed: int) -> Iterator[tuple[int, int, int]]:
    """Place in the block, length and model of each record. Raises Corrupt."""
    used, count = verify(block, number, seed)
    at = HEADER.size
    for _ in range(count):
        length, model, _ = RECORD.unpack_from(block, at) if at + RECORD.size <= used else (0, 0, 0)
        if not RECORD.size <= length <= used - at:
            raise Corrupt(f"the record at byte {at} has a length of {length} bytes, of {used - at} that are left")
        yield at, length, model
        at += length
    if at != used:
        raise Corrupt(f"its {count} records end at byte {at}, not at {used}")


def entries(block: Data, number: int, seed: int) -> list[tuple[int, bytes]]:
    """Model and index entry of each record. Raises Corrupt."""
    begin, pack = number * len(block), ENTRY.pack
    return [(model, pack(model, begin + at, length)) for at, length, model in records(block, number, seed)]
