"""Records through table and figures to the page."""

import html
import re
from html.parser import HTMLParser
from types import SimpleNamespace
from xml.etree import ElementTree

import markupsafe
import pandas as pd
import pyarrow.parquet as pq
import pytest
from records import (
    CLAIM,
    CONFIG,
    MIB,
    MODEL,
    PLAIN,
    TARGET,
    Page,
    build,
    contents,
    make_evidence,
    make_records,
    planned,
    store,
    traced,
    undrawn,
    words,
)

from fsage import dataset, report
from fsage.analysis.groups import labelled_samples, summarise
from fsage.report import requests
from fsage.report.page import draw
from fsage.study.files import load_study


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """Quickstart with requests traced in two states."""
    file = tmp_path_factory.mktemp("traced") / "quickstart.yaml"
    file.write_text((PLAIN / "quickstart.yaml").read_text() + 'traces: {states: ["80.00", "80.50"]}\n')
    return load_study(file)


PLANE = "Write bandwidth in MiB/s, 64 MiB transfers"


@pytest.fixture(scope="module", params=["plane", pytest.param("all", marks=pytest.mark.long)])
def series1(request, tmp_path_factory):
    """The whole of Series 1 with three failed cells and one state missing, and its page; a plane or all are drawn."""
    study, root = load_study(PLAIN / "series1.yaml"), tmp_path_factory.mktemp("series1")
    records = make_records(study)
    for record in [record for record in records if record["kind"] == "planned"][40:43]:
        record.update(status="failed", why="write: exit code 1", metrics={})
    paths = store([record for record in records if record["state"] != "70.60@264M"], root / "records")
    frame = dataset.load(paths)
    known = {"plan_cells": planned(study), "states": {}, "claim": CLAIM}
    page = report.contents(study, TARGET, frame, **known)
    figures = [figure for figure in page.figures if request.param == "all" or figure.title == PLANE]
    text = undrawn(page, draw(figures, page.stamp, root / "report" / "figures"))
    return SimpleNamespace(study=study, frame=frame, page=text, folder=root / "report")


@pytest.fixture(scope="module")
def built(quickstart, tmp_path_factory):
    """The report of a quickstart with all that it can have, built: its folder."""
    root, records = tmp_path_factory.mktemp("built"), make_records(quickstart)
    known = {"plan_cells": planned(quickstart), "states": make_evidence(quickstart, root / "evidence"), "claim": CLAIM}
    requests = store([traced(dict(records[-1]), requests=800)], root / "traces")
    frame = dataset.load(store(records, root / "records"))
    page = report.contents(quickstart, TARGET, frame, traced=requests, **known)
    return report.build(page, frame, root / "report").parent


# dataset


def test_a_row_holds_nominal_and_achieved(quickstart, tmp_path):
    frame = dataset.load(store(make_records(quickstart), tmp_path))
    assert len(frame) == 22
    row = frame[frame["state"] == "80.50@264M"].iloc[0]
    assert (row.capacity_percent, row.fragmentation_percent, row.file_size_bytes) == (80, 50, 264 * MIB)
    assert row.capacity_percent_achieved == pytest.approx(79.92)
    assert row.real_fullness_percent == pytest.approx(40, abs=0.1)
    assert row.deleted_share_files == pytest.approx(0.5, abs=0.01)
    assert row.transfer_size_bytes == 64 * MIB and row.write_seconds > 1
    assert row.measured_extents == 14 and row.device_model == MODEL["label"]


