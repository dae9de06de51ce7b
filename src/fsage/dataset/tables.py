"""The table as files: Parquet for programs, CSV for whoever has none."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fsage.dataset.columns import COLUMNS, SCHEMA_VERSION

VERSION = b"fsage_schema_version"
PARQUET = "records.parquet"


class DatasetError(ValueError):
    """A table cannot be read; the message says which, why, and what to do."""


def write(frame: pd.DataFrame, out_dir: Path) -> list[Path]:
    """`records.parquet` (schema version in its metadata) and `records.csv`: same table, same bytes."""
    out_dir.mkdir(parents=True, exist_ok=True)
    parquet, csv = out_dir / PARQUET, out_dir / "records.csv"
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table.replace_schema_metadata({VERSION: str(SCHEMA_VERSION)}), parquet)
    frame.to_csv(csv, index=False, lineterminator="\n")
    return [parquet, csv]


def read(path: Path) -> pd.DataFrame:
    """The table in a Parquet file, or in a report's folder, as `load` gives it: what it lacks is missing in each row.

    Raises DatasetError for what is no such table, and for one of a newer version.
    """
    path = path / PARQUET if path.is_dir() else path
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise DatasetError(f"{path} is not there: `fsage report STUDY` writes it") from None
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{path} is not a Parquet file that can be read: {str(error).splitlines()[0]}") from None
    version = (table.schema.metadata or {}).get(VERSION, b"").decode()
    if not version.isdigit():
        raise DatasetError(f"{path} is no table of fsage: its metadata has no {VERSION.decode()}")
    if int(version) > SCHEMA_VERSION:
        raise DatasetError(
            f"{path} has schema version {version}, this fsage knows 1 to {SCHEMA_VERSION}: use a newer fsage, or make "
            "the table again from its records with this one"
        )
    frame = table.to_pandas()
    lacking = [name for name, column in COLUMNS.items() if name not in frame and column.since <= int(version)]
    if lacking:
        raise DatasetError(f"{path} has schema version {version} but lacks its columns {', '.join(lacking)}")
    extra = [name for name in frame.columns if name not in COLUMNS]
    frame = frame.reindex(columns=[*COLUMNS, *extra])
    return frame.astype({name: column.type for name, column in COLUMNS.items()} | dict.fromkeys(extra, "float64"))
