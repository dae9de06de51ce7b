"""What was planted in a modelled disk, beside what the reads of a study recover of it: the proof of the method."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from fsage.statistics import ALPHA
from fsage.statistics.disk import LEVEL, Estimate, Inseparable, Reads, recover

PLANTED = ("outer_to_inner", "noise_cov", "drift_percent_per_hour")
"""What a disk may charge besides rate and seeks; a study on one that does is a study of the method."""
WHOLE = 4  # extents that an ext4 inode holds itself; for more a block is read, which is a seek


class Recovered(NamedTuple):
    """A planted value with its estimate; `unit` after both."""

    name: str
    unit: str
    planted: float
    found: Estimate

    @property
    def inside(self) -> bool:
        """Whether the planted value lies in the interval."""
        return self.found.low <= self.planted <= self.found.high


def recovered(frame: pd.DataFrame, level: float = LEVEL) -> list[Recovered]:
    """One for each planted value, with an interval of that level; empty where none is planted. Raises Inseparable."""
    costs = planted(frame)
    if costs is None:
        return []
    estimates = recover(reads(frame), level)
    rows = (
        ("seek", "ms", 1e3 * costs["seek_s"], _scaled(estimates["seek_s"], 1e3)),
        ("rate, first block", "MiB/s", costs["bytes_per_s"] / 2**20, _scaled(estimates["bytes_per_s"], 2**-20)),
        ("tracks, outer to inner", "x", costs.get("outer_to_inner", 1.0), estimates["outer_to_inner"]),
        ("fullness, full to empty", "x", 1.0, estimates["fullness"]),
        ("drift", "% an hour", costs.get("drift_percent_per_hour", 0.0), estimates["drift_percent_per_hour"]),
        (
            "noise, coefficient of variation",
            "%",
            100 * costs.get("noise_cov", 0.0),
            _scaled(estimates["noise_cov"], 100),
        ),
    )
    return [Recovered(*row) for row in rows]


def planted(frame: pd.DataFrame) -> Mapping[str, float] | None:
    """What the disk under all cells charges, where that is more than rate and seeks."""
    if "device_costs" in frame:
        texts = frame["device_costs"].dropna().unique()
    else:
        texts = []
    if len(texts) != 1:
        return None
    costs = json.loads(texts[0])  # a record's, so that it may be anything
    numbers = isinstance(costs, dict) and all(isinstance(costs.get(key), (int, float)) for key in ("seek_s", *PLANTED))
    usual = {"outer_to_inner": 1.0}
    if numbers and any(costs[key] != usual.get(key, 0.0) for key in PLANTED):
        return costs
    return None


def reads(frame: pd.DataFrame) -> Reads:
    """The valid reads of a study: planned cells, sentinels, and those past the file system."""
    valid = frame[
        (frame["status"] == "valid") & frame["read_bytes"].notna() & ~frame["kind"].isin(["traced", "warm_up"])
    ]
    past = valid["workload"] == "device_range"
    valid = valid[past | (valid["measured_mean_position"].notna() & valid["measured_position_sd"].notna())]
    past = valid["workload"] == "device_range"
    where = [json.loads(text).get("position", 0.5) for text in valid["params"]]
    files = valid["measured_files"]
    extents = valid["measured_extents"]
    seeks = (extents + files.where(extents > WHOLE * files, 0)) / valid["measured_bytes"]
    began = pd.to_datetime(valid["began"], utc=True, format="ISO8601")
    hours = (began - pd.to_datetime(_since(frame), unit="s", utc=True)) / pd.Timedelta(hours=1)

    def array(values: pd.Series) -> np.ndarray:
        return values.astype("float64").to_numpy()

    return Reads(
        s_per_byte=array(valid["read_seconds"] / valid["read_bytes"]),
        position=array(valid["measured_mean_position"].where(~past, where)),
        position_sd=array(valid["measured_position_sd"].where(~past, 0.0)),
        seeks_per_byte=array(seeks.where(~past, 1 / valid["read_bytes"])),
        fullness=array((valid["real_fullness_percent"] / 100).where(~past, 0.0)),
        hours=array(hours),
    )


def failures(frame: pd.DataFrame) -> list[str]:
    """A sentence where any planted value lies outside of its interval, adjusted over all of them (Holm)."""
    try:
        found = recovered(frame)
    except Inseparable as why:
        return [f"planted values: {why}"]
    outside: list[str] = []
    while len(outside) < len(found):
        level = 1 - ALPHA / (len(found) - len(outside))
        more = [cost.name for cost in recovered(frame, level) if not cost.inside and cost.name not in outside]
        if not more:
            break
        outside += more
    if not outside:
        return []
    return [
        f"planted values: {len(outside)} of {len(found)} lie outside of their intervals (level "
        f"{1 - ALPHA:.0%} over all, Holm): {', '.join(outside)}"
    ]


def _since(frame: pd.DataFrame) -> float:
    """The moment from which the disk drifts."""
    costs = planted(frame) or {}
    return float(costs.get("since_s") or pd.to_datetime(frame["began"].dropna().min(), utc=True).timestamp())


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value * factor, estimate.low * factor, estimate.high * factor)
