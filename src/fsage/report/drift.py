"""Did the target drift while it was measured? Sentinels beside the planned cells, in the order of time."""

from __future__ import annotations

import pandas as pd

from fsage.figures import drift_panel
from fsage.report.groups import measure_label, measures, samples
from fsage.report.section import Section


def section(frame: pd.DataFrame, stamp: str) -> Section | None:
    """Every sample over the median of the planned ones in its group; nothing where no sentinel was taken."""
    taken = frame[frame["status"] == "valid"].sort_values(["began", "state", "order"], kind="stable")
    taken = taken.assign(x=range(1, len(taken) + 1))
    panels, words = [], []
    for measure in measures(taken):
        known = taken[taken[measure].notna()]
        medians = samples(known).groupby(["state", "params"])[measure].median()
        keys = pd.MultiIndex.from_frame(known[["state", "params"]])
        points = known.assign(y=known[measure].to_numpy() / medians.reindex(keys).to_numpy()).dropna(subset="y")
        apart = points.loc[points["kind"] == "sentinel", "y"]
        if apart.empty:
            continue
        name = measure_label(measure)[0]
        words.append(
            f"{name.capitalize()}s: {len(apart)} sentinels, median {apart.median():.3f}x of their group, "
            f"from {apart.min():.3f}x to {apart.max():.3f}x."
        )
        panels.append(
            drift_panel(
                f"Drift of {name}s",
                points[["x", "y", "kind"]],
                "measurement, in the order of time",
                "sample over its group's median",
                stamp,
            )
        )
    text = "Sentinels are one cell measured again and again within a state; they enter no other figure or table."
    return Section("Drift", " ".join([text, *words]), panels) if panels else None
