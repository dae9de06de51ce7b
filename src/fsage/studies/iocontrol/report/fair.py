"""Each group against its fair rate, in all patterns with two groups: rates, I/Os, the ratio of both, how it varies."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fsage.report.section import Data, Section
from fsage.statistics import coefficient_of_variation
from fsage.studies.iocontrol.report.rows import (
    CALLED,
    GROUPS,
    SQLITE,
    Shared,
    against_fair,
    interval_text,
    scheduler_label,
    shared,
)
from fsage.studies.iocontrol.weighted import PATTERNS

NONE = "\u2013"


def fair(data: Data, workload: str) -> Section | None:
    """The table."""
    everything = shared(data, workload)
    pairs = [one for one in everything if len(one.shares) == len(GROUPS)]
    if not pairs:
        return None
    heads = ["scheduler", "state", "pattern", "MiB/s", "I/Os", "KiB each", "ratio", "CoV of it"]
    table = [[*heads, *(f"group {group} to fair" for group in GROUPS)], *(_row(one, everything) for one in pairs)]
    called = " and ".join(CALLED[workload].values())
    text = (
        f"Medians of {called}, in that order; I/Os are those that the kernel counted in a sample. The ratio is "
        "group 1's rate over group 2's. Fair as above, the median of all pairwise ratios with its interval."
    )
    return Section("Rates and fair rates" + " beside SQLite" * (workload == SQLITE), text, [], table=table)


def _row(one: Shared, everything: Sequence[Shared]) -> list[str]:
    spread = coefficient_of_variation(one.ratios)
    weights = ":".join(str(reader.weight) for reader in PATTERNS[one.pattern].values())
    return [
        scheduler_label(one.scheduler),
        one.state,
        f"{one.pattern} ({weights})",
        " and ".join(f"{median(one.bw_mib_s[group]):.4g}" for group in GROUPS),
        " and ".join(f"{median(one.ios[group]):,.0f}" for group in GROUPS),
        " and ".join(_size(median(one.io_kib[group])) for group in GROUPS),
        f"{median(one.ratios):.3g}",
        NONE if spread is None else f"{spread:.1%}",
        *(interval_text(against_fair(one, group, everything)) for group in GROUPS),
    ]


def _size(kib: float) -> str:
    return f"{kib:.3g}" if kib < 1000 else f"{kib:.0f}"
