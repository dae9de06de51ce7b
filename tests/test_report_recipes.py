"""Reports of studies of other shapes, from records that were taken on this project's own seek-charging targets."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pytest
from recorded import measured, taken, taken_states
from records import CONFIG, PLAIN, build, contents, gave_nothing, make_records, store, titled, undrawn

from fsage import dataset
from fsage.analysis.groups import summarise
from fsage.figures import Strips
from fsage.recipes import expand
from fsage.studies.iocontrol.recipe import AFTER, BEFORE
from fsage.studies.iocontrol.report.rows import SQLITE, WEIGHTS, Shared, Verdict, victim
from fsage.studies.prealloc.report import aged, rows_of
from fsage.study.files import load_study

A_STUDY_A_RECIPE = ("allocator", "defrag", "iocontrol", "prealloc_quick", "replica", "striping", "truth")


long = partial(pytest.param, marks=pytest.mark.long)


@cache
def page_of(name):
    """The page of a study as it was measured, made once for all tests."""
    with TemporaryDirectory() as folder:
        states = taken_states(name, Path(folder, "states"))
        return contents(measured(name), taken(name), Path(folder), states)


def text_of(name):
    """Its text without drawings."""
    return undrawn(page_of(name))


def cells_of(page: str, first: str, width: int) -> list[list[str]]:
    """The rows of so many cells that begin so."""
    found = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(rf"<tr>(<t[hd]>{first}<.*?)</tr>", page)]
    return [row for row in found if len(row) == width]


def test_a_larger_preallocation_keeps_more_of_the_clean_rate(tmp_path):
    table = summarise(dataset.load(store(taken("prealloc_quick"), tmp_path)))
    rows = aged(rows_of(SimpleNamespace(table=table))).sort_values("preallocation_bytes")
    for measure, part in rows[rows["deleted"] == 1].groupby("measure"):
        shares = [each.value for each in part["to_clean"]]
        assert shares == sorted(shares) and shares[0] < 0.6 < shares[-1], measure
        assert list(part["clean"]) == ["1M.clean", "2M.clean", "4M.clean", "8M.clean"]


def test_page_of_a_preallocation_study_has_its_figures():
    found = page_of("prealloc_quick")
    page = undrawn(found)
    assert found.stamp.startswith("modelled device (a disk that charges for seeks")
    assert "Writes, share of the clean rate" in page and "Reads, share of the clean rate" in page
    assert "writes ≥ 89% and reads ≥ 82% of a clean file system" in page
    assert "Mean extent of the measured files" in page and "Free space by size of its extents" in page
    rates = titled(found.figures, "Rates over fullness, preallocation of 1 MiB")
    assert {level.of for level in rates.levels} == {each.label for each in rates.series} == {"writes", "reads"}
    full = {each.label: each.points[-1].y for each in rates.series}
    assert all(full[level.of] < level.value for level in rates.levels), "slower than clean"


def test_page_of_a_preallocation_study_shows_where_each_state_is_free():
    drawn = {}
    for figure in page_of("prealloc_quick").figures:
        if isinstance(figure, Strips):
            drawn |= figure.strips
    states = expand(load_study(CONFIG / "prealloc_quick.yaml"))
    assert list(drawn) == [state.name for state in states]
    for state in states:
        axes = state.nominal["axes"]
        left = 1.0 if state.name.endswith("clean") else axes["deleted"] / axes["files"]
        assert np.mean(drawn[state.name]) == pytest.approx(left, abs=0.04)


def test_page_of_a_defragmentation_study_has_its_table_and_figure():
    page = text_of("defrag")
    before, after = cells_of(page, r"1233\.\w+", 9)
    assert before[:3] == ["1233.before", "1,233", "0.9992"] and after[:4] == ["1233.file", "1", "0.0000", "321 MiB"]
    assert re.match(r"\d\.\d s \(xfs_fsr\)", after[4]) and re.match(r"[67]\.\d+x \(", after[7])
    assert "Reading the file cold" not in page, "a sentence says what two points would"


@pytest.mark.long
def test_page_of_a_striping_study_has_every_layout_with_its_speed_up():
    page = text_of("striping")
    rows = {row[0]: row[1:] for row in cells_of(page, r"IOR\.\d", 10)}
    assert list(rows) == [f"IOR.{number}" for number in range(1, 7)]
    assert rows["IOR.1"][5] == "the default" and rows["IOR.1"][2:4] == ["4 of 16", "4"]
    assert rows["IOR.5"][0].startswith("4 \u00d7 1 MiB to 80 MiB; 16 \u00d7 1 MiB to 320 MiB")
    assert re.match(r"2\.\d\dx \(", rows["IOR.4"][5]) and rows["IOR.4"][-1] == "5 of 5 cells"
    for figure in ("throughput", "speed-up over IOR.1", "time"):
        assert f'aria-label="Write {figure}"' in page and f'aria-label="Read {figure}"' in page
    assert "Fastest here, writes: IOR.3 (static, 3.99x), IOR.6 (dynamic, 2.66x)" in page


def test_a_target_that_has_none_of_the_layouts_is_told_so(tmp_path):
    records = [record for record in taken("striping") if record["state"] == "IOR.4"]
    why = "pattern IOR.4: stripe counts 4 and 8 both become 1 on 2 OSTs"
    for record in records:
        record["layout"]["notes"]["stripe"] = {"osts": 2, "unsupported": why}
        gave_nothing(record, why, "unsupported")
    page = build(load_study(CONFIG / "striping.yaml"), records, tmp_path)
    assert "Throughput of each layout" not in page and f"Unsupported: {why}." in page


def test_metadata_cells_have_their_figures_and_enter_no_other(tmp_path):
    cells = "\nadditional_cells: [{workload: metadata, files_per_task: 500, iterations: 5}]\n"
    (tmp_path / "quickstart.yaml").write_text((PLAIN / "quickstart.yaml").read_text() + cells)
    study = load_study(tmp_path / "quickstart.yaml")
    records = make_records(study)
    titles = [figure.title for figure in contents(study, records, tmp_path).figures]
    for operation in ("Create", "Stat", "Remove"):
        assert any(title.startswith(f"{operation} rate over capacity") for title in titles)
    plain = [record for record in records if record["params"]["workload"] != "metadata"]
    without = [figure.title for figure in contents(study, plain, tmp_path / "without").figures]
    assert [title for title in titles if " rate over " not in title] == without


@pytest.mark.long
def test_how_much_is_measured_has_a_point_a_share(tmp_path):
    study = load_study(CONFIG / "amount.yaml")
    page = contents(study, make_records(study), tmp_path)
    section = titled(page.sections, "How much is measured")
    for figure in section.figures:
        assert [[point.x for point in line.points] for line in figure.series] == [[2.0, 5.0, 11.0]]
    assert [row[0] for row in section.table[1:]] == ["2", "5", "11"]
    first, second = page.answer.sentences
    assert re.match(
        r"In this layout, with 2%, 5% and 11% of the target measured, writing reaches (0\.\d+x[, and]*){3}", first
    )
    assert second.startswith("Beyond chance ")


def test_page_of_an_io_control_study_names_the_victim_beside_the_published_one():
    page = text_of("iocontrol")
    for name in ("BFQ", "IOCost", "no scheduler"):
        assert f"Bandwidth of both groups, {name}" in page
        before, after = cells_of(page, name, 6)
        assert before[1] == "before defragmentation" and after[1] == "after defragmentation"
        assert re.match(r"group 2, 0\.\d\dx \(.* of fair|none|not known", before[3]), before
    victims = [row[-1] for row in cells_of(page, "BFQ", 6)]
    assert victims == ["group 2, its neighbour", "none, fairness was restored; differs"]
    assert "CFQ was not measured: " in page and "CFQ left Linux with 5.0" in page
    ratios = {(row[1], row[2]): float(row[6]) for row in cells_of(page, "IOCost", 10)}
    assert 1.7 < ratios["4K.before", "P3 (200:100)"] < 2.2 and 0.9 < ratios["4K.after", "P4 (100:100)"] < 1.1
    assert ratios["4K.before", "P4 (100:100)"] < 0.6, "the file in pieces"


@pytest.mark.long
def test_page_of_an_io_control_study_with_sqlite_has_the_times_of_queries():
    page = text_of("iocontrol_sqlite")
    assert "Time of a query" in page and "Bandwidth of SQLite and fio, IOCost" in page
    assert cells_of(page, "IOCost", 6)[0][-1] == "group 2 (SQLite), its neighbour; differs"
    times = {(row[1], row[2]): float(row[3].split()[0]) for row in cells_of(page, "IOCost", 7)}
    assert len(times) == 7 and ("4K.after", "P4") in times
    assert times["4K.before", "P1"] < times["4K.before", "P4"] < times["4K.before", "P5"], "a share of a half, a third"


@pytest.mark.long
def test_page_of_a_study_of_what_is_hot_has_what_was_moved_and_gained(tmp_path):
    page = text_of("iocontrol_hot")
    hot, whole = cells_of(page, "IOCost", 9)
    assert hot[2] == "what is hot" and hot[5].endswith("(EXT4_IOC_MOVE_EXT)") and whole[5].endswith("(e4defrag)")
    assert re.search(r"5\d(\.\d+)? MiB were moved for what is hot, 237 MiB for the whole file: 2\d%", page)
    assert 3 < float(hot[6].partition("x")[0]) == pytest.approx(float(whole[6].partition("x")[0]), rel=0.1)
    records = taken("iocontrol_hot")
    why = "XFS_IOC_EXCHANGE_RANGE is not to be had"
    for record in records:
        if record["state"] == "4K.hot":  # as on a file system without such a call
            record["layout"]["notes"]["defragment"] = {"unsupported": why}
            gave_nothing(record, why, "unsupported")
        elif record["state"] == "4K.after":  # no better place was free
            record["layout"]["notes"]["defragment"]["moved_bytes"] = 0
    page = build(load_study(CONFIG / "iocontrol_hot.yaml"), records, tmp_path)
    assert f"what is hot could not be defragmented alone: {why}." in page
    assert [row[2] for row in cells_of(page, "IOCost", 9)] == ["the whole file"]


def shared(pattern, group1, group2, stage=BEFORE, workload=WEIGHTS) -> Shared:
    rates = {"1": group1, "2": group2}
    bw_mib_s = {name: [0.995 * rate, rate, 1.005 * rate] for name, rate in rates.items() if rate}
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
        ("P4", 15, 25, "2"),  # both lose, and group 2 more
        ("P5", 26.67, 33.33, None),  # 2:1
        ("P5", 20, 33.33, "1"),
        ("P2", 50, 50, None),  # group 1 reads a whole file: fair is of what group 2 reads alone
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


@pytest.mark.parametrize("name", A_STUDY_A_RECIPE)
def test_page_of_a_study_all_of_whose_cells_failed_says_why(tmp_path, name):
    records = taken(name)[:8]
    for record in records:
        gave_nothing(record, "write: IOR ended with code 1: There are not enough slots")
    page = build(measured(name), records, tmp_path)
    assert "There are not enough slots" in page and "No cell has a valid record yet" in page


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("defrag", r"Once defragmented, read cold, the file is 6\.\d+ times as fast as before .*, because it has 1 e"),
        (
            "prealloc_quick",
            r"The target is full but for 1 of 20 files, .* Writes keep 4\d% \(38 to 77%\) with 1 MiB and"
            r".*The larger keeps more because files written there have extents of 8 MiB on average",
        ),
        (
            "striping",
            r"Layout IOR\.3 is fastest here. Writing is 3\.99 times as fast .* IOR\.3 has 16 stripes of 1 MiB"
            r".*Layout IOR\.6 is fastest of what grows .* has 4 stripes of 1 MiB, from 80 MiB on 8 of 1 MiB",
        ),
        long("striping_netflow", r"Layout netflow\.3 is fastest here. Indexing is 3\.\d+ to 3\.\d+ times as fast"),
        long("striping_blast", r"Layout blast\.10 is fastest here. Searching is 2\.84 times as fast "),
        (
            "iocontrol",
            r"One of two groups reads a file in 4 KiB pieces, at equal weights. Under BFQ its neighbour"
            r".*Under IOCost nobody loses 3% or more. Without a scheduler who loses is not known",
        ),
        long("iocontrol_sqlite", r"Under BFQ who loses is not known \(group 1 \(fio\) \d\.\d+x"),
        (
            "truth",
            r"All 6 planted values lie in the 95% intervals of what was found. Found .* 10 ms for 10 ms, rate 192 M"
            r".*The farthest from what was planted is [a-z]+, by \d+\.\d\d%\.",
        ),
        long("iocontrol_hot", r"only what is read of it was defragmented, which moved 2\d% of what the whole file"),
    ],
)
def test_each_kind_of_study_begins_with_its_answer(name, said):
    answer = page_of(name).answer
    assert re.search(said, " ".join(answer.sentences)), answer.sentences
    assert len(answer.sentences) <= 2 and 0 < len(answer.cards) <= 4 and answer.codes
    assert answer.figure is not None and sum(len(line.points) for line in answer.figure.series) >= 1


@pytest.mark.long
def test_page_of_unlinking_has_what_it_takes_until_the_blocks_are_free():
    page = text_of("allocator")
    unlinked = {tuple(row[:2]): row[2:4] for row in cells_of(page, r"\d+\.64K", 5)}
    assert unlinked["50.64K", "100,000"] == ["0.065", "7,932"], "three samples have no interval"
    assert unlinked["50.64K", "1,000"] == ["0.0719 (0.0482 to 0.119)", "28.8 (22.2 to 55.5)"]
    assert 'aria-label="Unlinking a file"' in page and "withheld (8)" in page


@pytest.mark.long
def test_groups_are_counted_as_they_are_computed_in_every_sample():
    assert text_of("allocator_groups").count(", exactly<") == 6


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "allocator_groups",
            r"At 80% full in 1,177,680 free extents, one fallocate of 32 MiB takes 56\.7 ms \(28\.3 to 96\.8\) warm"
            r".*Warm, it takes 1076\.21x \(594\.13 to 1662\.77\) as long with mb_optimize_scan=0 as with 1\.",
        ),
        (
            "allocator_last",
            r"At 99\.9% full in 5,891 free extents, one fallocate of 16 GiB takes more than 61 s \(26% of a processor"
            r"\) cold\. Cold, 6,187 of 185,136 groups were loaded in 5,987 reads\.",
        ),
    ],
)
def test_an_allocator_study_begins_with_its_times(name, said):
    answer = page_of(name).answer
    assert re.match(said, " ".join(answer.sentences)) and answer.figure is not None
