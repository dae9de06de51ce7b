"""Groups of samples that differ in nothing but the iteration, and what can be said of each."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from fsage import statistics

AXES = ["state", "recipe", "capacity_percent", "fragmentation_percent", "file_size_bytes", "params"]


def samples(frame: pd.DataFrame) -> pd.DataFrame:
    """What may enter a statistic: valid and planned. Sentinels and failures are reported apart."""
    return frame[(frame["status"] == "valid") & (frame["kind"] == "planned")]


def measures(frame: pd.DataFrame) -> list[str]:
    """The columns that hold a rate (higher is better), in the order of the table."""
    rates = [name for name in frame.columns if name.endswith(("_bw_mib_s", "_per_s"))]
    return [name for name in rates if frame[name].notna().any()]


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each group and measure: n, median, interval, CoV, samples, and the ratio `to_clean`.

    `clean` is the unfragmented state of lowest capacity with the same file size and parameters, if there.
    `layouts` counts the layout instances that were pooled.
    """
    frame = samples(frame)
    rows, names = [], measures(frame)
    for keys, group in frame.groupby(AXES, sort=False, dropna=False):
        for measure in names:
            values = group[measure].dropna().tolist()
            if not values:
                continue
            summary = statistics.summarise(values)
            rows.append(
                {
                    **dict(zip(AXES, keys, strict=True)),
                    "transfer_size_bytes": group["transfer_size_bytes"].iloc[0],
                    "real_fullness_percent": group["real_fullness_percent"].median(),
                    "layouts": group["layout_digest"].nunique(dropna=False),
                    "measure": measure,
                    "n": summary.n,
                    "median": summary.median,
                    "low": summary.interval and summary.interval.low,
                    "high": summary.interval and summary.interval.high,
                    "level": summary.interval and summary.interval.level,
                    "cov": summary.cov,
                    "samples": values,
                }
            )
    columns = [*AXES, "transfer_size_bytes", "real_fullness_percent", "layouts", "measure", "n", "median"]
    table = pd.DataFrame(rows, columns=[*columns, "low", "high", "level", "cov", "samples"])
    clean = _clean(table)
    keys = list(zip(table["file_size_bytes"], table["params"], table["measure"], strict=True))
    table["clean"] = [clean[key].state if key in clean else None for key in keys]
    table["to_clean"] = [
        statistics.ratio(values, clean[key].samples) if key in clean and clean[key].state != state else None
        for key, state, values in zip(keys, table["state"], table["samples"], strict=True)
    ]
    return table


def _clean(table: pd.DataFrame) -> dict[tuple, Any]:
    """The row that each (file size, parameters, measure) is compared with."""
    whole = table[table["fragmentation_percent"] == 0].sort_values("capacity_percent", ascending=False)
    return {(row.file_size_bytes, row.params, row.measure): row for row in whole.itertuples()}


def size_label(size_bytes: int) -> str:
    """67108864 -> '64 MiB'."""
    size, unit = float(size_bytes), 0
    while size >= 1024 and unit < 4:
        size, unit = size / 1024, unit + 1
    return f"{size:g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def measure_label(measure: str) -> tuple[str, str]:
    """What a measure's name says, and its unit: 'write_bw_mib_s' -> ('write', 'MiB/s')."""
    for ending, unit in (("_bw_mib_s", "MiB/s"), ("_per_s", "1/s")):
        if measure.endswith(ending):
            return measure.removesuffix(ending).replace("_", " "), unit
    return measure.replace("_", " "), ""


def params_labels(params: pd.Series) -> dict[str, str]:
    """A short name for each distinct set of parameters: the transfer size, and what else differs."""
    distinct = {text: json.loads(text) for text in params.unique()}
    distinct = dict(sorted(distinct.items(), key=lambda item: (item[1].get("transfer_size") or 0, item[0])))
    keys = sorted({key for one in distinct.values() for key in one})
    differing = [k for k in keys if len({json.dumps(one.get(k)) for one in distinct.values()}) > 1]
    labels = {}
    for text, one in distinct.items():
        words = [size_label(one["transfer_size"])] if one.get("transfer_size") else []
        words += [f"{key} {one.get(key)}" for key in differing if key != "transfer_size"]
        labels[text] = ", ".join(words) or one.get("workload", text)
    return labels
