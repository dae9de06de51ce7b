"""Columns of the table of counts; the site's page reference/records.md lists them too (docs/generate.py).

Counts as a table: a row a file. What the declared device takes for it is computed here, from where it lies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from fsage.count.work import Counted, Layout
from fsage.dataset.columns import Column
from fsage.model import counting
from fsage.model.typed import Json

COLUMNS = {
    # which file
    "study": Column("str", "name of the study, config/<study>.yaml"),
    "target": Column("str", "name of the target as which the file system was made in memory"),
    "state": Column("str", "name of the state without a seed, e.g. 80.50@264M"),
    "capacity_percent": Column("Int64", "AA: share of the empty target that files were added for"),
    "fragmentation_percent": Column("Int64", "BB: share of these files that was deleted"),
    "layout": Column("Int64", "number of the layout, from 1"),
    "seed": Column("Int64", "its seed"),
    "place": Column("Int64", "which of the files that are left in the layout, from 1"),
    "file_bytes": Column("Int64", "size of the new file"),
    "transfer_size_bytes": Column("Int64", "bytes of one write"),
    "direct": Column("boolean", "written past the page cache"),
    # counted
    "extents": Column("Int64", "pieces in which it lies"),
    "jumps": Column("Int64", "jumps from a piece to the next for which the declared device charges"),
    "jumped_bytes": Column("Int64", "distance of all jumps together"),
    "requests": Column("Int64", "requests that writing or reading it takes, each of 1 MiB at most"),
    "mean_position": Column("float64", "where its bytes lie on average: 0 the device's first block, 1 its last"),
    "allocator": Column("str", "what the allocator did for it, by the kernel's own counters, JSON; ext4: mb_stats"),
    "why": Column("str", "why the file could not be written; missing: it was"),
    # computed
    "computed_seconds": Column("float64", "what the declared device would take to write or read it once"),
    "computed_whole_seconds": Column("float64", "what it would take if the file lay in one piece there"),
    "computed_loss_percent": Column("float64", "the share of the rate that the pieces cost; computed, not measured"),
    # how
    "device": Column("str", "the declared device, for which the cost is computed, JSON"),
    "layout_digest": Column("str", "of all extents of the state's files; alike: the same layout"),
    "real_fullness_percent": Column("float64", "used share of the state's file system"),
    "free_bytes": Column("Int64", "free in the state, before the file"),
    "capacity_bytes": Column("Int64", "free in the empty file system"),
    "filesystem": Column("str", "ext4, xfs, btrfs"),
    "mount_options": Column("str", "as the kernel lists them"),
    "rotational": Column("Int64", "whether the device is said to seek; ext4 looks for blocks accordingly"),
    "mb_max_linear_groups": Column("Int64", "groups that ext4 looks at in order"),
    "made_by": Column("str", "the program that made the file system, with its version"),
    "kernel": Column("str", "release of the kernel"),
    "pieces": Column("str", "every piece, JSON: place in the file, place on the device, length; bytes"),
}


def page() -> str:
    """The list of columns, for the documentation."""
    rows = [f"| `{name}` | {column.type} | {column.meaning} |" for name, column in COLUMNS.items()]
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])


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
            "filesystem": counted.filesystem or counted.plan.target.spec["filesystem"],
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
