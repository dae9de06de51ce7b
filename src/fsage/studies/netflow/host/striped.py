"""A striped file, read and written by the map (fsage.model.striping) that has laid it over its objects."""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from collections.abc import Sequence

from fsage.model import striping
from fsage.model.errors import Failure

AGAIN = "its cell is to be measured again (`fsage remeasure STUDY --failed`), and the store looked at if it comes back"


class StripedFile:
    """A file whose object k is at `paths[k]`. `first_s` and `last_s`: start of the first I/O, end of the last one.

    Reads are at most `most_bytes` long; with `direct` they go past the page cache, and begin and end at multiples of
    4 KiB. What is wrong is a Failure that says where.
    """

    def __init__(
        self, segments: Sequence[striping.Segment], paths: Sequence[str], most_bytes: int, direct: bool
    ) -> None:
        self.segments, self.paths = segments, paths
        self.size_bytes = segments[-1].end_bytes
        self.flags = os.O_DIRECT if direct else 0
        self.descriptors: dict[int, int] = {}
        self.buffer = memoryview(mmap.mmap(-1, most_bytes))  # O_DIRECT wants it aligned
        self.first_s = self.last_s = 0.0

    def read(self, begin: int, length: int) -> memoryview:
        """So many bytes from an offset on, in a buffer that the next read fills again."""
        self._begins()
        for piece in striping.pieces(self.segments, begin, begin + length):
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
        for piece in striping.pieces(self.segments, begin, begin + len(data)):
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
        (piece,) = striping.pieces(self.segments, offset, offset + 1)
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
