"""Who loses its share: each group against its fair rate, in a table and in words beside what was published."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import median

from fsage.report.iocontrol.rows import (
    AFTER,
    BEFORE,
    CALLED,
    GROUPS,
    HOT,
    MARGIN,
    SQLITE,
    WEIGHTS,
    Shared,
    against_fair,
    interval_text,
    scheduler_label,
    shared,
    victim,
)
from fsage.report.section import Data, Section
from fsage.statistics import coefficient_of_variation
from fsage.workloads._groups import FRAGMENTED, PATTERNS

PUBLISHED = {
    WEIGHTS: {
        "cfq": "group 1, which reads the pieces",
        "bfq": "group 2, its neighbour",
        "iocost": "group 2, its neighbour",
    },
    SQLITE: {
        "cfq": "group 1, fio, which reads the pieces",
        "bfq": "group 2, SQLite",
        "iocost": "group 2, SQLite",
    },
}
"""The victim before defragmentation in the source; after it none was left."""
NONE = "\u2013"


def victims(data: Data, workload: str) -> Section | None:
    """The table of all patterns with two groups; in words the victim under each scheduler, before and after."""
    everything, called = shared(data, workload), CALLED[workload]
    pairs = [one for one in everything if len(one.shares) == len(GROUPS)]
    if not pairs:
        return None
    table = [
        [
            *("scheduler", "state", "pattern", "weights", *(f"{name}, MiB/s" for name in called.values())),
            *("I/Os counted", "I/O sizes, KiB", "ratio", "CoV of it"),
            *(*(f"{name} to fair" for name in called.values()), "victim"),
        ]
    ]
    table += [_row(one, everything) for one in pairs]
    schedulers = dict.fromkeys(one.scheduler for one in pairs)
    words = [
        _said(scheduler, stage, pairs, everything, workload)
        for scheduler in schedulers
        for stage in (BEFORE, HOT, AFTER)
    ]
    text = (
        "Fair is the group's rate alone under the same scheduler times its weight's share. The victim is the group "
        "furthest below that, and none where the interval of the ratio holds it (it inverts the exact rank-sum test; 3 "
        f"samples against 3 give 90%). A loss of less than {MARGIN:.0%} makes no victim however sure it is, for the "
        "fair rate is measured with another file and in another minute than the shares; the table shows it. "
        + " ".join(word for word in words if word)
    )
    title = "Who loses its share" + " beside SQLite" * (workload == SQLITE)
    return Section(title, text, [], wide=True, warnings=_unsupported(data, workload), table=table)


def _row(one: Shared, everything: Sequence[Shared]) -> list[str]:
    lost, unknown = victim(one, everything)
    spread = coefficient_of_variation(one.ratios)
    return [
        scheduler_label(one.scheduler),
        one.state,
        one.pattern,
        ":".join(str(reader.weight) for reader in PATTERNS[one.pattern].values()),
        *(f"{median(one.bw_mib_s[group]):.4g}" for group in GROUPS),
        " and ".join(f"{median(one.ios[group]):,.0f}" for group in GROUPS),
        " and ".join(_size(median(one.io_kib[group])) for group in GROUPS),
        f"{median(one.ratios):.3g}",
        NONE if spread is None else f"{spread:.1%}",
        *(interval_text(against_fair(one, group, everything)) for group in GROUPS),
        f"not known: {unknown}" if unknown else f"group {lost}" if lost else "none",
    ]


def _size(kib: float) -> str:
    return f"{kib:.3g}" if kib < 1000 else f"{kib:.0f}"


def _said(scheduler: str, stage: str, pairs: Sequence[Shared], everything: Sequence[Shared], workload: str) -> str:
    """E.g. 'BFQ before: the victim is group 2 in P4 (0.48x of its fair rate, ...). Published: group 2.'"""
    mine = [
        one
        for one in pairs
        if (one.scheduler, one.stage) == (scheduler, stage) and PATTERNS[one.pattern]["1"].file == FRAGMENTED
    ]
    if not mine:
        return ""
    several = len({one.piece for one in pairs}) > 1
    parts = []
    for one in mine:
        lost, unknown = victim(one, everything)
        where = f"{one.pattern} of pieces of {one.piece}" if several else one.pattern
        if unknown:
            parts.append(f"not known in {where} ({unknown})")
        elif lost:
            parts.append(
                f"{CALLED[workload][lost]} in {where} ({interval_text(against_fair(one, lost, everything))} of fair)"
            )
        else:
            parts.append(f"none in {where}")
    published = PUBLISHED[workload].get(scheduler.partition(" ")[0], "nothing, it is the control")
    if stage != BEFORE and scheduler.partition(" ")[0] in PUBLISHED[workload]:
        published = "none, fairness was restored"
    when = f"{stage} defragmentation" if stage != HOT else "what is hot defragmented"
    return f"{scheduler_label(scheduler)}, {when}, victim: {', '.join(parts)}; published: {published}."


def _unsupported(data: Data, workload: str) -> list[str]:
    """A sentence for each scheduler that this machine has not."""
    mine = data.frame[data.frame["workload"] == workload]
    rows = mine[mine["status"] == "unsupported"]
    measured = {json.loads(params)["scheduler"] for params in mine.loc[mine["status"] == "valid", "params"]}
    found = {json.loads(params)["scheduler"]: why for params, why in zip(rows["params"], rows["why"], strict=True)}
    return [
        f"{scheduler_label(name)} was not measured: {why}. Published victim: {PUBLISHED[workload].get(name, 'none')}."
        for name, why in found.items()
        if name not in measured
    ]
