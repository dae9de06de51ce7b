"""A text that comes in blocks, as lines or as the blocks themselves, with limits on what is read of it."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from fsage.model.evidence.store import NotThisText

if TYPE_CHECKING:
    from typing import IO

# dumpe2fs lists the free blocks of a group on one line: 7 MB at most, with blocks of 64 KiB and every other one free.
LINE_BYTES = 16 << 20
BLOCK_BYTES = 1 << 20
MOST_BYTES = 64 << 30
"""Of a text, unpacked."""
UTF_8_MARK, UTF_16_MARKS = codecs.BOM_UTF8, (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
ADDED = re.compile(rb"\r\n|\x1b\[|\d, ?\n[> ]*\d|\xc2\xa0|\xe2\x80[\x8b\xaf]")
BLANKS = re.compile(rb"\xc2\xa0|\xe2\x80\xaf")
"""What web pages and some languages have for a blank; a zero-width one is nothing."""
COLOUR = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
INDENTED = re.compile(rb"\| ?|[ \t]+")
"""What all lines of a quotation, of a block of code or in a table begin with."""
QUOTE = re.compile(rb"\A(?:> ?)+")
RUNS = re.compile(rb" *\d[\d, -]*$")
FIRST_LINES = 40


def tidied(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """A text without what Windows, mail, editors and terminals add to it, as the first block shows.

    That is: a byte-order mark and UTF-16, CR and blanks at line ends, colours, a mail's `> `, what all lines are
    indented by, blanks of other kinds, and line ends within a list of runs.
    """
    blocks = iter(blocks)
    first = next(blocks, b"")
    if first.startswith(UTF_16_MARKS):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        blocks = (decoder.decode(block).encode() for block in chain([first], blocks))
        first = next(blocks, b"")
    first = first[len(UTF_8_MARK) :] if first.startswith(UTF_8_MARK) else first
    lines = [line for line in first.split(b"\n", FIRST_LINES)[:FIRST_LINES] if line.strip()]
    is_quoted = 2 * sum(line.startswith(b">") for line in lines) > len(lines)
    indented = INDENTED.match(_shared(lines))
    before = indented[0] if indented and not is_quoted else b""
    is_padded = 2 * sum(line.endswith((b" ", b" \r")) for line in lines) > len(lines)
    is_plain = not (is_quoted or before or is_padded or ADDED.search(first))
    blocks = chain([first], blocks)
    yield from blocks if is_plain else _lines_tidied(blocks, is_quoted, is_padded, before)


def _shared(lines: list[bytes]) -> bytes:
    """What all lines begin with."""
    if len(lines) < 2:
        return b""
    least, most = min(lines), max(lines)
    length = 0
    while length < len(least) and least[length] == most[length]:
        length += 1
    return least[:length]


def _lines_tidied(blocks: Iterable[bytes], is_quoted: bool, is_padded: bool, before: bytes) -> Iterator[bytes]:
    parts: list[bytes] = []  # of a line
    for line in Text(blocks):
        line = BLANKS.sub(b" ", COLOUR.sub(b"", line)).replace(b"\xe2\x80\x8b", b"").replace(b"\r\n", b"\n")
        line = line.rstrip() + b"\n" if is_padded and line.endswith(b"\n") else line
        line = QUOTE.sub(b"", line, 1) if is_quoted and line.startswith(b">") else line.removeprefix(before)
        if parts and parts[-1].rstrip().endswith(b",") and RUNS.match(line):
            parts[-1] = parts[-1].rstrip() + b" "
            parts.append(line.lstrip())
            continue
        yield b"".join(parts)
        parts = [line]
    yield b"".join(parts)


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
