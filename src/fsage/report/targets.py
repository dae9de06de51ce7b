"""Several targets in one study: what tells them apart, and their records as those of one.

A target is a block: its rates are those of the mean target times a factor, which the states that all of them measured
give. That holds where age does the same to all; where it does not, nothing is pooled. The report has the targets' own
effect, and the primary comparisons on each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fsage.analysis.comparisons import at_largest_transfer, of_state
from fsage.analysis.conditions import units
from fsage.analysis.groups import Measure, labelled_samples, measures, params_labels, samples
from fsage.analysis.words import bounds, sentences
from fsage.base import Json
from fsage.base.sizes import ratio_text
from fsage.dataset import parameters
from fsage.figures import Axis, Level, Lines, lines, placed
from fsage.report.parts import Section
from fsage.statistics import ALPHA, MARGIN, adjust_primary
from fsage.study import Study
from fsage.study.comparisons import REPEAT, SHARE

AS_MEASURED = "_as_measured"
LEVEL = 0.95
RESAMPLES = 999
SEED = 1


@dataclass(frozen=True)
class Effect:
    """A target's rates of one measure over the geometric mean of all targets', in so many `states` that all measured.

    `low` and `high`: the interval over these states (t); none where there is only one.
    """

    target: str
    measure: str
    factor: float
    low: float | None
    high: float | None
    states: int


@dataclass(frozen=True)
class Compared:
    """A primary comparison on each target: `ratios` by target; `p`, adjusted, of that they are the same."""

    label: str
    measure: str
    ratios: dict[str, float]
    p: float | None

    @property
    def apart(self) -> bool:
        """Whether age does not do the same to all: they differ by more than the margin, and by more than chance."""
        spread = max(self.ratios.values()) / min(self.ratios.values()) - 1
        return self.p is not None and self.p <= ALPHA and spread > MARGIN

    @property
    def sentence(self) -> str:
        """'fragmentation, writes: 0.79x on ssu1, 0.91x on ssu2 (adjusted p=0.004)'."""
        each = ", ".join(f"{ratio_text(ratio)}x on {name}" for name, ratio in self.ratios.items())
        return f"{self.label}, {Measure.of(self.measure).plural}: {each} (adjusted p={self.p:.2g})"


def targets_of(frame: pd.DataFrame) -> list[str]:
    """The targets of the records."""
    return sorted(frame["target"].dropna().unique())


def effects(frame: pd.DataFrame) -> list[Effect]:
    """A level for each target and measure, from a measured `frame`; none where no state was measured on all targets."""
    from scipy import stats

    valid_rows = samples(as_measured(frame))
    result = []
    for measure in measures(valid_rows):
        medians = valid_rows.groupby(["state", "params", "target"])[measure].median().unstack("target").dropna()
        if set(medians.columns) != set(targets_of(frame)) or medians.empty:
            continue
        logs = medians.map(np.log)
        apart = logs.sub(logs.mean(axis=1), axis=0).groupby(level="state").mean()
        for target in medians.columns:
            of_states = apart[target].to_numpy()
            low = high = None
            if len(of_states) > 1 and of_states.std() > 0:
                interval = stats.ttest_1samp(of_states, 0).confidence_interval(LEVEL)
                low = float(np.exp(interval.low))
                high = float(np.exp(interval.high))
            result.append(Effect(str(target), measure, float(np.exp(of_states.mean())), low, high, len(of_states)))
    return result


def compared(frame: pd.DataFrame, study: Study) -> list[Compared]:
    """The study's primary comparisons target by target, from `frame` as it was measured."""
    frame = as_measured(frame)
    of_target = [
        (str(name), at_largest_transfer(labelled_samples(part))) for name, part in frame.groupby("target", sort=True)
    ]
    every = pd.concat([rows for _, rows in of_target])
    labels = params_labels(every)
    sets = parameters(every)
    tested = []
    ps = []
    for pair, params, measure in product(study.headline, labels, measures(frame)):
        if not pair.takes(sets[params], measure):
            continue
        ratios = {}
        in_state = []
        references = []
        for name, rows in of_target:
            alike = rows[rows["params"] == params]
            taken = units(of_state(alike, pair.state), measure).values
            beside = units(of_state(alike, pair.against), measure).values
            if taken and beside:
                ratios[name] = float(np.median(taken) / np.median(beside))
                in_state.append(taken)
                references.append(beside)
        if len(ratios) > 1:
            label = f"{pair.label} ({labels[params]})" if len(labels) > 1 else pair.label
            tested.append((label, measure, ratios))
            ps.append(interaction_p(in_state, references))
    return [Compared(*test, p) for test, p in zip(tested, adjust_primary(ps), strict=True)]


