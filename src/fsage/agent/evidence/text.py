"""A text as a stream, by lines or by blocks, with limits on what is read of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from fsage.agent.evidence.store import NotThisText

if TYPE_CHECKING:
    from typing import Protocol

    class Stream(Protocol):
        """What a text is read from."""

        def read(self, size: int, /) -> bytes:
            """So many bytes, or the rest."""

        def readline(self, size: int, /) -> bytes:
            """A line, or so many bytes of it."""


# dumpe2fs lists the free blocks of a group on one line: 7 MB at most, with blocks of 64 KiB and every other one free.
LINE_BYTES = 16 << 20
BLOCK_BYTES = 1 << 20
MOST_BYTES = 64 << 30
"""Of a text, unpacked."""


class Text:
    """Each part is given once: who has read lines gets the rest as blocks."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._ahead: deque[bytes] = deque()  # lines that were only looked at
        self._bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        """Its lines. Raises NotThisText for more than a text can have."""
        while self._ahead:
            yield self._ahead.popleft()
        for line in iter(partial(self._stream.readline, LINE_BYTES), b""):
            self._count(line)
            if len(line) == LINE_BYTES:
                raise NotThisText(f"it has a line of more than {LINE_BYTES >> 20} MiB: no text of these programs")
            yield line

    def first(self, number: int) -> list[bytes]:
        """So many lines, which stay to be read."""
        found = list(islice(self, number))
        self._ahead.extendleft(reversed(found))
        return found

    def blocks(self) -> Iterator[bytes]:
        """The rest, cut anywhere. Raises NotThisText, as `__iter__`."""
        while self._ahead:
            yield self._ahead.popleft()
        for block in iter(partial(self._stream.read, BLOCK_BYTES), b""):
            self._count(block)
            yield block

    def _count(self, part: bytes) -> None:
        self._bytes += len(part)
        if self._bytes > MOST_BYTES:
            raise NotThisText(f"it is longer than {MOST_BYTES >> 30} GiB, the most that is read")