def test_several_generations_add_up(quickstart, tmp_path):
    record = make_records(quickstart)[0]
    first = {"capacity_percent_achieved": 60.0, "files": 60, "deleted_files": 30, "deleted_share_bytes": 0.5}
    two = {"capacity_percent_achieved": 20.0, "files": 40, "deleted_files": 0, "deleted_share_bytes": 0.0}
    record["layout"]["generations"] = [first, two]
    row = dataset.load(store([record], tmp_path)).iloc[0]
    assert row.capacity_percent_achieved == 80
    assert row.deleted_share_files == pytest.approx(0.3)
    assert row.deleted_share_bytes == pytest.approx(0.375)


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "not a readable record"), (b"[1]", "not a readable record"), (b"{}", "study: Field required"),
     (b"\xff\xfe", "not a readable record"), (b'{"nominal": {"capacity_percent": "x"}}', "study: Field required")],
)  # fmt: skip
def test_a_broken_record_is_a_row_that_says_why(quickstart, tmp_path, content, why):
    paths = store(make_records(quickstart)[:2], tmp_path)
    paths[0].write_bytes(content)
    frame = dataset.load(paths)
    assert sorted(frame["status"]) == ["unreadable", "valid"]
    row = frame[frame["status"] == "unreadable"].iloc[0]
    assert (row.study, row.target, row.state) == ("quickstart", "local", "10.00@264M")
    assert why in row.why and str(paths[0].relative_to(tmp_path)) in row.why


def test_values_of_a_wrong_type_are_a_broken_record(quickstart, tmp_path):
    records = make_records(quickstart)[:3]
    records[0]["metrics"]["write_bw_mib_s"] = "fast"
    records[1]["order"] = "first"
    assert sorted(dataset.load(store(records, tmp_path))["status"]) == ["unreadable", "unreadable", "valid"]


def test_no_records_give_an_empty_table(tmp_path):
    frame = dataset.load([tmp_path / "local" / "quickstart" / "10.00@264M" / "absent.json"])
    assert frame.empty and list(frame.columns) == list(dataset.COLUMNS)


@pytest.mark.long
def test_every_record_of_series1_has_its_row(series1):
    assert len(series1.frame) == 63 * 39 + 2


def test_tables_are_the_same_bytes_whatever_the_order(quickstart, tmp_path):
    paths = store(make_records(quickstart), tmp_path / "records")
    once = [path.read_bytes() for path in dataset.write(dataset.load(paths), tmp_path / "a")]
    again = [path.read_bytes() for path in dataset.write(dataset.load(paths[::-1]), tmp_path / "b")]
    assert once == again
    metadata = pq.read_metadata(tmp_path / "a" / "records.parquet").metadata
    assert metadata[b"fsage_schema_version"] == str(dataset.SCHEMA_VERSION).encode()
    pd.testing.assert_frame_equal(
        pq.read_table(tmp_path / "a" / "records.parquet").to_pandas()[["cell", "write_bw_mib_s"]],
        pd.read_csv(tmp_path / "a" / "records.csv")[["cell", "write_bw_mib_s"]],
    )


# statistics


@pytest.mark.long
def test_latency_has_its_figure_where_percentiles_beside_the_median_are_known(quickstart, series1, tmp_path):
    whole = requests.latencies(labelled_samples(series1.frame), ["80.50", "10.00"])
    assert [figure.title for figure in whole.figures] == ["Latency of writes of 1 MiB", "Latency of reads of 1 MiB"]
    high, low = whole.figures[0].series
    assert (high.label, low.label, list(whole.figures[0].x.ticks.values())) == ("80.50", "10.00", ["p50", "p99"])
    assert high.points[1].y > 3 * low.points[1].y and high.points[1].n == 5
    heads, *rows = whole.table
    assert heads[2:] == [f"{phase} {name}, ms" for phase in ("write", "read") for name in ("p50", "p99")]
    assert {row[0] for row in rows} == {"80.50@264M", "10.00@264M"} and len(rows) == 14
    assert [row[3] == "\u2013" for row in rows if row[0] == "80.50@264M"] == [False, False, *[True] * 5]
    records = make_records(quickstart)  # of 64 MiB each: 6 transfers, whose median the bandwidth tells too
    few = requests.latencies(labelled_samples(dataset.load(store(records, tmp_path / "a"))), ["80.50"])
    assert few.figures == [] and len(few.table) == 2
    for record in records:
        record["metrics"] = {name: value for name, value in record["metrics"].items() if "latency" not in name}
    assert requests.latencies(labelled_samples(dataset.load(store(records, tmp_path / "b"))), ["80.50"]) is None


