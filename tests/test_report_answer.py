"""What a report begins with: the answer in sentences, its figure and cards, on the page and on the terminal."""

import re

import pandas as pd
import pytest
from records import MODEL, build, contents, gave_nothing, make_records, planned, store, table_of, words

from fsage import dataset, report
from fsage.analysis.conditions import conditions
from fsage.analysis.validity import Drifts
from fsage.analysis.words import Finding, sentences
from fsage.report.caveats import Reads
from fsage.report.view import in_layout
from fsage.statistics import Interval, Ratio, Trend


def lines_of(study, records, tmp_path):
    """What the terminal says of records: the answer, warnings, what they were taken on."""
    states = [state for state, _ in planned(study)]
    return report.answer_lines(dataset.load(store(records, tmp_path)), study, [*dict.fromkeys(states)])


def at(records, write, read, extents=7):
    """The full state's rates as these shares of the clean one's, with next to no noise; in so many extents."""
    records = [r for r in records if r["state"] in ("10.00@264M", "80.00@264M") and r["kind"] == "planned"]
    for record in records:
        noise = 1 + 0.001 * record["params"]["iteration"]
        full = record["state"].startswith("80")
        record["metrics"]["write_bw_mib_s"] = 300 * noise * (write if full else 1)
        record["metrics"]["read_bw_mib_s"] = 320 * noise * (read if full else 1)
        for phase in record["phases"]:
            phase["extents"]["extents"] = extents if full else 7
    return records


@pytest.mark.parametrize(
    ("write", "read", "extents", "said"),
    [
        (
            *(0.79, 0.9, 28),
            "In this layout, at 80% full, writing is 21% slower (21 to 21%). Reading is 10% slower (9.7 to 10%). The "
            "measured file has 28 extents instead of 7. The reference is the rate at 10% full, 64 MiB at a time. "
            "Intervals are over 5 rewrites of the same blocks.",
        ),
        (
            *(1.01, 1.0, 7),
            "In this layout, at 80% full, writing shows no difference that matters (0.7 to 1.3% faster, less than 3%). "
            "Reading shows no difference (within 3%). The measured file has 7 extents in both. The reference is the "
            "rate at 10% full, 64 MiB at a time. Intervals are over 5 rewrites of the same blocks.",
        ),
    ],
)
def test_the_answer_is_a_sentence_in_words_of_the_field(quickstart, tmp_path, write, read, extents, said):
    assert lines_of(quickstart, at(make_records(quickstart), write, read, extents), tmp_path)[0] == said


FIRST = {"state": "A", "cell": "b", "warnings": "lost.", "waits": 1, "wait_seconds": 3.0}
LOOKED = {"sentinels": {}, "samples": 0, "drifts": Drifts(0, []), "shown": 3, "alpha": 0.05}
READ_ONCE = Reads(pd.DataFrame({"y": [1.0]}), 1, 1.0, None, Trend(None, None, "too few"))


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (
            "doubts",
            {"valid": 1, "warned": [FIRST], "waited": [FIRST], "absent": {key: ["x"] for key in "abcd"}, "shown": 3},
            "1 of 1 valid samples has signs of trouble, the first A b: lost. The run waited 1 time, 3 s in all, .* "
            "1 more reason is below.$",
        ),
        ("references", {"references": {"A": "7 extents instead of 1"}, "shown": 3}, ".* deleted in this state: A: 7"),
        ("drift", {**LOOKED, "reads": READ_ONCE}, ".* before and after 1 state, .* of the median of 1 read[.] "),
        (
            "compare",
            {
                **{"before": "A", "after": "B", "groups": 1, "same": 0, "sure": [], "moved": []},
                "rates": [("writes", pd.Series([3e-4]))],
            },
            "Writes with B reach 0.0003x of A in the median of 1 group, from 0.0003x to 0.0003x",
        ),
    ],
)
def test_one_is_not_many_and_little_is_not_nothing(name, data, said):
    assert re.match(said, " ".join(sentences(name, **data)))


