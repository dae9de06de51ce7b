"""The counts as tables: one has a row a file, another a row for each piece of each file.

What the declared device takes for a file is computed here, from where it lies. The site's page reference/records.md
lists the columns too (docs/generate.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from fsage.base import Json
from fsage.base.message import whole_file
from fsage.count.work import Counted, Layout
from fsage.dataset.columns import ANY, Column
from fsage.dataset.families import flat, inferred
from fsage.model import counting

TABLE = "counts.parquet"
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
    "why": Column("str", "why the file could not be written; missing: it was"),
    # computed
    "computed_seconds": Column("float64", "what the declared device would take to write or read it once"),
    "computed_whole_seconds": Column("float64", "what it would take if the file lay in one piece there"),
    "computed_loss_percent": Column("float64", "the share of the rate that the pieces cost; computed, not measured"),
    # how
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
}
FAMILIES = {
    "allocator": Column("Int64", "what the allocator did for it, by the kernel's own counters; ext4: mb_stats"),
    "device": Column(ANY, "a parameter of the declared device, for which the cost is computed"),
}
"""Columns `FAMILY.NAME`, behind the others."""
FILE = ["filesystem", "study", "target", "state", "layout", "place", "transfer_size_bytes"]
"""What a file of the table is known by."""
OF_EXTENT = {
    "in_file_bytes": Column("Int64", "where it begins in the file"),
    "on_device_bytes": Column("Int64", "where it begins on the device"),
    "length_bytes": Column("Int64", "its length"),
}
"""The three numbers of an extent (fsage.model.counting)."""
OF_PIECES = {
    **{name: COLUMNS[name] for name in FILE},
    "piece": Column("Int64", "which of the file's pieces, from 1"),
    **OF_EXTENT,
}


def page_of_columns() -> str:
    """The list of columns, for the documentation."""
    named = COLUMNS | {f"{family}.NAME": column for family, column in FAMILIES.items()}
    return (
        f"`counts.parquet` and `counts.csv` have a row a file.\n\n{_listed(named)}\n\n"
        "`pieces.parquet` has a row for each piece of each of these files; its first columns say which file.\n\n"
        f"{_listed(OF_PIECES)}"
    )


def _listed(columns: dict[str, Column]) -> str:
    rows = [f"| `{name}` | {column.type} | {column.meaning} |" for name, column in columns.items()]
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])


def table(counted: Counted) -> pd.DataFrame:
    """What is kept of the study's layouts, in their order."""
    rows = [_row(counted, layout, kept) for layout, kept in counted.files()]
    found = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    columns = {}
    for name in [*COLUMNS, *sorted(found)]:
        values = [row.get(name) for row in rows]
        column = COLUMNS.get(name) or FAMILIES[name.partition(".")[0]]
        columns[name] = pd.array(values, dtype=inferred(values) if column.type == ANY else column.type)
    return pd.DataFrame(columns)


def pieces(counted: Counted) -> pd.DataFrame:
    """Every piece of every file of `table`."""
    rows = []
    for layout, kept in counted.files():
        of_file = _file(counted, layout, kept)
        for number, extent in enumerate(kept["extents"], 1):
            rows.append({**of_file, "piece": number, **dict(zip(OF_EXTENT, extent, strict=True))})
    frame = pd.DataFrame(rows, columns=list(OF_PIECES))
    return frame.astype({name: column.type for name, column in OF_PIECES.items()})


def _file(counted: Counted, layout: Layout, kept: Json) -> Json:
    """The columns FILE."""
    return {
        "filesystem": counted.filesystem or counted.plan.target.spec["filesystem"],
        "study": counted.plan.study.name,
        "target": counted.plan.target.name,
        "state": layout.state,
        "layout": layout.number,
        "place": kept["place"],
        "transfer_size_bytes": kept["transfer_bytes"],
    }


def _row(counted: Counted, layout: Layout, kept: Json) -> Json:
    extents = kept["extents"]
    row: dict[str, Any] = {key: value for key, value in kept.items() if key in COLUMNS}
    row |= _file(counted, layout, kept)
    row |= {
        "capacity_percent": layout.nominal.get("capacity_percent"),
        "fragmentation_percent": layout.nominal.get("fragmentation_percent"),
        "seed": layout.seed,
        "extents": len(extents) or None,
        "jumped_bytes": sum(counting.jumps(extents)),
        "mean_position": counting.on_device(extents, counted.device_bytes).mean,
        "real_fullness_percent": 100 * (1 - kept["free_bytes"] / kept["capacity_bytes"]),
    }
    if extents:
        row |= _computed(counted, extents, kept["transfer_bytes"])
    row.update(flat("allocator", kept["allocator"]))
    row.update(flat("device", counted.device))
    return row


def _computed(counted: Counted, extents: counting.Extents, transfer_bytes: int) -> Json:
    cost = counting.cost(counted.device, extents, transfer_bytes, counted.device_bytes)
    return {
        "jumps": cost["jumps"],
        "requests": cost["requests"],
        "computed_seconds": cost["seconds"],
        "computed_whole_seconds": cost["whole_seconds"],
        "computed_loss_percent": 100 * cost["loss"],
    }


def write_tables(frame: pd.DataFrame, of_pieces: pd.DataFrame, folder: Path) -> None:
    """`counts.parquet`, `counts.csv` and `pieces.parquet`."""
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / TABLE) as out:
        frame.to_parquet(out, index=False, compression="zstd")
    with whole_file(folder / "counts.csv") as out:
        frame.to_csv(out, index=False, lineterminator="\n")
    with whole_file(folder / "pieces.parquet") as out:
        of_pieces.to_parquet(out, index=False, compression="zstd")
