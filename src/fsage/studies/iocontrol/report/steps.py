"""What fragmentation alone does to each group: P4 against P2 and P5 against P3, which differ in nothing else."""

from __future__ import annotations

from fsage.report.section import Data, Section
from fsage.statistics import ratio
from fsage.studies.iocontrol.report.rows import BEFORE, CALLED, GROUPS, SQLITE, interval_text, scheduler_label, shared

AGAINST = {"P4": "P2", "P5": "P3"}


def steps(data: Data, workload: str) -> Section | None:
    """A table: each group's rate with the file in pieces over its rate with whole files, before and after."""
    everything = shared(data, workload)
    known = {(one.scheduler, one.piece, one.stage, one.pattern): one for one in everything}
    rows = []
    for one in everything:
        if one.pattern not in AGAINST:
            continue
        for stage in (one.stage, BEFORE):  # whole files are the same before and after
            whole = known.get((one.scheduler, one.piece, stage, AGAINST[one.pattern]))
            if whole:
                found = [interval_text(ratio(one.bw_mib_s[name], whole.bw_mib_s[name])) for name in GROUPS]
                rows.append([scheduler_label(one.scheduler), one.state, f"{one.pattern} / {whole.pattern}", *found])
                break
    if not rows:
        return None
    text = (
        f"P4 differs from P2, and P5 from P3, in that {CALLED[workload]['1']} reads the file in pieces. A ratio is "
        "the median of all pairwise ones with the interval that inverts the exact rank-sum test."
    )
    heads = ["scheduler", "state", "patterns", *CALLED[workload].values()]
    return Section(
        "What the pieces do to each group" + " beside SQLite" * (workload == SQLITE), text, [], table=[heads, *rows]
    )
