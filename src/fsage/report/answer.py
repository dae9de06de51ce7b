"""The study's own answer, on top of its report and on the terminal: a sentence or two, a figure, a few cards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import pandas as pd

from fsage.analysis.conditions import values
from fsage.analysis.headline import Comparison, at_largest_transfer, comparisons, of_state
from fsage.figures import Axis, Figure, Lines, Point, Series, limits
from fsage.report.section import Data
from fsage.report.words import Finding, doing, joined, pieces
from fsage.statistics import summarise
from fsage.text.sizes import round_size

MOST_CARDS = 4
SENTENCES = 2
PAIRS = 3  # whose states stand side by side in a figure
NOTHING = "No valid sample yet: nothing to compare."
NO_ANSWER = "What was measured so far does not answer the question yet: see what is missing, below."


@dataclass(frozen=True)
class Card:
    """`what` was compared, by how much (`size`), and in how many samples, how surely. `chance`: it may be chance."""

    what: str
    size: str
    detail: str
    chance: bool = False


@dataclass(frozen=True)
class Answer:
    """`sentences`: one or two, in words of the field. `codes`: what codes of states mean that stand in the report."""

    sentences: list[str]
    figure: Figure | None = None
    cards: list[Card] = field(default_factory=list)
    codes: str = ""


class Named(NamedTuple):
    """A state in words: `where` as a sentence says it ('at 80% full'), `short` as an axis does ('80% full')."""

    where: str
    short: str


def plain(state: str) -> Named:
    """A state by its name."""
    return Named(f"at {state}", state)


def by_comparisons(
    data: Data,
    study: object,
    named: Callable[[str], Named] = plain,
    codes: str = "",
    order: Callable[[list[Comparison]], list[Comparison]] = list,
) -> Answer:
    """The answer of a study whose `headline` names pairs of states; `order`: which are said first."""
    compared = order(comparisons(data.frame, study))
    rows = at_largest_transfer(data.frame)
    pairs: dict[tuple[str, ...], list[Comparison]] = {}
    for one in compared:
        pairs.setdefault((one.label, one.state, one.against), []).append(one)
    said = [_sentence(mine, named, rows) for mine in list(pairs.values())[:SENTENCES]]
    shown = [one for mine in list(pairs.values())[:PAIRS] for one in mine]
    return Answer(said, states_figure(shown, rows, named), cards_of(compared), codes)


def finding_of(one: Comparison) -> Finding:
    """A comparison as words can be made of it."""
    return Finding(one.ratio, one.p, one.family)


def cards_of(compared: Sequence[Comparison]) -> list[Card]:
    """A card a comparison, at most MOST_CARDS."""
    return [
        Card(
            f"{one.opening}, {one.what}" + (f" \u00b7 {one.params}" if one.params else ""),
            one.signed,
            one.sentence,
            not finding_of(one).sure,
        )
        for one in compared[:MOST_CARDS]
    ]


def _sentence(mine: Sequence[Comparison], named: Callable[[str], Named], rows: pd.DataFrame) -> str:
    """'At STATE, writing 64 MiB at a time is 21% slower than at OTHER (17 to 23%), because ...'."""
    state, against = named(mine[0].state).where, named(mine[0].against).where
    found = [finding_of(one) for one in mine]
    sizes = rows["transfer_size_bytes"].dropna().unique()
    parts: list[str] = []
    for comparison, finding in zip(mine, found, strict=True):
        what = doing(comparison.measure)
        if comparison.several:
            what += f" ({comparison.params})"
        elif not parts and comparison.measure.endswith("_bw_mib_s") and len(sizes) == 1:
            what += f" {round_size(sizes[0])} at a time"
        parts.append(finding.said(what, "" if parts else against))
    return f"{state[:1].upper()}{state[1:]}, {joined(parts)}{because(rows, mine[0].state, mine[0].against, found)}."


def because(rows: pd.DataFrame, state: str, against: str, found: Sequence[Finding]) -> str:
    """What the layout of the measured files says to it: ', because ...', ', although ...', or against expectation.

    A reason is given for what is sure alone; beside a difference that may be chance the layout stands without one.
    """
    here, there = (values(of_state(rows, name), "measured_extents") for name in (state, against))
    if not here or not there:
        return ""
    now, then = median(here), median(there)
    slower, faster = (any(one.sure and one.direction == way for one in found) for way in (-1, 1))
    alike = all(one.alike for one in found)
    both = f"the measured file lies in {pieces(now)} instead of {then:,.4g}"
    if (slower and not faster and now > then) or (faster and not slower and now < then):
        # What is not known, or alike, needs no reason: then it is no `because` of the whole sentence.
        return f", because {both}" if all(one.sure for one in found) else f"; {both}"
    if (slower and not faster and now < then) or (faster and not slower and now > then):
        return f", against what its layout lets expect: {both}"
    if slower or faster:
        return f"; the layout does not say why: the measured file lies in {pieces(now)} in both" if now == then else ""
    if now == then:
        return ""
    return f", although {both}" if alike and now > then else f"; {both}"


def states_figure(compared: Sequence[Comparison], rows: pd.DataFrame, named: Callable[[str], Named]) -> Lines | None:
    """The rates in the states that are compared, side by side."""
    states = list(dict.fromkeys(name for one in compared for name in (one.against, one.state)))
    series = []
    for measure in dict.fromkeys(one.measure for one in compared if one.measure.endswith("_bw_mib_s")):
        points = [
            _point(float(place), taken, named(state).short)
            for place, state in enumerate(states)
            if (taken := values(of_state(rows, state), measure))
        ]
        series.append(Series(doing(measure), tuple(points), joined=False))
    known = [point for one in series for point in one.points]
    if len(known) < 2:
        return None
    ends = pd.DataFrame(
        {
            "median": [one.y for one in known],
            "low": [float("nan") if one.low is None else one.low for one in known],
            "high": [float("nan") if one.high is None else one.high for one in known],
            "samples": [one.samples for one in known],
        }
    )
    ticks = {float(place): _wrapped(named(state).short) for place, state in enumerate(states)}
    return Lines(
        "The states that are compared",
        tuple(series),
        Axis("", ticks=ticks),
        Axis("bandwidth, MiB/s", (0.0, limits(ends)[1])),
    )


def _point(x: float, taken: list[float], name: str) -> Point:
    found = summarise(taken)
    low, high = (found.interval.low, found.interval.high) if found.interval else (None, None)
    return Point(x, median(taken), low, high, found.n, tuple(taken), name)


def _wrapped(text: str) -> str:
    """In lines that stand beside others under an axis."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > 15:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
