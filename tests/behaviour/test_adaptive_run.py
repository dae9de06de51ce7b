"""A study within a budget, on a real target: the primary comparisons are measured, what is sure enough is predicted."""

from __future__ import annotations

import json

import pytest
from project import MEASURE, Project, kill_group, succeeded

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

RATES = ("write_bw_mib_s", "read_bw_mib_s")


@pytest.mark.long
@pytest.mark.parametrize(("fragmentation", "cells"), [([0], 12), ([0, 50], 24)])
def test_what_is_sure_enough_is_predicted_and_can_be_measured_later(
    project: Project, fragmentation: list[int], cells: int
) -> None:
    project.write_study(reference_reads={"position": 0.5}, states__fragmentation=fragmentation)
    ran = succeeded(project.measure("--config", "precision=50%"))
    assert "budget small: about " in ran.stdout and "of the rates are known within ±50.0%" in ran.stderr
    records = project.records()
    skipped = project.skipped()
    assert len(records) + len(skipped) == cells, "every planned cell and each reference read has a record or a reason"
    valid = {name for name, record in records.items() if record["status"] == "valid"}
    primary = {f"{state}@8M/transfer_size-4M_i{i}" for state in ("30.00", "60.00") for i in (1, 2)}
    assert primary <= valid, "the study's own question first"
    assert valid == records.keys() and not valid & skipped.keys() and any("transfer_size" in name for name in skipped)
    for name, row in skipped.items():
        predicted = row["predicted"]
        if row["kind"] != "planned":
            assert not predicted and row["why"] == "not measured: nothing else was measured in this state", name
            continue
        for rate in RATES:
            low, middle, high = (predicted[f"{rate}_predicted{end}"] for end in ("_low", "", "_high"))
            assert 0 < low < middle < high <= 1.5 * 1.001 * middle, name
            assert rate not in predicted, "a prediction is no sample"
    assert project.fsage("remeasure", "small").returncode != 0
    aside = project.fsage("remeasure", "small", "--skipped")
    assert f"{len(skipped)} records quarantined" in aside.stdout, aside.stderr
    again = project.snakemake("-n", "small")
    assert f", {len(skipped)} cells to measure" in again.stdout, again.stdout + again.stderr


def observed(project: Project) -> dict[str, int]:
    """Ids of what was measured so far, fetched or not, and which attempt of its cell each is."""
    places = project.home / "outbox", project.root / "results/raw"
    found = (json.loads(path.read_text()) for place in places for path in place.rglob("*.json"))
    return {each["id"]: each["attempt"] for each in found if each["status"] == "done"}


@pytest.mark.long
def test_a_killed_run_within_a_budget_goes_on_with_what_it_measured(project: Project) -> None:
    project.write_study(states__fragmentation=[0])
    run = project.start("snakemake", "--config", "precision=50%", *MEASURE)
    project.wait_amid(run, lambda: len(observed(project)) >= 3)
    kill_group(run)
    before = observed(project)
    assert len(before) >= 3 and not project.manifests(), "a manifest is written at its end"
    succeeded(project.measure("--config", "precision=50%"))
    after = observed(project)
    assert before.items() <= after.items() and set(after.values()) == {1}, "no cell was measured twice"
    records = project.records()
    assert len(records) + len(project.skipped()) == 8, "every planned cell has a record or a reason"
    assert {record["id"] for record in records.values() if record["status"] == "valid"} == after.keys()