def test_sentinels_and_failures_enter_no_statistic(series1):
    frame = series1.frame[series1.frame["capacity_percent"].isin([10, 80])]
    spoilt = frame.copy()
    others = (spoilt["kind"] != "planned") | (spoilt["status"] != "valid")
    assert others.sum() > 30
    spoilt.loc[others, ["write_bw_mib_s", "read_bw_mib_s"]] = 1.0
    assert report.answer_lines(spoilt, series1.study, []) == report.answer_lines(frame, series1.study, [])


# page


def test_page_is_one_file_that_fetches_nothing(series1):
    page = Page(series1.page)
    assert {each for each in page.fetched if not each.startswith("#to-")} == set(), "mailed alone it is whole"
    assert len(page.ids) == len(set(page.ids))
    assert "@import" not in series1.page and "@font-face" not in series1.page
    assert "<script src" not in series1.page and "fetch(" not in series1.page
    assert not re.search(r"url\((?!#)", series1.page)


@pytest.mark.long
def test_every_figure_is_a_file_too(built):
    page = (built / "index.html").read_text()
    named = re.findall(r"figures/([\w-]+)\.svg, \.pdf and \.csv", page)
    linked = {f"figures/{name}.{ending}" for name in named for ending in ("svg", "pdf", "csv")}
    files = {str(path.relative_to(built)) for path in (built / "figures").iterdir()}
    assert linked == files and len(files) == 3 * page.count("<svg ")
    for path in (built / "figures").glob("*.svg"):
        assert ElementTree.parse(path).getroot().get("aria-label") in html.unescape(page)
    for path in (built / "figures").glob("*.pdf"):
        assert path.read_bytes().startswith(b"%PDF-") and b"CreationDate" not in path.read_bytes()


def test_a_page_weighs_little(series1):
    assert len(series1.page.encode()) < 4e6


@pytest.mark.long
def test_figures_of_a_page_name_everything_once_and_have_the_device_in_them(built):
    text = (built / "index.html").read_text()
    assert len(text.encode()) < 1e6
    # Text is drawn as paths; the text itself stands in a comment before them.
    assert all("modelled device (IOCost, 362 MiB/s" in svg for svg in re.findall(r"<svg.*?</svg>", text, flags=re.S))
    asked = set(re.findall(r'(?:url\(|xlink:href=")#([^)"]+)', text))
    assert asked and asked < set(Page(text).ids)


def test_page_of_series1_has_every_figure(series1):
    titles = re.findall(r'aria-label="([^"]+)"', series1.page)
    for title in (
        "Write bandwidth over capacity",
        "Read bandwidth over capacity",
        PLANE,
        "Read bandwidth in MiB/s, 64 MiB transfers",
        "Write bandwidth over fragmentation at AA = 80",
        "Write bandwidth over real fullness",
        "Write speed relative to unfragmented at equal fullness",
        "Drift of writes",
    ):
        assert title in titles


def test_page_says_what_is_not_there_and_how_to_measure_it(series1):
    text = words(series1.page)
    assert (
        "2202 of 2240 planned cells measured, 3 failed , 35 missing ; apart from these 126 reference, 126 sentinel, "
        "2 traced" in text
    )
    assert "write: exit code 1" in text and "70.60@264M 39" in text
    measure = "./run snakemake --config target=local -- series1"
    assert f"./run fsage --target=local remeasure series1 --failed && {measure}" in text


