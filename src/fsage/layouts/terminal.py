"""A store's summary as tables of words, and what `fsage evidence` and `fsage fragments` print.

The tables are for the terminal and for the page alike.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fsage.base import Json
from fsage.base.message import printable
from fsage.base.sizes import round_size, significant
from fsage.layouts import verdict
from fsage.layouts.fragments import look_at
from fsage.layouts.inspect import inspect

NUMBERS_SHOWN = 12


@dataclass(frozen=True)
class Table:
    """Rows of words; the first column names, the others are numbers unless `numbers` says no. No heads: "" each."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    numbers: bool = True


def title(store: Json) -> str:
    """'ext4, 8 GiB, 9.04% full'; what is not known is left out."""
    words = [store["filesystem"] or "files"]
    if store["device_bytes"]:
        words += [round_size(store["device_bytes"]), f"{store['fullness_percent']:.2f}% full"]
    return ", ".join(words)


def tables(store: Json) -> Iterator[Table]:
    """All that the store's summary (agent.evidence.store.Store.summary) has."""
    extents = store["free_extents"]
    if store["device_bytes"]:
        rows = [[key, round_size(store[f"{key}_bytes"])] for key in ("device", "block", "used", "free")]
        if extents:
            rows.append(["free extents", f"{extents['count']:,}"])
            rows.append(["largest", round_size(extents["largest_bytes"])])
            rows.append(["mean", _size(extents["mean_bytes"])])
        yield Table(f"Space, by {store['source']['free']}", ["", ""], rows)
    if extents:
        yield _histogram(extents["histogram"], store["free_bytes"])
    if store["aligned_free_share"]:
        shares = store["aligned_free_share"].items()
        rows = [[round_size(int(size)), _percent(share)] for size, share in shares if share is not None]
        yield Table("Free space in whole, aligned chunks", ["chunk", "of free bytes"], rows)
    if store["groups"]:
        yield _groups(store["groups"])
    for name, files in (store["files"] or {}).items():
        yield from _files(name, files, store["source"]["files"])
    if store["absent"]:
        reasons: dict[str, list[str]] = {}
        for key, why in store["absent"].items():
            reasons.setdefault(why, []).append(key.replace("_", " "))
        rows = [[", ".join(names), why] for why, names in reasons.items()]
        yield Table("Absent", ["what", "why"], rows, numbers=False)


def _histogram(classes: list[dict[str, int]], free_bytes: int) -> Table:
    rows = []
    for size_class in classes:
        if size_class["extents"]:
            size_bytes = size_class["bytes"]
            words = [f"{round_size(size_class['from_bytes'])} …", f"{size_class['extents']:,}", round_size(size_bytes)]
            rows.append([*words, _percent(size_bytes / (free_bytes or 1))])
    return Table("Free extents by size", ["from, to twice that", "extents", "bytes", "of free bytes"], rows)


def _groups(groups: Json) -> Table:
    columns = ["free", "by bytes", "of all"]
    rows = []
    for bucket in groups["buckets"]:
        rows.append([bucket["label"], f"{bucket['groups']:,}", _percent(bucket["groups"] / groups["count"])])
    if groups["inode_buckets"]:
        columns.append("by inodes")
        for row, bucket in zip(rows, groups["inode_buckets"]):
            row.append(f"{bucket['groups']:,}")
    title = f"{groups['count']:,} {groups['kind']}s, the largest {round_size(groups['group_bytes'])}"
    return Table(title, columns, rows)


def _files(name: str, files: Json, source: str) -> Iterator[Table]:
    score = files["layout_score"]
    rows = [
        ["files", f"{files['files']:,}"],
        ["bytes", _size(files["bytes"])],
        ["extents", f"{files['extents']:,}"],
        ["mean extent", _size(files["mean_extent_bytes"])],
        ["layout score", "unknown" if score is None else f"{score:.5f}"],
    ]
    yield Table(f"Files {name}, by {source}", ["", ""], rows)
    rows = []
    for number, count in extents_per_file(files).items():
        rows.append([number, f"{count:,}", _percent(count / files["files"])])
    yield Table(f"Extents of files {name}", ["extents", "files", "of files"], rows)


def extents_per_file(files: Json) -> dict[str, int]:
    """Number of extents -> files; of many numbers, classes by power of two: '4-7'."""
    counts: dict[str, int] = files["extents_per_file"]
    if len(counts) <= NUMBERS_SHOWN:
        return counts
    classes: Counter[str] = Counter()
    for number, count in counts.items():
        classes[_pieces((1 << int(number).bit_length()) >> 1)] += count
    return classes


def _size(size_bytes: float | None) -> str:
    if size_bytes is None:
        return "unknown"
    return round_size(size_bytes)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def of_fragments(fragments: Json) -> Iterator[Table]:
    """The tables of `fsage fragments`, from fsage.layouts.fragments.summary."""
    yield _all_files(fragments)
    rows = []
    for row in fragments["histogram"]:
        rows.append([_pieces(row["from_extents"]), f"{row['files']:,}", round_size(row["bytes"])])
    yield Table("Files by extents", ["extents", "files", "bytes"], rows)
    if not fragments["worst"]:
        return
    title = (
        f"The worst {len(fragments['worst'])} of {fragments['files_in_pieces']:,} files in more extents than need be"
    )
    rows = []
    for file in fragments["worst"]:
        gain = "-" if file["gain_s_at_most"] is None else f"{significant(file['gain_s_at_most'])} s"
        speedup = "-" if file["speedup_at_most"] is None else f"{significant(file['speedup_at_most'])}"
        rows.append([file["path"], f"{file['extents']:,}", round_size(file["bytes"]), gain, speedup])
    yield Table(title, ["file", "extents", "bytes", "gain ≤", "times as fast ≤"], rows)


