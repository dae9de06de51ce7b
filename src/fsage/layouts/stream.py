"""A text that comes in blocks, as lines or as the blocks themselves, with limits on what is read of it."""

from __future__ import annotations

import binascii
import codecs
import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from fsage.layouts.store import NotThisText, shown

if TYPE_CHECKING:
    from typing import IO

# dumpe2fs lists the free blocks of a group on one line: 7 MB at most, with blocks of 64 KiB and every other one free.
LINE_BYTES = 16 << 20
BLOCK_BYTES = 1 << 20
TAIL_BYTES = 1 << 16
MOST_BYTES = 64 << 30
"""Most bytes of a text, unpacked."""
UTF_8_MARK = codecs.BOM_UTF8
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
ADDED = re.compile(
    rb"(?i)\r|\x1b|\d, ?\n[> ]*\d|\xc2\xa0|\xe2\x80|[^\s]\t|</?(?:html|body|pre|code|br)|```|&[a-z#]\w*;|\0|\[/?code\]|"
    rb"\{noformat\}|\[sudo\]"
)
BLANKS = re.compile(rb"\xc2\xa0|\xe2\x80\xaf|&nbsp;|\t")
"""What web pages, editors and some languages have for a blank."""
PLACED = re.compile(rb"\x1b\[[\d;]*[Hf]")
"""Where a terminal shall write the next line, as watch tells it."""
NOTHING = re.compile(
    rb"(?i)\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])|\xe2\x80\x8b|"
    rb"</?(?:html|body|pre|code|br)\b[^>]*>|```|\[/?code\]|\{noformat\}|\[sudo\] [^:\n]*: |\0|\r+(?=\n)"
)
"""Colours, titles, blanks of no width, marks of web pages and Markdown, the question of sudo, and what pads a file."""
PRINTED = (
    (b"\xe2\x80\x93", b"-"),
    (b"\xe2\x80\xa6", b"..."),
    (b"\xe2\x80\xa5", b".."),
    (b"\xe2\x80\x98", b"'"),
    (b"\xe2\x80\x99", b"'"),
    (b"&#x27;", b"'"),
    (b"&#39;", b"'"),
    (b"&lt;", b"<"),
    (b"&gt;", b">"),
    (b"&amp;", b"&"),
)
"""What programs for print make of `-`, `...`, `..` and `'`, and web pages of marks of their own."""
QUOTES = tuple((mark, b'"') for mark in (b"\xe2\x80\x9c", b"\xe2\x80\x9d", b"&quot;"))
"""And of `"`: where a line has some that are plain, the others are a part of a name."""
ESCAPES = ((b"\\n", b"\n"), (b"\\t", b"\t"), (b'\\"', b'"'))
PROGRAMS = rb"(?:fio|ior|mdtest|dumpe2fs|e2freefrag|filefrag|xfs_\w+|inode|File|WARNING|ERROR)(?=[: ])"
INDENTED = re.compile(
    rb"(?!" + PROGRAMS + rb")(?:\d\d:\d\d < ?\S+> |[\w.@/-]+(?:: ?| *\| |> )|[ \t]*\d+: |\[\S+\] |# |[|+] ?|[ \t]+)"
)
"""What all lines of a quotation, of a block of code, in a table or of one host begin with; not what a program says."""
BLANKS_BEFORE = re.compile(rb"[ \t]+")
OWN_INDENT = re.compile(rb"\s+\d+:")  # a row of filefrag, xfs_bmap or fsmap
NUMBERED = re.compile(rb"[ \t]*(\d{1,9})(?:[ \t]*[:|.)] ?|\t| )(?! *(?:\d+:\d+ )?\[| *\d+\.\.)")
STAMPED = re.compile(
    rb"\[?(?:\d{4}-\d\d-\d\d[ T]|[A-Z][a-z]{2} +\d+ )?\d\d:\d\d:\d\d[^ \]]*\]?"
    rb"(?: [\w.-]+ (?:[\w./-]+\[\d+\]|kernel):)? "
)
QUOTE = re.compile(rb"[ \t]*(?:> ?)+")
LEFT_OUT = re.compile(
    rb"(?i)\W*(?:\.\.\.|snip(?:ped)?|truncated|(?:more )?(?:lines )?(?:omitted|skipped|left out))\W*$"
)
RUNS = re.compile(rb" *\d[\d, -]*$")
FIRST_LINES = 40
OF_MAIL = re.compile(rb"=3D|=20\r?\n|[\d ,]=\r?\n|[^\n=]{70,75}=\r?\n")
"""What a mail as it is sent has for `=`, for a blank at a line's end, and where it wraps a line (quoted-printable)."""
UNENDED = "its last line has no end, so a part of it may be missing: end it if it is whole"
PROMPT = re.compile(rb"(?:\A|(?<=\n))(?:[^\n<]*(?<![\d\n])[#$%>~]|debugfs:|) *\Z")


