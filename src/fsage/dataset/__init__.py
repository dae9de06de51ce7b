"""Records to one table: a row a record, units in the names of columns, Parquet and CSV (docs/reference/records.md)."""

from fsage.dataset.columns import COLUMNS, SCHEMA_VERSION
from fsage.dataset.records import load
from fsage.dataset.tables import DatasetError, read, unpacked, without, write

__all__ = ["COLUMNS", "SCHEMA_VERSION", "DatasetError", "load", "read", "unpacked", "without", "write"]
