"""What a report begins with: the answer in sentences, its figure and cards, on the page and on the terminal."""

import re

import pytest
from records import CONFIG, MODEL, build, contents, make_records, planned, store, words
from tiers import first_row_of

from fsage import dataset, report
from fsage.study.files import load_study


@pytest.fixture(scope="module")
def quickstart():
    return load_study(CONFIG / "quickstart.yaml")


def answered(study, records, tmp_path):
    return contents(study, records, tmp_path).answer


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
            "At 80% full, writing 64 MiB at a time is 21% slower than at 10% full (21 to 21%) and reading is 10% "
            "slower (9.7 to 10%), because the measured file has 28 extents instead of 7.",
        ),
        (
            *(0.79, 1.0, 7),
            "At 80% full, writing 64 MiB at a time is 21% slower than at 10% full (21 to 21%) and reading shows no "
            "difference (within 3%); the number of extents does not explain it: the measured file has 7 extents in "
            "both.",
        ),
        (
            *(0.79, 1.0, 28),
            "At 80% full, writing 64 MiB at a time is 21% slower than at 10% full (21 to 21%) and reading shows no "
            "difference (within 3%); the measured file has 28 extents instead of 7.",
        ),
        (
            *(1.2, 2.5, 28),
            "At 80% full, writing 64 MiB at a time is 20% faster than at 10% full (20 to 20%) and reading is 2.5 times "
            "as fast (2.49 to 2.51), although the layout suggests the opposite: the measured file has 28 extents "
            "instead of 7.",
        ),
        (
            *(1.0, 1.0, 28),
            "At 80% full, writing 64 MiB at a time shows no difference from the rate at 10% full (within 3%) and "
            "reading shows no difference (within 3%), although the measured file has 28 extents instead of 7.",
        ),
    ],
)
def test_the_answer_is_a_sentence_in_words_of_the_field(quickstart, tmp_path, write, read, extents, said):
    found = answered(quickstart, at(make_records(quickstart), write, read, extents), tmp_path)
    assert found.sentences[0] == said


@pytest.mark.parametrize(
    ("middle", "said"),
    [  # one sample of five lies among the others': beyond the interval of this pair, and not among four
        (240.0, "which could be chance"),
        (301.0, "no difference found against the rate at 10% full ("),
    ],
)
def test_the_layout_is_no_reason_for_what_is_not_sure(quickstart, tmp_path, middle, said):
    records = at(make_records(quickstart), 1, 1, 28)
    for record in records:
        number, full = record["params"]["iteration"], record["state"].startswith("80")
        rate = (306.5 if number == 1 else middle + 7 * (number - 3)) if full else 300 + 6 * number
        record["metrics"] |= {"write_bw_mib_s": rate, "read_bw_mib_s": rate}
    sentence = answered(quickstart, records, tmp_path).sentences[0]
    assert said in sentence and "although" not in sentence and "because" not in sentence
    assert sentence.endswith("; the measured file has 28 extents instead of 7.")


def test_why_samples_are_missing_stands_on_the_first_screen(quickstart, tmp_path):
    """Cells failed for one reason; after a new claim the others were measured with another amount."""
    records = make_records(quickstart)
    for record in records:
        if record["state"].startswith("80.50"):
            record |= {"status": "failed", "why": "write: No space left on device", "metrics": {}}
        elif record["state"].startswith("80.00"):
            record["conditions"]["amount_mib"] = 320
    states = list(dict.fromkeys(state for state, _ in planned(quickstart)))
    lines = report.answer_lines(dataset.load(store(records, tmp_path / "a")), quickstart, states)
    assert "5 planned cells failed: write: No space left on device (5)." in lines
    assert "Samples were taken under more than one MiB a task: 384.0: 10 samples, 320.0: 5 samples." in lines
    text = words(build(quickstart, records, tmp_path / "b"))
    assert (
        text.index("No space left on device (5)") < text.index("MiB a task: 384") < text.index("State names are AA.BB")
    )


def test_the_answer_tells_fragmentation_from_fullness_and_decodes_what_the_report_is_full_of(quickstart, tmp_path):
    found = answered(quickstart, make_records(quickstart), tmp_path)
    assert len(found.sentences) == 2 and len(found.cards) == 4
    assert found.sentences[1].startswith("After filling to 80% and deleting half of the files (now 40% full), ")
    assert "than on an equally full file system without holes (" in found.sentences[1]
    assert found.codes.startswith("State names are AA.BB. Files worth AA%")
    assert re.fullmatch(
        r"Fullness: at 80\.00 writes reach 0\.\d\dx of 10\.00 \(0\.\d\d-0\.\d\d, 96\.8%, n=5\+5\), "
        r"a loss of 2\d% \(adjusted p=0\.032\)\.",
        found.cards[0].detail,
    )
    assert not found.cards[0].chance
    ticks = [text.replace("\n", " ") for text in found.figure.x.ticks.values()]
    assert ticks == ["10% full", "80% full", "40% full, no holes", "filled to 80%, half deleted"]
    writes = next(one for one in found.figure.series if one.label == "writing")
    assert writes.points[1].y < 0.8 * writes.points[0].y and not writes.joined


