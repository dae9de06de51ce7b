"""The table as a file: written, read back, of another version, of none."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from records import longest_file, make_records, store

from fsage import count, dataset
from fsage.dataset import columns
from fsage.evidence import save_free
from fsage.plan.target import DECLARATION, load_target

TEXT = Path(__file__).parent / "data/evidence/e2freefrag.txt"
LOCAL = Path("inventories/local")


@pytest.fixture(scope="module")
def frame(quickstart, tmp_path_factory):
    return dataset.load(store(make_records(quickstart), tmp_path_factory.mktemp("records")))


def test_what_was_written_is_read_back(frame, tmp_path) -> None:
    dataset.write(frame, tmp_path)
    assert dataset.read(tmp_path).equals(frame) and dataset.read(tmp_path / "records.parquet").equals(frame)


@pytest.mark.parametrize(
    ("names", "write"),
    [
        (["records.parquet", "records.csv"], dataset.write),
        (["counts.parquet"], lambda frame, to: count.write_tables(frame, frame, to)),
        (["free.txt"], lambda frame, to: save_free(str(TEXT), to / "free.txt", (1, 1))),
        ([str(DECLARATION)], lambda frame, to: load_target(LOCAL).write(to, LOCAL, "by a test")),
    ],
)
def test_a_full_disk_leaves_what_was_there(frame, tmp_path, names, write) -> None:
    write(frame, tmp_path)
    before = [(tmp_path / name).read_bytes() for name in names]
    for content in before:
        with longest_file(len(content) - 1), pytest.raises(OSError, match="File too large"):
            write(frame, tmp_path)
        assert [(tmp_path / name).read_bytes() for name in names] == before
    assert not list(tmp_path.glob(".*"))


def test_a_text_of_sizes_that_comes_by_a_pipe_cannot_be_read_again(tmp_path, monkeypatch) -> None:
    with TEXT.open(encoding="utf-8") as text:
        monkeypatch.setattr(sys, "stdin", text)
        with pytest.raises(ValueError, match="-: a text of sizes is read again for each draw: save it in a file"):
            save_free("-", tmp_path / "free.txt", (1, 1))


@pytest.mark.parametrize(
    ("version", "without", "said"),
    [
        ("1", [], "has schema version 1, this fsage reads 2: make the table again"),
        (None, [], "is no table of fsage: its metadata has no fsage_schema_version"),
        ("2", ["state"], "lacks the columns state"),
    ],
)
def test_what_is_no_table_of_a_known_version_is_refused(frame, tmp_path, version, without, said) -> None:
    dataset.write(frame, tmp_path)
    table = pq.read_table(tmp_path / "records.parquet").drop_columns(without)
    metadata = {"fsage_schema_version": version} if version else {}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "records.parquet")
    with pytest.raises(dataset.DatasetError, match=said):
        dataset.read(tmp_path)


def test_what_is_no_parquet_is_refused(frame, tmp_path) -> None:
    with pytest.raises(dataset.DatasetError, match="is not there"):
        dataset.read(tmp_path)
    dataset.write(frame, tmp_path)
    os.truncate(tmp_path / "records.parquet", 5000)
    with pytest.raises(dataset.DatasetError, match="is not a Parquet file that can be read"):
        dataset.read(tmp_path)


def test_the_file_tells_strangers_what_its_columns_are(frame, tmp_path) -> None:
    dataset.write(frame, tmp_path)
    schema = pq.read_schema(tmp_path / "records.parquet")
    documented = re.findall(r"^\| `([\w.]+)` \|", columns.page(), re.MULTILINE)
    assert documented == [*dataset.COLUMNS, *(f"{family}.NAME" for family in columns.FAMILIES)]
    others = schema.names[len(dataset.COLUMNS) :]
    assert schema.names == [*dataset.COLUMNS, *others] and others
    assert {f"{name.partition('.')[0]}.NAME" for name in others} <= set(documented)
    assert str(schema.field("began").type) == "timestamp[ms, tz=UTC]"
    about = {name: schema.field(name).metadata or {} for name in schema.names}
    assert all(each[b"description"] for each in about.values())
    units = ["write_bw_mib_s", "deleted_share_bytes", "measured_bytes", "began"]
    assert [about[name].get(b"unit") for name in units] == [b"MiB/s", b"1", b"B", None]
    reserved = {"order", "group", "check", "select", "table", "user", "from", "to", "when", "where", "references"}
    assert not reserved & set(schema.names)
