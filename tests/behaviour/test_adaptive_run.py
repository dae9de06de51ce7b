"""A study within a budget, on a real target: the primary comparisons are measured, what is sure enough is predicted."""

from __future__ import annotations

import pytest
from project import Project

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

RATES = ("write_bw_mib_s", "read_bw_mib_s")


@pytest.mark.parametrize(("fragmentation", "cells"), [([0], 12), pytest.param([0, 50], 24, marks=pytest.mark.long)])
def test_what_is_sure_enough_is_predicted_and_can_be_measured_later(
    project: Project, fragmentation: list[int], cells: int
) -> None:
    project.write_study(reference_reads={"position": 0.5}, states__fragmentation=fragmentation)
    ran = project.measure("--config", "precision=50%")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "budget small: about " in ran.stdout and "of the rates are known within ±50.0%" in ran.stderr
    records = project.records()
    assert len(records) == cells, "every planned cell and each reference read has a record"
    valid = {name for name, record in records.items() if record["status"] == "valid"}
    primary = {f"{state}@8M/transfer_size-4M_i{i}" for state in ("30.00", "60.00") for i in (1, 2)}
    assert primary <= valid, "the study's own question first"
    skipped = {name: record for name, record in records.items() if record["status"] == "skipped"}
    assert skipped.keys() == records.keys() - valid and any("transfer_size" in name for name in skipped)
    for name, record in skipped.items():
        predicted = record["metrics"]
        if record["kind"] != "planned":
            assert not predicted and record["why"] == "not measured: nothing else was measured in this state", name
            continue
        for rate in RATES:
            low, middle, high = (predicted[f"{rate}_predicted{end}"] for end in ("_low", "", "_high"))
            assert 0 < low < middle < high <= 1.5 * 1.001 * middle, name
            assert rate not in predicted, "a prediction is no sample"
    assert project.fsage("remeasure", "small").returncode != 0
    aside = project.fsage("remeasure", "small", "--skipped")
    assert f"{len(skipped)} records set aside" in aside.stdout, aside.stderr
    again = project.snakemake("-n", "small")
    assert f", {len(skipped)} cells to measure" in again.stdout, again.stdout + again.stderr
