"""Maintenance windows: when they close, and what is not begun any more."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from test_plan import plan as plan

from fsage.host.cells.measure import too_late
from fsage.run import runs, stopping
from fsage.study.study import StudyError

ZONE = timezone(timedelta(hours=1))
NOW = datetime(2026, 11, 21, 15, 30, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("text", "closes"),
    [
        ("18:00", datetime(2026, 11, 21, 18, 0, tzinfo=ZONE)),
        ("06:15", datetime(2026, 11, 22, 6, 15, tzinfo=ZONE)),
        ("15:30", datetime(2026, 11, 22, 15, 30, tzinfo=ZONE)),
        ("2026-11-23T06:00", datetime(2026, 11, 23, 6, 0, tzinfo=ZONE)),
        ("2026-11-23 06:00+00:00", datetime(2026, 11, 23, 6, 0, tzinfo=timezone.utc)),  # noqa: UP017 - 3.9 too
    ],
)
def test_when_a_window_closes(text, closes):
    assert stopping.window_end(text, NOW) == closes


@pytest.mark.parametrize("text", ["25:00", "soon", "18", "2026-13-01", "18:00:99"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(StudyError, match=r"until: '.+' is no time; write 18:00 or 2026-11-21T18:00"):
        stopping.window_end(text, NOW)


def test_what_would_not_end_in_time_is_not_begun(monkeypatch, tmp_path, plan):
    soon = datetime.now().astimezone() + timedelta(seconds=90)
    me = runs.identity("snakemake tiny")
    monkeypatch.setenv(runs.NOTE, str(runs.note({}, runs.Run(me, until=soon), tmp_path)))
    stopping.check_window(plan, "state 80.50", 30)
    with pytest.raises(stopping.WindowClosed, match=r"state 80.50 takes about 120 s and would not end before 20..-"):
        stopping.check_window(plan, "state 80.50", 120)
    monkeypatch.setenv(runs.NOTE, str(runs.note({}, runs.Run(me), tmp_path)))
    stopping.check_window(plan, "state 80.50", 10**9)


def test_the_agent_begins_no_cell_that_would_not_end(monkeypatch):
    now = datetime.now().timestamp()
    assert too_late(None, {"name": "one"}) is None
    assert too_late(now + 60, {"name": "one", "estimate_s": 3}) is None
    assert "cell one takes about 90 s and would not end" in str(too_late(now + 60, {"name": "one", "estimate_s": 90}))
