"""Records through table and figures to the page."""

import html
import json
import re
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
    gave_nothing,
    make_evidence,
    make_records,
    planned,
    store,
    titled,
    traced,
    undrawn,
    words,
)

from fsage import dataset, report
from fsage.analysis.groups import labelled_samples, summarise
from fsage.report import requests
from fsage.report.render import draw
from fsage.study.files import load_study


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """Quickstart with requests traced in two states."""
    file = tmp_path_factory.mktemp("traced") / "quickstart.yaml"
    file.write_text((PLAIN / "quickstart.yaml").read_text() + 'traces: {states: ["80.00", "80.50"]}\n')
    return load_study(file)


PLANE = "Write bandwidth in MiB/s, 64 MiB transfers"
PART = """
only:
  - {capacity: [10, 40, 80], fragmentation: [0, 50, 60], transfer_size: [1M, 8M, 64M]}
  - {capacity: 20, transfer_size: [1M, 8M, 64M]}
"""


@pytest.fixture(scope="module")
def series1(tmp_path_factory):
    """A part of Series 1 with three failed cells and one state missing, and its page, of which a plane is drawn."""
    root = tmp_path_factory.mktemp("series1")
    (root / "series1.yaml").write_text((PLAIN / "series1.yaml").read_text() + PART)
    study = load_study(root / "series1.yaml")
    records = make_records(study)
    for record in [record for record in records if record["kind"] == "planned"][40:43]:
        gave_nothing(record, "write: exit code 1")
    frame = dataset.load(store([record for record in records if record["state"] != "40.60@264M"], root / "records"))
    page = report.contents(study, TARGET, frame, plan_cells=planned(study), states={}, claim=CLAIM)
    drawn = draw([titled(page.figures, PLANE)], page.stamp, root / "figures")
    return SimpleNamespace(study=study, frame=frame, page=undrawn(page, drawn), folder=root / "figures")


# dataset


def test_a_row_holds_nominal_and_achieved(quickstart, tmp_path):
    frame = dataset.load(store(make_records(quickstart), tmp_path))
    assert len(frame) == 22
    row = frame[frame["state"] == "80.50@264M"].iloc[0]
    assert (row.capacity_percent, row.fragmentation_percent, row.file_size_bytes) == (80, 50, 264 * MIB)
    assert row.capacity_percent_achieved == pytest.approx(79.92)
    assert row.real_fullness_percent == pytest.approx(40, abs=0.1)
    assert row.transfer_size_bytes == 64 * MIB and row.write_seconds > 1
    assert row.measured_extents == 14 and row.device_model == MODEL["label"]


def test_several_generations_add_up(quickstart, tmp_path):
    record = make_records(quickstart)[0]
    record["layout"]["generations"] = [
        {"capacity_percent_achieved": 60.0, "files": 60, "deleted_files": 30, "deleted_share_bytes": 0.5},
        {"capacity_percent_achieved": 20.0, "files": 40, "deleted_files": 0, "deleted_share_bytes": 0.0},
    ]
    row = dataset.load(store([record], tmp_path)).iloc[0]
    assert row.capacity_percent_achieved == 80
    assert (row.deleted_share_files, row.deleted_share_bytes) == pytest.approx((0.3, 0.375))


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "not a readable record"), (b"[1]", "not a readable record"), (b"[" * 100_000, "not a readable record"),
     (b'{"a": NaN}', "not a readable record"), (b"\xff\xfe", "not a readable record"),
     (b'{"nominal": {"capacity_percent": "x"}}', "study: Field required"), (None, "it is a link to what is not there")],
)  # fmt: skip
def test_a_broken_record_is_a_row_that_says_why(quickstart, tmp_path, content, why):
    paths = store(make_records(quickstart)[:2], tmp_path)
    if content is None:
        paths[0].unlink()
        paths[0].symlink_to("away")
    else:
        paths[0].write_bytes(content)
    frame = dataset.load(paths)
    assert sorted(frame["status"]) == ["unreadable", "valid"]
    row = frame[frame["status"] == "unreadable"].iloc[0]
    assert (row.study, row.target, row.state) == ("quickstart", "local", "10.00@264M")
    assert why in row.why and str(paths[0].relative_to(tmp_path)) in row.why


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["params"], []),
        (["nominal", "axes"], "text"),
        (["metrics", "write_bw_mib_s"], "fast"),
        (["metrics", "write_bw_mib_s"], 0),
        (["metrics", "own_disk_mib_s"], 0),
        (["metrics", "write_bw_mib_s"], 10**30),
        (["order"], 1 << 64),
        (["phases", 0, "argv"], [1, None]),
        (["conditions", "tunables"], {"a": 1}),
        (["layout", "generations"], [{}]),
        (["state"], "../../x"),
    ],
)
def test_a_record_with_a_value_that_cannot_be_is_a_broken_one(quickstart, tmp_path, keys, value):
    record = make_records(quickstart)[0]
    [path] = store([record], tmp_path)
    block = record
    for key in keys[:-1]:
        block = block[key]
    block[keys[-1]] = value
    path.write_text(json.dumps(record))
    [row] = dataset.load([path]).to_dict("records")
    assert row["status"] == "unreadable" and "_i1.json: not a readable record: " in row["why"]
    assert "record: :" not in row["why"]


