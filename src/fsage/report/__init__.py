"""A study's report: one HTML file that opens offline; the same records give the same bytes."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

import fsage
from fsage import dataset
from fsage.report.conditions import basis, conditions
from fsage.report.groups import measure_label, params_labels, samples, size_label, summarise
from fsage.report.headline import comparisons, headline, layout_sentences, published_sentences, stamp
from fsage.report.section import Data, Section

__all__ = ["build", "headline"]

DRAWN = ("paf",)
"""Recipes with a module of their own here, whose `sections(data)` draws them; any other has the tables only."""

SHORT_SAMPLE_S = 1.0
SHOWN = 20


def build(
    study: Any,
    target: Any,
    frame: pd.DataFrame,
    plan_cells: Iterable[tuple[str, Any]],
    states: Mapping[str, dict | None],
    claim: Mapping[str, Any] | None,
    out_dir: Path,
    comparison: pd.DataFrame | None = None,
) -> Path:
    """Write `index.html` and the tables it links to into `out_dir`; return the page's path.

    `plan_cells`: (state, cell) of everything planned, cells with name and kind. `states`: evidence by state.
    `comparison`: records of another study, only set beside, never pooled.
    """
    cells = [(state, cell.name, cell.kind) for state, cell in plan_cells]
    table = summarise(frame)
    on = stamp(frame)
    recipe = next(iter(frame["recipe"].dropna()), None)
    beside = summarise(comparison) if comparison is not None else table.iloc[:0]
    planned = list(dict.fromkeys(state for state, _, kind in cells if kind == "planned"))
    sizes = [study.compare.levels["file_size"]] if study.compare and "file_size" in study.compare.levels else []
    data = Data(table[table["main"]], planned, beside[beside["main"]], sizes, on)
    compared = comparisons(frame, study)
    page = _template().render(
        study=study,
        target=target,
        stamp=on,
        compared=compared,
        verdicts=[*layout_sentences(frame, study), *published_sentences(frame, compared), *_notes(frame)],
        counts=_counts(frame, cells),
        sections=_sections(recipe, data, frame),
        states=_states(frame, planned, states),
        groups=_groups(table),
        gaps=_gaps(frame, cells),
        again=_commands(study, target),
        short=_short(frame),
        facts=_facts(study, target, frame, states, claim),
        examples=_examples(frame),
        version=fsage.__version__,
    )
    dataset.write(frame, out_dir)
    path = out_dir / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


def _sections(recipe: str | None, data: Data, frame: pd.DataFrame) -> list[Section]:
    """All that is drawn. What draws is imported here: it takes a second, and the terminal needs no figures."""
    from fsage.report import drift

    drawn = importlib.import_module(f"fsage.report.{recipe}").sections(data) if recipe in DRAWN else []
    last = drift.section(frame, data.stamp)
    return [*drawn, last] if last else drawn


def _notes(frame: pd.DataFrame) -> list[str]:
    """What the intervals are over, and which samples are kept apart."""
    mine = samples(frame)
    return [] if mine.empty else [basis(mine), *conditions(mine)]


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fsage.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(number=_number, percent=_percent, size=size_label)
    return environment.get_template("page.html.j2")


def _known(value: Any) -> Any:
    """None for every kind of not known that a table has."""
    return None if value is None or pd.isna(value) else value


def _number(value: Any, digits: int = 1) -> str:
    """Fixed digits, or a dash for what is not known."""
    return "\u2013" if _known(value) is None else f"{value:,.{digits}f}".replace(",", "\u202f")


def _percent(share: Any, digits: int = 1) -> str:
    return "\u2013" if _known(share) is None else f"{share:.{digits}%}"


def _counts(frame: pd.DataFrame, cells: list[tuple[str, str, str]]) -> dict[str, int]:
    """Planned cells by what became of them; extras apart."""
    main = frame[frame["kind"] != "sentinel"]
    counts = {"planned": sum(kind == "planned" for *_, kind in cells)}
    counts |= {
        status: int((main["status"] == status).sum()) for status in ("valid", "failed", "unsupported", "unreadable")
    }
    counts["missing"] = len([gap for gap in _missing(frame, cells) if gap[2] == "planned"])
    counts["extras"] = int(((frame["kind"] == "sentinel") & (frame["status"] == "valid")).sum())
    return counts


def _missing(frame: pd.DataFrame, cells: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    there = set(zip(frame["state"], frame["cell"], strict=True))
    return [cell for cell in cells if cell[:2] not in there]


def _gaps(frame: pd.DataFrame, cells: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """What gave no number, by what became of it, state and reason."""
    rows = frame.loc[frame["status"] != "valid", ["status", "state", "cell", "why"]].to_dict("records")
    rows += [
        {"status": "missing", "state": s, "cell": c, "why": "not measured yet"} for s, c, _ in _missing(frame, cells)
    ]
    if not rows:
        return []
    table = pd.DataFrame(rows).groupby(["status", "state", "why"], sort=False, dropna=False)["cell"]
    return [
        {"status": status, "state": state, "why": why, "count": len(names), "cells": list(names)[:3]}
        for (status, state, why), names in table
    ]


def _commands(study: Any, target: Any) -> dict[str, str]:
    """What measures again, and only what is not there."""
    run = f"./run snakemake {study.name} --config target={target.name}"
    again = f"./run fsage --target {target.name} remeasure {study.name}"
    return {
        "missing": run,
        "failed": f"{again} --failed && {run}",
        "unreadable": f"{again} --state STATE && {run}",
    }


def _states(frame: pd.DataFrame, planned: list[str], evidence: Mapping[str, dict | None]) -> list[dict[str, Any]]:
    """Nominal beside achieved, and the layout, of every planned state."""
    readable = frame[frame["status"] != "unreadable"]
    medians = readable.groupby("state")[list(OF_A_STATE)].median()
    valid = samples(frame)["state"].value_counts()
    digests = readable.groupby("state")["layout_digest"].unique()
    rebuilt = readable.groupby("state")["rebuilt"].any()
    return [
        {
            "name": name,
            **{key: _known(medians[key].get(name)) for key in OF_A_STATE},
            "digests": sorted(digests.get(name, pd.Series()).dropna()) or [(evidence.get(name) or {}).get("digest")],
            "rebuilt": bool(rebuilt.get(name, False)),
            "valid": int(valid.get(name, 0)),
        }
        for name in planned
    ]


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
    "measured_mean_position",
)


def _groups(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The table of groups: a block for each set of parameters, a row a state, the measures side by side."""
    if table.empty:
        return []
    blocks = []
    for params, label in reversed(params_labels(table["params"]).items()):
        part = table[table["params"] == params]
        names = list(part["measure"].unique())
        found: dict[str, dict[str, Any]] = {}
        for row in part.to_dict("records"):
            label = f"{row['state']} ({row['condition']})" if row["condition"] else row["state"]
            found.setdefault(label, {})[row["measure"]] = row
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


