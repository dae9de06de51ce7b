"""What is particular to the report of a recipe: its View, in the module `report` of a study's folder.

The study's own answer stands on top of the page, and on the terminal. It is a sentence or two, a figure and some cards.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median
from typing import NamedTuple

import pandas as pd

from fsage.analysis.comparisons import Comparison, of_state
from fsage.analysis.conditions import units
from fsage.analysis.groups import Measure, plotted
from fsage.analysis.words import Finding, paragraph, sentences
from fsage.base.sizes import counted, round_size
from fsage.figures import Axis, Figure, Lines, lines
from fsage.model import plugins
from fsage.report.parts import Card, Data, Section, cards_of
from fsage.statistics import PLACE, SAMPLE, Ratio, factor

SENTENCES = 2
WIDTH = 16
PAIRS = 3  # whose states stand side by side in a figure
MOST_OUTLIERS = 2
OF_ONE = (PLACE, SAMPLE)
JUMPS = "measured_jumps"
CHARGES = "model_seconds"
COUNTED = {JUMPS: "jump", "measured_extents": "extent"}
"""What a sentence says of a layout: the first that is known of both states, and differs."""
OWN_DISK = "own_disk_mib_s"
CLOSE = 0.01
"""By so little charges and measurement may differ where an interval is narrower."""
NOTHING = "No valid sample yet: nothing to compare."
NO_HEADLINE = "This study names no states to compare: the tables below have every state."
NO_ANSWER = "What was measured so far does not answer the question yet: see what is missing, below."


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
    named: Callable[[str], Named] = plain,
    codes: str = "",
    order: Callable[[str], float] = lambda state: 0.0,
    of_one: str = "in this layout",
) -> Answer:
    """The answer of a study whose `headline` names pairs of states, the pair of the largest effect first.

    `order`: of states whose effects are alike, the least first. `of_one`: how a sentence begins whose interval speaks
    of one layout.
    """
    rows = data.at_largest_transfer
    pairs: dict[tuple[str, ...], list[Comparison]] = {}
    for comparison in sorted(data.comparisons, key=lambda comparison: order(comparison.state)):
        pairs.setdefault((comparison.label, comparison.state, comparison.against), []).append(comparison)
    largest_first = sorted(pairs.values(), key=lambda of_pair: -max(pair.finding.effect for pair in of_pair))
    said = [_sentence(of_pair, named, rows, of_one) for of_pair in largest_first[:SENTENCES]]
    if largest_first:
        said[1:1] = _on_own_disk(largest_first[0][0], named, rows)
    said += _outliers(data.table, largest_first)
    shown = list(chain.from_iterable(list(pairs.values())[:PAIRS]))
    compared = list(chain.from_iterable(largest_first))
    return Answer(said, states_figure(shown, rows, named), cards_of(compared), codes)


def _sentence(of_pair: Sequence[Comparison], named: Callable[[str], Named], rows: pd.DataFrame, of_one: str) -> str:
    """'At STATE, writing is 21% slower (17 to 23% over 5 layouts). Reading is ... The reference is the rate at OTHER.'.

    The sentences of a pair: one for each measure, one on how the measured file lies, and with what it is compared. Of
    one layout the first begins with that, and the last says what the intervals are over.
    """
    first = of_pair[0]
    findings = [comparison.finding for comparison in of_pair]
    sizes = rows["transfer_size_bytes"].dropna().unique()
    sized = first.measure.endswith("_bw_mib_s") and len(sizes) == 1
    clauses = sentences(
        "pair",
        pair=of_pair,
        in_one=first.ratio.unit in OF_ONE,
        of_one=of_one,
        state=named(first.state).where,
        against=named(first.against).where,
        lies=in_layout(rows, first.state, first.against, findings),
        doubts=dict.fromkeys(finding.doubt for finding in findings if finding.kind == "chance"),
        transfer=round_size(sizes[0]) if sized else None,
    )
    return paragraph(clauses)


def _on_own_disk(compared: Comparison, named: Callable[[str], Named], rows: pd.DataFrame) -> list[str]:
    """The same pair of states as the machine's own disk has them, where the file was read without the model too."""
    if OWN_DISK not in rows or rows[OWN_DISK].isna().all():
        return []
    state, against = (units(of_state(rows, name), OWN_DISK) for name in (compared.state, compared.against))
    finding = Finding(factor(state, against), tested=False)
    return [f"On this machine's own disk, without the model, {finding.said('reading the same files', over=False)}."]


@dataclass(frozen=True)
class Lies:
    """What a sentence says of how the measured file lies: what it `has`, and has `instead` in the state compared with.

    `cause`: of every sure difference, the pieces, or that the place is slower or faster; none where both are alike; ''
    where that is not known.
    """

    has: str
    instead: str
    cause: str = ""