def tidied(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """A text without what Windows, mail, editors, web pages and terminals add to it, as the first block shows.

    That is: a byte-order mark and UTF-16, CR and blanks at line ends, colours, a mail's `> `, what all lines are
    indented by, numbers, times or a host's name before all lines, a blank line after each, other blanks and dashes,
    line ends within a list of runs, of a mail as it was sent, or written as `\\n`.
    """
    blocks = iter(blocks)
    first = next(blocks, b"")
    coding = _wide(first)
    if coding:
        decoder = codecs.getincrementaldecoder(coding)("replace")
        blocks = (decoder.decode(block).encode() for block in chain([first], blocks))
        first = next(blocks, b"")
    if first.startswith(UTF_8_MARK):
        first = first[len(UTF_8_MARK) :]
    blocks = chain([first], blocks)
    if b"\n" not in first.rstrip():  # it is one line
        first = b"".join(islice(blocks, LINE_BYTES // BLOCK_BYTES))
        if b"\\n" in first:
            first = _replaced(first, ESCAPES).strip(b'" \n') + b"\n"
        else:
            first = first.replace(b"\r", b"\n")
        blocks = chain([first], blocks)
    if OF_MAIL.search(first):
        first = binascii.a2b_qp(b"".join(islice(blocks, LINE_BYTES // BLOCK_BYTES)))
        blocks = chain([first], blocks)
    all_lines = first.split(b"\n", FIRST_LINES)[:FIRST_LINES]
    lines = [line for line in all_lines if line.strip()]
    is_quoted = 2 * sum(line.startswith(b">") for line in lines) > len(lines)
    before = QUOTE if is_quoted else _before(lines)
    is_padded = 2 * sum(line.endswith((b" ", b" \r")) for line in lines) > len(lines)
    is_doubled = len(lines) > 2 and not any(line.strip() for line in all_lines[1::2])
    is_plain = not (before or is_padded or is_doubled or ADDED.search(first))
    yield from _without_prompt(blocks if is_plain else _lines_tidied(blocks, before, is_padded, is_doubled))


def _before(lines: list[bytes]) -> re.Pattern[bytes] | None:
    """What was put before all lines, or before all but a few that somebody wrote around them."""
    if len(lines) > 2:
        for prefix in (NUMBERED, STAMPED):
            if _all_begin(lines, prefix):
                return prefix
    put = INDENTED.match(_shared(lines))
    if not put:
        indented = [line for line in lines if line.startswith((b"  ", b"\t"))]
        if indented and 5 * len(indented) >= 4 * len(lines) and not OWN_INDENT.match(indented[0]):
            put = BLANKS_BEFORE.match(_shared(indented))
    if not put:
        return None
    pattern = re.escape(put[0])
    if len(lines) > 2 and _all_begin([line[len(put[0]) :] for line in lines], NUMBERED):
        pattern += NUMBERED.pattern
    return re.compile(pattern)


def _without_prompt(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """All of a text but a shell's prompt without an end behind it."""
    last = b""
    for block in blocks:
        yield last
        last = block
    yield PROMPT.sub(b"", last)


def check_whole(line: bytes) -> None:
    """Raise NotThisText for a line with which people say that they left some out."""
    if LEFT_OUT.match(line):
        raise NotThisText(f"its line {shown(line.strip())!r} says that something was left out: give the whole text")


def _wide(first: bytes) -> str | None:
    """The coding of a text with two bytes a character, which need not begin with a mark."""
    if first.startswith(UTF_16_MARKS):
        return "utf-16"
    start = first[:FIRST_LINES]
    for coding, every_other in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):
        if len(start) == FIRST_LINES and any(start) and not any(every_other):
            return coding
    return None


def _replaced(block: bytes, changes: Iterable[tuple[bytes, bytes]]) -> bytes:
    for old, new in changes:
        block = block.replace(old, new)
    return block


def _all_begin(lines: list[bytes], prefix: re.Pattern[bytes]) -> bool:
    """Whether all lines begin so, with ascending numbers from 1 on where the prefix has numbers."""
    matches = [match for match in map(prefix.match, lines) if match]
    if len(matches) < len(lines):
        return False
    numbers = [int(match[1]) for match in matches] if prefix.groups else [1]
    return numbers[0] > 0 and all(0 < after - number < 3 for number, after in zip(numbers, numbers[1:]))


def _shared(lines: list[bytes]) -> bytes:
    """What all lines begin with."""
    if len(lines) < 2:
        return b""
    least = min(lines)
    most = max(lines)
    length = 0
    while length < len(least) and least[length] == most[length]:
        length += 1
    return least[:length]


def _lines_tidied(
    blocks: Iterable[bytes], before: re.Pattern[bytes] | None, is_padded: bool, is_doubled: bool
) -> Iterator[bytes]:
    parts: list[bytes] = []  # of a line
    for line in Text(blocks):
        put = before.match(line) if before else None
        if put and put.end() < len(line):  # or it is a part of a line that was cut
            line = line[put.end() :]
        if b'"' not in line:
            line = _replaced(line, QUOTES)
        line = BLANKS.sub(b" ", NOTHING.sub(b"", PLACED.sub(b"\n", _replaced(line, PRINTED))))
        line = line[line.rfind(b"\r") + 1 :]  # what a terminal overwrote is gone
        if is_doubled and not line.strip():
            continue
        if is_padded and line.endswith(b"\n"):
            line = line.rstrip() + b"\n"
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
        self.tail = b""
        """The end of what was read so far."""

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
                lines[0] = self._rest + lines[0]
                self._rest = rest
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
        self.tail = block if len(block) > TAIL_BYTES else (self.tail + block)[-TAIL_BYTES:]
        if self._bytes > MOST_BYTES:
            raise NotThisText(f"it is longer than {MOST_BYTES >> 30} GiB, the most that is read")
        return block


def blocks_of(stream: IO[bytes]) -> Iterator[bytes]:
    """What is read from a stream."""
    return iter(partial(stream.read, BLOCK_BYTES), b"")