def test_no_records_give_an_empty_table(tmp_path):
    frame = dataset.load([tmp_path / "local" / "quickstart" / "10.00@264M" / "absent.json"])
    assert frame.empty and list(frame.columns) == list(dataset.COLUMNS)


def test_tables_are_the_same_bytes_whatever_the_order(quickstart, tmp_path):
    paths = store(make_records(quickstart), tmp_path / "records")
    once = [path.read_bytes() for path in dataset.write(dataset.load(paths), tmp_path / "a")]
    again = [path.read_bytes() for path in dataset.write(dataset.load(paths[::-1]), tmp_path / "b")]
    assert once == again
    columns = ["cell", "write_bw_mib_s"]
    packed = pq.read_table(tmp_path / "a" / "records.parquet").to_pandas()
    pd.testing.assert_frame_equal(packed[columns], pd.read_csv(tmp_path / "a" / "records.csv")[columns])


# statistics


def test_latency_has_its_figure_where_percentiles_beside_the_median_are_known(quickstart, series1, tmp_path):
    whole = requests.latencies(labelled_samples(series1.frame), ["80.50", "10.00"])
    assert [figure.title for figure in whole.figures] == ["Latency of writes of 1 MiB", "Latency of reads of 1 MiB"]
    high, low = whole.figures[0].series
    assert (high.label, low.label, list(whole.figures[0].x.ticks.values())) == ("80.50", "10.00", ["p50", "p99"])
    assert high.points[1].y > 3 * low.points[1].y and high.points[1].n == 5
    heads, *rows = whole.table
    assert heads[2:] == [f"{phase} {name}, ms" for phase in ("write", "read") for name in ("p50", "p99")]
    assert [(row[0], row[3] == "\u2013") for row in rows] == [
        *(("10.00@264M", False), ("10.00@264M", True), ("10.00@264M", True)),
        *(("80.50@264M", False), ("80.50@264M", True), ("80.50@264M", True)),
    ]
    records = make_records(quickstart)  # of 64 MiB each: 6 transfers, whose median the bandwidth tells too
    few = requests.latencies(labelled_samples(dataset.load(store(records, tmp_path))), ["80.50"])
    assert few.figures == [] and len(few.table) == 2


def test_sentinels_and_failures_enter_no_statistic(series1):
    frame = series1.frame[series1.frame["capacity_percent"].isin([10, 80])]
    spoilt = frame.copy()
    others = (spoilt["kind"] != "planned") | (spoilt["status"] != "valid")
    assert others.sum() > 10
    spoilt.loc[others, ["write_bw_mib_s", "read_bw_mib_s"]] = 1.0
    assert report.answer_lines(spoilt, series1.study, []) == report.answer_lines(frame, series1.study, [])


def test_loss_against_the_clean_state(quickstart, tmp_path):
    table = summarise(dataset.load(store(make_records(quickstart), tmp_path)))
    [row] = table[(table["state"] == "80.00@264M") & (table["measure"] == "write_bw_mib_s")].to_dict("records")
    assert row["clean"] == "10.00@264M" and row["n"] == 5 and row["level"] == 0.9375
    assert 20 < row["to_clean"].loss_percent < 30


