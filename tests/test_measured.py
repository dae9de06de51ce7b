"""Studies as they were measured: figures and sentences of docs/background/series*.md come from the tables there."""

import re
from pathlib import Path

import pandas as pd
import preloaded
import pytest

from fsage import dataset, report
from fsage.recipes import expand
from fsage.study.files import load_study

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 3 << 20


@pytest.mark.long
@pytest.mark.parametrize("name", ["series1", "series2"])
def test_the_page_says_what_the_table_says(name):
    table = ROOT / f"docs/data/{name}.parquet"
    frame = dataset.read(table)
    frame = frame[frame["study"] == name]
    assert table.stat().st_size < MOST_BYTES
    loaded = load_study(ROOT / f"config/{name}.yaml")
    planned = [state.name for state in expand(loaded)]
    cells = sum(cell.kind == "planned" for state in expand(loaded) for cell in loaded.cells_of(state))
    assert (frame["kind"] == "planned").sum() == cells and (frame["status"] == "valid").all(), "the whole matrix"
    said = " ".join((ROOT / f"docs/background/{name}.md").read_text(encoding="utf-8").split())
    for sentence in report.answer_lines(frame, loaded, planned):
        assert sentence in said, sentence


@pytest.mark.long
@pytest.mark.parametrize("name", ["series1", "series2"])
def test_its_figures_are_made_again_byte_for_byte(tmp_path, name):
    words = ["figures", name, "--table", f"docs/data/{name}.parquet", "--columns", "2", "--to", str(tmp_path / "f")]
    made = preloaded.call("fsage", *words, FSAGE_TARGET="local", FSAGE_RESULTS=tmp_path / "results")
    assert made.returncode == 0, made.stderr
    folder = ROOT / "docs" / "background" / name
    shown = set(re.findall(rf"{name}/([\w-]+\.svg)", folder.with_suffix(".md").read_text(encoding="utf-8")))
    assert shown == {path.name for path in folder.iterdir()}
    for figure in sorted(shown):
        assert (tmp_path / "f" / figure).read_bytes() == (folder / figure).read_bytes(), figure


@pytest.mark.long
def test_the_page_of_full_size_has_what_its_command_makes_of_both_tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import size

    (made,) = size.BLOCK.findall(size.PAGE.read_text(encoding="utf-8"))
    assert made == size.block(size.planned(size.LOCAL), [size.planned(path) for path in size.TABLES])
    shown = set(re.findall(r"\(size/([\w.-]+)\)", made))
    assert shown == {path.name for path in size.FIGURES.iterdir()} and len(shown) == 2


def test_the_page_of_counts_has_what_its_command_makes_of_its_tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import counts

    said = counts.PAGE.read_text(encoding="utf-8")
    assert said == counts.page(said, *map(pd.read_parquet, counts.TABLES))


def test_a_table_of_another_study_and_a_folder_of_other_things_are_refused(tmp_path):
    places = {"FSAGE_TARGET": "local", "FSAGE_RESULTS": tmp_path / "results"}
    table = ("--table", "docs/data/series1.parquet")
    other = preloaded.call("fsage", "figures", "series2", *table, **places)
    assert other.returncode == 1 and "holds records of series1, not of series2" in other.stderr
    for name in ("text/my.txt", "figures/my.pdf"):
        mine = tmp_path / name
        mine.parent.mkdir()
        mine.write_text("kept")
        kept = preloaded.call("fsage", "figures", "series1", *table, "--to", mine.parent, **places)
        assert kept.returncode == 1 and "is no folder that `fsage figures` made: name another" in kept.stderr
        assert mine.read_text() == "kept"