def test_page_flags_short_samples_mixed_layouts_and_rebuilt_states(quickstart, tmp_path):
    records = make_records(quickstart)[:5]
    records[0]["metrics"]["read_seconds"] = 0.4
    records[1]["layout"]["digest"] = "another"
    records[1]["check"]["rebuilt"] = True
    text = words(build(quickstart, records, tmp_path))
    assert "1 sample took less than a second" in text and "read 0.400" in text
    assert "10.00@264M (layout anothe)" in text and "rebuilt" in text
    assert "10.00@264M (100000: 4 samples, anothe: 1 sample)" in text


def test_page_of_a_plain_directory_says_that_nothing_is_known(quickstart, tmp_path):
    records = make_records(quickstart)[:10]
    for record in records:
        record["layout"].update(state_known=False, digest=None, filler_extents=None)
        record["conditions"].update(device_model=None, filesystem=None)
        for phase in record["phases"]:
            phase["extents"] = None
    page = contents(quickstart, records, tmp_path)
    assert page.stamp == "no device model · file-system state unknown (not its own)"
    assert page.stamp in undrawn(page)


def test_page_without_records_names_them_all_as_missing(quickstart, tmp_path):
    text = words(build(quickstart, [], tmp_path))
    assert "0 of 20 planned cells measured, 20 missing" in text
    assert "No cell has a valid record yet" in text


def test_page_of_a_study_all_of_whose_cells_failed_says_why(quickstart, tmp_path):
    records = make_records(quickstart)
    for record in records:
        record.update(status="failed", why="write: IOR ended with code 1: There are not enough slots", metrics={})
    text = words(build(quickstart, records, tmp_path))
    assert "20 failed" in text and "There are not enough slots" in text


def test_page_of_another_recipe_and_workload_is_generic(quickstart, tmp_path):
    records = make_records(quickstart)
    for record in records:
        record["nominal"] = {"recipe": "someone_elses"}
        record["params"] = {"workload": "metadata", "iteration": record["params"]["iteration"]}
        record["metrics"] = {"create_per_s": 900.0 + record["params"]["iteration"], "create_seconds": 2.0}
    page = build(quickstart, records, tmp_path)
    text = words(page)
    assert page.count("<svg") == 1 and "Extents over layouts and places" in page, "no figure of its own"
    assert "create, 1/s" in text and "903.0" in text
    assert "In this layout, at 80.00, creating files shows no difference (within 3%)" in text
    assert "80.00 against 10.00: no difference (within 3%); n=5+5" in text
    assert "published" not in text


def test_series2_stands_beside_series1_and_names_what_is_missing(series1, tmp_path):
    study = load_study(CONFIG / "series2.yaml")
    beside = series1.frame[series1.frame["fragmentation_percent"] != 40]
    page = build(study, make_records(study), tmp_path, comparison=beside)
    text = words(page)
    assert 'aria-label="Write bandwidth by file size, 64 MiB transfers, AA = 20"' in page
    assert "264 MiB files" in page and "33 MiB files" in page
    assert "Not measured: 264 MiB files with 8 MiB transfers at 20.40; 264 MiB files with 64 MiB" in text
    assert "70 of 70 planned cells measured" in text
    said = (
        "Over 6 states, where holes are of 33 MiB files, writing .* The reference is holes of 264 MiB files, 64 MiB at"
    )
    assert re.search(said, text)


def test_loss_against_the_clean_state(series1):
    table = summarise(series1.frame)
    row = table[(table["state"] == "80.00@264M") & (table["measure"] == "write_bw_mib_s")]
    row = row[row["transfer_size_bytes"] == 64 * MIB].iloc[0]
    assert row["clean"] == "10.00@264M" and row["n"] == 5 and row["level"] == 0.9375
    assert 20 < row["to_clean"].loss_percent < 30