SURE = Finding(Ratio(0.82, Interval(0.78, 0.87, 0.94), 5, 5), 0.03)
OPEN = Finding(Ratio(0.99, Interval(0.9, 1.1, 0.94), 5, 5), 0.6)


def measured(**columns):
    """Three samples of an aged state, and three of a whole one."""
    return table_of([{"state": state, "target": "local"} for state in ["aged"] * 3 + ["whole"] * 3]).assign(**columns)


FEW, SOME = "the measured file has 17 to 33 jumps instead of none", [17, 24, 33]


@pytest.mark.parametrize(
    ("jumps", "seconds", "finding", "said"),
    [
        # The device charges 24 jumps of 10 ms beside 1.06 s: 0.815 of the rate.
        (SOME, 1.30, SURE, f"that is because {FEW}"),
        (SOME, 1.07, SURE, FEW),
        (SOME, None, SURE, FEW),
        (SOME, 0.0, SURE, FEW),
        (SOME, 1.30, OPEN, FEW),
        ([1, 1, 1], 1.07, SURE, "the measured file has 1 jump instead of none"),
        ([0, 0, 0], 1.06, SURE, "the measured file has 28 extents instead of 1"),
        (None, None, SURE, "the measured file has 28 extents instead of 1"),
    ],
)
def test_a_cause_is_named_where_the_charges_account_for_the_difference(jumps, seconds, finding, said):
    rows = measured(measured_extents=[28] * 3 + [1] * 3)
    if jumps is not None:
        rows["measured_jumps"] = [*jumps, 0, 0, 0]
    if seconds is not None:
        rows["model_seconds"] = [seconds] * 3 + [1.06] * 3
    assert sentences("lies", lies=in_layout(rows, "aged", "whole", [finding])) == [said]


def test_the_charges_of_a_layout_are_its_bytes_over_the_time_of_its_places():
    rows = table_of([{"state": state, "target": "local"} for state in ["aged"] * 4 + ["whole"] * 4])
    rows = rows.assign(structure=[1, 1, 2, 2] * 2, place=[1, 2] * 4)
    rows = rows.assign(layout_digest=list("aabb") * 2, model_seconds=[1, 2] * 2 + [1] * 4)
    finding = Finding(Ratio(0.667, Interval(0.66, 0.68, 0.94), 5, 5), 0.03)
    assert in_layout(rows.assign(measured_jumps=[9] * 4 + [0] * 4), "aged", "whole", [finding]).cause == "pieces"


FASTER = Finding(Ratio(1.22, Interval(1.15, 1.3, 0.94), 5, 5), 0.03)


@pytest.mark.parametrize(
    ("aged_s", "whole_s", "jumps", "finding", "how"),
    [(1.30, 1.06, [0, 1], SURE, "slower"), (1.06, 1.30, [1, 0], FASTER, "faster")],
)
def test_what_has_fewer_jumps_is_slower_by_its_place_alone(aged_s, whole_s, jumps, finding, how):
    """On a disk with tracks a whole file was 39% slower "because it has no jumps instead of 1"."""
    aged, whole = jumps
    rows = measured(measured_jumps=[aged] * 3 + [whole] * 3, model_seconds=[aged_s] * 3 + [whole_s] * 3)
    cause, lies = sentences("lies", lies=in_layout(rows, "aged", "whole", [finding]))
    assert cause == f"that is because it is {how} where the measured file lies"
    assert lies.startswith("the measured file has")


