"""Which rows a figure shows, and on which axes they lie."""

from __future__ import annotations

import json

import pandas as pd

from fsage.report.section import Data
from fsage.text.sizes import round_size

FULLNESS = "files left, % of the files that filled the target"


def rows_of(data: Data) -> pd.DataFrame:
    """The rows with `preallocation_bytes`, its name `size`, how many files were `deleted` (0: clean), x in percent."""
    axes = pd.DataFrame([json.loads(text) for text in data.table["axes"]], index=data.table.index)
    columns = ["preallocation_bytes", "deleted", "files"]
    rows = data.table.join(axes.reindex(columns=columns))
    return rows.assign(
        size=[round_size(size) for size in rows["preallocation_bytes"]],
        x=[100 * (files - deleted) / files for files, deleted in zip(rows["files"], rows["deleted"], strict=True)],
    ).sort_values(["preallocation_bytes", "x"], kind="stable")


def aged(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of states that were filled; the others are clean."""
    return rows[rows["deleted"] > 0]
