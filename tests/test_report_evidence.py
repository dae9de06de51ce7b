"""Layouts and traces in the report: what is drawn of them, and what is said where they are broken."""

import json

import pytest
from records import MODEL, PLAIN, build, contents, make_evidence, make_records, store, titled, traced, undrawn, words
from studies import blocks

from fsage.study import Study

FIGURES = {
    "Free space, 10.00 to 80.50",
    "Free space by size of its extents",
    "Free space in aligned chunks",
    "Block groups by free share",
    "Extents of a file, filler",
    "Layout score over real fullness",
    "Requests at 80.00, write phase",
    "Requests at 80.50, write phase",
    "Requests at 80.00, read phase",
    "Requests at 80.50, read phase",
}


def first_of_state(records, state):
    return next(record for record in records if record["state"] == state)


def test_layouts_and_traces_are_figures(quickstart, tmp_path):
    records = make_records(quickstart)
    several = [traced(first_of_state(records, "80.00@264M")), traced(first_of_state(records, "80.50@264M"), lost=3)]
    inputs = {
        "evidence": make_evidence(quickstart, tmp_path / "states"),
        "traced": store(several, tmp_path / "traced"),
        "config": PLAIN / "quickstart.yaml",
    }
    found = contents(quickstart, records, tmp_path / "a", **inputs)
    of_title = {figure.title: figure for figure in found.figures}
    assert of_title.keys() >= FIGURES and found.stamp == f"{MODEL['label']} · ext4"
    free = of_title["Free space by size of its extents"]
    assert free.y.label == "share of free bytes, %"
    assert all(sum(shares) == pytest.approx(100) for shares in free.shares.values())
    assert list(of_title["Free space, 10.00 to 80.50"].strips) == ["10.00", "40.00", "80.00", "80.50"]
    trace = of_title["Requests at 80.50, write phase"]
    assert [len(cloud.xs) for cloud in trace.clouds] == [0, 300, 0] and trace.x.label == "time, s"
    page = undrawn(found)
    text = words(page)
    assert "80.50@264M, write: 3 events were lost" in text and "80.00@264M, write:" not in text
    assert "transfer_size: [64M]" in text  # the study's file
    assert page == build(quickstart, records[::-1], tmp_path / "b", **inputs)


