"""Reports of studies of other shapes, from records that were taken on this project's own seek-charging targets."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pytest
from recorded import measured, taken, taken_states
from records import CONFIG, PLAIN, build, contents, make_records, store, undrawn

from fsage import dataset
from fsage.analysis.groups import summarise
from fsage.figures import Strips
from fsage.figures.drawing import draw
from fsage.recipes import expand
from fsage.studies.iocontrol.report.rows import AFTER, BEFORE, SQLITE, WEIGHTS, Shared, Verdict, victim
from fsage.studies.prealloc.report import aged, rows_of
from fsage.study.files import load_study

A_STUDY_A_RECIPE = ("allocator", "defrag", "iocontrol", "prealloc_quick", "replica", "striping", "truth")


@cache
def page_of(name):
    """The page of a study as it was measured, made once for all tests."""
    with TemporaryDirectory() as folder:
        states = taken_states(name, Path(folder, "states"))
        return contents(measured(name), taken(name), Path(folder), states)


def text_of(name):
    """Its text without drawings."""
    return undrawn(page_of(name))


def test_a_larger_preallocation_keeps_more_of_the_clean_rate(tmp_path):
    table = summarise(dataset.load(store(taken("prealloc_quick"), tmp_path)))
    rows = aged(rows_of(SimpleNamespace(table=table)))
    full = rows[rows["deleted"] == 1]
    for measure, part in full.groupby("measure"):
        shares = [each.value for each in part.sort_values("preallocation_bytes")["to_clean"]]
        assert shares == sorted(shares) and shares[0] < 0.6 < shares[-1], measure
        assert list(part.sort_values("preallocation_bytes")["clean"]) == [
            "1M.clean",
            "2M.clean",
            "4M.clean",
            "8M.clean",
        ]


def test_page_of_a_preallocation_study_has_its_figures():
    found = page_of("prealloc_quick")
    page = undrawn(found)
    assert found.stamp.startswith("modelled device (a disk that charges for seeks")
    for size in ("1 MiB", "2 MiB", "4 MiB", "8 MiB"):
        drawn = [figure for figure in found.figures if figure.title == f"Rates over fullness, preallocation of {size}"]
        assert all(sum(len(line.points) for line in figure.series) >= 3 for figure in drawn)
    assert "Writes, share of the clean rate" in page and "Reads, share of the clean rate" in page
    assert "writes ≥ 89% and reads ≥ 82% of a clean file system" in page
    assert "Mean extent of the measured files" in page
    rates = next(each for each in found.figures if each.title == "Rates over fullness, preallocation of 1 MiB")
    assert {level.of for level in rates.levels} == {each.label for each in rates.series} == {"writes", "reads"}
    full = {each.label: each.points[-1].y for each in rates.series}
    assert all(full[level.of] < level.value for level in rates.levels), "slower than clean"


def test_page_of_a_preallocation_study_shows_where_each_state_is_free():
    study, page = load_study(CONFIG / "prealloc_quick.yaml"), page_of("prealloc_quick")
    drawn = {
        name: shares for figure in page.figures if isinstance(figure, Strips) for name, shares in figure.strips.items()
    }
    assert list(drawn) == [state.name for state in expand(study)]
    for state in expand(study):
        axes = state.nominal["axes"]
        left = 1.0 if state.name.endswith("clean") else axes["deleted"] / axes["files"]
        assert np.mean(drawn[state.name]) == pytest.approx(left, abs=0.04)
    image = next(draw(figure, page.stamp) for figure in page.figures if isinstance(figure, Strips))
    assert all(state.name in image.svg for state in expand(study))
    assert "Free space by size of its extents" in [figure.title for figure in page.figures]


def test_page_of_a_defragmentation_study_has_its_table_and_figure():
    page = text_of("defrag")
    cells = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(<th>1233.*?)</tr>", page)]
    before, after = cells[:2]
    assert before[:3] == ["1233.before", "1,233", "0.9992"] and after[:4] == ["1233.file", "1", "0.0000", "321 MiB"]
    assert re.match(r"\d\.\d s \(xfs_fsr\)", after[4]) and re.match(r"[67]\.\d+x \(", after[7])
    assert "Reading the file cold" not in page, "a sentence says what two points would"
    assert "1233.file against" in page


@pytest.mark.long
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
    for figure in ("throughput", "speed-up over IOR.1", "time"):
        assert f'aria-label="Write {figure}"' in page and f'aria-label="Read {figure}"' in page
    assert "Fastest here, writes: IOR.3 (static, 3.99x), IOR.4 (dynamic, 2.66x)" in page


@pytest.mark.long
def test_page_of_a_search_has_its_volumes_and_says_that_all_found_the_same():
    page = text_of("striping_blast")
    (row,) = (found for found in re.findall(r"<tr>(<t[hd]>blast\.10<.*?)</tr>", page) if "; " in found)
    cells = re.findall(r"<t[hd]>(.*?)</t[hd]>", row)
    assert cells[1].startswith("1 \u00d7 1 MiB: 26; 1 \u00d7 2 MiB: 26; 1 \u00d7 4 MiB: 27 volumes")
    assert cells[2:5] == ["222 MiB", "3 of 16", "79"] and cells[-1] == "5 of 5 cells"
    assert re.match(r"2\.\d+x \(", cells[6])
    assert "Search speed-up over blast.1" not in page, "a sentence says what two points would"
    assert re.search(r"Fastest here, searches: .*blast\.10 \(dynamic, 2\.", page)
    assert "The same in every layout and every cell: search." in page and "One shared file" not in page


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
    text = (PLAIN / "quickstart.yaml").read_text() + "\nadditional_cells:\n  - " + json.dumps(blocks) + "\n"
    (tmp_path / "quickstart.yaml").write_text(text)
    study = load_study(tmp_path / "quickstart.yaml")
    page = build(study, make_records(study), tmp_path)
    for operation in ("Create", "Stat", "Remove"):
        assert f"{operation} rate over capacity" in page
    plain = load_study(PLAIN / "quickstart.yaml")
    without = build(plain, make_records(plain), tmp_path / "without")
    titles = [re.findall(r'role="img" aria-label="(.*?)"', each) for each in (page, without)]
    assert [name for name in titles[0] if " rate over " not in name] == titles[1]


@pytest.mark.long
def test_each_way_of_laying_filler_is_compared_with_itself_equally_full(tmp_path):
    study = load_study(CONFIG / "filler.yaml")
    page = contents(study, make_records(study), tmp_path)
    [section] = [each for each in page.sections if each.title == "How filler is laid"]
    once, at_once = "fallocate, 1 at once", "fallocate, 16 at once"
    asked = {once: ["512 KiB", "1 MiB", "4 MiB", "264 MiB"], at_once: ["512 KiB", "1 MiB", "4 MiB"]}
    assert [row[:2] for row in section.table[1:]] == [[way, size] for way, sizes in asked.items() for size in sizes]
    for figure in section.figures:
        assert {line.label: len(line.points) for line in figure.series} == {
            way: len(sizes) for way, sizes in asked.items()
        }
    frame = dataset.load(store(make_records(study), tmp_path / "again"))
    pairs = {(row.state, row.clean) for row in summarise(frame).itertuples() if row.to_clean is not None}
    ways = [state.removeprefix("80.50") for state, _ in pairs]
    assert pairs == {(f"80.50{way}", f"40.00{way}") for way in ways} and len(pairs) == 7


@pytest.mark.long
def test_how_much_is_measured_has_a_point_a_share_and_the_extents_of_both_states(tmp_path):
    study = load_study(CONFIG / "amount.yaml")
    records = make_records(study)
    page = contents(study, records, tmp_path)
    section = next(each for each in page.sections if each.title == "How much is measured")
    titles = sorted(figure.title for figure in section.figures)
    assert titles == [f"{what} against the share that is measured" for what in ("Reads", "Writes")]
    for figure in section.figures:
        assert figure.x.ticks == {2.0: "2", 5.0: "5", 11.0: "11"}
        assert [[point.x for point in line.points] for line in figure.series] == [[2.0, 5.0, 11.0]]
        assert figure.y.limits[0] < min(point.y for point in figure.series[0].points)
    assert [row[0] for row in section.table[1:]] == ["2", "5", "11"] and len(section.table[0]) == 3
    first, second = page.answer.sentences
    assert re.match(r"With 2%, 5% and 11% of the target measured, writing reaches (0\.\d+x[, and]*){3}reading", first)
    assert second.startswith("Beyond chance ") and "amount_percent" not in first + second


def cells_of(page: str, first: str, width: int) -> list[list[str]]:
    """The rows of so many cells that begin so."""
    found = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(rf"<tr>(<th>{first}<.*?)</tr>", page)]
    return [row for row in found if len(row) == width]


def test_page_of_an_io_control_study_names_the_victim_beside_the_published_one():
    page = text_of("iocontrol")
    for name in ("BFQ", "IOCost", "no scheduler"):
        assert f"Bandwidth of both groups, {name}" in page
        before, after = cells_of(page, name, 6)
        assert before[1] == "before defragmentation" and after[1] == "after defragmentation"
        assert re.match(r"group 2, 0\.\d\dx \(.* of fair|none|not known", before[3]), before
    assert [row[-1] for row in cells_of(page, "BFQ", 6)] == [
        "group 2, its neighbour",
        "none, fairness was restored; differs",
    ]
    assert cells_of(page, "IOCost", 6)[0][-1] == "group 2, its neighbour; differs"
    assert "CFQ was not measured: " in page and "CFQ left Linux with 5.0" in page
    ratios = {(row[1], row[2]): float(row[6]) for row in cells_of(page, "IOCost", 10)}
    assert 1.7 < ratios["4K.before", "P3 (200:100)"] < 2.2 and 0.9 < ratios["4K.after", "P4 (100:100)"] < 1.1
    assert ratios["4K.before", "P4 (100:100)"] < 0.6, "the file in pieces"
    assert [row[2] for row in cells_of(page, "IOCost", 5)] == ["P4 / P2", "P5 / P3"] * 2


@pytest.mark.long
def test_page_of_an_io_control_study_with_sqlite_has_the_times_of_queries():
    page = text_of("iocontrol_sqlite")
    assert "Time of a query" in page and "Bandwidth of SQLite and fio, IOCost" in page
    assert cells_of(page, "IOCost", 6)[0][-1] == "group 2 (SQLite); differs", "the published victim"
    times = {(row[1], row[2]): float(row[3].split()[0]) for row in cells_of(page, "IOCost", 7)}
    assert set(times) == {
        *(("4K.before", f"P{number}") for number in range(1, 6)),
        ("4K.after", "P4"),
        ("4K.after", "P5"),
    }
    assert times["4K.before", "P1"] < times["4K.before", "P4"] < times["4K.before", "P5"], "a share of a half, a third"


@pytest.mark.long
def test_page_of_a_study_of_what_is_hot_has_what_was_moved_and_gained(tmp_path):
    records = taken("iocontrol_hot")
    study = load_study(CONFIG / "iocontrol_hot.yaml")
    page = text_of("iocontrol_hot")
    hot, whole = cells_of(page, "IOCost", 9)
    assert hot[2] == "what is hot" and hot[5].endswith("(EXT4_IOC_MOVE_EXT)") and whole[5].endswith("(e4defrag)")
    assert re.search(r"5\d(\.\d+)? MiB were moved for what is hot, 237 MiB for the whole file: 2\d%", page)
    assert 3 < float(hot[6].partition("x")[0]) == pytest.approx(float(whole[6].partition("x")[0]), rel=0.1)
    for record in records:  # as on a file system without such a call
        if record["state"] == "4K.hot":
            record["layout"]["notes"]["defragment"] = {"unsupported": "XFS_IOC_EXCHANGE_RANGE is not to be had"}
            record.update(status="unsupported", why="XFS_IOC_EXCHANGE_RANGE is not to be had", metrics={}, phases=[])
    page = build(study, records, tmp_path / "again")
    assert "what is hot could not be defragmented alone: XFS_IOC_EXCHANGE_RANGE is not to be had." in page
    assert [row[2] for row in cells_of(page, "IOCost", 9)] == [
        "the whole file"
    ] and "IOCost was not measured" not in page

    for record in records:  # no better place was free
        if record["state"] == "4K.after":
            record["layout"]["notes"]["defragment"]["moved_bytes"] = 0
    assert "What is hot beside the whole file" in build(study, records, tmp_path / "nothing")


def shared(
    pattern: str, group1: float | None, group2: float | None, stage: str = BEFORE, workload: str = WEIGHTS
) -> Shared:
    rates = {name: rate for name, rate in (("1", group1), ("2", group2)) if rate is not None}
    bw_mib_s = {name: [0.995 * rate, rate, 1.005 * rate] for name, rate in rates.items()}
    return Shared(workload, "bfq", f"4K.{stage}", "4 KiB", stage, pattern, bw_mib_s, {}, {}, [], [], "", [])


def among(first: Shared, *others: Shared) -> Shared:
    """The first one, with the others measured beside it."""
    first.beside[:] = [first, *others]
    return first


@pytest.mark.parametrize(
    ("pattern", "group1", "group2", "lost"),
    [
        ("P4", 20, 50, None),  # fair: half of 40 alone, half of 100 alone
        ("P4", 20, 25, "2"),  # the neighbour
        ("P4", 10, 25, "1"),  # both as much: the first
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
    first = shared(pattern, group1, group2)
    alone = [shared("P1", None, 100), shared("P6", 40, None)]
    assert victim(among(first, *alone)) == Verdict(lost)
    assert victim(among(first)) == Verdict(why="a group was not measured alone")


@pytest.mark.parametrize(
    ("group2", "said"),
    [
        ([360, 341, 20], "group 2 0.97x (0.06 to 1.03) of fair"),  # as it was seen, and printed as none
        ([350, 352, 349], ""),
        ([360, 341, 338], "group 2 0.97x (0.96 to 1.03) of fair"),  # a loss of 4% is not excluded
    ],
)
def test_that_nobody_loses_is_said_only_where_it_is_shown(group2, said):
    both = shared("P2", 350, 350)
    both.bw_mib_s["2"][:] = group2
    assert victim(among(both, shared("P1", None, 700))) == Verdict(why=said)


def test_a_whole_file_alone_is_measured_once_for_both_stages():
    after = shared("P4", 50, 25, AFTER)
    among(after, shared("P1", None, 100), shared("P6", 40, None), shared("P6", 100, None, AFTER))
    assert victim(after) == Verdict("2")
    assert after.against_fair("1").value == pytest.approx(1, rel=0.03)


def test_beside_sqlite_a_whole_file_is_fair_to_fio_alone_on_it_not_to_a_query():
    both = shared("P2", 50, 10, workload=SQLITE)
    query = shared("P1", None, 20, workload=SQLITE)
    pieces, whole = (shared("P6", rate, None, stage, SQLITE) for rate, stage in ((40, BEFORE), (80, AFTER)))
    assert among(both, query, pieces).against_fair("1") is None
    found = [among(both, query, pieces, whole).against_fair(group) for group in ("1", "2")]
    assert [round(each.value, 2) for each in found] == [1.25, 1.0]


@pytest.mark.long
def test_page_of_a_netflow_study_has_both_phases_and_both_distributions():
    found = page_of("striping_netflow")
    page = undrawn(found)
    table = next(rows for rows in re.findall(r"<table.*?</table>", page, re.S) if "OSTs in use" in rows)
    heads, *rows = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)]
    columns = {head: place for place, head in enumerate(heads, 1)}  # the first one's is also what sorts
    for how in ("synchronous", "asynchronous"):
        for name in ("index", "models"):
            speed_ups = [row[columns[f"{name}, distribution {how}, speed-up"]] for row in rows]
            assert speed_ups[0] == "the default" and float(speed_ups[2].partition("x")[0]) > 1.8, "16 against 4"
    for figure in ("Index throughput", "Models throughput", "Models speed-up over netflow.1"):
        assert figure in page
    (throughput,) = (figure for figure in found.figures if figure.title == "Index throughput")
    kinds = {f"{kind}, distribution {how}" for kind in ("static", "dynamic") for how in ("synchronous", "asynchronous")}
    assert {line.label for line in throughput.series} == kinds, "what all have is in no legend"
    assert "netflow.4 against netflow.1: " in page
    assert len({record["metrics"]["models_checksum"] for record in taken("striping_netflow")}) == 1


@pytest.mark.parametrize("name", A_STUDY_A_RECIPE)
def test_page_of_a_study_all_of_whose_cells_failed_says_why(tmp_path, name):
    records = taken(name)
    for record in records:
        record.update(status="failed", why="write: IOR ended with code 1: There are not enough slots", metrics={})
    page = build(measured(name), records, tmp_path)
    assert "There are not enough slots" in page and "No cell has a valid record yet" in page


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "defrag",
            r"Once defragmented, read cold, the file is 6\.\d+ times as fast as before .*, because it has 1 e",
        ),
        (
            "prealloc_quick",
            r"The target is full but for 1 of 20 files, .* Writes keep 4\d% \(38 to 77%\) with 1 MiB and",
        ),
        ("prealloc_quick", r"The larger keeps more because files written there have extents of 8 MiB on average"),
        (
            "striping",
            r"Layout IOR\.3 is fastest here. Writing is 3\.99 times as fast .* IOR\.3 has 16 stripes of 1 MiB",
        ),
        ("striping", r"Layout IOR\.6 is fastest of what grows .* has 4 stripes of 1 MiB, from 80 MiB on 8 of 1 MiB"),
        pytest.param(
            "striping_netflow",
            r"Layout netflow\.3 is fastest here. Indexing is 3\.\d+ to 3\.\d+ times as fast",
            marks=pytest.mark.long,
        ),
        (
            "striping_blast",
            r"Layout blast\.10 is fastest here. Searching is 2\.84 times as fast ",
        ),
        (
            "iocontrol",
            r"One of two groups reads a file in 4 KiB pieces, at equal weights. Under BFQ its neighbour",
        ),
        ("iocontrol", r"Under IOCost nobody loses 3% or more. Without a scheduler who loses is not known"),
        pytest.param(
            "iocontrol_sqlite",
            r"Under BFQ who loses is not known \(group 1 \(fio\) \d\.\d+x",
            marks=pytest.mark.long,
        ),
        (
            "truth",
            r"All 6 planted values lie in the 95% intervals of what was found. Found .* 10 ms for 10 ms, rate 192 M",
        ),
        ("truth", r"The farthest from what was planted is [a-z]+, by \d+\.\d\d%\."),
        pytest.param(
            "iocontrol_hot",
            r"Then only what is read of it was defragmented, which moved 2\d% of what the whole file takes",
            marks=pytest.mark.long,
        ),
    ],
)
def test_each_kind_of_study_begins_with_its_answer(name, said):
    answer = page_of(name).answer
    assert any(re.match(said, sentence) or re.search(f"[.] {said}", sentence) for sentence in answer.sentences), (
        answer.sentences
    )
    assert len(answer.sentences) <= 2 and 0 < len(answer.cards) <= 4 and answer.codes
    assert answer.figure is not None and sum(len(line.points) for line in answer.figure.series) >= 1


def allocator_page(name):
    """The page of an allocator study, and the rows of its tables by their first cells."""
    page = text_of(name)
    return page, [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)]


@pytest.mark.long
def test_page_of_planted_groups_has_the_computed_count_beside_the_counted_one():
    page, rows = allocator_page("allocator_groups")
    planted = [row[2:6] for row in rows if len(row) == 7 and row[5].endswith("exactly")]
    computed = [("18,514", "18,515"), ("92,569", "92,570"), ("166,622", "166,623")]
    assert planted == [
        [option, group, count, f"{count}, exactly"]
        for group, of_order in computed
        for option, count in (("0", of_order), ("1", "6"))
    ]
    assert (
        "At 80% full in 1,177,680 free extents, one fallocate of 32 MiB takes 56.7 ms (28.3 to 96.8) warm with" in page
    )
    assert "Warm, it takes 1076.21x (594.13 to 1662.77) as long with mb_optimize_scan=0 as with 1." in page
    assert 'aria-label="Time over groups considered"' in page


@pytest.mark.long
def test_page_of_a_call_that_does_not_end_says_so_first():
    page, rows = allocator_page("allocator_last")
    assert (
        "At 99.9% full in 5,891 free extents, one fallocate of 16 GiB takes more than 61 s (26% of a processor) cold. "
        "Cold, 6,187 of 185,136 groups were loaded in 5,987 reads."
    ) in page and "One of 1 GiB takes 13,588 ms (7,487 to 15,670) cold." in page
    assert [row[3] for row in rows if row[:1] == ["99.9.4M"] and row[2] == "cold"][-1].startswith("more than 61 s (26%")
    assert ["mount, ms", "mount, of it CPU, ms", "umount, ms", "umount, of it CPU, ms"] in rows


@pytest.mark.long
def test_page_of_unlinking_has_what_it_takes_until_the_blocks_are_free():
    page, rows = allocator_page("allocator")
    unlinked = {tuple(row[:2]): row[2:4] for row in rows if len(row) == 5 and row[0].endswith(".64K")}
    assert unlinked["50.64K", "100,000"] == ["0.065", "7,932"], "three samples have no interval"
    assert unlinked["50.64K", "1,000"] == ["0.0719 (0.0482 to 0.119)", "28.8 (22.2 to 55.5)"]
    assert 'aria-label="Unlinking a file"' in page and "withheld (8)" in page
