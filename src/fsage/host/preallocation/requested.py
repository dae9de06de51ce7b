"""What tune_prealloc.yml asks for: a size or a table of blocks, and where the allocation pointer goes.

It is checked before anything is written, because ldiskfs refuses hardly any text for the table. It reads `256,512` as
256, and `1M` as one block. It reads `abc` as an empty table, which switches preallocation off.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from fsage.model.errors import Refusal

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNITS = {GIB: "GiB", MIB: "MiB", KIB: "KiB"}
BLOCK_BYTES = 4096
# The tables of the study, by the size that it calls them by; in blocks of 4 KiB.
TABLES = {
    1 * MIB: (32, 64, 128),
    2 * MIB: (128, 256, 512),
    4 * MIB: (256, 512, 1024),
    8 * MIB: (256, 512, 1024, 2048),
}
SIZE = re.compile(r"([1-9][0-9]{0,3}) ?([KMG])(?:iB)?")
TABLE_TEXT = re.compile(r"[1-9][0-9]{0,9}( [1-9][0-9]{0,9})*")
GROUP = re.compile(r"0|[1-9][0-9]{0,9}")


class Requested(NamedTuple):
    """A size or a table of blocks, and the block group to which the allocation pointer goes; None: not requested."""

    size_bytes: int | None
    table: tuple[int, ...] | None
    group: int | None


def settings_in(requested: dict[str, object]) -> dict[str, object]:
    """The entries of size, table and group that are not empty."""
    return {key: requested[key] for key in ("size", "table", "group") if requested.get(key) not in (None, "", [])}


def read(requested: dict[str, object]) -> Requested:
    """The meaning of `requested` (from `settings_in`). Raises Refusal with what is wrong and what is allowed."""
    if {"size", "table"} <= set(requested):
        raise Refusal(
            f"tune_prealloc_size is {requested['size']}, and tune_prealloc_table {requested['table']}: give one"
        )
    return Requested(
        _size(requested["size"]) if "size" in requested else None,
        _table(requested["table"]) if "table" in requested else None,
        _group(requested["group"]) if "group" in requested else None,
    )


def table_of(requested: Requested) -> tuple[int, ...] | None:
    """The table for ldiskfs; None when only the pointer is requested. Raises Refusal for a size without a table."""
    if requested.size_bytes is None or requested.size_bytes in TABLES:
        return TABLES[requested.size_bytes] if requested.size_bytes else requested.table
    tables = ", ".join(f"{size_words(size)}: {table_words(table)}" for size, table in TABLES.items())
    raise Refusal(
        f"tune_prealloc_size is {size_words(requested.size_bytes)}, for which no table is known ({tables}); give "
        "tune_prealloc_table"
    )


def table_words(table: tuple[int, ...]) -> str:
    """The text that the kernel takes: block counts with a blank between two."""
    return " ".join(map(str, table))


def size_words(size_bytes: int) -> str:
    """4194304 -> '4MiB'."""
    unit = next(unit for unit in UNITS if size_bytes % unit == 0)
    return f"{size_bytes // unit}{UNITS[unit]}"


def _size(value: object) -> int:
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    size_bytes = int(match[1]) * next(unit for unit, word in UNITS.items() if word[0] == match[2]) if match else 0
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
    if odd := [blocks for blocks in table if blocks & (blocks - 1)]:
        raise Refusal(
            f"tune_prealloc_table has {odd[0]}, which is no power of two; it counts blocks of 4 KiB: 256 is 1 MiB"
        )
    return table


def _group(value: Any) -> int:
    if isinstance(value, bool) or not GROUP.fullmatch(str(value)):
        raise Refusal(f"tune_prealloc_group is {value!r}: the number of a block group is wanted, 0 or more")
    return int(value)
