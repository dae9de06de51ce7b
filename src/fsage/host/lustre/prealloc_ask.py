"""What may be asked of a target's preallocation, checked before anything is written.

ldiskfs takes nearly everything that is written to `prealloc_table` and makes something else of it: of `256,512` only
256, of `1M` one block, of `abc` nothing at all, which switches preallocation off.
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
TABLE = re.compile(r"[1-9][0-9]{0,9}( [1-9][0-9]{0,9})*")
GROUP = re.compile(r"0|[1-9][0-9]{0,9}")


class Ask(NamedTuple):
    """A size or a table of blocks, and the block group to which the allocation pointer goes; None: not asked for."""

    size_bytes: int | None
    table: tuple[int, ...] | None
    group: int | None


def given(asked: dict[str, object]) -> dict[str, object]:
    """Those of size, table and group that were given."""
    return {key: asked[key] for key in ("size", "table", "group") if asked.get(key) not in (None, "", [])}


def read(asked: dict[str, object]) -> Ask:
    """What `asked`, as `given` leaves it, means. `Refusal` names what is wrong, and what is allowed."""
    if {"size", "table"} <= set(asked):
        raise Refusal(f"tune_prealloc_size is {asked['size']}, and tune_prealloc_table {asked['table']}: give one")
    return Ask(
        _size(asked["size"]) if "size" in asked else None,
        _table(asked["table"]) if "table" in asked else None,
        _group(asked["group"]) if "group" in asked else None,
    )


def table_of(ask: Ask) -> tuple[int, ...] | None:
    """The table for ldiskfs; None when only the pointer is asked for. `Refusal` for a size that has none."""
    if ask.size_bytes is None or ask.size_bytes in TABLES:
        return TABLES[ask.size_bytes] if ask.size_bytes else ask.table
    known = ", ".join(f"{size_words(size)}: {table_words(table)}" for size, table in TABLES.items())
    raise Refusal(
        f"tune_prealloc_size is {size_words(ask.size_bytes)}, for which no table is known ({known}); give "
        "tune_prealloc_table"
    )


def table_words(table: tuple[int, ...]) -> str:
    """As the kernel takes it."""
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
    whole = all(isinstance(one, int) and not isinstance(one, bool) for one in listed)
    text = " ".join(map(str, listed)) if whole else value
    if not isinstance(text, str) or not TABLE.fullmatch(text):
        raise Refusal(
            f"tune_prealloc_table is {value!r}: whole numbers of blocks of 4 KiB are wanted, without unit, sign or "
            "leading zero, with one blank between two, such as 256 512 1024. ldiskfs would take this without an error, "
            "and make another table of it, or none"
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
