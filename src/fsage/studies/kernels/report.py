"""The report of studies over kernels: what a new file gets, by kernel and by options of mount and mkfs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

import pandas as pd

from fsage.api.model import counted as number_of
from fsage.api.model import format_size
from fsage.api.report import Answer, Data, Section, View, counted, dataset, groups, statistics, words

from .model import DEFAULTS

COUNTS = ("measured_extents", "measured_jumps", "requests", "measured_mean_position", "left_bytes")
"""What must be the same where a cell is measured again on the same image."""
USUAL_MKFS = "default"
LEAST = 5
"""Layouts that an interval needs."""
USUAL = "the usual options"
MOST_NAMED = 6
"""Most ways that the answer names one by one."""


class Way(NamedTuple):
    """A kernel with its options of mkfs and mount. Kernel "": that of images."""

    kernel: str
    mkfs: str
    mount: str

    def __str__(self) -> str:
        mkfs = "" if self.mkfs == USUAL_MKFS else f"mkfs {self.mkfs}"
        mount = "" if self.mount == DEFAULTS else self.mount
        return ", ".join(filter(None, [self.kernel, mkfs, mount])) or USUAL

    def differs_once(self, other: Way) -> bool:
        """Whether two ways differ in one thing, which is then what makes their difference."""
        return sum(ours != theirs for ours, theirs in zip(self, other, strict=True)) == 1


class Place(NamedTuple):
    """Where ways are compared: a file system, a state without its seed, and what the allocator had in memory.

    `file`: what is written, where a study writes several kinds of files.
    """

    filesystem: str
    state: str
    cache: str
    file: str

    def __str__(self) -> str:
        cold = " just mounted" if self.cache == "cold" else ""
        return ", ".join(filter(None, [f"{self.filesystem} {self.state}{cold}", self.file]))


Counts = dict[int, int]
"""Extents by layout."""


def rows_of(frame: pd.DataFrame) -> pd.DataFrame:
    """The planned cells of workload new_file, with their way and place as columns."""
    rows = frame[(frame["kind"] == "planned") & (frame["workload"] == "new_file")]
    params = dataset.unpacked(rows, "param", "cache", "file_size", kernel="", mount=DEFAULTS)
    mkfs = dataset.unpacked(rows, "axis", mkfs=USUAL_MKFS)["mkfs"]
    states = rows["state"].map(_unseeded)
    return rows.assign(
        way=list(map(Way, params["kernel"], mkfs, params["mount"])),
        place_of=list(map(Place, rows["filesystem"], states, params["cache"], _files(rows))),
        layout=rows["structure"].fillna(1).astype(int),
        file_bytes=params["file_size"],
    )


def _files(rows: pd.DataFrame) -> list[str]:
    """What each row has of the parameters of its file, in words; '' where all are alike."""
    of_way = ("kernel", "mount", "cache")
    own = rows.assign(params=dataset.without(rows, *of_way))
    labels = groups.params_labels(own.drop(columns=[f"param.{name}" for name in of_way], errors="ignore"))
    return [labels[text] if len(labels) > 1 else "" for text in own["params"]]


def _unseeded(state: str) -> str:
    return state.partition("@")[0].partition("+")[0]


def _valid(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["status"] == "valid") & rows["measured_extents"].notna()]


def _by_place(rows: pd.DataFrame) -> dict[Place, dict[Way, Counts]]:
    """Extents of each layout's first cell."""
    found = defaultdict[Place, dict[Way, Counts]](dict)
    for row in _valid(rows).sort_values("iteration").itertuples():
        found[row.place_of].setdefault(row.way, {}).setdefault(row.layout, int(row.measured_extents))
    return found


def _are_alike(ways: dict[Way, Counts]) -> bool:
    """Whether every layout has one number of extents, whatever the way."""
    first: Counts = {}
    for counts in ways.values():
        for layout, extents in counts.items():
            if first.setdefault(layout, extents) != extents:
                return False
    return True


def _ratio(ways: dict[Way, Counts]) -> float:
    """The largest median of extents over the smallest."""
    medians = [median(counts.values()) for counts in ways.values()]
    return max(medians) / max(1, min(medians))


