"""What a task does in each phase: `do` takes one share after another, `end` gives what came of them.

A striped file is read and written by the map (fsage.studies.striping.model) that has laid it over its objects.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fsage.api.model import Failure
from fsage.studies.striping.model import Segment, pieces

from ..host import flows
from ..host.flows import RECORD, Corrupt, Maker, entries, verify
from ..model import CHECKSUMS, Assignment


class Work(ABC):
    """A phase's work on the file. `check_alive` is called between I/Os, and raises when nobody waits for the result."""

    def __init__(self, assignment: Assignment, check_alive: Callable[[], None]) -> None:
        self.assignment = assignment
        self.check_alive = check_alive
        self.seed = assignment.seed
        self.block_bytes = assignment.block_bytes
        self.file = StripedFile(assignment.segments, assignment.paths, assignment.transfer_bytes, assignment.direct)
        self.moved_bytes = self.records = self.checksum = 0

    @abstractmethod
    def do(self, share: list[object]) -> None:
        """Do one share. Raises Failure."""

    def end(self, number: int) -> dict[str, object]:
        """What this task has done; `number`: its own, of all tasks."""
        return {"bytes": self.moved_bytes, "records": self.records, "checksum": self.checksum % CHECKSUMS}

    def transfers(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Offset and length of each transfer of a share of the file."""
        for offset in range(begin, end, self.assignment.transfer_bytes):
            self.check_alive()
            yield offset, min(self.assignment.transfer_bytes, end - offset)

    def corrupt(self, why: Corrupt, block: int) -> Corrupt:
        """A Failure that adds the place in the file, and what to do."""
        return Corrupt(f"{self.file.place(block * self.block_bytes)}: block {block} is corrupt, {why}; {AGAIN}")


class Generate(Work):
    """Writes the file; its share is a span of it. Its result has what reading must give."""

    def __init__(self, assignment: Assignment, check_alive: Callable[[], None]) -> None:
        super().__init__(assignment, check_alive)
        self.maker = Maker(self.seed, self.block_bytes, assignment.models, assignment.models_read)

    def do(self, share: list[Any]) -> None:
        for offset, length in self.transfers(*share):
            first = offset // self.block_bytes
            self.file.write(offset, b"".join(map(self.maker.block, range(first, first + length // self.block_bytes))))
            self.moved_bytes += length

    def end(self, number: int) -> dict[str, object]:
        self.records, self.checksum = self.maker.entries
        records, checksum = self.maker.read
        return {**super().end(number), "read_records": records, "read_checksum": checksum % CHECKSUMS}


class Index(Work):
    """Scans its spans of the file, and writes its part of the index when all is read."""

    def __init__(self, assignment: Assignment, check_alive: Callable[[], None]) -> None:
        super().__init__(assignment, check_alive)
        self.entries: list[bytes] = []

    def do(self, share: list[Any]) -> None:
        for offset, length in self.transfers(*share):
            data = self.file.read(offset, length)
            self.moved_bytes += length
            for at in range(0, length, self.block_bytes):
                block = (offset + at) // self.block_bytes
                try:
                    read = entries(data[at : at + self.block_bytes], block, self.seed)
                except Corrupt as why:
                    raise self.corrupt(why, block) from why
                self.records += len(read)
                self.checksum += zlib.crc32(b"".join(read))
                self.entries += read

    def end(self, number: int) -> dict[str, object]:
        flows.write_index(flows.index_part(self.assignment.index, number), self.entries)
        return super().end(number)


class Models(Work):
    """Reads the records of its entries, each with the block that it is in."""

    def do(self, share: list[Any]) -> None:
        for model, offset, length in share:
            self.check_alive()
            block, at = divmod(offset, self.block_bytes)
            data = self.file.read(block * self.block_bytes, self.block_bytes)
            try:
                verify(data, block, self.seed)
                if RECORD.unpack_from(data, at)[:2] != (length, model):
                    raise Corrupt(f"no record of model {model} with {length} bytes is at byte {at}, as the index says")
            except Corrupt as why:
                raise self.corrupt(why, block) from why
            self.checksum += zlib.crc32(data[at : at + length])
            self.records += 1
            self.moved_bytes += length


PHASES: dict[str, type[Work]] = {"generate": Generate, "index": Index, "models": Models}


AGAIN = "its cell is to be measured again (`fsage remeasure STUDY --failed`), and the store looked at if it comes back"


class StripedFile:
    """A file whose object k is at `paths[k]`. `first_s` and `last_s`: start of the first I/O, end of the last one.

    Reads are at most `most_bytes` long; with `direct` they go past the page cache, and begin and end at multiples of
    4 KiB. What is wrong is a Failure that says where.
    """

    def __init__(self, segments: Sequence[Segment], paths: Sequence[str], most_bytes: int, direct: bool) -> None:
        self.segments = segments
        self.paths = paths
        self.size_bytes = segments[-1].end_bytes
        self.flags = os.O_DIRECT if direct else 0
        self.descriptors: dict[int, int] = {}
        self.buffer = memoryview(mmap.mmap(-1, most_bytes))  # O_DIRECT wants it aligned
        self.first_s = self.last_s = 0.0

    def read(self, begin: int, length: int) -> memoryview:
        """So many bytes from an offset on, in a buffer that the next read fills again."""
        self._begins()
        for piece in pieces(self.segments, begin, begin + length):
            into = self.buffer[piece.offset - begin : piece.offset - begin + piece.length]
            try:
                count = os.preadv(self._open(piece.object, os.O_RDONLY | self.flags), [into], piece.object_offset)
            except OSError as error:
                raise Failure(f"{self.place(piece.offset)}: {error.strerror}; {AGAIN}") from error
            if count != piece.length:
                raise Failure(f"{self.place(piece.offset)}: ends {piece.length - count} bytes too early; {AGAIN}")
        self.last_s = time.monotonic()
        return self.buffer[:length]

    def write(self, begin: int, data: bytes) -> None:
        """Write at an offset, through the cache: dropping the caches before the next phase flushes it."""
        self._begins()
        for piece in pieces(self.segments, begin, begin + len(data)):
            part = data[piece.offset - begin : piece.offset - begin + piece.length]
            try:
                done = os.pwrite(self._open(piece.object, os.O_WRONLY | os.O_CREAT), part, piece.object_offset)
            except OSError as error:
                raise Failure(f"{self.place(piece.offset)} cannot be written: {error.strerror}") from error
            if done != piece.length:
                raise Failure(f"{self.place(piece.offset)}: {done} of {piece.length} bytes were written: is it full?")
        self.last_s = time.monotonic()

    def place(self, offset: int) -> str:
        """Which object an offset of the file is in, and where, in words."""
        (piece,) = pieces(self.segments, offset, offset + 1)
        return f"{self.paths[piece.object]}, byte {piece.object_offset} (byte {offset} of the file)"

    def close(self) -> None:
        """Close the objects."""
        for descriptor in self.descriptors.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _open(self, number: int, flags: int) -> int:
        if number not in self.descriptors:
            self.descriptors[number] = os.open(self.paths[number], flags, 0o600)
        return self.descriptors[number]

    def _begins(self) -> None:
        if not self.first_s:
            self.first_s = time.monotonic()
