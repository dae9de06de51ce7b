"""Layouts as tables on a terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from fsage.evidence.tables import Table, tables, title

SHADES = "█▓▒░ "  # in use to free
STRIP_COLUMNS = 64


def show(layout: dict[str, Any], console: Console) -> None:
    """Print what `fsage.host.inspect` found."""
    for store in layout["stores"]:
        console.print(Text(f"{layout['what']}: {title(store)}", "bold"))
        if store["bitmap"]:
            console.print(f"[{strip(store['bitmap']['free_share'])}]  █ in use", markup=False)
        for table in tables(store):
            console.print(Text(f"\n{table.title}", "bold"))
            console.print(drawn(table))
    console.print(f"(taken in {layout['seconds']:.2f} s)")


def strip(free_share: list[float], columns: int = STRIP_COLUMNS) -> str:
    """The device from its first byte to its last, dark where it is in use."""
    shares = []
    for column in range(columns):
        begin = column * len(free_share) // columns
        part = free_share[begin : max(begin + 1, (column + 1) * len(free_share) // columns)]
        shares.append(sum(part) / len(part))
    return "".join(SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)] for share in shares)


def drawn(table: Table) -> RichTable:
    """One table, without lines between its rows."""
    drawn = RichTable(box=box.SIMPLE_HEAD, show_header=any(table.columns), pad_edge=False)
    for number, column in enumerate(table.columns):
        drawn.add_column(Text(column), justify="right" if number and table.numbers else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn
