"""Figures as plain values: what they show, not how it looks. Sections hold these; `drawing` draws them at the end.

Each kind has a `title`, unique within its report; `note`, which stands after the report's stamp; and `table()`: what it
shows as rows of text and numbers, the first one the headings, for a file beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Cell: TypeAlias = str | float | int | None
Table: TypeAlias = Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Axis:
    """`label` with its unit. `limits`: none: as the values ask. `ticks`: levels and what they are called."""

    label: str
    limits: tuple[float, float] | None = None
    ticks: Mapping[float, str] = field(default_factory=dict)
    log: bool = False


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
    low: float | None = None
    high: float | None = None
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
class Band:
    """A range of y."""

    low: float
    high: float
    label: str


@dataclass(frozen=True)
class Lines(_Figure):
    """Medians with their intervals over a quantity or over levels (`x.ticks`: series then stand side by side)."""

    series: tuple[Series, ...]
    x: Axis
    y: Axis
    levels: tuple[Level, ...] = ()
    band: Band | None = None

    def table(self) -> Table:
        """A row a point."""
        heads: list[Cell] = ["series", "at", self.x.label, self.y.label, "low", "high", "n"]
        return [
            heads,
            *(
                [line.label, self.name_of(point), point.x, point.y, point.low, point.high, point.n]
                for line in self.series
                for point in line.points
            ),
        ]

    def name_of(self, point: Point) -> str:
        """What a point is called."""
        return point.name or self.x.ticks.get(point.x) or f"{point.x:.4g}"


@dataclass(frozen=True)
class Bars(_Figure):
    """Shares by class, a set of bars for each of a few things: by label as many numbers as there are classes."""

    classes: tuple[str, ...]
    shares: Mapping[str, tuple[float, ...]]
    x: Axis
    y: Axis

    def table(self) -> Table:
        """A row a class."""
        rows = zip(self.classes, *self.shares.values(), strict=True)
        return [[self.x.label, *(f"{label}, {self.y.label}".strip(", ") for label in self.shares)], *map(list, rows)]


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
    low: float | None = None
    high: float | None = None
    least: float | None = None
    most: float | None = None
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
        heads: list[Cell] = [self.x.label, self.y.label, self.title, "low", "high", "n", "least", "most"]
        rows = [
            [place.x, place.y, place.value, place.low, place.high, place.n, place.least, place.most]
            for place in (*self.places, *self.predicted)
        ]
        return [heads, *rows]


@dataclass(frozen=True)
class Strips(_Figure):
    """A device's free space in the order of its blocks: by label the free share (0 to 1) of each bin."""

    strips: Mapping[str, tuple[float, ...]]
    device_bytes: int

    def table(self) -> Table:
        """A row a bin."""
        bins = max(map(len, self.strips.values()))
        columns = [[*strip, *[None] * (bins - len(strip))] for strip in self.strips.values()]
        return [
            ["from, bytes", *(f"{label}, free share".strip(", ") for label in self.strips)],
            *([number * self.device_bytes // bins, *row] for number, row in enumerate(zip(*columns, strict=True))),
        ]


@dataclass(frozen=True)
class Cloud:
    """Single measurements of one `kind` (drawing.LOOKS)."""

    kind: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


def _each(clouds: Sequence[Cloud]) -> list[list[Cell]]:
    return [[cloud.kind, x, y] for cloud in clouds for x, y in zip(cloud.xs, cloud.ys, strict=True)]


@dataclass(frozen=True)
class RunChart(_Figure):
    """Samples in the order in which they were taken; 1 is what was expected."""

    clouds: tuple[Cloud, ...]
    x: Axis
    y: Axis

    def table(self) -> Table:
        """A row a sample."""
        return [["kind", self.x.label, self.y.label], *_each(self.clouds)]


@dataclass(frozen=True)
class Trace(_Figure):
    """Requests to a device: when, and where (bytes); reads, writes, and small ones of either kind."""

    reads: Cloud
    writes: Cloud
    x: Axis
    y: Axis
    small: Cloud = Cloud("small ones", (), ())

    @property
    def clouds(self) -> tuple[Cloud, ...]:
        """All of them."""
        return self.reads, self.writes, self.small

    def table(self) -> Table:
        """A row a request."""
        return [["request", "seconds", "offset, bytes"], *_each(self.clouds)]


Figure: TypeAlias = Lines | Bars | Plane | Strips | RunChart | Trace