def _layouts(ways: dict[Way, Counts]) -> int:
    """So many layouts, up to those that an interval needs, does each way have."""
    return min(LEAST, *map(len, ways.values()))


def answer(data: Data) -> Answer | None:
    """Where kernels and options differ most, what they give; and where they are alike."""
    rows = rows_of(data.frame)
    places = _by_place(rows)
    if not places:
        return None
    others = [place for place, ways in places.items() if not _are_alike(ways)]
    others.sort(key=lambda place: (-_layouts(places[place]), -_ratio(places[place])))
    first = {place.cache: place for place in reversed(others)}  # of each cache the place where most depends on the way
    return Answer(
        words.sentences(
            "kernels/answer",
            several_mkfs=len({way.mkfs for way in rows["way"]}) > 1,
            size=format_size(int(rows["file_bytes"].iloc[0])) if rows["file_bytes"].nunique() == 1 else "",
            named={place: _said(places[place]) for place in others if place in first.values()},
            alike=[place for place in places if place not in others],
            again=counted.again(_valid(rows), ["place_of", "way", "layout"], COUNTS),
        )
    )


def _said(ways: dict[Way, Counts]) -> dict[str, list[str]]:
    """'25 to 48 extents' -> ways with so many, the fewest first; of many ways the two that tell most."""
    named = ways
    if len(ways) > MOST_NAMED:
        named = _told_apart(ways)
    by_range = defaultdict[str, list[str]](list)
    for way, counts in sorted(named.items(), key=lambda pair: (median(pair[1].values()), pair[0])):
        by_range[_range(counts)].append(str(way))
    return by_range


def _told_apart(ways: dict[Way, Counts]) -> dict[Way, Counts]:
    """The two ways whose extents differ most. They differ in one thing, where any two do."""
    pairs = list(combinations(ways, 2))
    alone = [(a, b) for a, b in pairs if a.differs_once(b)]
    return max(({a: ways[a], b: ways[b]} for a, b in alone or pairs), key=_ratio)


def _range(counts: Counts) -> str:
    low = min(counts.values())
    high = max(counts.values())
    if low == high:
        return number_of(low, "extent")
    return f"{low} to {high} extents"


def table(data: Data) -> Section | None:
    """Each place and way: extents by layout, requests, and the computed cost."""
    rows = rows_of(data.frame)
    places = _by_place(rows)
    if not places:
        return None
    heads = [
        "file system, state",
        "kernel, options",
        "extents by layout",
        "median (over layouts)",
        "requests",
        "MiB/s, computed",
    ]
    lines = [heads, *_lines(rows, places)]
    text = (
        "Each cell mounts a copy of the state's image on one kernel and writes one file. Nothing is timed: the rate is "
        "computed from the counted extents, jumps and requests for the declared device. 'Just mounted': no bitmap was "
        "read before (ext4)."
    )
    return Section("What a new file gets", text, [], table=lines)


def _lines(rows: pd.DataFrame, places: dict[Place, dict[Way, Counts]]) -> Iterator[list[str]]:
    valid = _valid(rows)
    for place in sorted(places):
        for way, counts in sorted(places[place].items()):
            cells = valid[(valid["place_of"] == place) & (valid["way"] == way)]
            extents = [counts[layout] for layout in sorted(counts)]
            requests = f"{cells['requests'].median():g}"
            rate = f"{cells['computed_write_bw_mib_s'].median():.0f}"
            yield [str(place), str(way), ", ".join(map(str, extents)), _median(extents), requests, rate]


def _median(extents: Sequence[int]) -> str:
    """'24 (7 to 42, 93.8%)'; without an interval below LEAST layouts."""
    interval = statistics.summarise(extents).interval
    if interval is None:
        return f"{median(extents):g}"
    return f"{median(extents):g} ({interval.low:g} to {interval.high:g}, {interval.level:.1%})"


def not_counted(data: Data) -> Section | None:
    """Which kernels and mkfs do not know an option, and what failed, with the reason of each."""
    return counted.not_counted(rows_of(data.frame), "kernel, options", "way")


VIEW = View((table, not_counted), reference="the same free space on another kernel", answer=answer)
