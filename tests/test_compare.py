"""Two result sets in one report: what differs is found, what does not is not, and what cannot be compared is said."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from records import CONFIG, PLAIN, gave_nothing, longest_file, make_records, store, words

from fsage import dataset
from fsage.report.compare import CompareError, _names, compare, compared, history
from fsage.study.files import load_study

pytestmark = pytest.mark.usefixtures("figures_undrawn")
WHOLE = load_study(PLAIN / "series1.yaml")
FOUR = WHOLE.states.model_copy(update={"capacity": (10, 80), "fragmentation": (0, 50)})
STUDY = WHOLE.model_copy(update={"states": FOUR})
STATES = ["10.00@264M", "10.50@264M", "80.00@264M", "80.50@264M"]


def table(folder, change=lambda record: None, seed=1, states=STATES):
    """Some of Series 1's records, changed, as the table beside a report."""
    records = [record for record in make_records(STUDY, seed) if record["state"] in states]
    for record in records:
        change(record)
    dataset.write(dataset.load(store(records, folder / "records")), folder)
    return folder


def faster_writes(record):
    """As after a tuning: writes are 20% faster in the fragmented states."""
    record["conditions"]["tunables"] = {"read_ahead_kb": {"asked": 4096, "before": ["128"], "now": ["4096"]}}
    if ".50" in record["state"] and "write_bw_mib_s" in record["metrics"]:
        record["metrics"]["write_bw_mib_s"] *= 1.2


def test_what_a_change_brought_is_told_apart_from_noise(tmp_path):
    before, after = table(tmp_path / "a"), table(tmp_path / "b", faster_writes, seed=2)
    page = compare(before, after, tmp_path / "out", ("untuned", "tuned")).read_text()
    text = words(page)
    assert "tuned against untuned" in text
    assert "Writes with tuned reach" in text and "Reads with tuned reach" in text
    changed = text.partition("one test over 56 groups (p=0.0005): 4 groups changed: ")[2]
    changed = changed.partition("; as a whole writes changed.")[0]
    assert len(re.findall(r"[18]0\.50 write, \d+ MiB 1\.[12]\d+x", changed)) == 4
    assert "tunables read_ahead_kb=[&quot;128&quot;] read_ahead_kb=[&quot;4096&quot;]" in page or "4096" in text
    assert {path.name for path in (tmp_path / "out/figures").iterdir()} == {
        f"{what}-of-tuned-relative-to-untuned.{kind}" for what in ("writes", "reads") for kind in ("svg", "pdf", "csv")
    }


@pytest.mark.long
def test_what_only_one_has_and_other_layouts_are_said(tmp_path):
    def elsewhere(record):
        record["layout"]["digest"] = "f" * 32

    before, after = table(tmp_path / "a"), table(tmp_path / "b", elsewhere, states=STATES[:2])
    text = words(compare(before, after, tmp_path / "out").read_text())
    assert "Only before has 28 groups, in states 80.00@264M, 80.50@264M." in text
    assert "28 groups of 28: other layouts. There a difference may be one of layouts, so there is no verdict" in text
    assert "changed" not in text and "no change was found" not in text


@pytest.mark.parametrize(
    "there",
    [
        {"figures/plot.pdf": "mine"},
        {"index.html": "<title>mine</title>"},
        {"index.html": "<title>fsage of a report</title>", "records.parquet": "mine"},
    ],
)
def test_what_others_have_in_a_folder_is_left(tmp_path, there):
    results = [table(tmp_path / name, states=STATES[:1]) for name in "ab"]
    for name, text in there.items():
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text(text)
    for write in (lambda to: compare(*results, to), lambda to: history(results, to)):
        with pytest.raises(ValueError, match="out has a report, or a page or figures of others, which would go"):
            write(tmp_path / "out")
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {str(path.relative_to(tmp_path / "out")): path.read_text() for path in files} == there


def test_a_page_that_cannot_be_written_whole_leaves_the_one_that_was_there(tmp_path):
    results = [table(tmp_path / name, states=STATES[:1]) for name in "ab"]
    page = compare(*results, tmp_path / "out").read_text()
    with longest_file(len(page) // 2), pytest.raises(OSError, match=r"out/index\.html"):
        compare(*results, tmp_path / "out")
    assert (tmp_path / "out/index.html").read_text() == page
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"figures", "index.html"}


