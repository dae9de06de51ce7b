"""What `fsage evidence` and `fsage fragments` print, here and on a server that has nothing of fsage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fsage import seam
from fsage.evidence.tables import Table, of_fragments, tables, title
from fsage.model.message import printable

SHADES = "█▓▒░ "  # in use to free
STRIP_COLUMNS = 64
WIDEST = 60
"""Columns that a name is given at most; what is longer moves its own row only."""


def fragments(
    paths: Sequence[Path],
    worst: int,
    order: str,
    seek_ms: float | None,
    rate_mb_s: float | None,
    as_json: bool,
    files_at_most: int,
) -> None:
    """Look at files; print how they lie, and what defragments them. Raises ValueError."""
    found = seam.here().fragments(paths, files_at_most, worst, order, seek_ms, rate_mb_s)
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for table in of_fragments(found):
        print(f"{table.title}\n{drawn(table)}\n")
    for part in found["commands"]:
        gain = "" if part["gain_s_at_most"] is None else f", which would gain {part['gain_s_at_most']:.3g} s at most"
        print(f"To defragment {part['files']} of these files on {part['filesystem']}{gain}; nothing was changed:")
        if part["risk"]:
            print(f"Warning: {part['risk']}")
        print(printable(part["command"]))


def show(layout: dict[str, Any], as_json: bool) -> None:
    """Print what `fsage.host.inspect` found."""
    if as_json:
        print(json.dumps(layout, indent=1))
        return
    for store in layout["stores"]:
        print(f"{layout['what']}: {title(store)}")
        if store["bitmap"]:
            print(f"[{strip(store['bitmap']['free_share'])}]  █ in use")
        for table in tables(store):
            print(f"\n{table.title}\n{drawn(table)}")
    print(f"(taken in {layout['seconds']:.2f} s)")


def strip(free_share: list[float], columns: int = STRIP_COLUMNS) -> str:
    """The device from its first byte to its last, dark where it is in use."""
    shares = []
    for column in range(columns):
        begin = column * len(free_share) // columns
        part = free_share[begin : max(begin + 1, (column + 1) * len(free_share) // columns)]
        shares.append(sum(part) / len(part))
    return "".join(SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)] for share in shares)


def drawn(table: Table) -> str:
    """A table as lines; numbers end alike. Nothing in it steers the terminal."""
    rows = [[printable(cell) for cell in row] for row in ([table.columns] if any(table.columns) else []) + table.rows]
    widths = [min(WIDEST, max(map(len, column))) for column in zip(*rows)]
    lines = (
        "  ".join(
            cell.rjust(width) if number and table.numbers else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths))
        )
        for row in rows
    )
    return "\n".join(f"  {line.rstrip()}" for line in lines)
