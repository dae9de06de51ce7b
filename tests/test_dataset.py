"""The table as a file: written, read back, of another version, of none."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from records import PLAIN, make_records, store

from fsage import dataset
from fsage.dataset import columns
from fsage.study.files import load_study


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    study = load_study(PLAIN / "quickstart.yaml")
    return dataset.load(store(make_records(study), tmp_path_factory.mktemp("records")))


def test_what_was_written_is_read_back(frame, tmp_path) -> None:
    dataset.write(frame, tmp_path)
    assert dataset.read(tmp_path).equals(frame) and dataset.read(tmp_path / "records.parquet").equals(frame)


def versioned(frame, folder: Path, version: str | None, without: tuple[str, ...] = ()) -> Path:
    """The table as another version would have written it."""
    dataset.write(frame, folder)
    table = pq.read_table(folder / "records.parquet").drop_columns(list(without))
    metadata = {} if version is None else {"fsage_schema_version": version}
    pq.write_table(table.replace_schema_metadata(metadata), folder / "records.parquet")
    return folder


@pytest.mark.parametrize(
    ("version", "without", "said"),
    [
        ("1", (), "has schema version 1, this fsage reads 2: make the table again"),
        (None, (), "is no table of fsage: its metadata has no fsage_schema_version"),
        ("2", ("state",), "lacks the columns state"),
    ],
)
def test_what_is_no_table_of_a_known_version_is_refused(frame, tmp_path, version, without, said) -> None:
    with pytest.raises(dataset.DatasetError, match=said):
        dataset.read(versioned(frame, tmp_path, version, without))


def test_what_is_no_parquet_is_refused(frame, tmp_path) -> None:
    with pytest.raises(dataset.DatasetError, match="is not there"):
        dataset.read(tmp_path)
    dataset.write(frame, tmp_path)
    whole = (tmp_path / "records.parquet").read_bytes()
    (tmp_path / "records.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(dataset.DatasetError, match="is not a Parquet file that can be read"):
        dataset.read(tmp_path)


def test_the_file_tells_strangers_what_its_columns_are(frame, tmp_path) -> None:
    dataset.write(frame, tmp_path)
    schema = pq.read_schema(tmp_path / "records.parquet")
    documented = re.findall(r"^\| `([\w.]+)` \|", columns.page(), re.MULTILINE)
    assert documented == [*dataset.COLUMNS, *(f"{family}.NAME" for family in columns.FAMILIES)]
    assert schema.names[: len(dataset.COLUMNS)] == list(dataset.COLUMNS)
    others = schema.names[len(dataset.COLUMNS) :]
    assert others and all(f"{name.partition('.')[0]}.NAME" in documented for name in others)
    assert str(schema.field("began").type) == "timestamp[ms, tz=UTC]"
    units = {name: (schema.field(name).metadata or {}).get(b"unit", b"").decode() for name in schema.names}
    assert {units[name] for name in schema.names if name.endswith("_bw_mib_s")} == {"MiB/s"}
    assert (units["deleted_share_bytes"], units["measured_bytes"], units["began"]) == ("1", "B", "")
    assert all(schema.field(name).metadata[b"description"] for name in schema.names)
    reserved = {"order", "group", "check", "select", "table", "user", "from", "to", "when", "where", "references"}
    assert not reserved & set(schema.names)
