"""Who loses its share: the victim under each scheduler, before and after, in words beside what was published."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fsage.analysis.words import NONE, times
from fsage.report.section import Data, Section
from fsage.statistics import MARGIN
from fsage.studies.iocontrol.report.rows import (
    BEFORE,
    BESIDE,
    CALLED,
    GROUPS,
    SQLITE,
    STAGES,
    WEIGHTS,
    Shared,
    Verdict,
    against_fair,
    scheduler_label,
    shared,
    victim,
)
from fsage.studies.iocontrol.weighted import FRAGMENTED, PATTERNS

PUBLISHED = {"cfq": "1", "bfq": "2", "iocost": "2"}
"""The victim before defragmentation in the source, of both workloads; after it none was left."""
VICTIMS = {
    WEIGHTS: {"1": "group 1, which reads the pieces", "2": "group 2, its neighbour"},
    SQLITE: {"1": "group 1 (fio), which reads the pieces", "2": "group 2 (SQLite)"},
}
RESTORED = "none, fairness was restored"
CONTROL = "nothing, it is the control"


def victims(data: Data, workload: str) -> Section | None:
    """A table: for each scheduler and state the victim in the patterns in which group 1 reads the pieces."""
    everything = shared(data, workload)
    pairs = [case for case in everything if len(case.shares) == len(GROUPS)]
    in_pieces = [case for case in pairs if PATTERNS[case.pattern]["1"].file == FRAGMENTED]
    if not in_pieces:
        return None
    patterns = sorted({case.pattern for case in in_pieces})
    table = [["scheduler", "stage", "state", *(f"victim in {pattern}" for pattern in patterns), "Park and Eom"]]
    for scheduler, state, stage in dict.fromkeys((case.scheduler, case.state, case.stage) for case in in_pieces):
        by_pattern = {case.pattern: case for case in in_pieces if (case.scheduler, case.state) == (scheduler, state)}
        sentences = [_said(by_pattern.get(pattern), everything, workload) for pattern in patterns]
        verdicts = [victim(case, everything) for pattern in patterns if (case := by_pattern.get(pattern))]
        label = scheduler_label(scheduler)
        table.append([label, STAGES[stage], state, *sentences, _beside_published(scheduler, stage, workload, verdicts)])
    text = (
        "The fair rate is the group's rate alone under the same scheduler, times its weight's share. The victim is "
        f"the group furthest below it. Its interval excludes the fair rate, and its median loss is {MARGIN:.0%} or "
        "more. The interval inverts the exact rank-sum test; 3 samples against 3 give 90%. Smaller losses do not "
        "count, because the fair rate is measured with another file at another time. None means: no group's interval "
        f"contains a loss of {MARGIN:.0%}. Otherwise the answer is not known. The word differs marks results that are "
        "not as in Park and Eom, File Fragmentation from the Perspective of I/O Control."
    )
    return Section(
        f"Who loses its share{BESIDE[workload]}", text, [], warnings=_unsupported(data, workload), table=table
    )


def _said(case: Shared | None, everything: Sequence[Shared], workload: str) -> str:
    """E.g. 'group 2, 0.48x (0.45 to 0.52) of fair', 'none', 'none (group 2 0.98x of fair)'."""
    if case is None:
        return NONE
    verdict = victim(case, everything)
    if verdict.why:
        return f"not known: {verdict.why}"
    fair = {group: against_fair(case, group, everything) for group in case.shares}
    if verdict.victim:
        return f"{CALLED[workload][verdict.victim]}, {times(fair[verdict.victim])} of fair"
    slight = [
        f"{CALLED[workload][group]} {ratio.value:.2f}x"
        for group, ratio in fair.items()
        if ratio and ratio.value and ratio.direction < 0
    ]
    return f"none ({' and '.join(slight)} of fair)" if slight else "none"


def _beside_published(scheduler: str, stage: str, workload: str, verdicts: Sequence[Verdict]) -> str:
    """What was published, and whether what was found (of what is known) differs from it."""
    before = PUBLISHED.get(scheduler.partition(" ")[0])
    if before is None:
        return CONTROL
    expected, published = (before, VICTIMS[workload][before]) if stage == BEFORE else (None, RESTORED)
    return (
        f"{published}; differs"
        if any(verdict.victim != expected for verdict in verdicts if not verdict.why)
        else published
    )


def _unsupported(data: Data, workload: str) -> list[str]:
    """A sentence for each scheduler that this machine has not."""
    of_workload = data.frame[data.frame["workload"] == workload]
    rows = of_workload[of_workload["status"] == "unsupported"]
    measured = {
        json.loads(params)["scheduler"] for params in of_workload.loc[of_workload["status"] == "valid", "params"]
    }
    reasons = {json.loads(params)["scheduler"]: why for params, why in zip(rows["params"], rows["why"], strict=True)}
    return [
        f"{scheduler_label(name)} was not measured: {why}. "
        f"Victim in Park and Eom: {VICTIMS[workload].get(PUBLISHED.get(name, ''), 'none')}."
        for name, why in reasons.items()
        if name not in measured
    ]
