"""The blocks of a file, made of its seed and verified; the index of its records; the shares of each task in a phase."""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Union

from fsage.api.model import Failure

from ..model import KEY_BITS, LEAST_BYTES, LENGTHS, Assignment

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
    checksum = zlib.crc32(block[CHECKED_FROM:])
    if checksum != crc:
        raise Corrupt(f"the CRC is {checksum:#010x}, and {crc:#010x} was written")
    if not HEADER.size <= used <= len(block):
        raise Corrupt(f"the length used is {used}; allowed are {HEADER.size} to {len(block)} bytes")
    if (found_number, found_seed) != (number, seed):
        raise Corrupt(f"it is block {found_number} of seed {found_seed}, not block {number} of seed {seed}")
    return used, count


def entries(block: Data, number: int, seed: int) -> list[bytes]:
    """The index entry of each record. Raises Corrupt."""
    used, count = verify(block, number, seed)
    begin = number * len(block)
    at = HEADER.size
    least = RECORD.size
    entries = []
    for _ in range(count):
        length, model = KEYED.unpack_from(block, at) if at + least <= used else (0, 0)
        if not least <= length <= used - at:
            raise Corrupt(f"the record at byte {at} has a length of {length} bytes, of {used - at} that are left")
        entries.append(ENTRY.pack(model, begin + at, length))
        at += length
    if at != used:
        raise Corrupt(f"its {count} records end at byte {at}, not at {used}")
    return entries


CHUNK_ENTRIES = 4096
Entry = tuple[int, int, int]
"""Model, offset, length."""


def index_part(folder: str, number: int) -> Path:
    """Where the part of a task lies."""
    return Path(folder, f"index.{number}")


def write_index(path: Path, entries: list[bytes]) -> None:
    """Write a part, and have it on disk."""
    try:
        with open(path, "xb") as file:
            file.writelines(sorted(entries))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from error


def front(paths: Iterable[Path], models: int) -> list[Entry]:
    """The entries of the models below `models`, by model and offset."""
    return sorted(entry for path in paths for entry in _front(path, models))


def _front(path: Path, models: int) -> list[Entry]:
    entries: list[Entry] = []
    try:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK_ENTRIES * ENTRY.size):
                if len(chunk) % ENTRY.size:
                    raise Failure(f"{path} ends within an entry: phase index did not write all of it")
                entries += ENTRY.iter_unpack(chunk)
                if entries[-1][0] >= models:
                    break
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}; phase index writes it before phase models") from error
    return [entry for entry in entries if entry[0] < models]


POOL_BYTES = 1 << 20
DRAW_BYTES = 512  # there is a draw for so many bytes of a block; one of many short records begins again


class Maker:
    """Makes blocks, and knows what reading them must give.

    `entries` and `read` are records and checksum of all blocks made so far, and of those records in them whose model is
    below `models_read`.
    """

    def __init__(self, seed: int, block_bytes: int, models: int, models_read: int) -> None:
        self.seed = seed
        self.block_bytes = block_bytes
        self.models = models
        self.models_read = models_read
        self.entries = [0, 0]
        self.read = [0, 0]
        self.pool = hashlib.shake_128(b"pool%d" % seed).digest(POOL_BYTES)
        self.draws = struct.Struct(f"<{-(-block_bytes // DRAW_BYTES)}I")

    def block(self, number: int) -> bytes:
        """The block of that number; it counts from now on."""
        drawn = self.draws.unpack(hashlib.shake_128(b"%d.%d" % (self.seed, number)).digest(self.draws.size))
        pool = self.pool
        models = self.models
        read = self.models_read
        end = self.block_bytes
        span = POOL_BYTES - LEAST_BYTES - LENGTHS
        first_us = number * (self.block_bytes // LEAST_BYTES)
        begin = number * end
        at = HEADER.size
        parts: list[bytes] = []
        records: list[bytes] = []
        for draw in itertools.cycle(drawn):
            length = LEAST_BYTES + draw % LENGTHS
            model = (draw >> KEY_BITS) * models >> KEY_BITS
            if at + length > end:
                break
            place = draw % span
            record = RECORD.pack(length, model, first_us + len(records)) + pool[place : place + length - RECORD.size]
            parts.append(record)
            records.append(ENTRY.pack(model, begin + at, length))
            at += length
            if model < read:
                self._count(self.read, 1, zlib.crc32(record))
        self._count(self.entries, len(records), zlib.crc32(b"".join(records)))
        numbered = HEADER.pack(MAGIC, 0, at, len(records), number, self.seed)[CHECKED_FROM:]
        body = b"".join((numbered, *parts, bytes(end - at)))
        return MAGIC + zlib.crc32(body).to_bytes(4, "little") + body

    @staticmethod
    def _count(sums: list[int], records: int, crc: int) -> None:
        sums[0] += records
        sums[1] += crc


def spans(size_bytes: int, whole_bytes: int, assignment: Assignment) -> list[list[int]]:
    """Begin and end of each share of the file, of whole `whole_bytes`."""
    if assignment.distribution == "asynchronous":
        step = assignment.segment_bytes
        return [[begin, min(begin + step, size_bytes)] for begin in range(0, size_bytes, step)]
    shares = equal(-(-size_bytes // whole_bytes), assignment.tasks)
    return [[begin * whole_bytes, min(end * whole_bytes, size_bytes)] for begin, end in shares]


def of_entries(entries: Sequence[Entry], assignment: Assignment) -> list[list[Entry]]:
    """Index entries, in order of their model, in equal shares or model by model."""
    if assignment.distribution == "asynchronous":
        return [list(share) for _, share in itertools.groupby(entries, key=lambda entry: entry[0])]
    return [list(entries[begin:end]) for begin, end in equal(len(entries), assignment.tasks)]


def equal(whole: int, parts: int) -> list[tuple[int, int]]:
    """So many shares of `whole` things in a row, none with more than one more than another, and none empty.

    >>> equal(10, 4)
    [(0, 2), (2, 5), (5, 7), (7, 10)]
    >>> equal(2, 4)
    [(0, 1), (1, 2)]
    """
    parts = min(whole, parts)
    return [(whole * number // parts, whole * (number + 1) // parts) for number in range(parts)]