def test_the_larger_effect_leads_and_outliers_of_what_is_compared_stand_in_the_answer(quickstart, tmp_path):
    records = make_records(quickstart)
    for record in records:
        if record["kind"] == "planned":
            slow = 1 - 0.18 * record["state"].startswith("80.50") - 0.001 * record["params"]["iteration"]
            record["metrics"] |= {"write_bw_mib_s": 350 * slow, "read_bw_mib_s": 350 * slow}
    records[2]["metrics"]["read_bw_mib_s"] = 315.0
    found = contents(quickstart, records, tmp_path).answer
    assert "after filling to 80% and deleting half" in found.sentences[0] and "at 80% full" in found.sentences[1]
    assert found.sentences[2].startswith("All statistics hold 1 outlier among these. Read at 10.00, ")
    assert found.cards[0].what == "Fragmentation, writes \u00b7 64 MiB"
    assert [card.chance for card in found.cards] == [0, 0, 1, 1]


def test_a_study_that_compares_nothing_says_so(quickstart, tmp_path):
    compares_nothing = quickstart.model_copy(update={"headline": []})
    said = lines_of(compares_nothing, make_records(quickstart), tmp_path)[0]
    assert said == "This study names no states to compare: the tables below have every state."


def test_the_machine_s_own_disk_stands_behind_the_largest_effect(quickstart, tmp_path):
    records = make_records(quickstart)
    for record in records:
        slower = 0.9 if record["state"].startswith("80.00") else 1
        record["metrics"]["own_disk_mib_s"] = 900 * slower * (1 + 0.001 * record["order"])
    lines = lines_of(quickstart, records, tmp_path)
    assert lines[0].startswith("In this layout, at 80% full, writing")
    assert lines[1].startswith("On this machine's own disk, without the model, reading the same files is 10% slower (")


def test_why_samples_are_missing_stands_on_the_first_screen(quickstart, tmp_path):
    """Cells failed for one reason; after a new claim the others were measured with another amount."""
    records = make_records(quickstart)
    why = "reduced from 384 MiB in all states: 80.00@264M has room for 323 MiB"
    for record in records:
        if record["state"].startswith("80.50"):
            gave_nothing(record, "write: No space left on device")
        elif record["state"].startswith("80.00"):
            record["conditions"] |= {"amount_mib": 320, "amount_source": why}
    lines = lines_of(quickstart, records, tmp_path / "a")
    assert "5 planned cells failed: write: No space left on device (5)." in lines
    assert "Samples differ in MiB a task: 384.0: 10 samples, 320.0: 5 samples." in lines
    text = words(build(quickstart, records, tmp_path / "b"))
    assert (
        text.index("No space left on device (5)") < text.index("MiB a task: 384") < text.index("State names are AA.BB")
    )
    for record in records:
        record["conditions"] |= {"amount_mib": 320, "amount_source": why}
    assert f"Each task measured 320 MiB, {why}." in lines_of(quickstart, records, tmp_path / "c")


def test_a_kernel_that_cells_name_is_no_condition_and_another_one_is():
    columns = {"state": "80.50", "cell": "a", "layout_digest": "d", "device_model": "none", "params": ""}
    rows = table_of([{**columns, "kernel": kernel} for kernel in ("5.10.46", "7.2.7")])
    assert "Samples differ in kernel: 5.10.46: 1 sample, 7.2.7: 1 sample." in conditions(rows)
    rows["mb_max_linear_groups"] = [None, 0.0]  # Linux 5.10 has no such setting
    assert len(conditions(rows)) == 3
    named = rows.assign(**{"param.kernel": ["5.10", "7.2"]})
    assert conditions(named) == []
    tools = {"tool.fio": ["3.33", "3.41"], "tool.ior": "4.0"}  # of the tools only those that differ
    assert conditions(named.assign(**tools))[0] == "Samples differ in tools: fio=3.33: 1 sample, fio=3.41: 1 sample."


