"""Real samples bent: bytes cut, repeated, moved; values of JSON replaced by what no writer of ours writes."""

import copy
import json
import re
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

DIGITS = re.compile(rb"\d+(?:\.\d+)?")
NUMBERS = (b"0", b"-1", b"1", b"4", b"99", b"1" + b"0" * 18, b"9223372036854775808", b"1" + b"0" * 399, b"7" * 5000)
NUMBERS += (b"1e999", b"-1e308", b"nan", b"inf", b"0x10", b"1:30:00", b"2026-99-99", b"0.0000001")
WORDS = (b"\0", b"\x1b[2J", b"\xff\xfe", b"\xed\xa0\x80", "\u202e\uff1d".encode(), b"{{ 7 * 7 }}", b"[red]", b"$\\frac")
WORDS += (
    b"../../../etc/x",
    b"..",
    b"/dev/zero",
    b"a\\b",
    b"a b",
    b"-V",
    b"~",
    b"\t",
    b"\r\n",
    b"'",
    b'"',
    b"x" * 20_000,
)
WORDS += (b"<script>", b"%s%n", b"$(touch ran)", b"!unsafe x", b"{{ lookup('pipe', 'touch ran') }}", b"\xc2\x85")
BLOCKS = (
    b"[" * 300,
    b"{" * 300,
    b"&a [*a]",
    b"*a",
    b"<<: *a",
    b"!!int ''",
    b"!!python/object:os.system x",
    b"? [a]\n: b\n",
)
BLOCKS += (b"- - - - - - - - - - - - - - - - - - - - - - - - - x\n", b"\n\n", b": ", b",", b"{}", b"[]", b"null")
HOSTILE = (*NUMBERS, *WORDS, *BLOCKS)
DEEP = 1
for _ in range(200):
    DEEP = [DEEP]
VALUES = [
    None,
    [],
    {},
    "",
    True,
    -1,
    0,
    1,
    1 << 62,
    1 << 64,
    10**399,
    1e308,
    -1e-308,
    0.5,
    1e18,
    [[]],
    [None],
    -(2**63),
]
VALUES += [
    [1, "a"],
    {"../x": "../y"},
    {"__class__": "x"},
    "x" * 70_000,
    "\u202e",
    {"": {}},
    ["x"] * 1000,
    {"kind": "os"},
]
VALUES += [[0, 1, 2], DEEP, *(word.decode(errors="replace") for word in HOSTILE)]
RARE = [float("nan"), float("inf"), -float("inf"), "\ud800", "\udcff"]
ANY = st.one_of(
    *[st.sampled_from(VALUES + RARE)] * 2,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=6,
    ),
)
"""Values that no writer of ours writes; those of the list twice as often as others."""


def texts(samples):
    """One of the samples, bent in one to four places."""
    step = st.tuples(st.integers(0, 7), places, places, st.sampled_from(HOSTILE), st.integers(2, 40))
    steps = st.lists(step, min_size=1, max_size=4)
    return st.builds(_bent, st.sampled_from(samples), steps, st.sampled_from(samples))


places = st.floats(0, 1)


def _bent(text, steps, other):
    for kind, start, stop, word, times in steps:
        begin, end = sorted((int(start * len(text)), int(stop * len(text))))
        near = min(end, begin + 200)
        match kind:
            case 0:
                text = text[:begin]
            case 1:
                text = text[:begin] + text[near:]
            case 2:
                text = text[:begin] + text[begin:near] * times + text[near:]
            case 3:
                text = text[:begin] + word + text[begin:]
            case 4 | 5:
                numbers = list(DIGITS.finditer(text))
                if numbers:
                    found = numbers[min(int(start * len(numbers)), len(numbers) - 1)]
                    text = text[: found.start()] + word + text[found.end() :]
            case 6:
                lines = text.splitlines(keepends=True)
                if lines:
                    first, second = (min(int(place * len(lines)), len(lines) - 1) for place in (start, stop))
                    lines[first], lines[second] = lines[second], lines[first]
                text = b"".join(lines)
            case 7:
                text = text[:begin] + other[int(stop * len(other)) :]
    return text


def values(samples):
    """One of the JSON samples, with one to three of its values replaced, taken away or added."""
    step = st.tuples(st.integers(0, 6), st.lists(places, min_size=12, max_size=12), ANY)
    steps = st.lists(step, min_size=1, max_size=3)
    return st.builds(_changed, st.sampled_from(samples), steps)


def _changed(value, steps):
    value = copy.deepcopy(value)
    for kind, way, given_new in steps:
        new = copy.deepcopy(given_new)  # the same one is drawn again, and must not come to lie in itself
        block, key = None, None
        at = value
        for number, place in enumerate(way):
            if not isinstance(at, dict | list) or not at or (number > 1 and place < 0.15):
                break
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            block, key = at, keys[min(int(place * len(keys)), len(keys) - 1)]
            at = at[key]
        if block is None:
            value = new
        elif kind == 0:
            del block[key]
        elif kind == 1 and isinstance(block, dict):
            block[str(new)[:100]] = at
        elif kind == 2 and isinstance(block, list):
            block.extend([at] * 50)
        elif kind == 3 and isinstance(block, dict):
            block[f"{key}x"] = new
        else:
            block[key] = new
    return value


def as_json(value):
    """JSON as Python writes it, NaN and lone surrogates included."""
    return json.dumps(value).encode()


def assert_one_line(why):
    """A refusal that a terminal can show in one line."""
    text = str(why)
    assert text and text.isprintable() and len(text) < 3000, text[:3000]


@cache
def folder():
    """One of this process, for files that are read again and again."""
    return Path(tempfile.mkdtemp(prefix="fsage-hostile-", dir=Path.cwd()))
