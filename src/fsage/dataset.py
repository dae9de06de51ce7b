"""Records to one table: a row a record, units in the names of columns, Parquet and CSV.

A record file that cannot be read is a row too, with status `unreadable`: it is counted, never dropped.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA_VERSION = 1

# Column and type, in the order of the files. What a workload measures beside these follows, named as there.
COLUMNS = {
    # which cell
    "study": "str",
    "target": "str",
    "state": "str",
    "cell": "str",
    "kind": "str",
    "order": "Int64",
    "attempt": "Int64",
    "status": "str",
    "why": "str",
    # what was asked
    "recipe": "str",
    "capacity_percent": "float64",
    "fragmentation_percent": "float64",
    "file_size_bytes": "Int64",
    "workload": "str",
    "transfer_size_bytes": "Int64",
    "iteration": "Int64",
    "structure": "Int64",
    "params": "str",
    # in which state it really was taken
    "capacity_percent_achieved": "float64",
    "deleted_share_files": "float64",
    "deleted_share_bytes": "float64",
    "real_fullness_percent": "float64",
    "layout_digest": "str",
    "filler_files": "Int64",
    "filler_extents": "Int64",
    "state_known": "boolean",
    "rebuilt": "boolean",
    "epoch": "Int64",
    # what came out
    "write_bw_mib_s": "float64",
    "read_bw_mib_s": "float64",
    "write_seconds": "float64",
    "read_seconds": "float64",
    # where the measured files lay
    "measured_files": "Int64",
    "measured_extents": "Int64",
    "measured_bytes": "Int64",
    "measured_mean_position": "float64",
    # how
    "began": "str",
    "seconds_total": "float64",
    "host": "str",
    "kernel": "str",
    "device_model": "str",
    "filesystem": "str",
    "mount_options": "str",
    "allocator_reset": "str",
    "amount_mib": "float64",
    "tunables": "str",
    "tools": "str",
    "commands": "str",
}
TYPES: dict[str, Any] = {"str": str, "Int64": int, "float64": (int, float), "boolean": bool}
SORTED_BY = [
    "study",
    "target",
    "capacity_percent",
    "fragmentation_percent",
    "state",
    "order",
    "cell",
    "attempt",
]


def load(paths: Iterable[Path]) -> pd.DataFrame:
    """All records that exist as one table, in an order that does not depend on that of `paths`."""
    rows = [row for path in paths if (row := _read(Path(path))) is not None]
    extra = sorted({name for row in rows for name in row} - COLUMNS.keys())
    frame = pd.DataFrame(rows, columns=[*COLUMNS, *extra])
    frame = frame.astype(COLUMNS | dict.fromkeys(extra, "float64"))
    return frame.sort_values(SORTED_BY, kind="stable", ignore_index=True)


def write(frame: pd.DataFrame, out_dir: Path) -> list[Path]:
    """`records.parquet` (schema version in its metadata) and `records.csv`: same table, same bytes."""
    out_dir.mkdir(parents=True, exist_ok=True)
    parquet, csv = out_dir / "records.parquet", out_dir / "records.csv"
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table.replace_schema_metadata({"fsage_schema_version": str(SCHEMA_VERSION)}), parquet)
    frame.to_csv(csv, index=False, lineterminator="\n")
    return [parquet, csv]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        row = _row(json.loads(path.read_bytes()))
        for name, value in row.items():
            if value is not None and not isinstance(value, TYPES[COLUMNS.get(name, "float64")]):
                raise TypeError(f"{name} is {value!r}")
        return row
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"missing key {error}" if isinstance(error, KeyError) else str(error)
        return _of_path(path) | {"status": "unreadable", "why": f"{path}: not a readable record: {reason}"}


def _of_path(path: Path) -> dict[str, Any]:
    """What `<target>/<study>/<state>/<cell>.json` says of a record that cannot be read."""
    target, study, state, cell = ("", "", "", "", *path.with_suffix("").parts)[-4:]
    return {"target": target, "study": study, "state": state, "cell": cell, "kind": "unknown"}


def _row(record: dict[str, Any]) -> dict[str, Any]:
    params, layout, conditions = record["params"], record["layout"], record["conditions"]
    nominal = record["nominal"]
    varied = {key: value for key, value in params.items() if key != "iteration"}
    return {
        **{key: record[key] for key in ("study", "target", "state", "cell", "kind", "order", "attempt")},
        **{key: record[key] for key in ("status", "why", "began", "host", "kernel")},
        **{key: nominal.get(key) for key in ("recipe", "capacity_percent", "fragmentation_percent")},
        "file_size_bytes": nominal.get("file_size_bytes"),
        "workload": params.get("workload"),
        "transfer_size_bytes": params.get("transfer_size"),
        "iteration": params.get("iteration"),
        "structure": nominal.get("structure"),
        "params": _text(varied),
        **_achieved(layout),
        "real_fullness_percent": 100 * layout["used_bytes"] / layout["capacity_bytes"],
        "layout_digest": layout.get("digest"),
        "filler_files": layout.get("filler_files"),
        "filler_extents": layout.get("filler_extents"),
        "state_known": layout.get("state_known", True),
        "rebuilt": record["check"].get("rebuilt"),
        "epoch": record["check"].get("epoch"),
        **record["metrics"],
        **_measured(record["phases"]),
        "seconds_total": record.get("seconds", {}).get("total"),
        "device_model": (conditions.get("device_model") or {}).get("label", "no device model"),
        "filesystem": conditions.get("filesystem"),
        "mount_options": _text(conditions.get("mount_options")),
        "allocator_reset": conditions.get("allocator_reset"),
        "amount_mib": conditions.get("amount_mib"),
        "tunables": _text(conditions.get("tunables") or {}),
        "tools": _text(conditions.get("tools") or {}),
        "commands": "; ".join(shlex.join(phase["argv"]) for phase in record["phases"]),
    }


def _achieved(layout: dict[str, Any]) -> dict[str, float]:
    """Shares over all generations: filled, of the capacity; deleted, of what was filled."""
    generations = layout.get("generations")
    if not generations:
        return {}
    files, filled = (sum(one[key] for one in generations) for key in ("files", "capacity_percent_achieved"))
    lost = sum(one["deleted_share_bytes"] * one["capacity_percent_achieved"] for one in generations)
    return {
        "capacity_percent_achieved": filled,
        "deleted_share_files": sum(one["deleted_files"] for one in generations) / files if files else 0.0,
        "deleted_share_bytes": lost / filled if filled else 0.0,
    }


def _measured(phases: list[dict[str, Any]]) -> dict[str, Any]:
    """Extents of the cell's own files, as its first phase with a map left them."""
    extents: dict[str, Any] = next((phase["extents"] for phase in phases if phase.get("extents")), {})
    return {f"measured_{key}": extents.get(key) for key in ("files", "extents", "bytes", "mean_position")}


def _text(value: Any) -> str | None:
    """Strings as they are, anything else as JSON whose bytes depend on its content only."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
