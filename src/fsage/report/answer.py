"""The study's own answer, on top of its report and on the terminal: a sentence or two, a figure, a few cards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import pandas as pd

from fsage.analysis.conditions import values
from fsage.analysis.groups import of_samples
from fsage.analysis.headline import Comparison, at_largest_transfer, comparisons, of_state
from fsage.analysis.words import Finding, doing, extents_words, joined
from fsage.figures import Axis, Figure, Lines, limits, lines
from fsage.report.section import Data
from fsage.study.study import Study
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
    study: Study,
    named: Callable[[str], Named] = plain,
    codes: str = "",
    order: Callable[[list[Comparison]], list[Comparison]] = list,
) -> Answer:
    """The answer of a study whose `headline` names pairs of states; `order`: which are said first."""
    compared = order(comparisons(data.frame, study))
    rows = at_largest_transfer(data.frame)
    pairs: dict[tuple[str, ...], list[Comparison]] = {}
    for comparison in compared:
        pairs.setdefault((comparison.label, comparison.state, comparison.against), []).append(comparison)
    sentences = [_sentence(of_pair, named, rows) for of_pair in list(pairs.values())[:SENTENCES]]
    shown = [comparison for of_pair in list(pairs.values())[:PAIRS] for comparison in of_pair]
    return Answer(sentences, states_figure(shown, rows, named), cards_of(compared), codes)


def finding_of(comparison: Comparison) -> Finding:
    """A comparison as words can be made of it."""
    return Finding(comparison.ratio, comparison.p, comparison.family)


def cards_of(compared: Sequence[Comparison]) -> list[Card]:
    """A card a comparison, at most MOST_CARDS."""
    return [
        Card(
            f"{comparison.opening}, {comparison.what}" + (f" \u00b7 {comparison.params}" if comparison.params else ""),
            comparison.signed,
            comparison.sentence,
            not finding_of(comparison).sure,
        )
        for comparison in compared[:MOST_CARDS]
    ]


def _sentence(of_pair: Sequence[Comparison], named: Callable[[str], Named], rows: pd.DataFrame) -> str:
    """'At STATE, writing 64 MiB at a time is 21% slower than at OTHER (17 to 23%), because ...'."""
    first = of_pair[0]
    state, against = named(first.state).where, named(first.against).where
    findings = [finding_of(comparison) for comparison in of_pair]
    sizes = rows["transfer_size_bytes"].dropna().unique()
    parts: list[str] = []
    for comparison, finding in zip(of_pair, findings, strict=True):
        what = doing(comparison.measure)
        if comparison.several:
            what += f" ({comparison.params})"
        elif not parts and comparison.measure.endswith("_bw_mib_s") and len(sizes) == 1:
            what += f" {round_size(sizes[0])} at a time"
        parts.append(finding.said(what, "" if parts else against))
    reason = because(rows, first.state, first.against, findings)
    return f"{state[:1].upper()}{state[1:]}, {joined(parts)}{reason}."


def because(rows: pd.DataFrame, state: str, against: str, findings: Sequence[Finding]) -> str:
    """What the layout of the measured files says to it: ', because ...', ', although ...', or against expectation.

    A reason is given for what is sure alone; beside a difference that may be chance the layout stands without one.
    """
    extents = [values(of_state(rows, name), "measured_extents") for name in (state, against)]
    if not all(extents):
        return ""
    count, count_against = map(median, extents)
    slower, faster = (any(finding.sure and finding.direction == way for finding in findings) for way in (-1, 1))
    layout = f"the measured file has {extents_words(count)} instead of {count_against:,.4g}"
    if count == count_against:
        why = f"; the number of extents does not explain it: the measured file has {extents_words(count)} in both"
        return why if slower or faster else ""
    more = count > count_against
    if slower != faster and slower == more:
        # What is not known, or alike, needs no reason: then it is no `because` of the whole sentence.
        return f", because {layout}" if all(finding.sure for finding in findings) else f"; {layout}"
    if slower != faster:
        return f", although the layout suggests the opposite: {layout}"
    if slower:
        return ""
    return f", although {layout}" if more and all(finding.alike for finding in findings) else f"; {layout}"


def states_figure(compared: Sequence[Comparison], rows: pd.DataFrame, named: Callable[[str], Named]) -> Lines | None:
    """The rates in the states that are compared, side by side."""
    states = list(dict.fromkeys(name for pair in compared for name in (pair.against, pair.state)))
    points = pd.DataFrame(
        {"rate": doing(measure), "x": place, "state": named(state).short} | of_samples(taken)
        for measure in dict.fromkeys(pair.measure for pair in compared if pair.measure.endswith("_bw_mib_s"))
        for place, state in enumerate(states)
        if (taken := values(of_state(rows, state), measure))
    )
    if len(points) < 2:
        return None
    x = Axis("", ticks={float(place): _wrapped(named(state).short) for place, state in enumerate(states)})
    y = Axis("bandwidth, MiB/s", (0.0, limits(points)[1]))
    return lines("The states that are compared", points, "rate", x, y, joined=False)


def _wrapped(text: str) -> str:
    """In lines that stand beside others under an axis."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > 15:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
