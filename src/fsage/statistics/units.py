"""What was sampled, a value a unit, and the factor between two states whose units are not of one kind."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from fsage.statistics.intervals import LEAST, Interval, Ratio, median_interval, ratio

LAYOUT = "layout"
TARGET = "target"
PLACE = "place"
SAMPLE = "sample"
DRAWN = (LAYOUT, TARGET)
"""Units that stand for others of the state; places and samples speak of one layout only."""


@dataclass(frozen=True)
class Units:
    """The values of a state by unit: `kind` is LAYOUT, TARGET, PLACE (in one layout) or SAMPLE (of the same blocks)."""

    kind: str
    by_unit: Mapping[Hashable, float]

    @property
    def values(self) -> list[float]:
        """Without their units."""
        return list(self.by_unit.values())


def factor(here: Units, reference: Units, same: bool = False) -> Ratio:
    """A state over its reference, with the interval that its units allow.

    - Layouts of the same draws on both sides are pairs: the median of their ratios between two order statistics.
      Places are pairs where both sides are the `same` layout, measured twice.
    - Layouts against a state of one layout: the interval of their median over the median of that state.
    - Else Hodges-Lehmann (`ratio`): two states of one layout, or layouts of other draws; from LEAST units each on.
    """
    if not here.by_unit or not reference.by_unit or min(*here.values, *reference.values) <= 0:
        return ratio(here.values, reference.values)
    drawn = here.kind in DRAWN, reference.kind in DRAWN
    over = min((here, reference), key=lambda side: (side.kind not in DRAWN, len(side.values)))
    pairs_of = all(drawn) or (same and here.kind == reference.kind == PLACE)
    if pairs_of and here.by_unit.keys() == reference.by_unit.keys():
        pairs = [value / reference.by_unit[unit] for unit, value in here.by_unit.items()]
        result = _of_median(pairs, 1.0, len(pairs), len(pairs))
    elif drawn == (True, False):
        result = _of_median(here.values, median(reference.values), len(here.values), len(reference.values))
    elif drawn == (False, True):
        result = _of_median(reference.values, median(here.values), len(reference.values), len(here.values)).inverse
    else:
        result = ratio(here.values, reference.values)
        if result.interval and min(result.n, result.n_reference) < LEAST:
            why = f"{result.n} against {result.n_reference} {over.kind}s are too few"
            result = replace(result, interval=None, why=why)
    return replace(result, unit=over.kind, units=len(over.values))


def _of_median(values: list[float], over: float, n: int, n_reference: int) -> Ratio:
    """The median of values over a number that counts as known."""
    held = median_interval(values)
    ends = held and Interval(held.low / over, held.high / over, held.level)
    why = None if held else f"{len(values)} of the {LEAST} layouts that an interval needs"
    return Ratio(median(values) / over, ends, n, n_reference, why)
