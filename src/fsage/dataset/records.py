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
    rows = [row for path in paths for row in _read(path)]
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
        return []
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        reason = f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
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


def _row(record: Json) -> dict[str, object]:
    layout = record["layout"]
    conditions = record["conditions"]
    return {
        **{key: record[key] for key in ("study", "target", "state", "cell", "kind", "attempt")},
        "order_in_state": record["order"],
        **{key: record[key] for key in ("status", "why", "began", "host", "kernel")},
        "code": record.get("code"),
        **_requested(record["params"], record["nominal"]),
        "warnings": "; ".join(record.get("warnings", ())) or None,
        "absent": _absent(record.get("absent", {})),
        **_achieved(layout),
        "capacity_bytes": layout["capacity_bytes"],
        "real_fullness_percent": 100 * layout["used_bytes"] / layout["capacity_bytes"],
        "layout_digest": layout.get("digest") or record["check"].get("instance"),
        "filler_files": layout.get("filler_files"),
        "filler_extents": layout.get("filler_extents"),
        **dict(flat("note", layout.get("notes"))),
        "state_known": layout.get("state_known", True),
        "rebuilt": record["check"].get("rebuilt"),
        "unseen_share": record["check"].get("unseen_share"),
        "epoch": record["check"].get("epoch"),
        **record["metrics"],
        **_measured(record["phases"]),
        **{key: record.get(key) for key in ("model_seconds", "disturbed")},
        "seconds_total": record.get("seconds", {}).get("total"),
        **_waits(record.get("probe")),
        "device_model": (conditions.get("device_model") or {}).get("label", "no device model"),
        **_costs(conditions.get("device_model") or {}),
        "filesystem": conditions.get("filesystem"),
        "mount_options": _of_stores(conditions.get("mount_options")),
        "allocator_reset": conditions.get("allocator_reset"),
        **{
            key: _of_stores([disk.get(key) for disk in conditions.get("disks") or ()])
            for key in ("rotational", "mb_max_linear_groups")
        },
        "amount_mib": conditions.get("amount_mib"),
        "amount_source": conditions.get("amount_source"),
        "launch": word(conditions.get("launch")) or None,
        "metadata": _metadata(record["phases"]),
        **_tunables(conditions.get("tunables") or {}),
        **dict(flat("tool", conditions.get("tools"))),
        "images": words(conditions.get("images") or {}) or None,
        "commands": "; ".join(map(_phase, record["phases"])),
    }


def _skipped(manifest: Json, cell: Json) -> Json:
    """The row of a cell that has no record."""
    return {
        **{key: manifest[key] for key in ("study", "target", "state")},
        **{key: cell[key] for key in ("cell", "kind", "why")},
        "order_in_state": cell["order"],
        "status": SKIPPED,
        **_requested(cell["params"], manifest["nominal"]),
        **cell.get("predicted", {}),
    }


def _requested(params: Json, nominal: Json) -> Json:
    """What was requested of a cell."""
    varied = {key: value for key, value in params.items() if key not in ("iteration", "place")}
    return {
        **{key: nominal.get(key) for key in ("recipe", "capacity_percent", "fragmentation_percent")},
        "file_size_bytes": nominal.get("file_size_bytes"),
        "workload": params.get("workload"),
        "transfer_size_bytes": params.get("transfer_size"),
        "iteration": params.get("iteration"),
        "structure": nominal.get("structure"),
        "place": params.get("place"),
        "reference": nominal.get("reference"),
        "params": words(varied),
        **dict(flat("param", varied)),
        **dict(flat("axis", nominal.get("axes"))),
    }


def _waits(probe: Json | None) -> dict[str, object]:
    """How often, and how long in all, the run waited for the sake of others since the cell before."""
    if not probe:
        return {}
    seconds = [wait["seconds"] for wait in probe.get("waits", ())]
    return {"waits": len(seconds), "wait_seconds": sum(seconds)}


def _achieved(layout: Json) -> dict[str, float]:
    """Shares over all generations: filled, of the capacity; deleted, of what was filled."""
    generations = layout.get("generations")
    if not generations:
        return {}
    files = sum(generation["files"] for generation in generations)
    filled = sum(generation["capacity_percent_achieved"] for generation in generations)
    lost = sum(
        generation["deleted_share_bytes"] * generation["capacity_percent_achieved"] for generation in generations
    )
    return {
        "capacity_percent_achieved": filled,
        "deleted_share_files": sum(generation["deleted_files"] for generation in generations) / files if files else 0.0,
        "deleted_share_bytes": lost / filled if filled else 0.0,
    }


OF_EXTENTS = (
    *("files", "extents", "bytes", *PLACES, "mean_extent_bytes", "layout_score"),
    "jumps",
)


def _measured(phases: list[Json]) -> dict[str, object]:
    """Extents of the cell's own files, as its first phase with a map left them."""
    maps = (phase["extents"] for phase in phases if phase.get("extents") and not phase.get("leaves"))
    extents: dict[str, object] = next(maps, {})
    of_size = dict(flat("measured_extents_of", extents.get("extents_of_size")))
    return {**{f"measured_{key}": extents.get(key) for key in OF_EXTENTS}, **of_size}


def _absent(reasons: dict[str, str]) -> str | None:
    """A reason has no `; ` of its own."""
    return "; ".join(f"{what}: {why.replace('; ', ', ')}" for what, why in sorted(reasons.items())) or None


def _of_stores(values: object) -> str | None:
    """What the stores have, in order; once where they are alike."""
    texts = [
        "unknown" if value is None else word(value) for value in (values if isinstance(values, list) else [values])
    ]
    if set(texts) <= {"unknown"}:
        return None
    if len(set(texts)) == 1:
        return texts[0]
    return "; ".join(texts)


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


def _costs(model: dict[str, object]) -> Json:
    """What a modelled device charges: the numbers among its parameters."""
    return {f"device.{key}": value for key, value in model.items() if type(value) in NUMBER}


def _phase(phase: PhaseResult) -> str:
    """What a phase ran, commands beside each other joined as in a shell."""
    return " & ".join(_typed(tuple(part["argv"])) for part in (phase, *phase.get("beside", ())))


@cache
def _typed(argv: tuple[str, ...]) -> str:
    """A command as a shell takes it; the iterations of a group run the same one."""
    return shlex.join(argv)
