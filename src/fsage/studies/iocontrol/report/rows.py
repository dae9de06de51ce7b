"""What was measured of two groups that share a device: one Shared for each scheduler, state and pattern."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import pandas as pd

from fsage.api.model import MIB, Json, round_size
from fsage.api.report import Data, dataset, figures, groups, statistics, words

from ..recipe import AFTER, BEFORE, HOT
from ..weighted import PATTERNS

WEIGHTS = "weights"
SQLITE = "sqlite"
GROUPS = ("1", "2")
CALLED = {
    WEIGHTS: {"1": "group 1", "2": "group 2"},
    SQLITE: {"1": "group 1 (fio)", "2": "group 2 (SQLite)"},
}
"""What each group is, by workload."""
ALONE = {group: next(name for name, those in PATTERNS.items() if set(those) == {group}) for group in GROUPS}
PRIMES = {BEFORE: "", HOT: "\u00b0", AFTER: "\u2032"}
"""After a pattern's name, where names are short."""
STAGES = {BEFORE: "before defragmentation", HOT: "what is hot was defragmented", AFTER: "after defragmentation"}
BESIDE = {WEIGHTS: "", SQLITE: " beside SQLite"}
"""Behind the titles of sections that both workloads have."""
OWN = ("workload", "pattern", "scheduler", "cgroup", "iteration")
"""Parameters that have a place of their own in tables and figures."""


@dataclass(frozen=True)
class Shared:
    """Samples of one scheduler in one pattern and state; of each group MiB/s, how many I/Os, and of what size."""

    workload: str
    scheduler: str
    state: str
    piece: str
    stage: str
    pattern: str
    bw_mib_s: dict[str, list[float]]
    io_kib: dict[str, list[float]]
    ios: dict[str, list[float]]
    ratios: list[float]
    query_seconds: list[float]
    charged: str
    """What the device was charged by, in words; '' where nothing was laid over it."""
    beside: list[Shared] = field(repr=False, compare=False)
    """All of its workload."""

    @property
    def label(self) -> str:
        """The scheduler's name as the kernel's documentation writes it: 'BFQ'; 'no scheduler' is the control."""
        return scheduler_label(self.scheduler)

    @property
    def shares(self) -> dict[str, float]:
        """What share of the device each group's weight asks for, 0 to 1."""
        weights = {name: reader.weight for name, reader in PATTERNS[self.pattern].items()}
        return {name: weight / sum(weights.values()) for name, weight in weights.items()}

    def in_pattern(self, pattern: str | None, stages: Iterable[str]) -> Shared | None:
        """Another pattern of the same scheduler and size of pieces, in the first of these stages that has it."""
        for stage in stages:
            for other in self.beside:
                alike = (other.scheduler, other.piece) == (self.scheduler, self.piece)
                if alike and (other.stage, other.pattern) == (stage, pattern):
                    return other
        return None

    def against_fair(self, group: str) -> statistics.Ratio | None:
        """A group's rate over its rate alone times its weight's share; None where it was not measured alone.

        Group 1 alone is P6 where it reads the file in pieces. Where it reads a whole one, it is what group 2 reads
        alone if that is the same reader; beside SQLite it is P6 with the file made whole. A whole file is the same
        before and after, so P1 is taken from the other stage where it was measured once.
        """
        source = "2"
        stages = [self.stage, *STAGES]
        if group == "1" and PATTERNS[self.pattern]["1"].file == PATTERNS[ALONE["1"]]["1"].file:
            source = "1"
            stages = [self.stage]
        elif group == "1" and self.workload == SQLITE:
            source = "1"
            stages = [AFTER]
        alone = self.in_pattern(ALONE[source], stages)
        if alone is None:
            return None
        share = self.shares[group]
        return statistics.ratio(self.bw_mib_s[group], [rate * share for rate in alone.bw_mib_s[source]])


def shared(data: Data, workload: str) -> list[Shared]:
    """All of one workload in the order of schedulers as they come, states as planned, patterns by name."""
    valid_rows = data.samples[data.samples["workload"] == workload]
    if valid_rows.empty:
        return []
    sets = dataset.parameters(valid_rows)
    odd = []
    for key in next(iter(sets.values())):
        if key not in OWN and len({params.get(key) for params in sets.values()}) > 1:
            odd.append(key)
    axes = dataset.unpacked(valid_rows, "axis", "piece_bytes", "stage")
    valid_rows = valid_rows.assign(
        scheduler=valid_rows["params"].map({text: _scheduler(params, odd) for text, params in sets.items()}),
        pattern=dataset.unpacked(valid_rows, "param", "pattern"),
        charged=valid_rows["params"].map({text: _charged(params) for text, params in sets.items()}),
        piece=axes["piece_bytes"].map(round_size),
        stage=axes["stage"],
        place=valid_rows["state"].map(dict(zip(data.planned, count(), strict=False))),
    ).sort_values(["scheduler", "place", "pattern", "iteration"], kind="stable")
    found: list[Shared] = []
    for (scheduler, state, pattern), part in valid_rows.groupby(["scheduler", "state", "pattern"], sort=False):
        case = Shared(
            workload,
            scheduler,
            state,
            part["piece"].iloc[0],
            part["stage"].iloc[0],
            pattern,
            _by_group(part, pattern, "bw_mib_s"),
            _by_group(part, pattern, "io_kib"),
            _by_group(part, pattern, "ios"),
            _numbers(part, "bw_ratio"),
            _numbers(part, "query_seconds"),
            part["charged"].iloc[0],
            found,
        )
        found.append(case)
    return found