# page


def test_page_is_one_file_that_fetches_nothing_and_has_every_figure(series1):
    page = Page(series1.page)
    assert {each for each in page.fetched if not each.startswith("#to-")} == set(), "mailed alone it is whole"
    assert len(page.ids) == len(set(page.ids))
    assert "@import" not in series1.page and "@font-face" not in series1.page
    assert "<script src" not in series1.page and "fetch(" not in series1.page
    assert not re.search(r"url\((?!#)", series1.page)
    assert set(re.findall(r'aria-label="([^"]+)"', series1.page)) >= {
        "Write bandwidth over capacity",
        "Read bandwidth over capacity",
        PLANE,
        "Read bandwidth in MiB/s, 64 MiB transfers",
        "Write bandwidth over fragmentation at AA = 80",
        "Write bandwidth over real fullness",
        "Write speed relative to unfragmented at equal fullness",
        "Drift of writes",
    }


@pytest.mark.long
def test_every_figure_is_a_file_too_that_names_everything_once_and_has_the_device_in_it(quickstart, tmp_path):
    records = make_records(quickstart)
    frame = dataset.load(store(records, tmp_path / "records"))
    page = report.contents(
        quickstart,
        TARGET,
        frame,
        traced=store([traced(dict(records[-1]), requests=800)], tmp_path / "traces"),
        plan_cells=planned(quickstart),
        states=make_evidence(quickstart, tmp_path / "evidence"),
        claim=CLAIM,
    )
    folder = report.build(page, frame, tmp_path / "report").parent
    text = (folder / "index.html").read_text()
    named = re.findall(r"figures/([\w-]+)\.svg, \.pdf and \.csv", text)
    files = {path.name for path in (folder / "figures").iterdir()}
    assert files == {f"{name}.{ending}" for name in named for ending in ("svg", "pdf", "csv")}
    assert len(files) == 3 * text.count("<svg ") and len(text.encode()) < 1e6
    for path in (folder / "figures").glob("*.svg"):
        assert ElementTree.parse(path).getroot().get("aria-label") in html.unescape(text)
    for path in (folder / "figures").glob("*.pdf"):
        assert path.read_bytes().startswith(b"%PDF-") and b"CreationDate" not in path.read_bytes()
    # Text is drawn as paths; the text itself stands in a comment before them.
    assert all("modelled device (IOCost, 362 MiB/s" in svg for svg in re.findall(r"<svg.*?</svg>", text, flags=re.S))
    asked = set(re.findall(r'(?:url\(|xlink:href=")#([^)"]+)', text))
    assert asked and asked < set(Page(text).ids)


def test_page_says_what_is_not_there_and_how_to_measure_it(series1):
    text = words(series1.page)
    assert "237 of 255 planned cells measured, 3 failed , 15 missing ; apart from these" in text
    assert "write: exit code 1" in text and "40.60@264M 18" in text
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


def test_page_without_a_record_says_what_is_missing(quickstart, tmp_path):
    text = words(build(quickstart, [], tmp_path / "none"))
    assert "0 of 20 planned cells measured, 20 missing" in text
    assert "No cell has a valid record yet" in text and "took at least a second" not in text


def test_series2_stands_beside_series1_and_names_what_is_missing(series1, tmp_path):
    study = load_study(CONFIG / "series2.yaml")
    beside = series1.frame[series1.frame["fragmentation_percent"] != 50]
    page = build(study, make_records(study), tmp_path, comparison=beside)
    text = words(page)
    assert 'aria-label="Write bandwidth by file size, 64 MiB transfers, AA = 20"' in page
    assert "264 MiB files" in page and "33 MiB files" in page
    assert "Not measured: 264 MiB files with 8 MiB transfers at 20.50; 264 MiB files with 64 MiB" in text
    assert "70 of 70 planned cells measured" in text
    said = (
        "Over 6 states, where holes are of 33 MiB files, writing .* The reference is holes of 264 MiB files, 64 MiB at"
    )
    assert re.search(said, text)


