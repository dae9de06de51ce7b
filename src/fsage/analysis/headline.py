"""The study's answer in plain sentences, for the terminal and for the top of the report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median
from typing import Any

import pandas as pd

from fsage.analysis.conditions import conditions, labelled, values
from fsage.analysis.groups import measures, params_labels, plural, samples
from fsage.statistics import ALPHA, Ratio, adjust_primary, compare, ratio, reachable

PUBLISHED_LOSS_PERCENT = {"paf": (2, 35)}
"""What the source of a recipe found; writes lost more than reads there (studies.md, section 1)."""


@dataclass(frozen=True)
class Comparison:
    """One state against another in one measure, at one set of parameters: one of the family of primary comparisons.

    `p` is adjusted over the family (Holm), none where this one could not be tested.
    """

    label: str
    state: str
    against: str
    measure: str
    params: str
    ratio: Ratio
    p: float | None
    family: int
    several: bool = False
    """Whether there are other sets of parameters, so that a sentence has to name these."""

    @property
    def what(self) -> str:
        """'write_bw_mib_s' -> 'writes'."""
        return plural(self.measure)

    @property
    def opening(self) -> str:
        """The label as a heading begins with it; units keep their capitals."""
        return self.label[:1].upper() + self.label[1:]

    @property
    def subject(self) -> str:
        """The label as a sentence begins with it."""
        return f"{self.opening} ({self.params})" if self.several else self.opening

    @property
    def sentence(self) -> str:
        """E.g. '...: at 80.00 writes reach 0.71x of 10.00 (0.69-0.73, 96.8%, n=5+5), a loss of 29% (...).'"""
        result, loss = self.ratio, self.ratio.loss_percent
        if result.value is None or loss is None:
            pair = f"{self.what} at {self.state} against {self.against}"
            return f"{self.subject}: {pair} are not known ({result.why})."
        if result.interval:
            interval = f"{result.interval.low:.2f}-{result.interval.high:.2f}, {result.interval.level:.1%}, "
        else:
            interval = "no interval, "
        reach = f"at {self.state} {self.what} reach {result.value:.2f}x of {self.against}"
        n = f"n={result.n}+{result.n_reference}"
        return f"{self.subject}: {reach} ({interval}{n}), {self.verdict}."

    @property
    def signed(self) -> str:
        """The change as a figure, '-29%' with a true minus sign."""
        loss = self.ratio.loss_percent
        if loss is None:
            return "not known"
        return "0%" if round(loss) == 0 else f"{-loss:+.0f}%".replace("-", "\u2212")

    @property
    def verdict(self) -> str:
        """'a loss of 29% (adjusted p=0.032)'; where that could be chance or cannot be told from it, that too."""
        loss = self.ratio.loss_percent or 0.0
        size = f"{'a loss' if loss >= 0 else 'a gain'} of {abs(loss):.0f}%"
        if self.p is None or not reachable(self.ratio.n, self.ratio.n_reference, self.family):
            among = f" among {self.family} comparisons" if self.family > 1 else ""
            return f"{size}; too few samples to tell it from chance{among}"
        chance = " that could be chance" if self.p > ALPHA else ""
        return f"{size}{chance} (adjusted p={self.p:.2g})"


def headline(frame: pd.DataFrame, study: Any) -> list[str]:
    """What the study's `headline:` asks for, how it stands to what was published, on what it was taken."""
    if samples(frame).empty:
        return ["No valid sample yet: nothing to compare."]
    compared = comparisons(frame, study)
    said = [*(one.sentence for one in compared), *layout_sentences(frame, study), *published_sentences(frame, compared)]
    said += conditions(samples(frame))
    return [*said, f"Taken on: {stamp(frame)}."]


def comparisons(frame: pd.DataFrame, study: Any) -> list[Comparison]:
    """Each pair (label, state, against) of `study.headline` in each measure, at the largest transfer."""
    mine = _at_largest_transfer(frame)
    labels = params_labels(mine["params"])
    asked = [
        (pair, params, measure)
        for pair in study.headline
        for params in labels
        for measure in measures(mine)
        if pair.takes(json.loads(params), measure)
    ]
    groups = []
    for pair, params, measure in asked:
        rows = mine[mine["params"] == params]
        groups.append((_values(rows, pair.state, measure), _values(rows, pair.against, measure)))
    ps = adjust_primary([compare(*both).p for both in groups])
    return [
        Comparison(
            pair.label,
            pair.state,
            pair.against,
            measure,
            labels[params],
            ratio(*both),
            p,
            len(asked),
            several=len(labels) > 1,
        )
        for (pair, params, measure), both, p in zip(asked, groups, ps, strict=True)
    ]


