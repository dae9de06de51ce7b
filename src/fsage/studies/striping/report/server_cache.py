"""With the servers' cache beside without it, where both were measured."""

from __future__ import annotations

import json

from fsage import statistics
from fsage.analysis.groups import measure_label
from fsage.model.typed import Json
from fsage.report.section import Data, Section
from fsage.studies.striping.report.rows import rows_of

KEPT, NONE = "kept", "\u2013"
PUBLISHED = (
    "Published, without ZFS's cache: IOR loses about 7% of its write and 38% of its read bandwidth. The first phase "
    "of netflow loses 15% (synchronous; asynchronous little), its second phase 26% and 22%. "
)


def server_cache(data: Data) -> Section | None:
    """A row for each layout and phase measured both ways, with the factor and its interval."""
    rows = rows_of(data)
    params = [json.loads(text) for text in rows["params"]]
    rows = rows.assign(
        setting=[cell_params.get("server_cache", KEPT) for cell_params in params],
        rest=[json.dumps({**cell_params, "server_cache": None}, sort_keys=True) for cell_params in params],
    )
    table = [["layout", "phase", "kept, MiB/s", "without", "MiB/s", "factor"]]
    for _, part in rows.groupby(["measure", "x", "rest", "condition"], sort=False, dropna=False):
        kept = part[part["setting"] == KEPT]
        others = part[part["setting"] != KEPT].to_dict("records") if len(kept) else []
        table += [_row(kept.iloc[0].to_dict(), other) for other in others]
    if len(table) == 1:
        return None
    text = (
        "The OSTs had ZFS's primarycache as it was (kept), or metadata or none while a cell ran. With none, the "
        "servers' memory never holds measured data. The factor is the median of all pairwise ratios to kept, with the "
        f"interval that inverts the exact rank-sum test. {PUBLISHED}"
    )
    return Section("With and without the servers' cache", text, [], table=table)


def _row(kept: Json, other: Json) -> list[str]:
    factor = statistics.ratio(other["samples"], kept["samples"])
    held = f" ({factor.interval.low:.3g} to {factor.interval.high:.3g})" if factor.interval else ""
    text = f"{factor.value:.3g}x{held}" if factor.value is not None else NONE
    medians = f"{kept['median']:.4g}", other["setting"], f"{other['median']:.4g}"
    return [other["state"], measure_label(other["measure"])[0], *medians, text]
