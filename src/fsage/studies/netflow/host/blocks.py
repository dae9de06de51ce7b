"""A block of the file: its header, and the records in it, once they are known to be those that were written."""

from __future__ import annotations

import struct
import zlib
from typing import Union

from fsage.model.errors import Failure

HEADER = struct.Struct("<4sIIIQQ")
RECORD = struct.Struct("<IIQ")
KEYED = struct.Struct("<II")
"""How a record begins."""
ENTRY = struct.Struct(">IQI")
"""Big-endian, so that bytes are in the order of what they hold."""
MAGIC = b"FSNF"
CHECKED_FROM = 8  # what the checksum covers begins after it

Data = Union[bytes, memoryview]  # hosts: Python 3.9


class Corrupt(Failure):
    """What lies in the file is not what was written there; the message says what, not where."""


def verify(block: Data, number: int, seed: int) -> tuple[int, int]:
    """Bytes used and number of records of a block, verified to be the requested one. Raises Corrupt."""
    magic, crc, used, count, found_number, found_seed = HEADER.unpack_from(block)
    if magic != MAGIC:
        raise Corrupt(f"the magic is {magic!r}, not {MAGIC!r}")
    if (checksum := zlib.crc32(block[CHECKED_FROM:])) != crc:
        raise Corrupt(f"the CRC is {checksum:#010x}, and {crc:#010x} was written")
    if not HEADER.size <= used <= len(block):
        raise Corrupt(f"the length used is {used}; allowed are {HEADER.size} to {len(block)} bytes")
    if (found_number, found_seed) != (number, seed):
        raise Corrupt(f"it is block {found_number} of seed {found_seed}, not block {number} of seed {seed}")
    return used, count


def entries(block: Data, number: int, seed: int) -> list[bytes]:
    """The index entry of each record. Raises Corrupt."""
    used, count = verify(block, number, seed)
    begin, at, least, entries = number * len(block), HEADER.size, RECORD.size, []
    for _ in range(count):
        length, model = KEYED.unpack_from(block, at) if at + least <= used else (0, 0)
        if not least <= length <= used - at:
            raise Corrupt(f"the record at byte {at} has a length of {length} bytes, of {used - at} that are left")
        entries.append(ENTRY.pack(model, begin + at, length))
        at += length
    if at != used:
        raise Corrupt(f"its {count} records end at byte {at}, not at {used}")
    return entries
