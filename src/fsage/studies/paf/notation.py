"""The PaF notation (populate and fragment): how full a target is, and how it became so.

    structure  = "PAF:" generation *( "," generation ) [ ":" SEED ] "@" SIZE *( "," SIZE ) [ "<" KBLOCKS ]
    generation = AA "." BB
    AA         = 01 to 99: files worth AA% of the empty target's capacity are added
    BB         = 00 to 99: BB% of the files of this generation are then deleted, drawn by the seed
    SEED       = 0 to 2^63 - 1: names the structure exactly; without it one is drawn when it is built
    SIZE       = DIGITS [ "K" / "M" / "G" / "T" ]: size of a file, powers of two, 1 to 2^63 - 1 bytes
    KBLOCKS    = 1 to 2^63 - 1: free KiB of the empty target (measured; optional on input)

`PAF:70.30@264M`: fill 70% of the capacity with 264 MiB files, then delete 30% of them.
One size serves all generations. As many sizes as generations pair up with them. Several sizes on one generation are
mixed in equal byte shares. Any other count is an error. When a generation starts, what the
ones before it nominally left and its own AA may not exceed 100 (the real check is made on the target).

Letters may be of either case; there are no blanks. AA may be one digit, BB too if it is 0: `70.3` is
refused, as it may mean 03 or 30. Output is canonical: two digits each, the largest suffix that is exact, no
leading zeros elsewhere, equal sizes written once. 100 has no spelling: a target filled to the last byte, or
emptied again, is no structure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from fsage.api.model import format_size, parse_size

Span = tuple[int, int]
LARGEST = (1 << 63) - 1

_RULES = {
    "prefix": re.compile(r"PAF:", re.IGNORECASE),
    "number": re.compile(r"[0-9]+"),
    "size": re.compile(r"[0-9]+[KMGT]?(?![A-Za-z0-9])", re.IGNORECASE),
    ".": re.compile(r"\."),
    ",": re.compile(r","),
    ":": re.compile(r":"),
    "@": re.compile(r"@"),
    "<": re.compile(r"<"),
    "end": re.compile(r"\Z"),
}
_WORD = re.compile(r"[A-Za-z0-9]+|\s+|.", re.DOTALL)

_AA = "AA is 01 to 99 (% of the capacity)"
_BB = "BB is two digits, 00 to 99 (% deleted)"
_SIZE = "SIZE is a whole number with K, M, G or T, such as 264M"


class NotationError(ValueError):
    """A text is no structure: `reason`, what is `allowed`, and a caret under the `span` of the `source`."""

    def __init__(self, reason: str, *, source: str, span: Span, allowed: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.source = source
        self.span = span
        self.allowed = allowed

    def __str__(self) -> str:
        start, end = self.span
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in self.source)
        return f"{self.reason}; {self.allowed}\n    {shown}\n    {' ' * start}{'^' * max(1, end - start)}"


class Generation(NamedTuple):
    """Add files worth AA% of the empty target's capacity, then delete BB% of them."""

    capacity_percent: int
    fragmentation_percent: int

    def __str__(self) -> str:
        return f"{self.capacity_percent:02d}.{self.fragmentation_percent:02d}"


@dataclass(frozen=True, slots=True)
class PaF:
    """A structure: what was added and deleted. str() is canonical and parses to an equal value.

    `kblocks` is the free KiB of the empty target.
    """

    generations: tuple[Generation, ...]
    seed: int | None
    sizes_bytes: tuple[int, ...]
    kblocks: int | None = None

    def __post_init__(self) -> None:
        if len(set(self.sizes_bytes)) == 1:  # the same structure, so the same value
            object.__setattr__(self, "sizes_bytes", self.sizes_bytes[:1])

    def sizes_of(self, index: int) -> tuple[int, ...]:
        """Return the file sizes (bytes) of generation `index` (from 0); several share its bytes equally."""
        paired = len(self.generations) > 1 and len(self.sizes_bytes) > 1
        if paired:
            return self.sizes_bytes[index : index + 1]
        return self.sizes_bytes

    @property
    def fullness_percent(self) -> float:
        """Nominal fullness after the last deletion: the sum of AA * (1 - BB)."""
        return sum(g.capacity_percent * (100 - g.fragmentation_percent) for g in self.generations) / 100

    def __str__(self) -> str:
        seed = "" if self.seed is None else f":{self.seed}"
        kblocks = "" if self.kblocks is None else f"<{self.kblocks}"
        generations = ",".join(map(str, self.generations))
        return f"PAF:{generations}{seed}@{','.join(map(format_size, self.sizes_bytes))}{kblocks}"