def test_the_answer_tells_fragmentation_from_fullness_and_decodes_what_the_report_is_full_of(quickstart, tmp_path):
    page = contents(quickstart, make_records(quickstart), tmp_path)
    found = page.answer
    assert len(found.sentences) == 2 and len(found.cards) == 4
    [aged] = [sentence for sentence in found.sentences if "deleting" in sentence]
    assert aged.startswith("In this layout, after filling to 80% and deleting half of the files (40% full), ")
    assert "The reference is the rate on an equally full file system without holes, 64 MiB at a time." in aged
    assert found.codes.startswith("State names are AA.BB. Files worth AA%")
    ticks = [text.replace("\n", " ") for text in found.figure.x.ticks.values()]
    assert ticks == ["10% full", "80% full", "40% full, no holes", "filled to 80%, half deleted"]
    [writes] = [line for line in found.figure.series if line.label == "writing"]
    assert writes.points[1].y < 0.8 * writes.points[0].y and not writes.joined
    published = (
        r"show a loss of 2-35%, writes more than reads, of fullness and fragmentation together. Here it is "
        r"80\.50 against 10\.00: writes [\d.]+% slower \([^)]*\). Reads [\d.]+% slower"
    )
    assert re.search(published, " ".join(page.rest["verdicts"]))


def test_the_terminal_has_the_same_answer_in_three_lines(quickstart, tmp_path):
    records = make_records(quickstart)
    *said, warned, taken = lines_of(quickstart, records, tmp_path / "a")
    assert len(said) == 2 and taken == f"Taken on: {MODEL['label']} \u00b7 ext4."
    assert warned.startswith(
        "Warning: the reference itself is fragmented, so the loss may be underestimated. Nothing was deleted in these "
        "states: 10.00@264M: 7 extents instead of 1; 40.00@264M: 10 extents"
    )
    for record in records:
        for phase in record["phases"]:
            phase["extents"]["extents"] = 1
    assert len(lines_of(quickstart, records, tmp_path / "c")) == 3, "and nothing where they do"
    assert lines_of(quickstart, [], tmp_path) == ["No valid sample yet: nothing to compare."]


def test_an_answer_without_enough_samples_of_a_pair_says_so(quickstart, tmp_path):
    records = [record for record in make_records(quickstart) if record["state"] != "80.50@264M"]
    found = contents(quickstart, records, tmp_path / "a").answer
    assert "writing cannot be compared (0 samples against 5: nothing to compare)" in found.sentences[1]
    assert found.cards[2].chance and found.cards[2].size == "not known"
    records = [record for record in records if record["params"]["iteration"] < 3]
    found = contents(quickstart, records, tmp_path / "b").answer
    assert "writing cannot be compared (2 against 2 samples are too few" in found.sentences[0]
    assert {card.size for card in found.cards} == {"not known"}


FEW_LAYOUT = {"layout": "b", "full": "80%", "now": False, "at": 91.23, "how": "ENOSPC", "following": None}
PLANTED = {"level": "95%", "values": ["a", "b", "c"], "half": 2}


@pytest.mark.parametrize(
    ("template", "data", "sentence"),
    [
        ("planted", {**PLANTED, "outside": ["a"], "farthest": "b", "off": 0.5}, "2 of 3 planted values lie in the 95%"),
        ("planted", {**PLANTED, "outside": [], "farthest": "", "off": None}, "All 3 planted values lie in the 95%"),
        (
            "limits/first",
            {"layouts": [{**FEW_LAYOUT, "first": ["a file", "a link"]}]},
            "b, 80% full: a file and a link fail at 91.2%",
        ),
        ("limits/first", {"layouts": [{**FEW_LAYOUT, "first": []}]}, "b, 80% full: all that is tried can be had until"),
        (
            "failures",
            {"reasons": {"a": 1, "b": 2}, "stopped": True, "shown": 1},
            "3 planned cells failed or stopped: a (1); and 1 more",
        ),
        ("timed", {"same": 0, "both": 0, "lines": False, "least": 3}, "No timed cell is of a layout that was counted."),
        (
            "defrag/earned",
            {"state": "a", "work_s": 3.0, "gain_s": 0.0, "level": None},
            "a: reads are not faster; the work took",
        ),
    ],
)
def test_what_seldom_happens_has_its_sentence_too(template: str, data: dict[str, object], sentence: str) -> None:
    first, *_ = sentences(template, **data)
    assert first.startswith(sentence)
