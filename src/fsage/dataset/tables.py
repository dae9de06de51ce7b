"""The table as files: Parquet for programs, CSV for whoever has none."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fsage.dataset.columns import COLUMNS, SCHEMA_VERSION, unit_of
from fsage.model import untrusted

VERSION = b"fsage_schema_version"
TIME, TIMESTAMP = "began", pa.timestamp("ms", "UTC")
PARQUET = "records.parquet"
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What a spreadsheet takes for the beginning of a formula, or goes over to find one."""


MOST_ROWS, MOST_COLUMNS = 100_000, 1000
MOST_UNPACKED_BYTES = 200 << 20
"""Of a table as its Parquet file states it; the texts of 22,000 records have a tenth of it."""


class DatasetError(ValueError):
    """A table cannot be read; the message says which, why, and what to do."""


def write(frame: pd.DataFrame, out_dir: Path) -> list[Path]:
    """`records.parquet` (schema version in its metadata) and `records.csv`: same table, same bytes."""
    out_dir.mkdir(parents=True, exist_ok=True)
    parquet, csv = out_dir / PARQUET, out_dir / "records.csv"
    pq.write_table(_for_strangers(pa.Table.from_pandas(frame, preserve_index=False)), parquet)
    texts = {name: _as_text(frame[name]) for name, kind in frame.dtypes.items() if pd.api.types.is_string_dtype(kind)}
    frame.assign(**texts).rename(columns=_cell).to_csv(csv, index=False, lineterminator="\n")
    return [parquet, csv]


def _for_strangers(table: pa.Table) -> pa.Table:
    """The version, units and meanings in metadata, and times as times; a text that is no time is missing."""
    at = table.schema.get_field_index(TIME)
    times = pd.to_datetime(table[TIME].to_pandas(), utc=True, format="ISO8601", errors="coerce")
    table = table.set_column(at, TIME, pa.array(times, TIMESTAMP))
    fields = [one.with_metadata(_about(one.name)) for one in table.schema]
    return table.cast(pa.schema(fields, {VERSION: str(SCHEMA_VERSION)}))


def _about(name: str) -> dict[str, str]:
    known = {"description": COLUMNS[name].meaning if name in COLUMNS else None, "unit": unit_of(name)}
    return {key: value for key, value in known.items() if value}


def _as_text(column: pd.Series) -> pd.Series:
    return column.map(_cell, na_action="ignore")


def _cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula (OWASP, CSV injection); numbers are not text and stay."""
    return f"'{text}" if text.startswith(FORMULA) else text


def read(path: Path) -> pd.DataFrame:
    """The table in a Parquet file, or in a report's folder, as `load` gives it.

    Raises DatasetError for what is no such table, and for one of another version.
    """
    path = path / PARQUET if path.is_dir() else path
    try:
        table = _table(path)
    except FileNotFoundError:
        raise DatasetError(f"{path} is not there: `fsage report STUDY` writes it") from None
    except untrusted.NotTaken as error:
        raise DatasetError(f"{path} is not read: {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{path} is not a Parquet file that can be read: {str(error).splitlines()[0]}") from None
    version = (table.schema.metadata or {}).get(VERSION, b"").decode()
    if not version.isdigit():
        raise DatasetError(f"{path} is no table of fsage: its metadata has no {VERSION.decode()}")
    if int(version) != SCHEMA_VERSION:
        raise DatasetError(
            f"{path} has schema version {version}, this fsage reads {SCHEMA_VERSION}: make the table again from its "
            "records with this one"
        )
    try:
        return _typed(_as_ours(table.to_pandas()), path)
    except DatasetError:
        raise
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DatasetError(f"{path} has a column of another type than ours: {reason}") from None


def _table(path: Path) -> pa.Table:
    """What is in a Parquet file that unpacks to no more than allowed. Raises NotTaken, OSError, ArrowException."""
    with untrusted.open_file(path) as stream:
        file = pq.ParquetFile(stream)
        about = file.metadata
        unpacked = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
        if about.num_rows > MOST_ROWS or unpacked > MOST_UNPACKED_BYTES or about.num_columns > MOST_COLUMNS:
            raise untrusted.NotTaken(
                f"it has {about.num_rows:,} rows of {about.num_columns:,} columns, {unpacked:,} bytes unpacked; "
                f"allowed are {MOST_ROWS:,}, {MOST_COLUMNS:,} and {MOST_UNPACKED_BYTES:,}"
            )
        return file.read()


def _as_ours(frame: pd.DataFrame) -> pd.DataFrame:
    """Times as texts again."""
    if TIME in frame and pd.api.types.is_datetime64_any_dtype(frame[TIME]):
        texts = frame[TIME].dt.strftime("%Y-%m-%dT%H:%M:%S.%f").str[:-3] + "Z"
        frame = frame.assign(**{TIME: texts.astype("str")})
    return frame


def _typed(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    if lacking := [name for name in COLUMNS if name not in frame]:
        raise DatasetError(f"{path} lacks the columns {', '.join(lacking)}")
    extra = [name for name in frame.columns if name not in COLUMNS]
    frame = frame.reindex(columns=[*COLUMNS, *extra])
    return frame.astype({name: column.type for name, column in COLUMNS.items()} | dict.fromkeys(extra, "float64"))
