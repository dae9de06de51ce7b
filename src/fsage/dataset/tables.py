"""The table as files: Parquet for programs, CSV for whoever has none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fsage.base import message
from fsage.dataset.columns import ANY, COLUMNS, SCHEMA_VERSION, column_of, unit_of

VERSION = b"fsage_schema_version"
TIME = "began"
TIMESTAMP = pa.timestamp("ms", "UTC")
PARQUET = "records.parquet"
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What a spreadsheet takes for the beginning of a formula, or goes over to find one."""


MOST_ROWS = 100_000
MOST_COLUMNS = 1000
MOST_BYTES = 32 << 20
"""Most bytes of a Parquet file; one of 22,000 records has two MiB."""
MOST_UNPACKED_BYTES = 200 << 20
"""Most bytes of a table in memory, a text counted as often as it stands there; 22,000 records have a fifth of it."""
MOST_TEXT_BYTES = 1 << 20
PACKED = ("SNAPPY", "UNCOMPRESSED")
"""Ours are the first; either unpacks to some twenty times as much at most."""
OF_TYPE: dict[str, Callable[[pa.DataType], bool]] = {
    "str": lambda type_: pa.types.is_large_string(type_) or pa.types.is_string(type_),
    "Int64": pa.types.is_int64,
    "boolean": pa.types.is_boolean,
    "float64": pa.types.is_float64,
}
"""What a column of a type is in Parquet."""


def type_in(column: pa.DataType) -> str | None:
    """What OF_TYPE calls the type of a column in Parquet; None for any other type."""
    return next((kind for kind, is_of in OF_TYPE.items() if is_of(column)), None)


class DatasetError(ValueError):
    """A table cannot be read; the message says which, why, and what to do."""


def write(frame: pd.DataFrame, out_dir: Path) -> list[Path]:
    """`records.parquet` (schema version in its metadata) and `records.csv`: same table, same bytes."""
    out_dir.mkdir(parents=True, exist_ok=True)
    parquet = out_dir / PARQUET
    csv = out_dir / "records.csv"
    with message.whole_file(parquet) as out:
        pq.write_table(_for_strangers(pa.Table.from_pandas(frame, preserve_index=False)), out)
    texts = {
        name: frame[name].map(_cell, na_action="ignore")
        for name, kind in frame.dtypes.items()
        if pd.api.types.is_string_dtype(kind)
    }
    with message.whole_file(csv) as out:
        frame.assign(**texts).rename(columns=_cell).to_csv(out, index=False, lineterminator="\n")
    return [parquet, csv]


def _for_strangers(table: pa.Table) -> pa.Table:
    """The version, units and meanings in metadata, and times as times; a text that is no time is missing."""
    at = table.schema.get_field_index(TIME)
    times = pd.to_datetime(table[TIME].to_pandas(), utc=True, format="ISO8601", errors="coerce")
    table = table.set_column(at, TIME, pa.array(times, TIMESTAMP))
    fields = [field.with_metadata(_about(field.name)) for field in table.schema]
    return table.cast(pa.schema(fields, {VERSION: str(SCHEMA_VERSION)}))


def _about(name: str) -> dict[str, str]:
    column = column_of(name)
    about = {"description": column.meaning if column else None, "unit": unit_of(name)}
    return {key: value for key, value in about.items() if value}