@pytest.mark.parametrize(
    ("unit", "reads", "shown"),
    [
        (1e-5, "0.0036 0.0036 \u2013 0.0036", "0.0036 to 0.0036"),
        (1000.0, "360 000.0 360 000.0 \u2013 360 000.0", "360000 to 360000"),
    ],
)
def test_rates_of_any_size_keep_their_digits(quickstart, tmp_path, unit, reads, shown):
    """The fragmented state has a thousandth of the others."""
    records = make_records(quickstart)
    for record in records:
        rate = 360 * unit / (1000 if record["state"].startswith("80.50") else 1)
        record["metrics"] |= {"write_bw_mib_s": rate, "read_bw_mib_s": rate}
    page = contents(quickstart, records, tmp_path / "records")
    assert "writing is 99.9% slower (99.9 to 99.9%)" in page.answer.sentences[0]
    assert page.answer.cards[0].size == "\u221299.9%"
    text = words(undrawn(page))
    assert f"{reads} (93.75%) 0.0% reference" in text
    assert "0.001\u00d7 (0.001\u00d7 \u2013 0.001\u00d7, 96.8%)" in text
    svg = draw([page.answer.figure], "", tmp_path)["the-states-that-are-compared"].svg
    assert f"writing at 10% full: {shown.partition(' ')[0]} ({shown}), n = 5" in svg


def test_every_planned_cell_is_a_row_that_can_be_chosen_and_sorted(series1):
    [table] = re.findall(r'<table[^>]* data-tools="cells".*?</table>', series1.page, re.DOTALL)
    assert re.findall('data-choose="(.*?)"', table) == ["state", "kind", "status", "transfer, MiB"]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in table.split("<tr")[2:]]
    assert re.findall('data-column="(.*?)"', table) == [str(place) for place in range(len(rows[-1]))]
    assert sorted((row[0], row[1]) for row in rows) == sorted(
        (name, cell.name) for name, cell in planned(series1.study)
    )
    assert {row[3] for row in rows if row[0] == "40.60@264M"} == {"missing"}
    failed = [row for row in rows if row[3] == "failed"]
    assert len(failed) == 3 and "write: exit code 1" in failed[0][-1]
    best = series1.frame.loc[series1.frame["write_bw_mib_s"].idxmax()]
    [row] = [row for row in rows if row[:2] == [best["state"], best["cell"]]]
    assert float(row[5]) == pytest.approx(best["write_bw_mib_s"], abs=0.05)


def test_a_plane_says_its_numbers_under_the_pointer_and_hatches_gaps(series1):
    svg = (series1.folder / "write-bandwidth-in-mib-s-64-mib-transfers.svg").read_text()
    said = dict(re.findall(r"<title>(\d\d\.\d\d@264M): ([\d.]+) MiB/s, .*?, over \d rewrites of the same blocks", svg))
    assert len(said) == 16 and "40.60@264M" not in said
    row = series1.frame[(series1.frame["state"] == "80.50@264M") & (series1.frame["kind"] == "planned")]
    median = row.loc[row["transfer_size_bytes"] == 64 * MIB, "write_bw_mib_s"].median()
    assert float(said["80.50@264M"]) == pytest.approx(median, abs=0.06)
    assert "<pattern" in svg


def test_what_records_say_is_text_and_never_markup(quickstart, tmp_path):
    bad = '</td><script>alert(1)</script><img src=x onerror="x"> $\\no$'
    records = make_records(quickstart)
    for record in records:
        record["host"] = record["conditions"]["filesystem"] = bad
        record["conditions"]["device_model"] = {"label": bad}
        record["phases"][0]["argv"].append(bad)
        record["conditions"]["tunables"] = {bad: {"asked": bad, "before": [bad], "now": [bad]}}
    gave_nothing(records[0], bad)
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
    gave_nothing(skipped, "the interval is narrow enough", "skipped")
    text = words(build(quickstart, records, tmp_path))
    assert "19 of 20 planned cells measured, 1 skipped ; apart from these 2 traced" in text
    assert "Every planned cell that was not skipped has a valid record." in text