class _Token(NamedTuple):
    text: str
    span: Span


class _Tokenizer:
    """Reads the source from left to right; every failure points at the place it has reached."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.position = 0

    def read(self, rule: str) -> _Token | None:
        """Return the token of `rule` at the position and step over it, or None."""
        match = _RULES[rule].match(self.source, self.position)
        if match is None:
            return None
        self.position = match.end()
        return _Token(match[0], match.span())

    def expect(self, rule: str, allowed: str) -> _Token:
        """Return the token of `rule`; raises NotationError saying what stands there instead."""
        token = self.read(rule)
        if token is not None:
            return token
        match = _WORD.match(self.source, self.position)
        if match is None:
            self.fail("the text ends too early", (self.position, self.position), allowed)
        what = "a blank" if match[0].isspace() else repr(match[0])
        self.fail(f"{what} is not allowed here", match.span(), allowed)

    def fail(self, reason: str, span: Span, allowed: str) -> NoReturn:
        raise NotationError(reason, source=self.source, span=span, allowed=allowed)


def parse(text: str) -> PaF:
    """Return the structure that `text` names; NotationError says where it is wrong and what is allowed."""
    tokens = _Tokenizer(text)
    tokens.expect("prefix", "a structure begins with PAF:, such as PAF:70.30@264M")
    generations = _generations(tokens)
    seed = _whole(tokens, 0, "SEED is a whole number") if tokens.read(":") else None
    tokens.expect("@", "next comes @SIZE" if seed is not None else "next comes ,AA.BB or :SEED or @SIZE")
    sizes = _sizes(tokens, len(generations))
    kblocks = _whole(tokens, 1, "KBLOCKS is a whole number (free KiB)") if tokens.read("<") else None
    tokens.expect("end", "nothing follows" if kblocks is not None else "next comes ,SIZE or <KBLOCKS or the end")
    return PaF(tuple(generations), seed, tuple(sizes), kblocks)


def _generations(tokens: _Tokenizer) -> list[Generation]:
    generations: list[Generation] = []
    left = 0  # in 1/100 of a percent: exact
    while not generations or tokens.read(","):
        aa = tokens.expect("number", _AA)
        if len(aa.text) > 2 or not int(aa.text):
            tokens.fail(f"{_shorten(aa.text)} is not a share of the capacity", aa.span, _AA)
        tokens.expect(".", "AA and BB are joined by a dot: AA.BB")
        bb = tokens.expect("number", _BB)
        if len(bb.text) > 2:
            tokens.fail(f"{_shorten(bb.text)} is not a share to delete", bb.span, _BB)
        if len(bb.text) == 1 and bb.text != "0":
            tokens.fail(f"{bb.text} may mean 0{bb.text} or {bb.text}0", bb.span, _BB)
        generation = Generation(int(aa.text), int(bb.text))
        generations.append(generation)
        if left + 100 * generation.capacity_percent > 10_000:
            tokens.fail(
                f"generation {len(generations)} adds {generation.capacity_percent}% to the {left / 100:g}% "
                "that the ones before it leave: more than the target holds",
                (aa.span[0], bb.span[1]),
                f"AA is at most {(10_000 - left) // 100:02d} here",
            )
        left += generation.capacity_percent * (100 - generation.fragmentation_percent)
    return generations


def _sizes(tokens: _Tokenizer, generations: int) -> list[int]:
    """One size for all generations, one for each, or several for one."""
    start = tokens.position
    sizes: list[int] = []
    while not sizes or tokens.read(","):
        sizes.append(_size(tokens))
    if generations > 1 and len(sizes) not in (1, generations):
        tokens.fail(
            f"{len(sizes)} sizes for {generations} generations",
            (start, tokens.position),
            f"one size for all of them, or {generations} that pair up",
        )
    return sizes


def _size(tokens: _Tokenizer) -> int:
    token = tokens.expect("size", _SIZE)
    try:
        return parse_size(token.text)
    except ValueError:
        tokens.fail(f"{_shorten(token.text)} is out of range", token.span, "SIZE is 1 to 2^63 - 1 bytes")


def _whole(tokens: _Tokenizer, least: int, allowed: str) -> int:
    token = tokens.expect("number", allowed)
    digits = token.text.lstrip("0") or "0"
    if len(digits) > 19 or not least <= int(digits) <= LARGEST:
        tokens.fail(f"{_shorten(token.text)} is out of range", token.span, f"{allowed}, {least} to 2^63 - 1")
    return int(digits)


def _shorten(text: str) -> str:
    if len(text) <= 24:
        return text
    return f"{text[:20]}..."
