"""The comparisons that a study declares, as a family; on what all was taken.

Two runs of a study are compared by pairs: what was measured in the same blocks in both, and whether it changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fsage.analysis.conditions import units
from fsage.analysis.groups import Measure, labelled_samples, measures, params_labels
from fsage.analysis.words import Finding, percent
from fsage.dataset import parameters
from fsage.statistics import Ratio, adjust_primary, compare, exchanged, factor
from fsage.study.comparisons import Headline


@dataclass(frozen=True)
class Comparison:
    """One state against another in one measure, at one set of parameters: one of the family of primary comparisons.

    The finding's p is adjusted over the family (Holm), none where this one could not be tested.
    """

    label: str
    state: str
    against: str
    measure: str
    params: str
    finding: Finding
    several: bool = False
    """Whether there are other sets of parameters, so that a sentence has to name these."""

    @property
    def ratio(self) -> Ratio:
        """The state's rate over that of the state it is compared with."""
        return self.finding.ratio

    @property
    def subject(self) -> str:
        """What a sentence is about: 'writing', with its parameters where there are several sets."""
        if self.several:
            return f"{Measure.of(self.measure).doing} ({self.params})"
        return Measure.of(self.measure).doing

    @property
    def title(self) -> str:
        """'Fragmentation, writes'; units keep their capitals."""
        parts = [f"{self.label[:1].upper()}{self.label[1:]}, {Measure.of(self.measure).plural}", self.params]
        return " \u00b7 ".join(filter(None, parts))

    @property
    def detail(self) -> str:
        """'80.50 against 40.00: 18% slower (17 to 19%); n=5+5, 96.8%, adjusted p=0.032.'"""
        result = self.ratio
        p = self.finding.p
        numbers = [f"n={result.n}+{result.n_reference}"]
        numbers += [f"{result.interval.level:.1%}"] if result.interval else []
        numbers += [f"adjusted p={p:.2g}"] if p is not None else []
        return f"{self.state} against {self.against}: {self.finding.brief()}; {', '.join(numbers)}."

    @property
    def signed(self) -> str:
        """The change as a figure, '-29%' with a true minus sign."""
        loss = self.ratio.loss_percent
        if loss is None or self.finding.kind == "unknown":
            return "not known"
        if round(loss) == 0:
            return "0%"
        if round(loss) == 100:
            return f"\u2212{percent(loss)}%"
        return f"{-loss:+.0f}%".replace("-", "\u2212")


def comparisons(rows: pd.DataFrame, headline: Sequence[Headline]) -> list[Comparison]:
    """Each pair of states that a study compares in each measure. `rows`: of `at_largest_transfer`."""
    labels = params_labels(rows)
    sets = parameters(rows)
    declared = []
    tested: dict[tuple[frozenset[str], str, str], float | None] = {}
    for pair in headline:
        for params, label in labels.items():
            alike = rows[rows["params"] == params]
            for measure in measures(rows):
                if pair.takes(sets[params], measure):
                    taken = units(of_state(alike, pair.state), measure)
                    beside = units(of_state(alike, pair.against), measure)
                    test = (pair.pair, params, measure)
                    tested[test] = compare(taken.values, beside.values)
                    declared.append((pair, measure, label, test, factor(taken, beside)))
    adjusted = dict(zip(tested, adjust_primary(list(tested.values())), strict=True))
    found = []
    for pair, measure, label, test, ratio in declared:
        finding = Finding(ratio, adjusted[test], len(tested))
        found.append(Comparison(pair.label, pair.state, pair.against, measure, label, finding, several=len(labels) > 1))
    return found


def stamp(frame: pd.DataFrame) -> str:
    """On what the numbers were taken: the device model or that there is none, and what is not known."""
    taken = frame[frame["status"] == "valid"]
    words = sorted(taken["device_model"].dropna().unique()) or ["no device model"]
    words += sorted(taken["filesystem"].dropna().unique())
    if (taken["state_known"] == False).any():  # noqa: E712 - a nullable column
        words.append("file-system state unknown (not its own)")
    return " · ".join(words)


def at_largest_transfer(labelled_rows: pd.DataFrame) -> pd.DataFrame:
    """The labelled samples under the usual conditions at the largest transfer size, where there is one."""
    rows = labelled_rows[labelled_rows["main"]]
    if rows["transfer_size_bytes"].notna().any():
        rows = rows[rows["transfer_size_bytes"] == rows["transfer_size_bytes"].max()]
    return rows


def of_state(rows: pd.DataFrame, state: str) -> pd.DataFrame:
    """Rows of a state named in full ('80.00@264M') or, where that is one state, in part ('80.00')."""
    named = rows["state"] == state
    return rows[named if named.any() else rows["state"].str.split("@").str[0] == state]


UNIT = ["state", "structure", "place", "iteration"]
ALIKE = ["state", "params", "measure"]


def paired(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """A row for each cell and measure that both have in the same blocks: UNIT, ALIKE, `log` of after over before."""
    sides = [labelled_samples(frame) for frame in (before, after)]
    keys = [*UNIT, "params", "layout_digest"]
    both = sides[0][sides[0]["main"]].merge(sides[1][sides[1]["main"]], on=keys, suffixes=("_before", "_after"))
    both = both[both["layout_digest"] != "unknown"]
    logs = [
        both[keys].assign(measure=name, log=np.log(both[f"{name}_after"] / both[f"{name}_before"]))
        for name in measures(before)
        if name in after.columns
    ]
    if logs:
        rows = pd.concat(logs)
    else:
        rows = pd.DataFrame(columns=[*keys, "measure", "log"])
    return rows.dropna(subset="log")


def changed_between(rows: pd.DataFrame) -> tuple[pd.Series, dict[str, float]]:
    """By ALIKE the p of `pairs` that this group did not change, and by measure that the whole did not: one family."""
    parts = [(str(measure), part.groupby(ALIKE, sort=True)) for measure, part in rows.groupby("measure", sort=False)]
    if not parts:
        return pd.Series(dtype="float64"), {}
    logs = [part.obj["log"].to_numpy() for _, part in parts]
    of_groups, whole = exchanged(logs, [part.ngroup().to_numpy() for _, part in parts])
    keys = [key for _, part in parts for key in part.groups]
    by_group = pd.Series(np.concatenate(of_groups), pd.MultiIndex.from_tuples(keys, names=ALIKE))
    return by_group, dict(zip([measure for measure, _ in parts], whole, strict=True))
