"""What a task does in each phase. `do` takes one share after another, `end` gives what came of them."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from fsage.studies.netflow.host import flows
from fsage.studies.netflow.host.flows import RECORD, Corrupt, Maker, entries, verify
from fsage.studies.netflow.host.striped import AGAIN, StripedFile
from fsage.studies.netflow.model import CHECKSUMS, Assignment


class Work(ABC):
    """A phase's work on the file. `check_alive` is called between I/Os, and raises when nobody waits for the result."""

    def __init__(self, assignment: Assignment, check_alive: Callable[[], None]) -> None:
        self.assignment, self.check_alive = assignment, check_alive
        self.seed, self.block_bytes = assignment.seed, assignment.block_bytes
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
        (self.records, self.checksum), (records, checksum) = self.maker.entries, self.maker.read
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
