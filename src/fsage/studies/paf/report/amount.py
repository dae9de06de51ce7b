"""How much of the target is measured, and what that does to the loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from fsage.analysis.groups import factors, params_labels, samples
from fsage.analysis.headline import at_largest_transfer, comparisons
from fsage.analysis.words import doing, joined
from fsage.figures import Figure, Level, Lines, lines
from fsage.report.answer import Named
from fsage.report.section import Data, Section
from fsage.studies.paf.report.rows import by_measure, factor_axis, levels_axis, main_rows
from fsage.study.study import Study
from fsage.text.sizes import ratio_text

SHARE = "share of the capacity that is measured, %"


def several_amounts(rows: pd.DataFrame) -> bool:
    """Whether the study compares shares of the target."""
    return rows["params"].map(share).nunique() > 1


def share(params: str) -> float | None:
    """`amount_percent` of a cell's parameters, as they stand in the table."""
    percent: Any = json.loads(params).get("amount_percent")
    return None if percent is None else float(percent)


def amount(data: Data) -> Section | None:
    """Each state over the one that it is compared with, over the share that is measured."""
    if not several_amounts(data.table):
        return None
    rows = factors(main_rows(data))
    if rows.empty:
        return None
    rows = rows.assign(x=rows["params"].map(share)).sort_values("x")
    text = (
        f"Each state over {rows['clean'].iloc[0]} with as much measured: below 1 is a loss. Who writes little may find "
        "whole runs where who writes much has to take the holes: the table has in how many extents the files lie."
    )
    x, y, equal = levels_axis(rows, "x", SHARE), factor_axis(rows), [Level(1.0)]
    states = {state: state for state in sorted(rows["state"].unique())}
    figures = [
        lines(
            f"{name.capitalize()}s against the share that is measured", part, "state", x, y, labels=states, levels=equal
        )
        for name, _, part in by_measure(rows)
    ]
    return Section("How much is measured", text, figures, table=_table(samples(data.frame)))


def told(data: Data, study: Study, named: Callable[[str], Named]) -> dict[str, Any]:
    """Sentences and figure of the answer: what each share of the target shows of the first pair that is compared."""
    rows = at_largest_transfer(data.frame)
    shares = {label: share(text) for text, label in params_labels(rows["params"]).items()}
    compared = [comparison for comparison in comparisons(data.frame, study) if comparison.ratio.value is not None]
    section = amount(data)
    if not compared or section is None:
        return {}
    of_pair = [
        comparison
        for comparison in compared
        if (comparison.state, comparison.against) == (compared[0].state, compared[0].against)
    ]
    rates = []
    for measure in dict.fromkeys(comparison.measure for comparison in of_pair):
        reached = [
            f"{ratio_text(comparison.ratio.value or 0)}x" for comparison in of_pair if comparison.measure == measure
        ]
        rates.append(f"{doing(measure)} reaches {joined(reached)}")
    measured = joined(
        [f"{shares[fromkey]:g}%" for fromkey in dict.fromkeys(comparison.params for comparison in of_pair)]
    )
    state, against = named(of_pair[0].state).where, named(of_pair[0].against).where
    sure = [
        f"{doing(comparison.measure)} with {shares[comparison.params]:g}%"
        for comparison in of_pair
        if comparison.finding.sure
    ]
    beyond = "all of them" if len(sure) == len(of_pair) else joined(sure) or "none of them"
    return {
        "sentences": [
            f"With {measured} of the target measured, {state} {joined(rates)} of what it reaches {against}.",
            f"Beyond chance {'is' if len(sure) < 2 else 'are'} {beyond}.",
        ],
        "figure": _both(section.figures),
    }


def _both(figures: Sequence[Figure]) -> Lines:
    """Of each rate the first state, in one figure."""
    drawn = [figure for figure in figures if isinstance(figure, Lines)]
    both_lines = tuple(replace(line.series[0], label=line.title.split()[0].lower()) for line in drawn)
    return replace(drawn[0], title="What is left, by the share that is measured", series=both_lines)


def _table(frame: pd.DataFrame) -> list[list[str]]:
    """Extents of the measured files, a row a share, a column a state."""
    states = sorted(frame["state"].unique())
    extents = frame.assign(share=frame["params"].map(share)).pivot_table(
        index="share", columns="state", values="measured_extents", aggfunc="median"
    )
    return [
        ["measured, %", *(f"{state}, extents" for state in states)],
        *(
            [f"{level:g}", *(f"{row.get(state, float('nan')):g}" for state in states)]
            for level, row in extents.iterrows()
        ),
    ]