def test_what_cannot_be_compared_is_refused(tmp_path):
    def failed(record):
        gave_nothing(record, "no")

    before, other = table(tmp_path / "a", states=STATES[:1]), table(tmp_path / "b", states=STATES[1:2])
    with pytest.raises(CompareError, match=r"no state and cell is in both\. .* has 10\.00@264M; .* has 10\.50@264M"):
        compare(before, other, tmp_path / "out")
    with pytest.raises(CompareError, match="has no valid sample"):
        compare(before, table(tmp_path / "c", failed, states=STATES[:1]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_place_that_one_alone_has_is_left_out(tmp_path):
    """Of one place beside five a factor was that of unlike files."""
    records = make_records(load_study(CONFIG / "quickstart.yaml"))
    both = [dataset.load(store(records, tmp_path / "a"))]
    for count in (1, 3):
        few = [record for record in records if record["params"].get("place", 1) <= count]
        rows, _ = compared(*both, dataset.load(store(few, tmp_path / str(count))))
        assert set(rows["median"]) == {1.0} and set(rows["n"]) == {count}


def test_what_not_all_results_have_is_said_to_be_left_out_of_a_history(tmp_path):
    def partial(record):
        if record["state"].startswith("10."):
            gave_nothing(record, "no")

    results = [quick(tmp_path, 1), quick(tmp_path, 2, partial)]
    said = "The figures leave out 2 groups that not all results have, in states 10.00@264M."
    assert said in words(history(results, tmp_path / "out").read_text())
    (tmp_path / "undated").mkdir()
    frame = dataset.read(results[0])
    dataset.write(frame.assign(began=None).astype({"began": "str"}), tmp_path / "undated")
    with pytest.raises(CompareError, match=r"no valid sample that says when it was taken in .*undated"):
        history([results[0], tmp_path / "undated"], tmp_path / "other")


def quick(folder, number, change=lambda record: None):
    """The table of quickstart as taken on a day of November."""
    study = load_study(PLAIN / "quickstart.yaml")
    records = make_records(study, seed=number)
    for record in records:
        record["began"] = record["began"].replace("11-21", f"11-{number:02d}")
        change(record)
    dataset.write(dataset.load(store(records, folder / f"r{number}")), folder / f"{number}")
    return folder / f"{number}"


def newer_kernel(record):
    record["kernel"] = "6.19.0"
    if "write_bw_mib_s" in record["metrics"]:
        record["metrics"]["write_bw_mib_s"] *= 1.3


@pytest.mark.long
def test_a_history_finds_where_a_kernel_made_writes_faster_and_names_it(tmp_path):
    results = [quick(tmp_path, day, newer_kernel if day > 5 else lambda record: None) for day in range(1, 11)]
    text = words(history(list(reversed(results)), tmp_path / "out").read_text())
    assert "0 of 72 steps in the same blocks are beyond chance by themselves, and 1 of a rate as a whole" in text
    assert "1 of 2 rates move to another level and stay there" in text
    assert re.search(r"all groups write 2026-11-05 2026-11-06 1\.[23]\d+x 0\.0", text)
    assert re.search(r"write 2026-11-05 2026-11-06 1\.[23]\d+x 0\.0", text), "and a point of change"
    assert "2026-11-06 kernel 6.18.0 6.19.0" in text
    assert "Writes with the last (2026-11-10) reach 1." in text.split("Over time")[0], "the answer stands first"
    few = words(history(results[:2], tmp_path / "few").read_text())
    assert "Not known: 2 values are too few to show a change: 8 at least." in few
    with pytest.raises(CompareError, match="a history has 2 to 100 results; given: 1"):
        history(results[:1], tmp_path / "one")


def test_a_history_is_of_one_study_and_has_dates(tmp_path):
    other, mine = table(tmp_path / "a", states=STATES[:1]), quick(tmp_path, 3)
    with pytest.raises(CompareError, match=rf"of one study.*{other} has series1; {mine} has quickstart.*fsage compare"):
        history([other, mine], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    frames = [pd.DataFrame({"began": [f"2026-11-03T{time}Z"]}) for time in ("09:00:01", "09:00:02", "10:00:00")]
    assert _names(frames) == ["2026-11-03 09:00 (1)", "2026-11-03 09:00 (2)", "2026-11-03 10:00 (1)"]
    assert _names(frames[1:]) == ["2026-11-03 09:00", "2026-11-03 10:00"]
