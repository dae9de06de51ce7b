"""Extents, fragmentation factor and rates of the file before and after it was defragmented, cold and warm."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from fsage.analysis.groups import counts, params_labels
from fsage.figures import Axis, Figure, Lines, limits, series
from fsage.report.section import Data, Section
from fsage.text.sizes import round_size

COLD = "cold"
NONE = "\u2013"


def rates(data: Data) -> Section | None:
    """The table of the states, and the rates as a figure for each cache."""
    rows = with_cache(data)
    if rows.empty:
        return None
    notes = _notes(data)
    table = [["state", "extents", "factor", "moved", "tool took", *_heads(rows)]]
    table += [_row(state, notes.get(state, {}), rows[rows["state"] == state]) for state in _states(data, rows)]
    figures: list[Figure] = []
    for cache, part in rows.groupby("cache", sort=False):
        places = {state: float(place) for place, state in enumerate(_states(data, part))}
        points = part.assign(x=part["state"].map(places))
        labels = params_labels(part["params"])
        figures.append(
            Lines(
                f"Reading the file {cache}",
                tuple(
                    series(label, points[points["params"] == params], joined=False) for params, label in labels.items()
                ),
                Axis("state", ticks={place: state for state, place in places.items()}),
                Axis("read bandwidth, MiB/s", (0.0, limits(part)[1])),
            )
        )
    text = (
        "One file, read from beginning to end with one block size throughout: cold after what was in memory was "
        "dropped and that verified, warm from memory. The fragmentation factor is (actual - ideal) / actual extents, "
        "as of xfs_db, from FIEMAP. A ratio is to the state before, the median of all pairwise ones with the "
        f"interval that inverts the exact rank-sum test. n = {counts(rows)}."
    )
    return Section("The file before and after", text, figures, table=table)


def with_cache(data: Data) -> pd.DataFrame:
    """The groups with `cache`, cold before warm."""
    rows = data.table.assign(cache=[json.loads(text).get("cache", COLD) for text in data.table["params"]])
    return rows.sort_values("cache", kind="stable")


def _notes(data: Data) -> dict[str, dict[str, Any]]:
    """State -> what its steps noted."""
    notes = data.frame.dropna(subset="notes").groupby("state")["notes"].first()
    return {str(state): json.loads(text) for state, text in notes.items()}


def extents_of(data: Data, state: str) -> int | None:
    """In how many extents the file lies in a state, as its steps noted."""
    notes = _notes(data).get(state, {})
    done = notes.get("defragment", {})
    extents: int | None = done["after"]["extents"] if done else notes.get("fragmented_file", {}).get("extents")
    return extents


def _states(data: Data, rows: pd.DataFrame) -> list[str]:
    """In planned order, those that have samples."""
    measured = set(rows["state"])
    return [state for state in data.planned if state in measured]


def _heads(rows: pd.DataFrame) -> list[str]:
    caches = list(rows["cache"].unique())
    return [f"{cache}, MiB/s" for cache in caches] + [f"{cache}, ratio to before" for cache in caches]


def _row(state: str, notes: dict[str, Any], rows: pd.DataFrame) -> list[str]:
    done = notes.get("defragment", {})
    extents = done["after"]["extents"] if done else notes.get("fragmented_file", {}).get("extents")
    factor = done["after"]["fragmentation_factor"] if done else (extents - 1) / extents if extents else None
    largest = rows.sort_values("transfer_size_bytes").drop_duplicates("cache", keep="last")
    medians = [
        f"{itertuple.median:.4g}" + _held(itertuple.low, itertuple.high, 4) for itertuple in largest.itertuples()
    ]
    ratios = [itertuple.to_clean for itertuple in largest.itertuples()]
    return [
        state,
        NONE if extents is None else f"{extents:,}",
        NONE if factor is None else f"{factor:.4f}",
        round_size(done["moved_bytes"]) if done else NONE,
        f"{done['seconds']:.1f} s ({done['tool']})" if done else NONE,
        *medians,
        *(
            NONE if ratio is None or ratio.value is None else f"{ratio.value:.3g}x{_interval(ratio)}"
            for ratio in ratios
        ),
    ]


def _interval(ratio: Any) -> str:
    return _held(ratio.interval.low, ratio.interval.high, 3) if ratio.interval else ""


def _held(low: float | None, high: float | None, digits: int) -> str:
    return "" if low is None or pd.isna(low) else f" ({low:.{digits}g} to {high:.{digits}g})"