def _short(frame: pd.DataFrame) -> dict[str, Any]:
    """Samples below a second by the tool's own clock."""
    rows = [
        {"state": row["state"], "cell": row["cell"], "phase": phase, "seconds": row[f"{phase}_seconds"]}
        for phase in ("write", "read")
        for row in samples(frame)[["state", "cell", f"{phase}_seconds"]].to_dict("records")
        if row[f"{phase}_seconds"] < SHORT_SAMPLE_S
    ]
    rows.sort(key=lambda row: (row["seconds"], row["state"], row["cell"]))
    return {"count": len(rows), "shown": rows[:SHOWN]}


def _facts(
    study: Any,
    target: Any,
    frame: pd.DataFrame,
    states: Mapping[str, dict | None],
    claim: Mapping[str, Any] | None,
) -> list[tuple[str, list[str]]]:
    """How it was measured: each distinct value that the records hold, and what the claim says."""
    claim = claim or {}
    taken = frame[frame["status"].isin(["valid", "failed"])]
    facts: list[tuple[str, list[str]]] = [
        ("target", [f"{target.name} ({target.kind}); files {target.scale.file_size:g} x their nominal size"]),
        *((label, _distinct(taken[column])) for label, column in OF_RECORDS),
        (
            "first and last",
            [text for text in (taken["began"].min(), taken["began"].max()) if isinstance(text, str)],
        ),
        (
            "seeds",
            sorted({str(step["seed"]) for one in states.values() for step in _steps(one) if "seed" in step}),
        ),
        ("order", ["state by state as planned; within a state in seeded random order (column `order`)"]),
    ]
    for label, key in OF_THE_CLAIM:
        if claim.get(key) is not None:
            facts.append((label, [_flat(claim[key], without=("commands",))]))
    return [(label, values) for label, values in facts if values]


OF_RECORDS = (
    ("device model", "device_model"),
    ("file system", "filesystem"),
    ("mount options", "mount_options"),
    ("allocator reset", "allocator_reset"),
    ("tunables", "tunables"),
    ("tools", "tools"),
    ("kernel", "kernel"),
    ("host", "host"),
)


OF_THE_CLAIM = (
    ("device model as claimed", "device_model"),
    ("capacity, bytes", "capacity_bytes"),
    ("amount per task, MiB", "amount_mib"),
    ("source of the amount", "amount_source"),
    ("calibration", "calibration"),
)


def _distinct(column: pd.Series) -> list[str]:
    return [_flat(json.loads(text)) if text[:1] in "{[" else text for text in sorted(column.dropna().unique())]


def _flat(value: Any, without: tuple[str, ...] = ()) -> str:
    """Nested values as words: {'fio': '3.33'} -> 'fio 3.33'."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_flat(one)}" for key, one in sorted(value.items()) if key not in without) or "none"
    if isinstance(value, list):
        return ", ".join(map(_flat, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)


def _steps(evidence: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    evidence = evidence or {}
    return evidence.get("steps") or (evidence.get("token") or {}).get("done") or []


def _examples(frame: pd.DataFrame) -> list[str]:
    """The command lines of one cell: the first valid one at the largest transfer."""
    mine = samples(frame)
    if mine.empty:
        return []
    mine = mine.sort_values("transfer_size_bytes", ascending=False, kind="stable")
    return mine["commands"].iloc[0].split("; ")
