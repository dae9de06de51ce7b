"""Reports of studies of other shapes, from records that were taken on this project's own seek-charging targets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from records import CONFIG, build, make_records, store

from fsage import dataset
from fsage.report.groups import summarise
from fsage.report.iocontrol.rows import AFTER, BEFORE, Shared, against_fair, victim
from fsage.report.prealloc.rows import aged, rows_of
from fsage.study import load_study

TAKEN = Path(__file__).parent / "data" / "studies"


def taken(name: str) -> list[dict]:
    return [json.loads(line) for line in (TAKEN / f"{name}.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def prealloc(tmp_path_factory):
    place = tmp_path_factory.mktemp("prealloc")
    study = load_study(CONFIG / "prealloc_quick.yaml")
    records = taken("prealloc_quick")
    return SimpleNamespace(page=build(study, records, place), frame=dataset.load(store(records, place / "again")))


def test_a_larger_preallocation_keeps_more_of_the_clean_rate(prealloc):
    table = summarise(prealloc.frame)
    rows = aged(rows_of(SimpleNamespace(table=table)))
    full = rows[rows["deleted"] == 1]
    for measure, part in full.groupby("measure"):
        shares = [one.value for one in part.sort_values("preallocation_bytes")["to_clean"]]
        assert shares == sorted(shares) and shares[0] < 0.6 < shares[-1], measure
        assert list(part.sort_values("preallocation_bytes")["clean"]) == [
            "1M.clean",
            "2M.clean",
            "4M.clean",
            "8M.clean",
        ]


def test_page_of_a_preallocation_study_has_its_figures(prealloc):
    for size in ("1 MiB", "2 MiB", "4 MiB", "8 MiB"):
        assert f"Rates over fullness, preallocation of {size}" in prealloc.page
        assert f"Extents of the measured files, preallocation of {size}" in prealloc.page
    assert "Writes, share of the clean rate" in prealloc.page and "Reads, share of the clean rate" in prealloc.page
    assert "writes ≥ 89% and reads ≥ 82% of a clean file system" in prealloc.page
    assert "Mean extent of the measured files" in prealloc.page
    figures = prealloc.page.count('class="panel"')
    assert prealloc.page.count("modelled device (a disk that charges for seeks") > figures, "on every figure"


def test_page_of_a_defragmentation_study_has_its_table_and_figure(tmp_path):
    page = build(load_study(CONFIG / "defrag.yaml"), taken("defrag"), tmp_path)
    cells = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(<th>1233.*?)</tr>", page)]
    before, after = cells[:2]
    assert before[:3] == ["1233.before", "1,233", "0.9992"] and after[:4] == ["1233.file", "1", "0.0000", "321 MiB"]
    assert re.match(r"9\.\d s \(xfs_fsr\)", after[4]) and re.match(r"[67]\.\d+x \(", after[7])
    assert "Reading the file cold" in page and "Reading the file warm" in page
    assert "Defragmentation (1 MiB, cache cold): at 1233.file reads reach 7." in page


def test_page_of_a_striping_study_has_every_layout_with_its_speed_up(tmp_path):
    records = taken("striping")
    for record in records:  # as from a target with too few stores
        if record["state"] == "IOR.6":
            why = "pattern IOR.6: stripe counts 4 and 8 both become 1 on 2 OSTs"
            record["layout"]["notes"]["stripe"] = {"osts": 2, "unsupported": why}
            record.update(status="unsupported", why=why, metrics={}, phases=[])
    page = build(load_study(CONFIG / "striping.yaml"), records, tmp_path)
    rows = {
        cells[0]: cells[1:]
        for row in re.findall(r"<tr>(<t[hd]>IOR.*?)</tr>", page)
        if (cells := re.findall(r"<t[hd]>(.*?)</t[hd]>", row)) and len(cells) == 10
    }
    assert list(rows) == [f"IOR.{number}" for number in range(1, 7)]
    assert rows["IOR.1"][5] == "the default" and rows["IOR.1"][2:4] == ["4 of 16", "4"]
    assert rows["IOR.5"][0].startswith("4 \u00d7 1 MiB to 80 MiB; 16 \u00d7 1 MiB to 320 MiB")
    assert re.match(r"2\.\d\dx \(", rows["IOR.4"][5]) and rows["IOR.4"][-1] == "5 of 5 cells"
    assert rows["IOR.6"][0] == "unsupported" and rows["IOR.6"][-1] == "0 of 5 cells"
    assert f"Unsupported: {why}." in page
    for figure in ("Write throughput", "Read throughput", "Write speed-up over IOR.1", "Read speed-up over IOR.1"):
        assert figure in page
    assert "Fastest here, writes: IOR.3 (static, 3.96x), IOR.4 (dynamic, 2.66x)" in page


def test_a_target_that_has_none_of_the_layouts_is_told_so(tmp_path):
    records = [record for record in taken("striping") if record["state"] in ("IOR.4", "IOR.6")]
    for record in records:
        why = f"pattern {record['state']}: stripe counts 4 and 8 both become 1 on 2 OSTs"
        record["layout"]["notes"]["stripe"] = {"osts": 2, "unsupported": why}
        record.update(status="unsupported", why=why, metrics={}, phases=[])
    page = build(load_study(CONFIG / "striping.yaml"), records, tmp_path)
    assert "Throughput of each layout" not in page
    for name in ("IOR.4", "IOR.6"):
        assert f"Unsupported: pattern {name}: stripe counts 4 and 8 both become 1 on 2 OSTs." in page


def test_metadata_cells_have_their_figures_and_enter_no_other(tmp_path):
    blocks = {"workload": "metadata", "files_per_task": 500, "iterations": 5}
    text = (CONFIG / "quickstart.yaml").read_text() + "\nalso:\n  - " + json.dumps(blocks) + "\n"
    (tmp_path / "quickstart.yaml").write_text(text)
    study = load_study(tmp_path / "quickstart.yaml")
    page = build(study, make_records(study), tmp_path)
    for operation in ("Create", "Stat", "Remove"):
        assert f"{operation} rate over capacity" in page
    plain = load_study(CONFIG / "quickstart.yaml")
    without = build(plain, make_records(plain), tmp_path / "without")
    titles = [re.findall(r'role="img" aria-label="(.*?)"', one) for one in (page, without)]
    assert [name for name in titles[0] if " rate over " not in name] == titles[1]


def test_page_of_an_io_control_study_names_the_victim_beside_the_published_one(tmp_path):
    page = build(load_study(CONFIG / "iocontrol.yaml"), taken("iocontrol"), tmp_path)
    before = r", before defragmentation, victim: [^;]+ in P4.*? in P5[^;]*; published: "
    for name in ("BFQ", "IOCost", "no scheduler (control)"):
        assert f"Bandwidth of both groups, {name}" in page
        assert re.search(re.escape(name) + before, page)
    assert "CFQ was not measured: " in page and "CFQ left Linux with 5.0" in page
    assert "BFQ, after defragmentation" in page and "published: none, fairness was restored" in page
    rows = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(<th>IOCost.*?)</tr>", page)]
    ratios = {(row[1], row[2]): float(row[8]) for row in rows if len(row) == 13}
    assert 1.7 < ratios["4K.before", "P3"] < 2.2 and 0.9 < ratios["4K.after", "P4"] < 1.1
    assert ratios["4K.before", "P4"] < 0.6, "the file in pieces"
    assert len([row for row in rows if row[2] in ("P4 / P2", "P5 / P3")]) == 4


def shared(pattern: str, group1: float | None, group2: float | None, stage: str = BEFORE) -> Shared:
    rates = {name: rate for name, rate in (("1", group1), ("2", group2)) if rate is not None}
    bw_mib_s = {name: [0.995 * rate, rate, 1.005 * rate] for name, rate in rates.items()}
    return Shared("bfq", f"4K.{stage}", "4 KiB", stage, pattern, bw_mib_s, {}, {}, [], [], "")


@pytest.mark.parametrize(
    ("pattern", "group1", "group2", "lost"),
    [
        ("P4", 20, 50, None),  # fair: half of 40 alone, half of 100 alone
        ("P4", 20, 25, "2"),  # the neighbour
        ("P4", 5, 50, "1"),
        ("P4", 15, 25, "2"),  # both lose, and group 2 more
        ("P5", 26.67, 33.33, None),  # 2:1
        ("P5", 20, 33.33, "1"),
        ("P2", 50, 50, None),  # group 1 reads a whole file: fair is of what group 2 reads alone
        ("P2", 20, 50, "1"),
        ("P2", 50, 49, None),  # surely below, but by less than 3%
        ("P2", 50, 47, "2"),
    ],
)
def test_the_victim_is_furthest_below_its_rate_alone_times_its_weights_share(pattern, group1, group2, lost):
    one = shared(pattern, group1, group2)
    alone = [shared("P1", None, 100), shared("P6", 40, None)]
    assert victim(one, [one, *alone]) == (lost, "")
    assert victim(one, [one]) == (None, "a group was not measured alone")


def test_a_whole_file_alone_is_measured_once_for_both_stages():
    one = shared("P4", 50, 25, AFTER)
    everything = [one, shared("P1", None, 100), shared("P6", 40, None), shared("P6", 100, None, AFTER)]
    assert victim(one, everything) == ("2", "")
    assert against_fair(one, "1", everything).value == pytest.approx(1, rel=0.03)