def in_layout(rows: pd.DataFrame, state: str, against: str, findings: Sequence[Finding]) -> Lies | None:
    """Pieces are the cause where the device's charges account for every sure difference, and more is slower."""
    sides = [of_state(rows, name) for name in (state, against)]
    for column, noun in COUNTED.items():
        counts = [_range(side, column) for side in sides]
        if not all(counts) or (column == JUMPS and counts[0] == counts[1]):
            continue
        lies = Lies(f"{counts[0].replace('none', 'no')} {noun}{'s' * (counts[0] != '1')}", counts[1])
        if counts[0] == counts[1]:
            return replace(lies, cause="none")
        sure = [finding.ratio for finding in findings if finding.sure]
        charged = _charged(*sides)
        if not sure or not charged or not all(_accounts(charged, ratio) for ratio in sure):
            return lies
        if (charged < 1) == (sides[0][column].median() > sides[1][column].median()):
            return replace(lies, cause="pieces")
        # Fewer pieces cannot be slower: what else a disk charges by is the place.
        return replace(lies, cause="slower" if charged < 1 else "faster")
    return None


def _range(side: pd.DataFrame, column: str) -> str:
    """'17 to 33', from the least to the most of the layouts and places; '' where that is not known."""
    taken = side[column].dropna()
    if taken.empty:
        return ""
    least = float(taken.min())
    most = float(taken.max())
    if least == most:
        if most:
            return f"{most:,.6g}"
        return "none"
    return f"{least:,.6g} to {most:,.6g}"


def _charged(in_state: pd.DataFrame, reference: pd.DataFrame) -> float | None:
    """The ratio of rates that the device's charges alone make."""
    sides = [side[side[CHARGES] > 0] for side in (in_state, reference)]
    rates = [units(side.assign(charged=1 / side[CHARGES]), "charged").values for side in sides]
    if all(rates):
        return median(rates[0]) / median(rates[1])
    return None


def _accounts(charged: float, ratio: Ratio) -> bool:
    """Whether the charges are as far from the measured ratio as its interval reaches, or CLOSE."""
    interval = ratio.interval
    value = ratio.value
    assert interval is not None and value is not None
    return interval.low <= charged <= interval.high or abs(charged / value - 1) <= CLOSE


def _outliers(table: pd.DataFrame, pairs: Sequence[Sequence[Comparison]]) -> list[str]:
    """A sentence on samples of the compared groups that lie far off; they are in all statistics."""
    largest = table[
        table["transfer_size_bytes"].isna() | (table["transfer_size_bytes"] == table["transfer_size_bytes"].max())
    ]
    names = dict.fromkeys(name for pair in chain.from_iterable(pairs) for name in (pair.state, pair.against))
    flagged = []
    for name in names:
        for row in of_state(largest, name).itertuples():
            flagged += [f"{Measure.of(row.measure).name} at {name}, {flag}" for flag in row.flags]
    if not flagged:
        return []
    number = counted(len(flagged), "outlier")
    return [paragraph([f"all statistics hold {number} among these", *flagged[:MOST_OUTLIERS]])]


def states_figure(compared: Sequence[Comparison], rows: pd.DataFrame, named: Callable[[str], Named]) -> Lines | None:
    """The rates in the states that are compared, side by side."""
    states = list(dict.fromkeys(name for pair in compared for name in (pair.against, pair.state)))
    measures = dict.fromkeys(pair.measure for pair in compared if pair.measure.endswith("_bw_mib_s"))
    ticks = {float(place): _wrapped(named(state).short) for place, state in enumerate(states)}
    rates = []
    for measure in measures:
        for place, state in enumerate(states):
            taken = units(of_state(rows, state), measure).values
            if taken:
                point = {"rate": Measure.of(measure).doing, "x": place, "state": named(state).short}
                rates.append(point | plotted(taken))
    if len(rates) < 2:
        return None
    points = pd.DataFrame(rates)
    y = Axis.around("bandwidth, MiB/s", points, zero=True)
    return lines("The states that are compared", points, "rate", Axis("", ticks=ticks), y, joined=False)


def _wrapped(text: str) -> str:
    """In lines that stand beside others under an axis."""
    return "\n".join(textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False))


@dataclass(frozen=True)
class View:
    """`sections`: in their order; each takes the data and shows what these can fill, or nothing.

    `reference`: what a group is compared with, in words. `answer`: what stands on top; none: nothing can be said.
    `published`: sentences on what was published beside it. `headings`: what columns of the table of states are called
    in the recipe's own words.
    """

    sections: tuple[Callable[[Data], Section | None], ...] = ()
    reference: str = "the state that its recipe names as reference"
    answer: Callable[[Data], Answer | None] = by_comparisons
    published: Callable[[Data], list[str]] = lambda data: []
    headings: Mapping[str, str] = field(default_factory=dict)


def view_of(frame: pd.DataFrame) -> View:
    """VIEW of the report of the records' recipe; a recipe without one has the tables only."""
    recipe = next(iter(frame["recipe"].dropna()), None)
    if recipe not in plugins.having("report"):  # the name is a record's: no other module is taken by it
        return View()
    view: View = plugins.of_study(recipe, "report").VIEW
    return view
