"""Figures: plain values in, drawings out, the same bytes each time. What is shown of which study: fsage.report.

Here is what figures show, not how it looks; nothing here needs Matplotlib. Sections hold these, and `drawing` draws all
of them at the end. How they look and are written is in style.py. Every figure is small enough to be read on a phone. It
tells its parts apart by marker, dash or hatch as well as by colour. Its stamp names the (modelled) device on which its
numbers were taken.

Each kind has a `title`, unique within its report, and a `note`, which stands after the report's stamp. `table()` is
what it shows as rows of text and numbers, the first one the headings, for a file beside it.

Whatever a report draws of medians over something is made from a tidy table: a row a point. Its columns are `median`,
the point's value; `low`, `high`, `n` and `samples`, where there are any (NaN: not known); `state`, the point's name.
Where it lies, and to which series it belongs, say columns that the caller names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypeAlias

import pandas as pd

from fsage.base.sizes import round_size, significant

Cell: TypeAlias = str | float | int | None
Table: TypeAlias = Sequence[Sequence[Cell]]
MOST_TICKS = 8


@dataclass(frozen=True)
class Axis:
    """`label` with its unit. `limits`: none: as the values ask. `ticks`: levels and what they are called."""

    label: str
    limits: tuple[float, float] | None = None
    ticks: Mapping[float, str] = field(default_factory=dict)
    log: bool = False

    @classmethod
    def around(cls, label: str, points: pd.DataFrame, *values: float, zero: bool = False) -> Axis:
        """An axis for all of `points` and some values, so that figures can share it.

        From zero if the lowest is below half of the highest, or if `zero`; else from just below the lowest. It spans
        at least 10%, so that noise is not blown up until it looks like an effect.
        """
        ends = [*values, *_ends_of(points)]
        low = min(ends)
        high = max(ends)
        room = max(high - low, 0.1 * high) * 0.12
        low = min(low, 0.9 * high)
        if zero or low < 0.5 * high:
            return cls(label, (0.0, high + room))
        return cls(label, (low - room, high + room))

    @classmethod
    def from_zero(cls, label: str, points: pd.DataFrame, room: float = 0.08, least: float = 0.0) -> Axis:
        """An axis from zero, from below it where a value is, that spans at least `least`; `room`: a share of it."""
        ends = [0.0, *_ends_of(points)]
        low = min(ends)
        high = max(ends)
        margin = room * max(high - low, least)
        return cls(label, (low - margin if low < 0 else 0.0, max(high, low + least) + margin))

    @classmethod
    def powers(
        cls, label: str, points: pd.DataFrame, *values: float, written: Callable[[float], str] = "{:g}".format
    ) -> Axis:
        """A logarithmic axis for `points` above zero and some values; its ticks are powers of two, few enough."""
        ends = [end for end in (*values, *_ends_of(points)) if end > 0]
        low = math.floor(math.log2(min(ends)))
        high = math.ceil(math.log2(max(ends)))
        step = max(1, -(-(high - low) // MOST_TICKS))
        return cls(label, ticks={2.0**power: written(2.0**power) for power in range(low, high + step, step)}, log=True)


def slug(title: str) -> str:
    """A title as a file name or a part of an address."""
    return re.sub(r"\W+", "-", title.lower()).strip("-")


@dataclass(frozen=True)
class _Figure:
    title: str
    note: str = field(default="", kw_only=True)

    @property
    def name(self) -> str:
        """The title as a file name."""
        return slug(self.title)


@dataclass(frozen=True)
class Point:
    """A median with its interval, the number of its samples and these. `name`: what it is called; '': by its x."""

    x: float
    y: float
    low: float = math.nan
    high: float = math.nan
    n: int | None = None
    samples: tuple[float, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class Series:
    """`joined`: whether its points are steps of one thing, so that a line between them means something."""

    label: str
    points: tuple[Point, ...]
    joined: bool = True


@dataclass(frozen=True)
class Level:
    """A value to compare with. `of`: the label of the series whose colour it has; none: grey and without a name."""

    value: float
    label: str = ""
    of: str = ""


@dataclass(frozen=True)
class Lines(_Figure):
    """Medians with their intervals over a quantity or over levels (`x.ticks`: series then stand side by side)."""

    series: tuple[Series, ...]
    x: Axis
    y: Axis
    levels: tuple[Level, ...] = ()

    def table(self) -> Table:
        """A row a point."""
        rows: list[list[Cell]] = [["series", "at", self.x.label, self.y.label, "low", "high", "n"]]
        for line in self.series:
            for point in line.points:
                ends = [point.x, point.y, point.low, point.high, point.n]
                rows.append([line.label, self.name_of(point), *ends])
        return rows

    def name_of(self, point: Point) -> str:
        """What a point is called."""
        return point.name or self.x.ticks.get(point.x) or significant(point.x, 4)


@dataclass(frozen=True)
class Bars(_Figure):
    """Shares by class, a set of bars for each of a few things: by label as many numbers as there are classes."""

    classes: tuple[str, ...]
    shares: Mapping[str, tuple[float, ...]]
    x: Axis
    y: Axis

    def table(self) -> Table:
        """A row a class."""
        heads = [f"{label}, {self.y.label}".strip(", ") for label in self.shares]
        return [[self.x.label, *heads], *zip(self.classes, *self.shares.values(), strict=True)]


@dataclass(frozen=True)
class Place:
    """A value on a plane, between the `least` and the `most` of its units; `says`: what it is, in words.

    `text`: what stands there, a line for each; '': the value. `file`: which file was measured there, so that a border
    parts those that differ; '': not known.
    """

    x: float
    y: float
    value: float
    n: int
    low: float = math.nan
    high: float = math.nan
    least: float = math.nan
    most: float = math.nan
    says: str = ""
    text: str = ""
    file: str = ""


@dataclass(frozen=True)
class Plane(_Figure):
    """Numbers over two axes. `missing`: planned and not there; `empty`: why the others are not.

    `predicted`: not measured, what the others say of them.

    `factor`: the values are ratios, of which 1 is the middle. `dark_high`: dark is the most, as for a loss.
    """

    places: tuple[Place, ...]
    x: Axis
    y: Axis
    missing: tuple[tuple[float, float], ...] = ()
    empty: str = "not planned"
    factor: bool = False
    dark_high: bool = False
    predicted: tuple[Place, ...] = ()

    def table(self) -> Table:
        """A row a place; n is 0 where it is predicted."""
        rows: list[list[Cell]] = [[self.x.label, self.y.label, self.title, "low", "high", "n", "least", "most"]]
        for place in (*self.places, *self.predicted):
            rows.append([place.x, place.y, place.value, place.low, place.high, place.n, place.least, place.most])
        return rows


@dataclass(frozen=True)
class Strips(_Figure):
    """A device's free space in the order of its blocks: by label the free share (0 to 1) of each bin."""

    strips: Mapping[str, tuple[float, ...]]
    device_bytes: int

    def table(self) -> Table:
        """A row a bin."""
        bins = max(map(len, self.strips.values()))
        heads = [f"{label}, free share".strip(", ") for label in self.strips]
        places = (number * self.device_bytes // bins for number in range(bins))
        return [["from, bytes", *heads], *zip_longest(places, *self.strips.values())]


@dataclass(frozen=True)
class Cloud:
    """Single measurements of one `kind` (drawing.LOOKS)."""

    kind: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


@dataclass(frozen=True)
class _Clouds(_Figure):
    clouds: tuple[Cloud, ...]
    x: Axis
    y: Axis

    def _rows(self, *heads: str) -> Table:
        rows: list[Sequence[Cell]] = [heads]
        for cloud in self.clouds:
            for x, y in zip(cloud.xs, cloud.ys, strict=True):
                rows.append([cloud.kind, x, y])
        return rows


@dataclass(frozen=True)
class RunChart(_Clouds):
    """Samples in the order in which they were taken; 1 is what was expected."""

    def table(self) -> Table:
        """A row a sample."""
        return self._rows("kind", self.x.label, self.y.label)


@dataclass(frozen=True)
class Trace(_Clouds):
    """Requests to a device: when, and where (bytes); reads, writes, and small ones of either kind."""

    def table(self) -> Table:
        """A row a request."""
        return self._rows("request", "seconds", "offset, bytes")


Figure: TypeAlias = Lines | Bars | Plane | Strips | RunChart | Trace


def lines(
    title: str,
    rows: pd.DataFrame,
    by: str,
    x: Axis,
    y: Axis,
    *,
    at: str = "x",
    labels: Mapping[Any, str] | None = None,
    joined: bool = True,
    levels: Iterable[Level] = (),
    note: str = "",
) -> Lines:
    """A series for each value of the column `by`, its points in the order of the column `at`.

    `labels`: which values, in this order, and what they are called; none: all, as they come.
    """
    if labels is None:
        labels = {value: str(value) for value in rows[by].unique()}
    drawn = []
    for value, label in labels.items():
        part = rows[rows[by] == value]
        if len(part):
            drawn.append(_series(label, part, at, joined))
    return Lines(title, tuple(drawn), x, y, tuple(levels), note=note)


def placed(
    rows: pd.DataFrame, column: str, order: Iterable[Any] | None = None
) -> tuple[pd.DataFrame, dict[float, str]]:
    """The rows with `x`, a place for each value of a column, in `order` or as they come; and these as ticks."""
    values = dict.fromkeys(rows[column] if order is None else order)
    places = {value: float(place) for place, value in enumerate(values)}
    return rows.assign(x=rows[column].map(places)), dict(zip(places.values(), map(str, places), strict=True))


def doubling(
    rows: pd.DataFrame, column: str, written: Callable[[int], str] = round_size
) -> tuple[pd.DataFrame, dict[float, str]]:
    """The rows with `x`, the logarithm of a column whose levels double, as sizes do; and these levels as ticks."""
    ticks = {math.log2(level): written(level) for level in sorted(rows[column].unique())}
    return rows.assign(x=rows[column].astype("float64").map(math.log2)), ticks


def shares(
    title: str, by_label: Mapping[str, Mapping[Any, float]], x: Axis, y: Axis, classes: Mapping[Any, str] | None = None
) -> Bars:
    """Each class's share of all amounts of a label, in percent.

    `classes`: by their keys what they are called; none: the keys are sizes, powers of two.
    """
    if classes is None:
        classes = _powers_of_two(by_label)
    percent = {}
    for label, amounts in by_label.items():
        whole = sum(amounts.values())
        percent[label] = tuple(100 * amounts.get(key, 0) / whole for key in classes)
    return Bars(title, tuple(classes.values()), percent, x, y)


def _powers_of_two(by_label: Mapping[str, Iterable[int]]) -> dict[int, str]:
    """Size classes from the least to the largest key, and what they are called."""
    seen = set[int]().union(*by_label.values())
    powers = range(min(seen).bit_length() - 1, max(seen).bit_length())
    return {1 << power: round_size(1 << power) for power in powers}


def _series(label: str, rows: pd.DataFrame, at: str, joined: bool) -> Series:
    points = []
    for row in rows.dropna(subset="median").sort_values(at, kind="stable").to_dict("records"):
        count = row.get("n", math.nan)
        points.append(
            Point(
                float(row[at]),
                float(row["median"]),
                float(row.get("low", math.nan)),
                float(row.get("high", math.nan)),
                None if math.isnan(count) else int(count),
                tuple(row.get("samples", ())),
                str(row.get("state", "")),
            )
        )
    return Series(label, tuple(points), joined)


def _ends_of(points: pd.DataFrame) -> list[float]:
    """All values that lie on the axis of `points`: medians, ends of intervals, samples."""
    ends: list[float] = []
    for name in ("median", "low", "high"):
        if name in points:
            ends.extend(points[name].dropna())
    for samples in points.get("samples", ()):
        ends += samples
    return ends