def _all_files(fragments: Json) -> Table:
    every = fragments["all"]
    rows = [
        ["files", f"{every['files']:,}"],
        ["bytes", round_size(every["bytes"])],
        ["extents", f"{every['extents']:,}"],
        ["extents that they need", f"{every['ideal_extents']:,}"],
        ["fragmentation factor", f"{100 * every['fragmentation_factor']:.2f}%"],
    ]
    device = fragments["device"]
    if device:
        rows += [
            ["a seek", f"{1000 * device['seek_s']:.3g} ms"],
            ["transfer", f"{device['bytes_per_s'] / 1e6:.4g} MB/s ({device['source']})"],
            ["reading all cold takes", f"{significant(every['read_s_at_most'])} s at most"],
            ["defragmenting would gain", f"{significant(every['gain_s_at_most'])} s at most"],
            ["", f"{device['statement']}; no forecast"],
        ]
    else:
        rows.append(["no gain is told", fragments["device_absent"]])
    unmapped = fragments["unmapped"]
    if unmapped["last"]:
        counted = f"{unmapped['folders']:,} folders and {unmapped['files']:,} files"
        rows.append(["could not be read", f"{counted}, the last {unmapped['last']}"])
    if fragments["truncated"]:
        rows.append(["not seen", "there are more files (--files)"])
    return Table("All files", ["", ""], rows, numbers=False)


def _pieces(low: int) -> str:
    if low < 2:
        return str(low)
    return f"{low}-{2 * low - 1}"


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
    result = look_at(paths, files_at_most, worst, order, seek_ms, rate_mb_s)
    verdicts = [verdict.of_fragments(result), *_file_systems(paths)]
    code = _fail(verdicts, limits)
    if as_json:
        _print_json(result, verdicts)
        return code
    for judged in verdicts:
        print("\n".join(judged.sentences))
    print()
    for table in of_fragments(result):
        print(f"{table.title}\n{drawn(table)}\n")
    for part in result["commands"]:
        gain = ""
        if part["gain_s_at_most"] is not None:
            gain = f", which would gain {significant(part['gain_s_at_most'])} s at most"
        print(f"To defragment {part['files']} of these files on {part['filesystem']}{gain}; nothing was changed:")
        if part["risk"]:
            print(f"Warning: {part['risk']}")
        print(printable(part["command"]))
    return code


def _file_systems(paths: Sequence[Path]) -> Iterator[verdict.Verdict]:
    """The verdict on the free space of each file system that the paths are on."""
    for path in {os.stat(path).st_dev: path for path in reversed(paths)}.values():
        place = path if path.is_dir() else path.absolute().parent
        layout = inspect(str(place), 0)
        for store in layout["stores"]:
            store["files"] = None
        for judged in verdict.verdicts(layout):
            sentences = list(judged.sentences)
            sentences[:1] = [f"{layout['what']}: {sentence}" for sentence in sentences[:1]]
            yield replace(judged, sentences=sentences)


def _fail(verdicts: Sequence[verdict.Verdict], limits: Mapping[str, float]) -> int:
    """Say on standard error which limits are reached; the exit code. Raises ValueError where a value is not known."""
    reached = [sentence for judged in verdicts for sentence in verdict.reached(judged.values, limits)]
    for sentence in reached:
        print(f"fsage: {sentence}", file=sys.stderr)
    return REACHED if reached else 0


def _print_json(found: Json, verdicts: Sequence[verdict.Verdict]) -> None:
    print(json.dumps({**found, "verdicts": [judged.as_json() for judged in verdicts]}, indent=1))


def show(layout: Json, as_json: bool, limits: Mapping[str, float]) -> int:
    """Print what `fsage.layouts.inspect` found, of each store the verdict first; the exit code. Raises ValueError."""
    verdicts = verdict.verdicts(layout)
    code = _fail(verdicts, limits)
    if as_json:
        _print_json(layout, verdicts)
    else:
        for store, judged in zip(layout["stores"], verdicts):
            print("\n".join([f"{layout['what']}: {title(store)}", *judged.sentences]))
            if store["bitmap"]:
                print(f"[{strip(store['bitmap']['free_share'])}]  █ in use")
            for table in tables(store):
                print(f"\n{table.title}\n{drawn(table)}")
        print(f"(taken in {layout['seconds']:.2f} s)")
    if layout["unread"] is None:
        return code
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
    rows = [list(map(printable, row)) for row in table.rows]
    if any(table.columns):
        rows.insert(0, list(map(printable, table.columns)))
    widths = [min(WIDEST, max(map(len, column))) for column in zip(*rows)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        for cell, width in zip(others, widths[1:]):
            cells.append(cell.rjust(width) if table.numbers else cell.ljust(width))
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)