def by_panel(cases: Iterable[Shared]) -> list[list[Shared]]:
    """Those of one scheduler and size of pieces together, as they come."""
    panels: dict[tuple[str, str], list[Shared]] = {}
    for case in cases:
        panels.setdefault((case.scheduler, case.piece), []).append(case)
    return list(panels.values())


def _by_group(part: pd.DataFrame, pattern: str, name: str) -> dict[str, list[float]]:
    return {group: _numbers(part, f"group{group}_{name}") for group in PATTERNS[pattern]}


class Verdict(NamedTuple):
    """Whether a group loses: `victim` names it, `why` says why it is not known; neither: that none does is shown."""

    victim: str | None = None
    why: str = ""


def victim(case: Shared) -> Verdict:
    """The group furthest below its fair rate; none; or why it is not known.

    A victim's interval excludes the fair rate, and its median loss is MARGIN or more. That there is none is said only
    where it is shown: no group's interval holds a loss of MARGIN or more (Schuirmann's one-sided test against the
    margin, by the interval's own level; J. Pharmacokinetics and Biopharmaceutics 15, 1987). All else is not known.
    """
    ratios: dict[str, statistics.Ratio] = {}
    lost: dict[str, float] = {}
    for group in case.shares:
        factor = case.against_fair(group)
        if factor is None or factor.value is None:
            return Verdict(why="a group was not measured alone")
        ratios[group] = factor
        if factor.direction < 0 and factor.value < 1 - statistics.Ratio.MARGIN:
            lost[group] = factor.value
    if lost:
        return Verdict(min(lost, key=lambda group: lost[group]))  # of two that lose as much, the first
    for group, factor in ratios.items():
        if factor.interval is None:
            return Verdict(why=factor.why or "no interval")
        if factor.interval.low < 1 - statistics.Ratio.MARGIN:
            return Verdict(why=f"{CALLED[case.workload][group]} {words.times(factor)} of fair")
    return Verdict()


def drawn(taken: Iterable[tuple[str, Shared, list[float]]], keys: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """A tidy row for each (line, case, samples) that has some, at the place that `keys` gives its pattern and stage."""
    rows = []
    for line, case, of_case in taken:
        if of_case:
            place = keys.index((case.pattern, case.stage))
            rows.append({"line": line, "x": place, "state": f"{case.pattern} {case.stage}", **groups.plotted(of_case)})
    return pd.DataFrame(rows)


def patterns_axis(cases: Sequence[Shared], keys: Sequence[tuple[str, str]]) -> figures.Axis:
    """What an axis of patterns says of itself, and of the stages that are marked in it."""
    stages = [stage for stage in dict.fromkeys(case.stage for case in cases) if PRIMES[stage]]
    marked = ", ".join(f"{PRIMES[stage]}: {STAGES[stage]}" for stage in stages)
    ticks = {float(place): pattern + PRIMES[stage] for place, (pattern, stage) in enumerate(keys)}
    return figures.Axis(f"pattern ({marked})" if marked else "pattern", ticks=ticks)


def scheduler_label(name: str) -> str:
    """The scheduler's name as the kernel's documentation writes it: 'BFQ', 'IOCost'; 'no scheduler' is the control."""
    base, _, layout = name.partition(" ")
    texts = {"bfq": "BFQ", "cfq": "CFQ", "iocost": "IOCost", "none": "no scheduler"}
    return f"{texts.get(base, base)}{f' ({layout})' if layout else ''}"


def _scheduler(params: Json, odd: Sequence[str]) -> str:
    """The scheduler, and what else tells cells apart that are alike in pattern and state."""
    if params["cgroup"] == "v2":
        cgroup = []
    else:
        cgroup = [f"cgroup-{params['cgroup']}"]
    return " ".join([params["scheduler"], *cgroup, *(f"{key}={params.get(key)}" for key in odd)])


def _charged(params: Json) -> str:
    if params["scheduler"] != "iocost":
        return ""
    return (
        f"IOCost: at most {params['cost_bytes_per_s'] / MIB:.0f} MiB/s, "
        f"{params['cost_sequential_iops']} sequential, {params['cost_random_iops']} random I/Os/s"
    )


def _numbers(part: pd.DataFrame, column: str) -> list[float]:
    return part[column].dropna().astype(float).tolist() if column in part else []