def test_the_terminal_has_the_same_answer_in_three_lines(quickstart, tmp_path):
    records = make_records(quickstart)
    states = list(dict.fromkeys(state for state, _ in planned(quickstart)))
    lines = report.answer_lines(dataset.load(store(records, tmp_path / "a")), quickstart, states)
    sentences = answered(quickstart, records, tmp_path / "b").sentences
    said, warned, taken = lines[:-2], lines[-2], lines[-1]
    assert said == sentences and taken == f"Taken on: {MODEL['label']} \u00b7 ext4." and len(lines) == 4
    assert warned.startswith(
        "Warning: the reference itself is fragmented (10.00@264M: 7 extents instead of 1; 40.00@264M: 10 extents"
    )
    assert "so the loss may be underestimated." in warned
    for record in records:
        for phase in record["phases"]:
            phase["extents"]["extents"] = 1
    whole = report.answer_lines(dataset.load(store(records, tmp_path / "c")), quickstart, states)
    assert len(whole) == 3, "and nothing where they do"
    assert report.answer_lines(dataset.load([]), quickstart, states) == ["No valid sample yet: nothing to compare."]


def test_less_than_the_usual_amount_is_said_on_the_first_screen(quickstart, tmp_path):
    records = make_records(quickstart)
    why = "reduced from 384 MiB in all states: 80.00@264M has room for 323 MiB"
    for record in records:
        record["conditions"] |= {"amount_mib": 320, "amount_source": why}
    states = list(dict.fromkeys(state for state, _ in planned(quickstart)))
    assert f"Each task measured 320 MiB, {why}." in report.answer_lines(
        dataset.load(store(records, tmp_path)), quickstart, states
    )


@pytest.mark.parametrize(
    ("write", "read", "finding"),
    first_row_of(
        (0.7, 0.8, "fullness agrees"),
        (0.8, 0.7, "fullness differs: reads lose more"),
        (0.8, 0.8, "fullness differs: writes and reads lose alike within their intervals"),
        (1.1, 0.8, "fullness differs: writes gain 10%"),
        (0.5, 0.8, "fullness differs: writes lose 50%"),
        (0.8, 0.99, "fullness differs: reads lose only 1.0%"),
        (0.8, 1.0, "fullness shows no loss beyond chance in reads"),
        (1.1, 1.0, "fullness differs: writes gain 10% and shows no loss beyond chance in reads"),
    ),
)
def test_where_sign_or_size_differ_from_the_published_is_said(quickstart, tmp_path, write, read, finding):
    records = at(make_records(quickstart), write, read)
    text = words(build(quickstart, records, tmp_path))
    assert f"The PaF slides (Kaitschuck, Seagate) show a loss of 2-35%, writes more than reads; here {finding}." in text
    assert ("docs/howto/reading.md" in text) == ("agrees" not in finding)


def test_the_published_loss_is_of_fullness_and_fragmentation_together(quickstart, tmp_path):
    text = words(build(quickstart, make_records(quickstart), tmp_path))
    both = (
        r"The loss in the PaF slides combines fullness and fragmentation; here 80\.50(@264M)? against 10\.00@264M: "
        r"writes [\d.]+% slower"
    )
    assert re.search(both, text)


def test_an_answer_without_samples_of_a_pair_says_so(quickstart, tmp_path):
    records = [record for record in make_records(quickstart) if record["state"] != "80.50@264M"]
    found = answered(quickstart, records, tmp_path)
    assert "is not known against the rate at 40% full (0 samples against 5: nothing to compare)" in found.sentences[1]
    assert found.cards[2].chance and found.cards[2].size == "not known"


def test_an_answer_of_few_samples_has_no_interval(quickstart, tmp_path):
    records = [record for record in make_records(quickstart) if record["params"]["iteration"] < 3]
    found = answered(quickstart, records, tmp_path)
    assert "is not known against the rate at 10% full (2 against 2 samples are too few" in found.sentences[0]
    assert "(no interval, n=2+2)" in found.cards[0].detail and found.cards[0].chance


def test_the_end_of_an_interval_never_reads_as_1(quickstart, tmp_path):
    detail = answered(quickstart, at(make_records(quickstart), 0.997, 0.9), tmp_path).cards[0].detail
    assert re.search(r"writes reach 0\.997x of 10\.00 \(0\.99\d?-(0\.99\d+|1\.00\d+), ", detail), detail
