"""What counts say: a first sentence that answers, a table of all, and whether the same was counted twice alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from fsage.model.typed import Json
from fsage.text.sizes import format_size


class Way(NamedTuple):
    """A kernel with its mount options."""

    kernel: str
    mount: str
    warm: bool

    def __str__(self) -> str:
        parts = [self.kernel, self.mount, "bitmaps in memory" if self.warm else ""]
        return ", ".join(filter(None, parts))


Counts = dict[int, int]
"""Extents by seed of the layout."""


def page(rows: Sequence[Json]) -> str:
    """The report, as Markdown."""
    first = [row for row in rows if row["repeat"] == 1]
    groups = {key: _by_way(some) for key, some in _grouped(first).items()}
    alike = [" ".join(key) for key, ways in sorted(groups.items()) if _are_alike(ways)]
    others = sorted((key for key, ways in groups.items() if not _are_alike(ways)), key=lambda key: -_ratio(groups[key]))
    return "\n".join(
        [
            "# Kernels",
            "",
            f"In the same free space a new file of {format_size(first[0]['file_bytes'])} gets "
            + "; ".join(_answer(*key, groups[key]) for key in others[:1])
            + ("as many extents on every kernel." if not others else "."),
            *(f"It gets {_answer(*key, groups[key])}." for key in others[1:]),
            *([f"Alike on all, layout by layout: {', '.join(alike)}."] if alike else []),
            "",
            *_alike_twice(rows),
            f"The file is written past the cache by {format_size(first[0]['request_bytes'])}. The images are made by "
            f"kernel {first[0].get('built_by', '?')}. Nothing was timed.",
            "",
            f"| file system | state | kernel, mount options | extents, layouts 1 to {max(r['seed'] for r in first)} "
            "| median |",
            "|---|---|---|---|---|",
            *_table(groups),
            "",
            *sorted({f"Not counted: {_not_counted(row)}." for row in rows if "why" in row}),
            "",
        ]
    )


def _not_counted(row: Json) -> str:
    way = Way(row["kernel"], row["mount"], row["warm"])
    return f"{row['filesystem']} {row['state']} on {way} ({row['status']}): {row['why']}"


def _grouped(rows: Sequence[Json]) -> dict[tuple[str, str], list[Json]]:
    groups = defaultdict[tuple[str, str], list[Json]](list)
    for row in rows:
        if row["status"] == "valid":
            groups[row["filesystem"], row["state"]].append(row)
    return groups


def _by_way(rows: Sequence[Json]) -> dict[Way, Counts]:
    ways = defaultdict[Way, Counts](dict)
    for row in rows:
        ways[Way(row["kernel"], row["mount"], row["warm"])][row["seed"]] = row["extents"]
    return ways


def _are_alike(ways: dict[Way, Counts]) -> bool:
    """Whether every layout has one number of extents, whatever the way."""
    return all(len({counts[seed] for counts in ways.values() if seed in counts}) == 1 for seed in _seeds(ways))


def _seeds(ways: dict[Way, Counts]) -> set[int]:
    return {seed for counts in ways.values() for seed in counts}


def _ratio(ways: dict[Way, Counts]) -> float:
    """The largest median of extents over the smallest."""
    medians = [median(counts.values()) for counts in ways.values()]
    return max(medians) / max(1, min(medians))


def _answer(filesystem: str, state: str, ways: dict[Way, Counts]) -> str:
    """Extents by way, the fewest first."""
    of_range = defaultdict[str, list[Way]](list)
    for way, counts in sorted(ways.items(), key=lambda pair: median(pair[1].values())):
        of_range[_range(counts)].append(way)
    parts = [f"{extents} with {_list(some)}" for extents, some in of_range.items()]
    return f"on {filesystem} {state} these extents: {', '.join(parts)}"


def _range(counts: Counts) -> str:
    low, high = min(counts.values()), max(counts.values())
    return f"{low}" if low == high else f"{low} to {high}"


def _list(ways: Sequence[Way]) -> str:
    *most, last = map(str, ways)
    return f"{'; '.join(most)} and {last}" if most else last


def _alike_twice(rows: Sequence[Json]) -> list[str]:
    """A sentence on A/A, where cells were counted more than once."""
    seen = defaultdict[str, list[object]](list)
    for row in rows:
        if row["status"] == "valid":
            cell = [row[name] for name in ("filesystem", "state", "seed", "kernel", "mount", "warm")]
            seen[str(cell)].append(row["layout"])
    twice = [layouts for layouts in seen.values() if len(layouts) > 1]
    other = sum(1 for layouts in twice if any(layout != layouts[0] for layout in layouts))
    return [f"Counted again, {other} of {len(twice)} cells had another layout."] if twice else []


def _table(groups: dict[tuple[str, str], dict[Way, Counts]]) -> Iterator[str]:
    for (filesystem, state), ways in sorted(groups.items()):
        for way, counts in ways.items():
            values = [counts[seed] for seed in sorted(counts)]
            yield f"| {filesystem} | {state} | {way} | {', '.join(map(str, values))} | {median(values):g} |"