class Cells(HTMLParser):
    """The table of cells: its headings with their attributes, and its rows of text."""

    def __init__(self, page):
        super().__init__()
        self.heads, self.rows, self.inside = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "table":
            self.inside = attributes.get("data-tools") == "cells"
        elif self.inside and tag == "th":
            self.heads.append(attributes)
        elif self.inside and tag == "tr":
            self.rows.append([])
        elif self.inside and tag == "td":
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.inside and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip()


def test_every_planned_cell_is_a_row_that_can_be_chosen_and_sorted(series1):
    table = Cells(series1.page)
    assert [head["data-choose"] for head in table.heads if "data-choose" in head] == [
        *("state", "kind", "status", "transfer, MiB"),
    ]
    assert [int(head["data-column"]) for head in table.heads] == list(range(len(table.rows[-1])))
    rows = pd.DataFrame(table.rows[1:])
    asked = {(state, cell.name) for state, cell in planned(series1.study)}
    assert set(zip(rows[0], rows[1], strict=True)) == asked and len(rows) == len(asked)
    assert rows.loc[rows[0] == "70.60@264M", 3].unique().tolist() == ["missing"]
    assert (rows[3] == "failed").sum() == 3 and "write: exit code 1" in set(rows[len(rows.columns) - 1])
    best = series1.frame.loc[series1.frame["write_bw_mib_s"].idxmax()]
    row = rows[(rows[0] == best["state"]) & (rows[1] == best["cell"])].iloc[0]
    assert float(row[5]) == pytest.approx(best["write_bw_mib_s"], abs=0.05)


def test_a_plane_says_its_numbers_under_the_pointer_and_hatches_gaps(series1):
    svg = (series1.folder / "figures" / "write-bandwidth-in-mib-s-64-mib-transfers.svg").read_text()
    said = re.findall(
        r"<title>(\d\d\.\d\d@264M): ([\d.]+) MiB/s, .*?, over (\d) rewrites of the same blocks, real fullness", svg
    )
    assert len(said) == 63 and "70.60@264M" not in {state for state, *_ in said}
    row = series1.frame[(series1.frame["state"] == "80.50@264M") & (series1.frame["kind"] == "planned")]
    median = row.loc[row["transfer_size_bytes"] == 64 * MIB, "write_bw_mib_s"].median()
    assert float(dict(each[:2] for each in said)["80.50@264M"]) == pytest.approx(median, abs=0.06)
    assert "<pattern" in svg


def test_what_records_say_is_text_and_never_markup(quickstart, tmp_path):
    bad = '</td><script>alert(1)</script><img src=x onerror="x"> $\\no$'
    records = make_records(quickstart)
    for record in records:
        record["host"] = record["conditions"]["filesystem"] = bad
        record["conditions"]["device_model"] = {"label": bad}
        record["phases"][0]["argv"].append(bad)
        record["conditions"]["tunables"] = {bad: {"asked": bad, "before": [bad], "now": [bad]}}
    records[0].update(status="failed", why=bad, metrics={})
    page = build(quickstart, records, tmp_path)
    assert str(markupsafe.escape(bad)) in page
    assert page.count("<script>") == 1 and "<img" not in page
    Page(page)


def test_a_single_cell_makes_a_report_that_says_how_little_it_is(quickstart, tmp_path):
    page = build(quickstart, make_records(quickstart)[:1], tmp_path)
    text = words(page)
    assert "1 of 20 planned cells measured" in text and "19 missing" in text
    assert "cannot be compared (0 samples against 1: nothing to compare)" in text
    assert "No state has evidence of its layout." in text


def test_kinds_of_cells_and_skipped_ones_are_counted_apart(quickstart, tmp_path):
    records = make_records(quickstart)
    skipped = next(record for record in records if record["kind"] == "planned")
    skipped.update(status="skipped", why="the interval is narrow enough", metrics={})
    text = words(build(quickstart, records, tmp_path))
    assert "19 of 20 planned cells measured, 1 skipped ; apart from these 2 traced" in text
    assert "Every planned cell has a valid record." in text
