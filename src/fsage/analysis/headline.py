"""The comparisons that a study declares, as one family; on what all was taken."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pandas as pd

from fsage.analysis.conditions import labelled, values
from fsage.analysis.groups import measures, params_labels, plural, samples
from fsage.statistics import ALPHA, MARGIN, Ratio, adjust_primary, compare, ratio, reachable
from fsage.study.study import Study
from fsage.text.sizes import ratio_text


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
            held = result.interval
            interval = f"{ratio_text(held.low)}-{ratio_text(held.high)}, {held.level:.1%}, "
        else:
            interval = "no interval, "
        reach = f"at {self.state} {self.what} reach {ratio_text(result.value)}x of {self.against}"
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
        """'a loss of 29% (adjusted p=0.032)', 'no difference (within 3%), ...', or that none was found, and why."""
        loss = self.ratio.loss_percent or 0.0
        size = f"{'a loss' if loss >= 0 else 'a gain'} of {abs(loss):.0f}%"
        if self.p is None or not reachable(self.ratio.n, self.ratio.n_reference, self.family):
            among = f" among {self.family} comparisons" if self.family > 1 else ""
            return f"not known: too few samples to tell {size} from chance{among}"
        p = f"adjusted p={self.p:.2g}"
        if self.p <= ALPHA:
            return f"{size} ({p})"
        if self.ratio.alike:
            return f"no difference (within {MARGIN:.0%}; {p})"
        return f"no difference found: {size} could be chance ({p})"


def comparisons(frame: pd.DataFrame, study: Study) -> list[Comparison]:
    """Each pair (label, state, against) of `study.headline` in each measure, at the largest transfer."""
    rows = at_largest_transfer(frame)
    labels = params_labels(rows["params"])
    declared = [
        (pair, params, measure)
        for pair in study.headline
        for params in labels
        for measure in measures(rows)
        if pair.takes(json.loads(params), measure)
    ]
    groups = []
    for pair, params, measure in declared:
        alike = rows[rows["params"] == params]
        groups.append((values(of_state(alike, pair.state), measure), values(of_state(alike, pair.against), measure)))
    tests = [(pair.pair, params, measure) for pair, params, measure in declared]
    family = dict(zip(tests, groups, strict=True))
    adjusted = dict(zip(family, adjust_primary([compare(*group).p for group in family.values()]), strict=True))
    return [
        Comparison(
            pair.label,
            pair.state,
            pair.against,
            measure,
            labels[params],
            ratio(*group),
            adjusted[test],
            len(family),
            several=len(labels) > 1,
        )
        for (pair, params, measure), group, test in zip(declared, groups, tests, strict=True)
    ]


def stamp(frame: pd.DataFrame) -> str:
    """On what the numbers were taken: the device model or that there is none, and what is not known."""
    taken = frame[frame["status"] == "valid"]
    words = sorted(taken["device_model"].dropna().unique()) or ["no device model"]
    words += sorted(taken["filesystem"].dropna().unique())
    if (taken["state_known"] == False).any():  # noqa: E712 - a nullable column
        words.append("file-system state unknown (not its own)")
    return " · ".join(words)


def at_largest_transfer(frame: pd.DataFrame) -> pd.DataFrame:
    """Valid planned samples under the usual conditions at the largest transfer size, where there is one."""
    rows = labelled(samples(frame))
    rows = rows[rows["main"]]
    if rows["transfer_size_bytes"].notna().any():
        rows = rows[rows["transfer_size_bytes"] == rows["transfer_size_bytes"].max()]
    return rows


def of_state(rows: pd.DataFrame, state: str) -> pd.DataFrame:
    """Rows of a state named in full ('80.00@264M') or, where that is one state, in part ('80.00')."""
    named = rows["state"] == state
    return rows[named if named.any() else rows["state"].str.split("@").str[0] == state]
