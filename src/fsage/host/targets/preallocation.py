"""What a call of tune_prealloc.yml requests: how much a file gets at a time; and what it noted of a target.

All is checked before anything is written, because ldiskfs refuses hardly any text for the table. It reads `256,512` as
256, and `1M` as one block. It reads `abc` as an empty table, which switches preallocation off.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from fsage.base import GIB, KIB, MIB, Json, Refusal
from fsage.host.targets import Target, claims
from fsage.model.tuning import PREALLOCATION

UNITS = {GIB: "GiB", MIB: "MiB", KIB: "KiB"}
SIZE = re.compile(r"([1-9][0-9]{0,3}) ?([KMG])(?:iB)?")
TABLE_TEXT = re.compile(r"[1-9][0-9]{0,9}( [1-9][0-9]{0,9})*")
GROUP = re.compile(r"0|[1-9][0-9]{0,9}")
NOTHING = (
    "nothing is requested, and nothing was before: give tune_prealloc_size (such as 4MiB), tune_prealloc_table or "
    "tune_prealloc_group"
)


class Requested(NamedTuple):
    """A size or a table of blocks, and the block group to which the allocation pointer goes; None: not requested."""

    size_bytes: int | None
    table: tuple[int, ...] | None
    group: int | None


def wanted(requested: Json, noted: Json) -> Json:
    """The entries of size, table and group that are not empty; else those of the last request, as it was noted."""
    given = {key: requested[key] for key in ("size", "table", "group") if requested.get(key) not in (None, "", [])}
    return given or noted.get("asked", {})


def read(requested: Json) -> Requested:
    """The meaning of what is `wanted`. Raises Refusal with what is wrong and what is allowed."""
    if {"size", "table"} <= set(requested):
        raise Refusal(
            f"tune_prealloc_size is {requested['size']}, and tune_prealloc_table {requested['table']}: give one"
        )
    return Requested(
        _size(requested["size"]) if "size" in requested else None,
        _table(requested["table"]) if "table" in requested else None,
        _group(requested["group"]) if "group" in requested else None,
    )


def size_words(size_bytes: int) -> str:
    """4194304 -> '4MiB'."""
    unit = next(unit for unit in UNITS if size_bytes % unit == 0)
    return f"{size_bytes // unit}{UNITS[unit]}"


def _size(value: object) -> int:
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if match:
        size_bytes = int(match[1]) * next(unit for unit, word in UNITS.items() if word[0] == match[2])
    else:
        size_bytes = 0
    if not 64 * KIB <= size_bytes <= GIB or size_bytes & (size_bytes - 1):
        raise Refusal(
            f"tune_prealloc_size is {value!r}: a power of two from 64KiB to 1GiB is wanted, with its unit, such as 4MiB"
        )
    return size_bytes


def _table(value: object) -> tuple[int, ...]:
    listed = value if isinstance(value, list) else [value]
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in listed)
    text = " ".join(map(str, listed)) if whole else value
    if not isinstance(text, str) or not TABLE_TEXT.fullmatch(text):
        raise Refusal(
            f"tune_prealloc_table is {value!r}: whole numbers of blocks of 4 KiB are wanted, with one blank between "
            "two, such as 256 512 1024. A unit, a sign or a leading zero is not allowed. ldiskfs would take this "
            "without an error, and make another table of it, or none"
        )
    table = tuple(map(int, text.split(" ")))
    if list(table) != sorted(set(table)):
        raise Refusal(f"tune_prealloc_table is {text}: each number must be larger than the one before")
    odd = [blocks for blocks in table if blocks & (blocks - 1)]
    if odd:
        raise Refusal(
            f"tune_prealloc_table has {odd[0]}, which is no power of two; it counts blocks of 4 KiB: 256 is 1 MiB"
        )
    return table


def _group(value: Any) -> int:
    if isinstance(value, bool) or not GROUP.fullmatch(str(value)):
        raise Refusal(f"tune_prealloc_group is {value!r}: the number of a block group is wanted, 0 or more")
    return int(value)


def of(target: Target) -> Json | None:
    """What tune_prealloc.yml noted of a target."""
    return claims.complete_tunables(target.home).get(PREALLOCATION)


def size_bytes(target: Target) -> int:
    """Bytes that the file system is to give a file at a time; 0: its own choice."""
    return int((of(target) or {}).get("bytes", 0))


def step_words(before: object, now: object) -> str:
    """A change, in words."""
    if before == now:
        return f"{before} (unchanged)"
    return f"{before} -> {now}"