def interaction_p(in_state: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> float | None:
    """p of that the ratio of two states is the same on all targets; none with a single sample in each.

    `here`, `there`: of each target, its samples in the one state and in the other. The logarithms are a target's level
    plus a state's; what is left over is permuted (Freedman and Lane 1983), so no distribution is assumed. Source:
    Anderson and ter Braak, Permutation tests for multi-factorial analysis of variance, 2003.
    """
    from scipy import stats

    rows = []
    for state_number, groups in enumerate((in_state, reference)):
        for target_number, group in enumerate(groups):
            for value in group:
                rows.append((target_number, state_number, value))
    target, state, taken = map(np.array, zip(*rows, strict=True))
    of_target = np.equal.outer(target, np.arange(len(in_state))).astype(float)
    additive = _onto(np.column_stack([of_target, state]))
    full = _onto(np.column_stack([of_target, of_target * state[:, None]]))
    if len(taken) <= 2 * len(in_state):
        return None
    logs = np.log(taken)
    left = logs - additive @ logs

    def explained(rest: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
        rest = np.moveaxis(rest, axis, -1)
        rest = rest - rest @ additive
        within = ((rest - rest @ full) ** 2).sum(-1)
        return ((rest @ full) ** 2).sum(-1) / np.maximum(within, np.finfo(float).tiny)

    test = stats.permutation_test(
        (left,),
        explained,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=RESAMPLES,
        alternative="greater",
        rng=np.random.default_rng(SEED),
    )
    return float(test.pvalue)


def _onto(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The projection onto the space that columns span."""
    return columns @ np.linalg.pinv(columns)


def as_measured(frame: pd.DataFrame) -> pd.DataFrame:
    """The records with the rates that were measured."""
    own = [name for name in frame.columns if name.endswith(AS_MEASURED)]
    return frame.drop(columns=own).assign(**{name.removesuffix(AS_MEASURED): frame[name] for name in own})


def pooled(frame: pd.DataFrame, study: Study, several: Collection[str] = ()) -> pd.DataFrame:
    """Records of several targets as one table, for the sections of a report; of one target, as they are.

    - `cell` names the target too, in states that `several` are to measure
    - rates, and what is predicted of them, are divided by their target's factor; as measured: `<rate>_as_measured`
    - where targets share states, their layouts of a state count as one; where each measures all, a target is a
      `structure`: intervals are then over targets
    - `block`: the target, where age does not do the same to all, or nothing tells: then nothing is pooled
    """
    names = targets_of(frame)
    if len(names) < 2:
        return frame
    alone = ~frame["state"].isin(list(several))
    frame = frame.assign(cell=frame["cell"].where(alone, frame["cell"] + " on " + frame["target"]))
    if study.targets not in (SHARE, REPEAT):
        return frame
    factors = {(effect.target, effect.measure): effect.factor for effect in effects(frame)}
    rates = measures(samples(frame))
    whole = all((name, rate) in factors for name in names for rate in rates)
    if not whole or any(pair.apart for pair in compared(frame, study)):
        return frame.assign(block=frame["target"])
    adjusted = {}
    for rate in rates:
        of_row = frame["target"].map({name: factors[name, rate] for name in names}).astype("float64")
        for column in frame.columns:
            if column == rate or column.startswith(f"{rate}_predicted"):
                adjusted[column] = frame[column] / of_row
    frame = frame.assign(**{f"{rate}{AS_MEASURED}": frame[rate] for rate in rates}, **adjusted)
    if study.targets == REPEAT:
        number = {name: place for place, name in enumerate(names, start=1)}
        return frame.assign(structure=frame["target"].map(number).astype("Int64"))
    return frame.assign(layout_digest=_one_layout(frame))


def _one_layout(frame: pd.DataFrame) -> pd.Series:
    """Digests in which each target's usual layout of a state is that of the first of its targets."""
    taken = frame.groupby(["state", "target"], sort=True)["layout_digest"].agg(
        lambda digests: digests.mode().iloc[0] if digests.notna().any() else pd.NA
    )
    usual = pd.Series(list(map(taken.get, zip(frame["state"], frame["target"], strict=True))), frame.index)
    first = frame["state"].map(taken.groupby(level="state").first())
    return frame["layout_digest"].where(frame["layout_digest"] != usual, first).astype(frame["layout_digest"].dtype)


def warnings(frame: pd.DataFrame) -> list[str]:
    """A sentence where the targets' samples are kept apart."""
    if frame["block"].isna().all():
        return []
    return [
        "The targets are not pooled: age does not do the same to all of them, or too few samples show whether it "
        "does. This page is about one of them; `fsage --target NAME report STUDY` makes the report of each."
    ]


HOW = {
    "share": "The targets share the states: each measured a part, and all of them those that are compared first.",
    "repeat": "Each target measured all: intervals are over the targets.",
}
BOUND = "Each target has levels of an axis of its own: what the targets differ in is not apart from what these do."


def section(frame: pd.DataFrame, study: Study) -> Section | None:
    """None for one target."""
    names = targets_of(frame)
    if len(names) < 2:
        return None
    target_effects = effects(frame)
    pairs = compared(frame, study)
    widths = [effect.high / effect.low for effect in target_effects if effect.high and effect.low]
    text = sentences(
        "targets",
        how=HOW.get(study.targets, BOUND) if isinstance(study.targets, str) else BOUND,
        factors=[effect.factor for effect in target_effects],
        states=target_effects[0].states if target_effects else 0,
        within=max(widths) ** 0.5 if widths else None,
        tested=bool(pairs),
        apart=[pair.sentence for pair in pairs if pair.apart],
        level=f"{ALPHA:.0%}",
    )
    figures = filter(None, [_effects_figure(target_effects, names), _pairs_figure(pairs, names)])
    table = _table(frame, target_effects, names)
    return Section("Targets", " ".join(text), [*figures], warnings=warnings(frame), table=table)


def _effects_figure(target_effects: list[Effect], names: list[str]) -> Lines | None:
    """Each target's factor, a series a measure."""
    rows = []
    for effect in target_effects:
        row = {"line": Measure.of(effect.measure).plural, "state": effect.target, "median": effect.factor}
        rows.append({**row, "low": effect.low, "high": effect.high, "n": effect.states})
    return _by_target("Each target against all", rows, names, "rate over the mean of all targets")


def _pairs_figure(pairs: list[Compared], names: list[str]) -> Lines | None:
    """Each primary comparison, target by target."""
    rows = []
    for pair in pairs:
        line = f"{pair.label}, {Measure.of(pair.measure).plural}"
        for name, ratio in pair.ratios.items():
            rows.append({"line": line, "state": name, "median": ratio})
    return _by_target("Primary comparisons on each target", rows, names, "rate over that of the state compared with")


def _by_target(title: str, rows: list[Json], names: list[str], rate: str) -> Lines | None:
    if not rows:
        return None
    by_target, ticks = placed(pd.DataFrame(rows), "state", names)
    return lines(title, by_target, "line", Axis("target", ticks=ticks), Axis(rate), joined=False, levels=[Level(1.0)])


def _table(frame: pd.DataFrame, target_effects: list[Effect], names: list[str]) -> list[list[str]]:
    """A row a target."""
    valid = samples(frame)
    rates = dict.fromkeys(effect.measure for effect in target_effects)
    by_name = {(effect.target, effect.measure): effect for effect in target_effects}
    rows = [["target", "states", "valid samples", *(f"factor of {Measure.of(rate).name}s" for rate in rates)]]
    for name in names:
        of_target = valid[valid["target"] == name]
        row = [name, str(of_target["state"].nunique()), str(len(of_target))]
        for rate in rates:
            row.append(_factor(by_name.get((name, rate))))
        rows.append(row)
    return rows


def _factor(effect: Effect | None) -> str:
    if effect is None:
        return "not known"
    return f"{effect.factor:.3f}{bounds(effect.low, effect.high)}"