def _cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula (OWASP, CSV injection); numbers are not text and stay."""
    if text.startswith(FORMULA):
        return f"'{text}"
    return text


def read(path: Path) -> pd.DataFrame:
    """The table in a Parquet file, or in a report's folder, as `load` gives it.

    Raises DatasetError for what is no such table, and for one of another version.
    """
    path = path / PARQUET if path.is_dir() else path
    try:
        table = _table(path)
    except DatasetError:
        raise
    except FileNotFoundError:
        raise DatasetError(f"{path} is not there: `fsage report STUDY` writes it") from None
    except message.NotTaken as error:
        raise DatasetError(f"{path} is not read: {error}") from None
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno:
            why = os.strerror(error.errno)
        else:
            why = str(error).splitlines()[0]
        raise DatasetError(f"{path} is not a Parquet file that can be read: {why}") from None
    try:
        return _typed(table.to_pandas(), table.schema)
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        if str(error):
            reason = str(error).splitlines()[0]
        else:
            reason = type(error).__name__
        raise DatasetError(f"{path} has a column of another type than ours: {reason}") from None


def _table(path: Path) -> pa.Table:
    """What a Parquet file of fsage holds. What it says of itself is checked first, then each column as it comes.

    Raises DatasetError, NotTaken, OSError, ArrowException.
    """
    with message.open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > MOST_BYTES:
            raise message.NotTaken(f"it has {size:,} bytes; allowed are {MOST_BYTES:,}")
        file = pq.ParquetFile(stream)
        _check(file, path)
        texts = [field.name for field in file.schema_arrow if type_in(field.type) == "str"]
        file = pq.ParquetFile(stream, read_dictionary=texts)  # each text once, however often it stands there
        columns = []
        left_bytes = MOST_UNPACKED_BYTES
        for name in file.schema_arrow.names:
            column = file.read(columns=[name]).column(0)
            left_bytes -= max(column.nbytes, _text_bytes(column, name) if name in texts else 0)
            if left_bytes < 0:
                raise message.NotTaken(f"it has more than {MOST_UNPACKED_BYTES:,} bytes unpacked")
            columns.append(column.cast(pa.large_string()) if name in texts else column)
        return pa.table(columns, pa.schema(list(map(_plain, file.schema_arrow)), file.schema_arrow.metadata))


def _check(file: pq.ParquetFile, path: Path) -> None:
    """That it is one of our tables, of a size and of types that it may have. Raises DatasetError, NotTaken."""
    schema = file.schema_arrow
    about = file.metadata
    version = (schema.metadata or {}).get(VERSION, b"").decode(errors="replace")
    if not version.isdecimal():
        raise DatasetError(f"{path} is no table of fsage: its metadata has no {VERSION.decode()}")
    if version != str(SCHEMA_VERSION):
        raise DatasetError(
            f"{path} has schema version {version[:20]}, this fsage reads {SCHEMA_VERSION}: make the table again from "
            "its records with this one"
        )
    lacking = [name for name in COLUMNS if name not in schema.names]
    if lacking:
        raise DatasetError(f"{path} lacks the columns {', '.join(lacking)}")
    for field in schema:
        column = column_of(field.name)
        kind = column.type if column else "float64"
        found = type_in(field.type)
        if (found is None or kind not in (ANY, found)) and not (field.name == TIME and field.type == TIMESTAMP):
            raise DatasetError(
                f"{path} has a column of another type than ours: {field.name} is {field.type}, not {kind}"
            )
    groups = list(map(about.row_group, range(about.num_row_groups)))
    rows = max([about.num_rows, *(group.num_rows for group in groups)])
    if len(groups) > 1 or rows > MOST_ROWS or about.num_columns > MOST_COLUMNS:
        raise message.NotTaken(
            f"it has {rows:,} rows of {about.num_columns:,} columns in {len(groups):,} groups; allowed are "
            f"{MOST_ROWS:,}, {MOST_COLUMNS:,} and 1"
        )
    for group in groups:
        unpacked = max(group.total_byte_size, 8 * rows * about.num_columns)
        if unpacked > MOST_UNPACKED_BYTES:
            raise message.NotTaken(f"it has {unpacked:,} bytes unpacked; allowed are {MOST_UNPACKED_BYTES:,}")
        packed = {group.column(number).compression for number in range(group.num_columns)}
        other = packed.difference(PACKED)
        if other:
            raise message.NotTaken(f"it is packed by {other.pop()}; allowed are {' and '.join(PACKED)}")


def _text_bytes(column: pa.ChunkedArray, name: str) -> int:
    """Bytes of the texts of a column that has each once, with how often it stands there. Raises NotTaken."""
    whole = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary)
        longest = pc.max(lengths).as_py() or 0
        if longest > MOST_TEXT_BYTES:
            raise message.NotTaken(f"{name} has a text of {longest:,} bytes; allowed are {MOST_TEXT_BYTES:,}")
        whole += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return whole


def _plain(field: pa.Field) -> pa.Field:
    if pa.types.is_dictionary(field.type):
        return field.with_type(pa.large_string())
    return field


def _typed(frame: pd.DataFrame, schema: pa.Schema) -> pd.DataFrame:
    """The columns in our order, each of the type that the file says it is of; times as texts again."""
    if pd.api.types.is_datetime64_any_dtype(frame[TIME]):
        texts = frame[TIME].dt.strftime("%Y-%m-%dT%H:%M:%S.%f").str[:-3] + "Z"
        frame = frame.assign(**{TIME: texts.astype("str")})
    extra = [name for name in frame.columns if name not in COLUMNS]
    types = {name: column.type for name, column in COLUMNS.items()}
    for name in extra:
        types[name] = type_in(schema.field(name).type) or "str"
    return frame.reindex(columns=list(types)).astype(types)
