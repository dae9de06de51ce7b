"""Records to one table: a row a record, units in the names of columns, Parquet and CSV (docs/reference/records.md)."""

import pandas as pd

from fsage.dataset.columns import COLUMNS
from fsage.dataset.families import levels, lists, metrics, notes, parameters, texts_of, unpacked, values_of, without
from fsage.dataset.records import load
from fsage.dataset.tables import DatasetError, read, write

# Tables are small and read value by value: texts that pyarrow holds took a quarter of a report's time.
pd.set_option("mode.string_storage", "python")
