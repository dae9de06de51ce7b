"""Records to one table: a row a record, and a row a cell that a manifest says was skipped.

A file that cannot be read is a row too, with status `unreadable`: it is counted, never dropped.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import orjson
import pandas as pd
from pydantic import ValidationError

from fsage.base import Json
from fsage.base.message import read_file
from fsage.dataset.columns import ANY, COLUMNS, FAMILIES, Manifest, Record, column_of
from fsage.dataset.families import flat, type_of, word, words
from fsage.dataset.tables import DatasetError
from fsage.model.caches import WARM
from fsage.model.device import PLACES
from fsage.model.observation import PhaseResult

MOST_BYTES = 16 << 20
"""Most bytes of a record's file; one with a trace of 50,000 requests has a tenth of it."""
MOST_TEXT = 1 << 18
"""Most bytes of a row."""
MOST_NUMBER = 1 << 62
MOST_METRICS = 500
"""Columns beside COLUMNS, in a whole table."""

SKIPPED = "skipped"
NUMBER = (int, float)
TYPES: Json = {"str": str, "Int64": int, "float64": NUMBER, "boolean": bool, ANY: (str, *NUMBER)}
SORTED_BY = [
    "study",
    "target",
    "capacity_percent",
    "fragmentation_percent",
    "state",
    "order_in_state",
    "cell",
    "attempt",
]


def load(paths: Iterable[Path]) -> pd.DataFrame:
    """What of these records and manifests exists as one table, in an order that does not depend on that of `paths`."""
    rows: list[Json] = []
    for path in paths:
        rows += _read(path)
    recorded = {_key(row) for row in rows if row["status"] != SKIPPED}
    rows = [row for row in rows if row["status"] != SKIPPED or _key(row) not in recorded]
    extra = sorted(set[str]().union(*rows) - COLUMNS.keys(), key=_place)
    if len(extra) > MOST_METRICS:
        raise DatasetError(f"the records have {len(extra):,} kinds of metrics; allowed are {MOST_METRICS} at most")
    columns = {}
    for name in [*COLUMNS, *extra]:
        values = [row.get(name) for row in rows]
        kind = type_of(name, values)
        if kind == "str":
            values = [None if value is None else word(value) for value in values]
        columns[name] = pd.array(values, dtype=kind)
    frame = pd.DataFrame(columns)
    return frame.sort_values(SORTED_BY, kind="stable", ignore_index=True)


def _place(name: str) -> tuple[int, str]:
    """The order of columns beside COLUMNS: families first."""
    family = name.partition(".")[0]
    return [*FAMILIES, family].index(family), name


def _key(row: Json) -> tuple[str, ...]:
    return row["target"], row["study"], row["state"], row["cell"]


def _read(path: Path) -> list[Json]:
    try:
        content = orjson.loads(read_file(path, MOST_BYTES))
        if isinstance(content, dict) and "cells" in content:
            Manifest.model_validate(content)
            rows = [_skipped(content, cell) for cell in content["cells"] if cell["why"]]
        else:
            Record.model_validate(content)
            rows = [_row(content)]
        for row in rows:
            _check(row, _of_path(path))
        return rows
    except FileNotFoundError:
        if not path.is_symlink():
            return []
        reason = "it is a link to what is not there"
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))
        reason = f"{place}: {problem['msg']}".removeprefix(": Value error, ")
    except OSError as error:
        reason = str(error.strerror)
    except (ValueError, RecursionError) as error:
        reason = str(error)
    place = "/".join(path.parts[-4:])  # the same wherever the results lie
    unreadable = {"kind": "unknown", "status": "unreadable", "why": f"{place}: not a readable record: {reason}"}
    return [_of_path(path) | unreadable]


def _check(row: Json, place: dict[str, str]) -> None:
    """Raise ValueError for a cell of the table that is not of its column's type, or no record of here."""
    for name, value in row.items():
        column = column_of(name)
        if value is not None and not isinstance(value, TYPES[column.type] if column else NUMBER):
            raise ValueError(f"{name} is {str(value)[:60]!r}")
        if isinstance(value, int | float) and abs(value) > MOST_NUMBER:
            raise ValueError(f"{name} is {value:.3g}")
    if sum(len(name) + len(str(value)) for name, value in row.items()) > MOST_TEXT:
        raise ValueError(f"its texts have more than {MOST_TEXT:,} characters")
    wrong = [name for name, value in place.items() if value and value != row[name]]
    if wrong:
        raise ValueError(f"it is a record of another {wrong[0]}, {row[wrong[0]][:60]!r}")


def _of_path(path: Path) -> dict[str, str]:
    """What the path says of a record, `TARGET/STUDY/STATE/CELL.json`, or `manifests/TARGET/STUDY/STATE.DIGEST.json`."""
    target, study, state, cell = ("", "", "", "", *path.with_suffix("").parts)[-4:]
    if target == "manifests":
        return {"target": study, "study": state, "state": cell.rpartition(".")[0], "cell": ""}
    return {"target": target, "study": study, "state": state, "cell": cell}


def _part(values: Json, *names: str) -> Json:
    """The values of these names; None for those that are not there."""
    return {name: values.get(name) for name in names}


