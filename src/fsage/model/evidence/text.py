"""A text that comes in blocks, as lines or as the blocks themselves, with limits on what is read of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from fsage.model.evidence.store import NotThisText

if TYPE_CHECKING:
    from typing import IO

# dumpe2fs lists the free blocks of a group on one line: 7 MB at most, with blocks of 64 KiB and every other one free.
LINE_BYTES = 16 << 20
BLOCK_BYTES = 1 << 20
MOST_BYTES = 64 << 30
"""Of a text, unpacked."""


class Text:
    """Each part is given once: who has read lines gets the rest as blocks."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = map(self._counted, blocks)
        self._lines: deque[bytes] = deque()  # that nobody has read
        self._rest = b""  # of a line whose end is in the next block
        self._bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        """Its lines. Raises NotThisText for more than a text can have."""
        while self._lines or self._read_on():
            yield self._lines.popleft()

    def first(self, number: int) -> list[bytes]:
        """So many lines, which stay to be read."""
        lines = list(islice(self, number))
        self._lines.extendleft(reversed(lines))
        return lines

    def blocks(self) -> Iterator[bytes]:
        """The rest, cut anywhere. Raises NotThisText, as `__iter__`."""
        rest = b"".join([*self._lines, self._rest])
        self._lines.clear()
        self._rest = b""
        yield rest
        yield from self._blocks

    def _read_on(self) -> bool:
        """Whether there are lines to read."""
        for block in self._blocks:
            *lines, rest = block.split(b"\n")
            if lines:
                lines[0], self._rest = self._rest + lines[0], rest
                self._lines.extend([line + b"\n" for line in lines])
                return True
            self._rest += rest
            if len(self._rest) > LINE_BYTES:
                raise NotThisText(f"it has a line of more than {LINE_BYTES >> 20} MiB: no text of these programs")
        if self._rest:
            self._lines.append(self._rest)
            self._rest = b""
        return bool(self._lines)

    def _counted(self, block: bytes) -> bytes:
        self._bytes += len(block)
        if self._bytes > MOST_BYTES:
            raise NotThisText(f"it is longer than {MOST_BYTES >> 30} GiB, the most that is read")
        return block


def blocks_of(stream: IO[bytes]) -> Iterator[bytes]:
    """What is read from a stream."""
    return iter(partial(stream.read, BLOCK_BYTES), b"")
