"""A striped file on a target's stores: real loop file systems as OSTs, its objects by the map, written and read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from states import MIB, bring
from striped import CLAIM, STORES, osts_of, step

from fsage import recipes, workloads
from fsage.host.cells import measure
from fsage.host.targets.opening import open_target
from fsage.studies.striping import model as striping
from fsage.study import StudyError
from fsage.study.files import load_study

STRIPED = workloads.load("striped_file")
CONFIG = Path(__file__).parents[1] / "config"


@pytest.fixture
def osts(new_target):
    return osts_of(new_target)


def cell(claimed: dict, steps: list[dict], **more: object) -> dict:
    params = {"workload": "striped_file", "transfer_size": MIB, "iteration": 1, **more}
    phases = STRIPED.commands(STRIPED.Params.model_validate(params), claimed, steps)
    return {"name": "one", "kind": "planned", "order": 1, "attempt": 1, "params": params, "phases": phases}


@pytest.mark.long
@pytest.mark.root
def test_a_file_is_written_and_read_in_its_layout(osts):
    steps = [replace(step("IOR.6"), eviction_file=2)]
    ready = bring(osts, *steps)
    assert ready["files"] == 16 and ready["bytes"] == ready["notes"]["stripe"]["eviction_bytes"] >= 16 * MIB
    noted = ready["notes"]["stripe"]
    stripes = [segment[2] for segment in noted["segments"]]
    assert noted["osts"] == STORES and stripes == [1, 2, 4], "4, 8, 16 on 4 of 16 OSTs"
    assert [segment[1] // MIB for segment in noted["segments"]] == [16, 32, 64], "1, 2 and 4 of 4 TB"
    target = open_target(osts)
    made = cell(target.claim, steps, read_eviction_file=True)
    request = {"study": "test", "state": "wanted", "steps": steps, "reuse": "nested", "cells": [made]}
    assert measure.measure(osts, request, False)["measured"] == 1
    (path,) = (target.home / "outbox").rglob("one.1.json")
    observation = json.loads(path.read_text())
    outcome = STRIPED.read(observation)
    assert outcome.status == "valid", outcome.why
    assert outcome.metrics["write_bytes"] == outcome.metrics["read_bytes"] == 64 * MIB
    write, read = observation["phases"]
    assert write["eviction_file"]["seconds"] > 0 and read["eviction_file"]["seconds"] > 0
    # object 0 holds segment 1, objects 1 and 2 lie on the next OSTs, 3 goes on from there: all by number mod 4
    named = [word for word in write["argv"] if word.startswith("--filename=")]
    assert [Path(word).parts[-3:] for word in named] == [(str(n % 4), "measured", f"object{n}") for n in range(7)]
    sizes = [int(word.partition("=")[2]) // MIB for word in write["argv"] if word.startswith("--size=")]
    assert sizes == [16, 8, 8, 8, 8, 8, 8]

    observation["phases"][0]["extents"]["files"] = 6
    assert "6 objects of 67108864 bytes lie on the stores, the layout has 7" in (STRIPED.read(observation).why or "")
    assert STRIPED.read({**observation, "layout": {"notes": {}}}).status == "failed"


@pytest.mark.long
@pytest.mark.root
def test_a_layout_that_the_target_cannot_have_is_noted_and_its_cells_are_unsupported(new_target):
    spec = osts_of(new_target, stores=2)
    steps = [step("IOR.4", "IOR.3")]
    ready = bring(spec, *steps)
    assert "stripe counts 4 and 8 both become 1 on 2 OSTs" in ready["notes"]["stripe"]["unsupported"]
    with pytest.raises(workloads.Unsupported, match="both become 1 on 2 OSTs"):
        cell(open_target(spec).claim, steps)


def test_what_no_cell_can_be_made_of_is_said():
    with pytest.raises(ValueError, match="needs a state with a layout"):
        cell(CLAIM, [])
    with pytest.raises(workloads.Unsupported, match="kind directory has no OSTs"):
        cell({**CLAIM, "kind": "directory"}, [step("IOR.1")])
    with pytest.raises(workloads.Unsupported, match="realisation pfl: only Lustre has composite layouts"):
        cell(CLAIM, [replace(step("IOR.1"), realisation="pfl")])
    many = {"workload": "striped_file", "nodes": 16, "iteration": 1}
    layout = [step("IOR.4")]
    calibration = {"cell_overhead_s": 1.0, "write_mib_s": 2.0, "read_mib_s": 4.0}
    alone = STRIPED.Params.model_validate({**many, "nodes": None})
    seconds = STRIPED.seconds(alone, {**CLAIM, "calibration": calibration}, layout)
    assert seconds == 1 + 6 / 2 + 6 / 4, "16 MiB on 4 OSTs, 48 on 8 others"
    for ask in (STRIPED.commands, STRIPED.seconds):
        with pytest.raises(ValueError, match=r"nodes: 16 are more than target osts was claimed with: 1 \(the launcher"):
            ask(workloads.params_of(many), CLAIM)
    with pytest.raises(ValueError, match="read_eviction_file: the states have no `eviction_file`"):
        cell(CLAIM, layout, read_eviction_file=True)
    with pytest.raises(workloads.Unsupported, match="server_cache none: a target of kind loop has no servers"):
        cell(CLAIM, layout, server_cache="none")
    beside = [replace(layout[0], eviction_file=5)]
    known = {**CLAIM, "calibration": calibration, "capacity_bytes": 80 * MIB}
    evicting = alone.model_copy(update={"read_eviction_file": True})
    assert STRIPED.seconds(evicting, known, beside) == seconds + 2 * 4 / 4, "4 MiB before each phase"
    with pytest.raises(ValueError, match="3145728 bytes do not divide a stripe of 1048576"):
        cell(CLAIM, [step("IOR.1")], transfer_size=3 * MIB)


@pytest.mark.parametrize(
    "was, now, why",
    [
        ("IOR.5, IOR.6]", "IOR.5, IOR.7]", r"pattern\[5\]: 'IOR.7' is not allowed; did you mean 'IOR"),
        ("IOR.5, IOR.6]", "IOR.5, blast.1]", "IOR.1 and blast.1 are of files of different sizes"),
        ("  default: IOR.1", "  default: IOR.1\n  own: {mine: [A to 1T, Z]}", "file_size: is missing"),
        ("  default: IOR.1", "  default: IOR.1\n  file_size: 4T\n  own: {IOR.1: [A]}", "the name of a known pattern"),
    ],
)
def test_a_bad_study_is_refused(tmp_path, was, now, why):
    text = (CONFIG / "striping.yaml").read_text()
    assert was in text
    (tmp_path / "striping.yaml").write_text(text.replace(was, now))
    with pytest.raises(StudyError, match=why):
        load_study(tmp_path / "striping.yaml")


def test_a_pattern_has_the_same_stripes_in_any_selection(tmp_path):
    """IOR.4 beside the largest of its set, and without it."""
    text = (CONFIG / "striping.yaml").read_text()
    every = "[IOR.1, IOR.2, IOR.3, IOR.4, IOR.5, IOR.6]"
    assert every in text
    text = text.partition("\nheadline:")[0]
    counts = set()
    for selection in (every, "[IOR.1, IOR.4]", "[IOR.4, IOR.6, IOR.1]"):
        (tmp_path / "striping.yaml").write_text(text.replace(every, selection))
        states = {state.name: state for state in recipes.expand(load_study(tmp_path / "striping.yaml"))}
        (step,) = states["IOR.4"].steps(1, 0)
        counts.add(tuple(striping.counts(step, 6)))
    assert counts == {(2, 3)}


def test_a_studys_own_pattern_is_planned_beside_known_ones(tmp_path):
    text = (CONFIG / "striping.yaml").read_text()
    text = text.replace("IOR.6]", "IOR.6, mine]").replace(
        "  default: IOR.1", "  default: IOR.2\n  file_size: 4T\n  own: {mine: [B to 512G, C]}"
    )
    (tmp_path / "striping.yaml").write_text(text)
    states = recipes.expand(load_study(tmp_path / "striping.yaml"))
    assert [state.name for state in states][::6] == ["IOR.2", "mine"], "what all are compared with is first"
    mine = states[-1].steps(1, 0)
    assert mine[0].segments == ((512 << 30, 8, MIB), (None, 16, MIB)) and mine[0].largest_count == 16