def _row(record: Json) -> Json:
    layout = record["layout"]
    check = record["check"]
    conditions = record["conditions"]
    model = conditions.get("device_model") or {}
    row = _part(record, "study", "target", "state", "cell", "kind", "attempt", "status", "why", "began", "host")
    row |= _part(record, "kernel", "code", "model_seconds", "disturbed")
    row |= _requested(record["params"], record["nominal"])
    row |= _achieved(layout)
    row |= _part(layout, "capacity_bytes", "filler_files", "filler_extents")
    row |= _part(check, "rebuilt", "unseen_share", "epoch")
    row |= record["metrics"]
    row |= _measured(record["phases"])
    row |= _waits(record.get("probe"))
    row |= _part(conditions, "filesystem", "allocator_reset", "amount_mib", "amount_source")
    row |= _tunables(conditions.get("tunables") or {})
    row.update(flat("note", layout.get("notes")))
    row.update(flat("tool", conditions.get("tools")))
    for name, value in model.items():  # what a modelled device charges
        if type(value) in NUMBER:
            row[f"device.{name}"] = value
    for name in ("rotational", "mb_max_linear_groups"):
        row[name] = _of_stores([disk.get(name) for disk in conditions.get("disks") or ()])
    return row | {
        "order_in_state": record["order"],
        "warnings": "; ".join(record.get("warnings", ())) or None,
        "absent": _absent(record.get("absent", {})),
        "real_fullness_percent": 100 * layout["used_bytes"] / layout["capacity_bytes"],
        "layout_digest": layout.get("digest") or check.get("instance"),
        "state_known": layout.get("state_known", True),
        "seconds_total": record.get("seconds", {}).get("total"),
        "device_model": model.get("label", "no device model"),
        "mount_options": _of_stores(conditions.get("mount_options")),
        "launch": word(conditions.get("launch")) or None,
        "metadata": _metadata(record["phases"]),
        "images": words(conditions.get("images") or {}) or None,
        "commands": "; ".join(map(_phase, record["phases"])),
    }


def _skipped(manifest: Json, cell: Json) -> Json:
    """The row of a cell that has no record."""
    row = _part(manifest, "study", "target", "state") | _part(cell, "cell", "kind", "why")
    row |= {"order_in_state": cell["order"], "status": SKIPPED}
    return row | _requested(cell["params"], manifest["nominal"]) | cell.get("predicted", {})


def _requested(params: Json, nominal: Json) -> Json:
    """What was requested of a cell."""
    varied = {key: value for key, value in params.items() if key not in ("iteration", "place")}
    row = _part(params, "workload", "iteration", "place")
    row |= _part(nominal, "recipe", "capacity_percent", "fragmentation_percent", "file_size_bytes")
    row |= _part(nominal, "structure", "reference")
    row |= {"transfer_size_bytes": params.get("transfer_size"), "params": words(varied)}
    row.update(flat("param", varied))
    row.update(flat("axis", nominal.get("axes")))
    return row


def _waits(probe: Json | None) -> Json:
    """How often, and how long in all, the run waited for the sake of others since the cell before."""
    if not probe:
        return {}
    seconds = [wait["seconds"] for wait in probe.get("waits", ())]
    return {"waits": len(seconds), "wait_seconds": sum(seconds)}


def _achieved(layout: Json) -> Json:
    """Shares over all generations: filled, of the capacity; deleted, of what was filled."""
    generations = layout.get("generations")
    if not generations:
        return {}
    files = deleted = 0
    filled = lost = 0.0
    for generation in generations:
        achieved = generation["capacity_percent_achieved"]
        files += generation["files"]
        deleted += generation["deleted_files"]
        filled += achieved
        lost += generation["deleted_share_bytes"] * achieved
    return {
        "capacity_percent_achieved": filled,
        "deleted_share_files": deleted / files if files else 0.0,
        "deleted_share_bytes": lost / filled if filled else 0.0,
    }


OF_EXTENTS = ("files", "extents", "bytes", *PLACES, "mean_extent_bytes", "layout_score", "jumps")


def _measured(phases: list[Json]) -> Json:
    """Extents of the cell's own files, as its first phase with a map left them."""
    for phase in phases:
        extents = phase.get("extents")
        if extents and not phase.get("leaves"):
            row = {f"measured_{key}": extents.get(key) for key in OF_EXTENTS}
            row.update(flat("measured_extents_of", extents.get("extents_of_size")))
            return row
    return {}


def _absent(reasons: dict[str, str]) -> str | None:
    """A reason has no `; ` of its own."""
    return "; ".join(f"{what}: {why.replace('; ', ', ')}" for what, why in sorted(reasons.items())) or None


def _of_stores(values: list[object] | None) -> str | None:
    """What the stores have, in order; once where they are alike."""
    texts = ["unknown" if value is None else word(value) for value in values or ()]
    different = set(texts)
    if different <= {"unknown"}:
        return None
    return "; ".join(texts if len(different) > 1 else different)


def _tunables(tunables: Json) -> Json:
    """The columns of tunables: the value in force has the name alone."""
    columns: Json = {}
    for name, tunable in tunables.items():
        for key, column in (("now", name), ("asked", f"{name}.asked"), ("before", f"{name}.before")):
            value = tunable.get(key)
            columns[f"tunable.{column}"] = _of_stores(value) if isinstance(value, list) else value
    return columns


def _metadata(phases: list[Json]) -> str | None:
    """What is known of names and inodes. Those of a phase that is to read from memory are warm as requested.

    Where it was not, warm ones fail the cell.
    """
    return "; ".join(sorted({phase["metadata"] for phase in phases if "metadata" in phase} - {WARM})) or None


def _phase(phase: PhaseResult) -> str:
    """What a phase ran, commands beside each other joined as in a shell."""
    return " & ".join(_typed(tuple(part["argv"])) for part in (phase, *phase.get("beside", ())))


@cache
def _typed(argv: tuple[str, ...]) -> str:
    """A command as a shell takes it; the iterations of a group run the same one."""
    return shlex.join(argv)
