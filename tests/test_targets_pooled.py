"""Records of several targets as one table: planted factors are found, unlike targets are kept apart, and seen so."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from records import TARGET, comparisons, make_records, store, titled
from simulated import stays_below

from fsage import dataset, report
from fsage.analysis.conditions import basis
from fsage.analysis.groups import samples
from fsage.report.targets import Compared, compared, effects, interaction_p, pooled
from fsage.study import Study

FACTORS = {"ssu1": 1.0, "ssu2": 0.9, "ssu3": 1.1}


@pytest.fixture
def study(quickstart) -> Study:
    return quickstart.model_copy(update={"targets": "share"})


def taken(
    study: Study, folder: Path, states: dict[str, list[str]], worse: dict[str, float] | None = None
) -> pd.DataFrame:
    """Records of some states on each target: rates times the target's factor, and in 80.50 times what is `worse`."""
    records = []
    for place, (target, of_target) in enumerate(states.items()):
        for number, record in enumerate(make_records(study, seed=place)):
            if record["state"] not in of_target:
                continue
            factor = FACTORS[target]
            if worse and record["state"].startswith("80.50"):
                factor *= worse.get(target, 1.0)
            for key in record["metrics"]:
                if key.endswith("_bw_mib_s"):
                    record["metrics"][key] *= factor
            record["layout"]["digest"] = f"{target}{record['layout']['digest']}"
            records.append({**record, "target": target, "order": number})
    return dataset.load(store(records, folder))


ALL = ["10.00@264M", "40.00@264M", "80.00@264M", "80.50@264M"]


def test_planted_factors_are_found_and_taken_out(study, tmp_path):
    frame = taken(study, tmp_path, {"ssu1": ALL, "ssu2": ALL[1:], "ssu3": ALL[1:]})
    found = {(effect.target, effect.measure): effect for effect in effects(frame)}
    mean = math.prod(FACTORS.values()) ** (1 / 3)
    for (target, _), each in found.items():
        assert each.states == 3 and each.factor == pytest.approx(FACTORS[target] / mean, rel=0.02)
        assert each.low < FACTORS[target] / mean < each.high
    whole = pooled(frame, study, ALL)
    assert whole["block"].isna().all() and not whole.duplicated(["state", "cell"]).any()
    assert (whole["write_bw_mib_s_as_measured"].to_numpy() == frame["write_bw_mib_s"].to_numpy()).all()
    alone = comparisons(frame[frame["target"] == "ssu1"], study)
    for together, each in zip(comparisons(whole, study), alone, strict=True):
        if each.label != "fragmentation":
            continue
        assert together.ratio.n == 15, "five samples of each of three targets"
        assert together.ratio.value == pytest.approx(each.ratio.value, rel=0.03)
        assert together.ratio.interval.high - together.ratio.interval.low < 0.08, "levels of targets are no noise"


def test_each_target_is_one_sample_where_each_measures_all(study, tmp_path):
    study = study.model_copy(update={"targets": "repeat"})
    whole = pooled(taken(study, tmp_path, dict.fromkeys(FACTORS, ALL)), study, ALL)
    assert {comparison.ratio.n for comparison in comparisons(whole, study)} == {3}
    assert basis(samples(whole)).startswith("Intervals are over the targets that measured 10.00, 40.00")


def test_targets_that_age_differently_are_kept_apart_and_it_is_said(study, tmp_path):
    frame = taken(study, tmp_path, dict.fromkeys(FACTORS, ALL), worse={"ssu2": 0.8})
    apart = [each for each in compared(frame, study) if each.apart]
    assert {each.label for each in apart} == {"fragmentation"}
    whole = pooled(frame, study, ALL)
    assert (whole["block"] == whole["target"]).all()
    assert {comparison.ratio.n for comparison in comparisons(whole, study)} == {5}, "of one target"
    said = " ".join(report.answer_lines(whole, study, ALL))
    assert "The targets are not pooled: age does not do the same to all of them" in said


def test_without_states_that_all_measured_nothing_is_pooled(study, tmp_path):
    whole = pooled(taken(study, tmp_path, {"ssu1": ALL[:2], "ssu2": ALL[2:]}), study)
    assert (whole["block"] == whole["target"]).all()


def test_one_target_and_bound_ones_stay_as_they_are(study, tmp_path):
    single = taken(study, tmp_path / "one", {"ssu1": ALL})
    assert pooled(single, study) is single
    bound = study.model_copy(update={"targets": "other"})
    two = taken(study, tmp_path / "two", {"ssu1": ALL[:2], "ssu2": ALL[2:]})
    pd.testing.assert_frame_equal(pooled(two, bound), two)


@pytest.mark.long
def test_the_report_shows_each_target(study, tmp_path):
    frame = pooled(taken(study, tmp_path / "records", dict.fromkeys(FACTORS, ALL)), study, ALL)
    target = TARGET.having(name=",".join(FACTORS))
    more: dict[str, Any] = {"plan_cells": [], "states": {}, "claim": None}
    page = report.contents(study, target, frame, **more)
    section = titled(page.sections, "Targets")
    assert "no difference was found" in section.text and "4 states that all targets measured" in section.text
    assert [row[0] for row in section.table] == ["target", *FACTORS] and len(section.figures) == 2
    path = report.build(page, frame, tmp_path / "report")
    assert dataset.read(path.parent)["write_bw_mib_s_as_measured"].notna().all()


@pytest.mark.long
def test_chance_seldom_tells_targets_apart(row):
    rng, trials, hits, found = np.random.default_rng(7), 200, 0, 0
    for _ in range(trials):
        noise = np.exp(0.03 * rng.standard_t(4, (2, 4, 5)))
        ours, there = noise[0] * rng.uniform(0.8, 1.2, (4, 1)), noise[1]
        there = there * (ours.mean(axis=1) / noise[0].mean(axis=1))[:, None] * 0.7  # levels differ, the ratio does not
        hits += interaction_p(ours.tolist(), there.tolist()) <= 0.05
        ours[0] *= 0.85
        found += interaction_p(ours.tolist(), there.tolist()) <= 0.05
    row("targets age alike", "4 targets, 5 samples, t4 noise", "false alarm <= 5%", hits, trials)
    assert stays_below(hits, trials, 0.05)
    assert found > 0.9 * trials, "a target that loses 15% more is seen"


def test_cells_of_other_parameters_are_not_compared_with_these(study, tmp_path):
    states = {"ssu1": ALL, "ssu2": ALL}
    worse = taken(study, tmp_path / "a", states, {"ssu2": 0.5})
    alike = taken(study, tmp_path / "b", states)
    buffered = alike["params"].str.replace("direct=true", "direct=false")
    rates = {name: 5 * alike[name] for name in ("write_bw_mib_s", "read_bw_mib_s")}
    alike = alike.assign(params=buffered, **{"param.direct": False}, **rates)
    found = compared(pd.concat([worse, alike], ignore_index=True), study)
    assert {each.label for each in found if each.apart} == {"fragmentation (64 MiB, direct true)"}


def test_a_ratio_of_next_to_nothing_on_a_target_is_not_0():
    said = Compared("age", "read_bw_mib_s", {"a": 0.0004, "b": 0.91}, 0.004).sentence
    assert said == "age, reads: 0.0004x on a, 0.91x on b (adjusted p=0.004)"
