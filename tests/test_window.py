"""Maintenance windows: when they close, and what is not begun any more."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta, timezone

import pytest
import yaml
from sent import STUDY, observation
from test_plan import plan as plan

from fsage import records
from fsage.plan import load_plan, settings
from fsage.plan.pool import Pool
from fsage.run import adaptive, conclusion, job, runs
from fsage.run.play import PlayFailed
from fsage.studies.neighbours.instruments.limits import too_late
from fsage.study import StudyError

ZONE = timezone(timedelta(hours=1))
NOW = datetime(2026, 11, 21, 15, 30, tzinfo=ZONE)


@pytest.fixture
def central_europe(monkeypatch):
    """The time of this machine: summer time from March to October."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "closes"),
    [
        ("18:00", datetime(2026, 11, 21, 18, 0, tzinfo=ZONE)),
        ("15:30", datetime(2026, 11, 22, 15, 30, tzinfo=ZONE)),
        ("2026-11-23T06:00", datetime(2026, 11, 23, 6, 0, tzinfo=ZONE)),
        ("2026-11-23 06:00+00:00", datetime(2026, 11, 23, 6, 0, tzinfo=timezone.utc)),  # noqa: UP017 - 3.9 too
    ],
)
def test_when_a_window_closes(text, closes, central_europe):
    assert settings.window_end(text, NOW) == closes


@pytest.mark.parametrize("text", ["18:00", "2026-10-25T18:00"])
def test_a_window_that_closes_when_summer_time_is_over_closes_by_the_clock(text, central_europe):
    summer = datetime(2026, 10, 24, 20, 0, tzinfo=timezone(timedelta(hours=2)))
    assert settings.window_end(text, summer) == datetime(2026, 10, 25, 18, 0, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["25:00", "soon", "18", "0001-01-01T00:00"], "is no time; write 18:00 or 2026-11-21T18:00"),
        (["2020-01-01T00:00", "2026-11-21 15:30", "2026-11-21T15:29+01:00"], "is over: it is 2026-11-21 15:30 by"),
    ],
)
def test_what_is_no_time_to_come_is_refused(texts, why, central_europe):
    for text in texts:
        with pytest.raises(StudyError, match=f"until: '{re.escape(text)}' {why}"):
            settings.window_end(text, NOW)


def test_what_would_not_end_in_time_is_not_begun(monkeypatch, tmp_path, plan):
    soon = datetime.now().astimezone() + timedelta(seconds=90)
    me = runs.identity("snakemake tiny")
    monkeypatch.setenv(runs.NOTE, str(runs.note({}, runs.Run(me, until=soon), tmp_path)))
    runs.check_window(plan, "state 80.50", 30)
    with pytest.raises(runs.WindowClosed, match=r"state 80.50 takes about 120 s and would not end before 20..-"):
        runs.check_window(plan, "state 80.50", 120)
    monkeypatch.setenv(runs.NOTE, str(runs.note({}, runs.Run(me), tmp_path)))
    runs.check_window(plan, "state 80.50", 10**9)


def test_the_agent_begins_no_cell_that_would_not_end(monkeypatch):
    now = datetime.now().timestamp()
    assert too_late(None, {"name": "one"}) is None
    assert too_late(now + 60, {"name": "one", "estimate_s": 3}) is None
    assert "cell one takes about 90 s and would not end" in str(too_late(now + 60, {"name": "one", "estimate_s": 90}))


@pytest.mark.parametrize(("states", "code"), [(0, None), (1, 1), (2, 0)])
def test_a_budget_that_ends_in_a_state_leaves_a_report_with_what_was_measured(
    monkeypatch, tmp_path, plan, states, code
):
    """`states`: how many are measured whole before the time is over; one more is left with a cell missing."""
    headline = [{"label": "fullness", "state": "60.00", "against": "30.00"}]
    study = plan.studies / "tiny.yaml"
    study.write_text(yaml.safe_dump({**STUDY, "headline": headline}))
    plan = load_plan(study, plan.inventories / "here", plan.results.root)
    visited = []
    until = [datetime.now().astimezone() + timedelta(hours=1)]

    def judged(observed):
        rates = {"write_bw_mib_s": 60.0 + observed["order"] % 2, "read_bw_mib_s": 50.0}
        return {"status": "valid", "why": None, "metrics": rates, "phases": [], "structure": {}}

    def visit_cells(plan, state, cells, progress):
        whole = len(visited) < states
        visited.append(state)
        for cell in cells if whole else cells[: -1 if states else 0]:
            of_cell = observation(plan, state, plan.cells[state].index(cell), status="done", why=None)
            records.keep(of_cell, plan.results.root, plan.target.name)
        if whole:
            return None, []
        until[0] = datetime.now().astimezone()
        return PlayFailed("a cell would not end before this run is to end"), []

    monkeypatch.setattr(records, "make_judgement", judged)
    monkeypatch.setattr(job, "visit_cells", visit_cells)
    monkeypatch.setattr(runs, "current", lambda: runs.Run(until=until[0]))
    if code is None:
        with pytest.raises(PlayFailed, match="no valid cell was measured"):
            adaptive.measure(plan, 0.001)
        return
    adaptive.measure(plan, 0.001)
    lines, ended = conclusion.conclude(Pool((load_plan(study, plan.inventories / "here", plan.results.root),)))
    said = "\n".join(lines)
    assert ended == code, said
    assert ("not measured: 1 cell of 60.00@8M" in said and "tiny --skipped" in said) == bool(code), said
    assert "missing" not in lines[0] and f"{8 - 2 * states - 1} skipped" in lines[0]