@pytest.mark.long
def test_small_requests_elsewhere_do_not_stretch_a_trace(quickstart, tmp_path):
    records = make_records(quickstart)
    record = traced(first_of_state(records, "80.50@264M"))
    columns = record["phases"][0]["trace"]["columns"]
    columns["offset_bytes"] = [offset // 64 for offset in columns["offset_bytes"]]
    for name, value in {"seconds": 0.5, "offset_bytes": 15 << 30, "bytes": 4096, "write": True}.items():
        columns[name].append(value)
    page = contents(quickstart, records, tmp_path, traced=store([record], tmp_path / "traced"))
    trace = titled(page.figures, "Requests at 80.50, write phase")
    _, writes, small = trace.clouds
    assert len(writes.xs) == 300 and small.ys == (15 << 30,)
    assert trace.y.limits[1] < 1 << 30 and trace.note == "small requests elsewhere: 1"


def test_states_whose_names_begin_alike_are_told_apart(tmp_path):
    states = {"recipe": "paf", "capacity": [80], "fragmentation": [0, 30], "file_size": ["33M", "264M"]}
    study = Study.model_validate(blocks(states=states))
    evidence = make_evidence(study, tmp_path / "states")
    names = sorted(evidence)
    found = contents(study, make_records(study), tmp_path, evidence=evidence)
    [strips] = [figure.strips for figure in found.figures if figure.title.startswith("Free space, ")]
    assert sorted(strips) == sorted(titled(found.figures, "Free space by size of its extents").shares) == names
    assert sorted(titled(found.figures, "Extents over layouts and places").x.ticks.values()) == names


def test_of_several_layouts_each_state_that_is_compared_is_shown(tmp_path):
    states = {
        "recipe": "paf",
        "capacity": [10, 80],
        "fragmentation": [0, 50],
        "file_size": "264M",
        "structures": 5,
        "seed": 1,
    }
    headline = [{"label": "both", "state": "80.50", "against": "10.00"}]
    study = Study.model_validate(blocks(states=states, headline=headline))
    evidence = make_evidence(study, tmp_path / "states")
    found = contents(study, make_records(study)[::-1], tmp_path, evidence=evidence)
    latency = titled(found.sections, "Latency")
    assert {row[0] for row in latency.table[1:]} == {"10.00@264M", "80.50@264M"}
    free = titled(found.figures, "Free space by size of its extents")
    assert [name.partition("+")[0] for name in free.shares] == ["10.00", "80.50"]


@pytest.mark.long
def test_each_store_has_a_strip(quickstart, tmp_path):
    evidence = make_evidence(quickstart, tmp_path / "states", stores=2)
    page = contents(quickstart, make_records(quickstart), tmp_path, evidence=evidence)
    free = titled(page.figures, "Free space, 10.00 to 80.50")
    assert "80.50 · 1" in free.strips and len(free.strips) == 4 * 2


def change(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.long
def test_broken_evidence_is_named_and_the_rest_is_drawn(quickstart, tmp_path):
    evidence = make_evidence(quickstart, tmp_path / "states")
    of_another, cut, without, half = evidence.values()
    change(of_another, state="20.00@264M")
    cut.write_text(cut.read_text()[:500])
    without.unlink()
    layout = json.loads(half.read_text())["layout"]
    del layout["stores"][0]["bitmap"]["free_share"]
    change(half, layout=layout)
    page = build(quickstart, make_records(quickstart), tmp_path, evidence=evidence)
    text = words(page)
    assert f"{cut}: the evidence of 40.00@264M is not JSON" in text
    assert "No evidence of 1 state: 80.00@264M." in text
    assert f"{of_another}: this is evidence of the state 20.00@264M, not of 10.00@264M" in text
    assert (
        "the evidence of 80.50@264M is not as the agent writes it: layout.stores[0].bitmap.free_share is missing"
        in text
    )
    assert 'aria-label="Write bandwidth over capacity"' in page


def test_what_a_source_cannot_give_is_said_with_its_reason(quickstart, tmp_path):
    evidence = make_evidence(quickstart, tmp_path / "states")
    for path in evidence.values():
        layout = json.loads(path.read_text())["layout"]
        layout["stores"][0].update(groups=None, bitmap=None, absent={"groups": "XFS is mounted"})
        change(path, layout=layout)
    page = contents(quickstart, make_records(quickstart), tmp_path, evidence)
    assert "groups is not known in 4 states: XFS is mounted." in words(undrawn(page))
    drawn = {figure.title for figure in page.figures}
    assert "Free space in aligned chunks" in drawn
    assert not {"Block groups by free share", "Free space, 10.00 to 80.50"} & drawn


@pytest.mark.long
def test_traces_that_are_not_there_or_broken_are_named(quickstart, tmp_path):
    records = make_records(quickstart)
    none, broken = traced(first_of_state(records, "80.00@264M")), traced(first_of_state(records, "80.50@264M"))
    none["phases"][0]["trace"] = {"why_none": "tracefs is not there"}
    broken["phases"][0]["trace"]["columns"]["seconds"].pop()
    cut = tmp_path / "cut.json"
    cut.write_text('{"state": ')
    text = words(build(quickstart, records, tmp_path, traced=[*store([none, broken], tmp_path / "traced"), cut]))
    assert "80.00@264M, write: no trace: tracefs is not there." in text
    assert "80.50@264M, write: the trace is broken: columns: Value error, the columns are not equally long." in text
    assert f"{cut}: not a readable record" in text


@pytest.mark.long
def test_a_state_without_a_digest_says_why_and_each_instance_is_a_layout_of_its_own(quickstart, tmp_path):
    """As files of several stripes on Lustre, of which FIEMAP says nothing."""
    why = "FIEMAP: Operation not supported; Lustre gives it for files of one stripe only"
    records = make_records(quickstart)
    mine = [each for each in records if each["state"] == "80.50@264M"]
    for number, record in enumerate(mine):
        record["layout"] |= {"digest": None, "filler_extents": None, "notes": {"digest": {"absent": why}}}
        record["check"]["instance"] = "built-anew" if number == 0 else "first-of-all"
    evidence = make_evidence(quickstart, tmp_path / "states")
    change(evidence["80.50@264M"], digest=None, token={"instance": "first-of-all"})
    text = words(build(quickstart, records, tmp_path, evidence=evidence))
    assert f"No digest of extents: 80.50@264M. {why}. Each layout instance counts as a layout of its own." in text
    assert "Measured in more than one layout: 80.50@264M (first-" in text
    assert "it is not used" not in text
