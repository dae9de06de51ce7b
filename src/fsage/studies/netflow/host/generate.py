"""The blocks of a file, made of its seed."""

from __future__ import annotations

import hashlib
import itertools
import struct
import zlib

from fsage.studies.netflow.host.blocks import CHECKED_FROM, ENTRY, HEADER, MAGIC, RECORD
from fsage.studies.netflow.model import KEY_BITS, LEAST_BYTES, LENGTHS

POOL_BYTES = 1 << 20
DRAW_BYTES = 512  # there is a draw for so many bytes of a block; one of many short records begins again


class Maker:
    """Makes blocks, and knows what reading them must give.

    `entries` and `read` are records and checksum of all blocks made so far, and of those records in them whose model is
    below `models_read`.
    """

    def __init__(self, seed: int, block_bytes: int, models: int, models_read: int) -> None:
        self.seed, self.block_bytes, self.models, self.models_read = seed, block_bytes, models, models_read
        self.entries, self.read = [0, 0], [0, 0]
        self.pool = hashlib.shake_128(b"pool%d" % seed).digest(POOL_BYTES)
        self.draws = struct.Struct(f"<{-(-block_bytes // DRAW_BYTES)}I")

    def block(self, number: int) -> bytes:
        """The block of that number; it counts from now on."""
        drawn = self.draws.unpack(hashlib.shake_128(b"%d.%d" % (self.seed, number)).digest(self.draws.size))
        pool, models, read, end = self.pool, self.models, self.models_read, self.block_bytes
        span, first_us = POOL_BYTES - LEAST_BYTES - LENGTHS, number * (self.block_bytes // LEAST_BYTES)
        begin, at = number * end, HEADER.size
        parts: list[bytes] = []
        records: list[bytes] = []
        for draw in itertools.cycle(drawn):
            length, model = LEAST_BYTES + draw % LENGTHS, (draw >> KEY_BITS) * models >> KEY_BITS
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
