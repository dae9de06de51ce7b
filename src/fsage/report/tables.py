"""The tables of the page: states, groups, cells; rows in, plain dictionaries out."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from fsage.records.messages import StoresLayout as Layout
from fsage.report.evidence import Evidence
from fsage.report.groups import measure_label, measures, params_labels, samples
from fsage.report.missing import PlannedCell, missing

OF_A_STATE = (
    "capacity_percent",
    "fragmentation_percent",
    "file_size_bytes",
    "capacity_percent_achieved",
    "deleted_share_files",
    "deleted_share_bytes",
    "real_fullness_percent",
    "filler_files",
    "filler_extents",
    "measured_extents",
    "measured_mean_extent_bytes",
    "measured_layout_score",
    "measured_mean_position",
)
OF_A_CELL = ("state", "cell", "kind", "status", "transfer_size_bytes", "order", "attempt", "began", "why")


def known(value: Any) -> Any:
    """None for every kind of not known that a table has."""
    return None if value is None or pd.isna(value) else value


def states(frame: pd.DataFrame, planned: list[str], evidence: Evidence) -> list[dict[str, Any]]:
    """Nominal beside achieved, and the layout, of every planned state."""
    readable = frame[frame["status"] != "unreadable"]
    medians = readable.groupby("state")[list(OF_A_STATE)].median()
    valid = samples(frame)["state"].value_counts()
    digests = readable.groupby("state")["layout_digest"].unique()
    rebuilt = readable.groupby("state")["rebuilt"].any()
    return [
        {
            "name": name,
            **{key: known(medians[key].get(name)) for key in OF_A_STATE},
            "digests": sorted(digests.get(name, pd.Series()).dropna()) or [_digest(evidence, name)],
            "rebuilt": bool(rebuilt.get(name, False)),
            "valid": int(valid.get(name, 0)),
            "layout": _layout(evidence.layouts[name]) if name in evidence.layouts else None,
        }
        for name in planned
    ]


def undigested(frame: pd.DataFrame) -> list[str]:
    """A sentence for each reason why states have no digest of extents."""
    noted = frame[["state", "notes"]].dropna().drop_duplicates()
    found: dict[str, set[str]] = {}
    for row in noted.to_dict("records"):
        note = json.loads(row["notes"]).get("digest")  # a record's, so that it may be anything
        if isinstance(note, dict) and isinstance(why := note.get("absent"), str):
            found.setdefault(why, set()).add(row["state"])
    return [
        f"No digest of extents: {', '.join(sorted(states))}. {why}. Each layout instance counts as a layout of its own."
        for why, states in sorted(found.items())
    ]


def groups(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A block for each set of parameters, a row a state, the measures side by side."""
    if table.empty:
        return []
    blocks = []
    for params, label in reversed(params_labels(table["params"]).items()):
        part = table[table["params"] == params]
        names = list(part["measure"].unique())
        found: dict[str, dict[str, Any]] = {}
        for row in part.to_dict("records"):
            state = f"{row['state']} ({row['condition']})" if row["condition"] else row["state"]
            found.setdefault(state, {})[row["measure"]] = row
        blocks.append(
            {
                "label": label,
                "measures": [measure_label(name) for name in names],
                "rows": [
                    {
                        "state": state,
                        "layouts": max(one["layouts"] for one in by_name.values()),
                        "cells": [by_name.get(name) for name in names],
                    }
                    for state, by_name in found.items()
                ],
            }
        )
    return blocks


def outliers(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Samples that lie far off their group, and why; they stay in it."""
    return [
        {"state": row["state"], "measure": measure_label(row["measure"])[0], "flag": flag}
        for row in table[["state", "measure", "flags"]].to_dict("records")
        for flag in row["flags"]
    ]


def cells(frame: pd.DataFrame, plan_cells: list[PlannedCell]) -> dict[str, Any]:
    """Every record, and every planned cell without one: the columns of OF_A_CELL and `rates`, one a measure."""
    names = measures(frame)
    rows = [
        {**{key: known(row[key]) for key in OF_A_CELL}, "rates": [known(row[name]) for name in names]}
        for row in frame[[*OF_A_CELL, *names]].to_dict("records")
    ]
    nothing = {**dict.fromkeys(OF_A_CELL), "status": "missing", "rates": [None] * len(names)}
    rows += [
        {**nothing, "state": state, "cell": cell, "kind": kind} for state, cell, kind in missing(frame, plan_cells)
    ]
    return {"measures": [measure_label(name) for name in names], "rows": rows}


def _digest(evidence: Evidence, state: str) -> str | None:
    return evidence.known[state].layout_digest if state in evidence.known else None


def _layout(layout: Layout) -> dict[str, Any]:
    """A state's layout in a few numbers, over all its stores; None for what no store knows."""
    free = [store.free_extents for store in layout.stores if store.free_extents]
    filler = [store.files["filler"] for store in layout.stores if store.files and "filler" in store.files]
    extents = sum(one.extents for one in filler)
    in_extents = [one.bytes for one in filler if one.bytes is not None]
    scores = [one.layout_score for one in filler if one.layout_score is not None]
    return {
        "free_extents": sum(one.count for one in free) if free else None,
        "largest_free_bytes": max(one.largest_bytes for one in free) if free else None,
        "mean_extent_bytes": sum(in_extents) / extents if extents and in_extents else None,
        "layout_score": min(scores) if scores else None,
    }