def layout_sentences(frame: pd.DataFrame, study: Any) -> list[str]:
    """What the files that were measured looked like in the states of each pair: why a number is what it is."""
    mine = _at_largest_transfer(frame)
    said = []
    for pair in study.headline:
        here, there = (_values(mine, state, "measured_extents") for state in (pair.state, pair.against))
        if here and there:
            said.append(
                f"Layout: the files measured at {pair.state} lay in {median(here):g} extents, "
                f"at {pair.against} in {median(there):g}."
            )
    return said


def published_sentences(frame: pd.DataFrame, compared: list[Comparison]) -> list[str]:
    """Where sign or size differ from what was published for the recipe, in words."""
    recipe = next(iter(frame["recipe"].dropna()), None)
    if recipe not in PUBLISHED_LOSS_PERCENT:
        return []
    low, high = PUBLISHED_LOSS_PERCENT[recipe]
    findings = [
        f"{label} {finding}"
        for label in dict.fromkeys(one.label for one in compared)
        if (finding := _against_published([one for one in compared if one.label == label], low, high))
    ]
    if not findings:
        return []
    return [f"The published loss is {low}-{high}%, writes more than reads; here " + "; ".join(findings) + "."]


def stamp(frame: pd.DataFrame) -> str:
    """On what the numbers were taken: the device model or that there is none, and what is not known."""
    taken = frame[frame["status"] == "valid"]
    words = sorted(taken["device_model"].dropna().unique()) or ["no device model"]
    words += sorted(taken["filesystem"].dropna().unique())
    if (taken["state_known"] == False).any():  # noqa: E712 - a nullable column
        words.append("file-system state unknown (not its own)")
    return " · ".join(words)


def _at_largest_transfer(frame: pd.DataFrame) -> pd.DataFrame:
    """Valid planned samples under the usual conditions at the largest transfer size, where there is one."""
    mine = labelled(samples(frame))
    mine = mine[mine["main"]]
    if mine["transfer_size_bytes"].notna().any():
        mine = mine[mine["transfer_size_bytes"] == mine["transfer_size_bytes"].max()]
    return mine


def _values(rows: pd.DataFrame, state: str, measure: str) -> list[float]:
    """Samples of a state named in full ('80.00@264M') or, where that is one state, in part ('80.00')."""
    named = rows["state"] == state
    if not named.any():
        named = rows["state"].str.split("@").str[0] == state
    return values(rows[named], measure)


def _against_published(mine: list[Comparison], low: float, high: float) -> str:
    """'agrees', or in what it does not; nothing where no interval is known."""
    known = [one for one in mine if one.ratio.interval]
    chance = [one.what for one in known if one.ratio.direction == 0]
    differences = [text for one in known if (text := _difference(one, low, high))] + _order(known)
    findings = [f"differs: {', '.join(differences)}"] if differences else []
    if chance:
        findings.append(f"shows no loss beyond chance in {' and '.join(chance)}")
    return " and ".join(findings) or ("agrees" if known else "")


def _difference(one: Comparison, low: float, high: float) -> str | None:
    loss = one.ratio.loss_percent or 0.0
    if one.ratio.direction > 0:
        return f"{one.what} gain {-loss:.0f}%"
    if one.ratio.direction < 0 and loss > high:
        return f"{one.what} lose {loss:.0f}%"
    return f"{one.what} lose only {loss:.1f}%" if one.ratio.direction < 0 and loss < low else None


def _order(mine: list[Comparison]) -> list[str]:
    """Whether reads lose as much as writes or more, where both lose; else the differences say enough."""
    write, read = (next((one.ratio for one in mine if one.what == what), None) for what in ("writes", "reads"))
    if not write or not read or not write.interval or not read.interval or max(write.direction, read.direction) > -1:
        return []
    if write.interval.high < read.interval.low:
        return []
    if read.interval.high < write.interval.low:
        return ["reads lose more"]
    return ["writes and reads lose alike within their intervals"]
