"""Counts as a table: a row a file. What the declared device takes for it is computed here, from where it lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from fsage.count.columns import COLUMNS
from fsage.count.work import Counted, Layout
from fsage.model import counting
from fsage.model.typed import Json


def table(counted: Counted) -> pd.DataFrame:
    """What is kept of the study's layouts, in their order."""
    rows = [row for layout in counted.all_layouts() for row in _rows(counted, layout)]
    columns = {name: pd.array([row.get(name) for row in rows], dtype=column.type) for name, column in COLUMNS.items()}
    return pd.DataFrame(columns)


def _rows(counted: Counted, layout: Layout) -> Iterator[Json]:
    for kept in counted.kept(layout) or ():
        extents = kept["extents"]
        yield {
            **{key: kept.get(key) for key in COLUMNS if key in kept},
            "study": counted.plan.study.name,
            "target": counted.plan.target.name,
            "state": layout.state,
            **{key: layout.nominal.get(key) for key in ("capacity_percent", "fragmentation_percent")},
            "layout": layout.number,
            "seed": layout.seed,
            "transfer_size_bytes": kept["transfer_bytes"],
            "extents": len(extents) or None,
            "jumped_bytes": sum(counting.jumps(extents)),
            "mean_position": counting.position(extents, counted.device_bytes),
            **(_computed(counted, extents, kept["transfer_bytes"]) if extents else {}),
            "allocator": _text(kept["allocator"]),
            "device": _text(counted.device),
            "real_fullness_percent": 100 * (1 - kept["free_bytes"] / kept["capacity_bytes"]),
            "filesystem": counted.plan.target.spec["filesystem"],
            "pieces": _text(extents),
        }


def _computed(counted: Counted, extents: counting.Extents, transfer_bytes: int) -> Json:
    cost = counting.cost(counted.device, extents, transfer_bytes, counted.device_bytes)
    return {
        "jumps": cost["jumps"],
        "requests": cost["requests"],
        "computed_seconds": cost["seconds"],
        "computed_whole_seconds": cost["whole_seconds"],
        "computed_loss_percent": 100 * cost["loss"],
    }


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def write(frame: pd.DataFrame, folder: Path) -> None:
    """`counts.parquet` and `counts.csv`."""
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(folder / "counts.parquet", index=False, compression="zstd")
    frame.drop(columns="pieces").to_csv(folder / "counts.csv", index=False, lineterminator="\n")
