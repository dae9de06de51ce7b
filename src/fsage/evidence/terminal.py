"""What `fsage evidence` and `fsage fragments` print, here and on a server that has nothing of fsage."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fsage import seam
from fsage.evidence import verdict
from fsage.evidence.tables import Table, of_fragments, tables, title
from fsage.model.message import printable
from fsage.model.typed import Json

SHADES = "█▓▒░ "  # in use to free
STRIP_COLUMNS = 64
REACHED = 3
"""The exit code where a limit of --fail-on is reached: 1 is an error, 2 a wrong command line."""
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
    fail_on: str = "",
) -> int:
    """Look at files; print how they lie, and what defragments them; the exit code. Raises ValueError."""
    limits = verdict.parse_limits(fail_on, verdict.OF_FRAGMENTS)
    result = seam.fragments(paths, files_at_most, worst, order, seek_ms, rate_mb_s)
    verdicts = [verdict.of_fragments(result), *_file_systems(paths)]
    code = _fail(verdicts, limits)
    if as_json:
        print(json.dumps({**result, "verdicts": [judged.as_json() for judged in verdicts]}, indent=1))
        return code
    for sentence in [sentence for judged in verdicts for sentence in judged.sentences]:
        print(sentence)
    print()
    for table in of_fragments(result):
        print(f"{table.title}\n{drawn(table)}\n")
    for part in result["commands"]:
        gain = "" if part["gain_s_at_most"] is None else f", which would gain {part['gain_s_at_most']:.3g} s at most"
        print(f"To defragment {part['files']} of these files on {part['filesystem']}{gain}; nothing was changed:")
        if part["risk"]:
            print(f"Warning: {part['risk']}")
        print(printable(part["command"]))
    return code


def _file_systems(paths: Sequence[Path]) -> Iterator[verdict.Verdict]:
    """The verdict on the free space of each file system that the paths are on."""
    for path in {os.stat(path).st_dev: path for path in reversed(paths)}.values():
        place = path if path.is_dir() else path.absolute().parent
        layout = seam.inspect(str(place), 0)
        for judged in verdict.verdicts({**layout, "stores": [{**store, "files": None} for store in layout["stores"]]}):
            yield replace(
                judged,
                sentences=[f"{layout['what']}: {sentence}" for sentence in judged.sentences[:1]] + judged.sentences[1:],
            )


def _fail(verdicts: Sequence[verdict.Verdict], limits: Mapping[str, float]) -> int:
    """Say on standard error which limits are reached; the exit code. Raises ValueError where a value is not known."""
    reached = [sentence for judged in verdicts for sentence in verdict.reached(judged.values, limits)]
    for sentence in reached:
        print(f"fsage: {sentence}", file=sys.stderr)
    return REACHED if reached else 0


def show(layout: Json, as_json: bool, fail_on: str = "") -> int:
    """Print what `fsage.host.inspect` found, of each store the verdict first; the exit code. Raises ValueError."""
    verdicts = verdict.verdicts(layout)
    code = _fail(verdicts, verdict.parse_limits(fail_on, verdict.NAMES))
    if as_json:
        print(json.dumps({**layout, "verdicts": [judged.as_json() for judged in verdicts]}, indent=1))
        return _unread(layout) or code
    for store, judged in zip(layout["stores"], verdicts):
        print("\n".join([f"{layout['what']}: {title(store)}", *judged.sentences]))
        if store["bitmap"]:
            print(f"[{strip(store['bitmap']['free_share'])}]  █ in use")
        for table in tables(store):
            print(f"\n{table.title}\n{drawn(table)}")
    print(f"(taken in {layout['seconds']:.2f} s)")
    return _unread(layout) or code


def _unread(layout: Json) -> int:
    """Say on standard error that no file of a directory could be read; the exit code of that, 0 where one was."""
    if layout["unread"] is None:
        return 0
    print(f"fsage: {printable(layout['unread'])}", file=sys.stderr)
    return 1


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
