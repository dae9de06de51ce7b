"""The tables of the page: states, groups, cells; rows in, plain dictionaries out."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from fsage.analysis.groups import measure_label, measures, params_labels
from fsage.analysis.missing import PlannedCell, missing

OF_A_CELL = ("state", "cell", "kind", "status", "transfer_size_bytes", "order_in_state", "attempt", "began", "why")


def known(value: object) -> object:
    """None for every kind of not known that a table has."""
    return None if value is None or pd.isna(value) else value


def undigested(frame: pd.DataFrame) -> list[str]:
    """A sentence for each reason why states have no digest of extents."""
    noted = frame[["state", "notes"]].dropna().drop_duplicates()
    reasons: dict[str, set[str]] = {}
    for row in noted.to_dict("records"):
        note = json.loads(row["notes"]).get("digest")  # a record's, so that it may be anything
        if isinstance(note, dict) and isinstance(why := note.get("absent"), str):
            reasons.setdefault(why, set()).add(row["state"])
    return [
        f"No digest of extents: {', '.join(sorted(states))}. {why}. Each layout instance counts as a layout of its own."
        for why, states in sorted(reasons.items())
    ]


def groups(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A block for each set of parameters, a row a state, the measures side by side."""
    if table.empty:
        return []
    blocks = []
    for params, label in reversed(params_labels(table["params"]).items()):
        part = table[table["params"] == params]
        names = list(part["measure"].unique())
        by_kind: dict[str, dict[str, Any]] = {}
        for row in part.to_dict("records"):
            state = f"{row['state']} ({row['condition']})" if row["condition"] else row["state"]
            by_kind.setdefault(state, {})[row["measure"]] = row
        blocks.append(
            {
                "label": label,
                "measures": [measure_label(name) for name in names],
                "rows": [
                    {
                        "state": state,
                        "layouts": max(entry["layouts"] for entry in by_name.values()),
                        "cells": [by_name.get(name) for name in names],
                    }
                    for state, by_name in by_kind.items()
                ],
            }
        )
    return blocks


def outliers(table: pd.DataFrame) -> list[dict[str, object]]:
    """Samples that lie far off their group, and why; they stay in it."""
    return [
        {"state": row["state"], "measure": measure_label(row["measure"])[0], "flag": flag}
        for row in table[["state", "measure", "flags"]].to_dict("records")
        for flag in row["flags"]
    ]


def cells(frame: pd.DataFrame, plan_cells: list[PlannedCell]) -> dict[str, object]:
    """Every record, and every planned cell without one: the columns of OF_A_CELL and `rates`, one a measure.

    `commands`: what ran, each text once; `ran`: the place of a cell's there.
    """
    names = measures(frame)
    commands = list(dict.fromkeys(frame["commands"].dropna()))
    places = {text: place for place, text in enumerate(commands)}
    rows = [
        {
            **{key: known(row[key]) for key in OF_A_CELL},
            "rates": [known(row[name]) for name in names],
            "ran": places.get(row["commands"]),
        }
        for row in frame[[*OF_A_CELL, *names, "commands"]].to_dict("records")
    ]
    nothing = {**dict.fromkeys(OF_A_CELL), "status": "missing", "rates": [None] * len(names), "ran": None}
    rows += [
        {**nothing, "state": state, "cell": cell, "kind": kind} for state, cell, kind in missing(frame, plan_cells)
    ]
    return {"measures": [measure_label(name) for name in names], "rows": rows, "commands": commands}
