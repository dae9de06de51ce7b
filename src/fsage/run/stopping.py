"""When to stop: which cells of a state are measured next and which may be skipped, and a site's maintenance window.

Nothing is begun that would not end before the window closes.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from datetime import datetime, timedelta

from fsage import workloads
from fsage.base import Refusal
from fsage.model import limits
from fsage.plan.plan import Plan
from fsage.records.store import Reason, metrics_of
from fsage.run import runs
from fsage.statistics import median_interval
from fsage.study.cells import Cell
from fsage.study.study import StudyError


def due(plan: Plan, state: str) -> list[Cell]:
    """Cells to measure in the next visit, in planned order; none when all is measured or may be skipped.

    Without a stop rule: all. With one: first the least number of iterations; then, visit by visit, one iteration
    more of each group whose interval is not narrow enough; in the end what stands behind the planned cells.
    """
    todo = plan.to_measure(state)
    axes = plan.study.cells
    if axes.stop is None:
        return todo
    last = max(cell.order for cell in plan.cells[state] if cell.kind == "planned")
    first = []
    for cell in todo:
        if cell.order < last and (cell.kind != "planned" or cell.params["iteration"] <= axes.iterations):
            first.append(cell)
    if first:
        return first
    more = [cells[0] for group, cells in groups(todo).items() if not _narrow(plan, state, group)]
    return more or [cell for cell in todo if cell.kind != "planned"]


def unneeded(plan: Plan, state: str) -> dict[str, Reason]:
    """The planned cells of a state that the stop rule leaves out, each with the reason."""
    stop = plan.study.cells.stop
    if stop is None:
        return {}
    reasons: dict[str, Reason] = {}
    planned = groups(plan.cells[state])
    for group, cells in groups(plan.to_measure(state)).items():
        if _narrow(plan, state, group):
            count = sum(plan.results.record(state, cell.name).exists() for cell in planned[group])
            enough = f"narrower than {stop.interval_percent:g}% of it after {count} iterations"
            reason = Reason(f"not needed: the interval of the median was {enough}")
            for cell in cells:
                reasons[cell.name] = reason
    return reasons


def groups(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Planned cells by all that they have in common, in order of their iterations."""
    by_group: dict[str, list[Cell]] = {}
    planned = [cell for cell in cells if cell.kind == "planned"]
    for cell in sorted(planned, key=lambda cell: cell.params["iteration"]):
        by_group.setdefault(group_of(cell), []).append(cell)
    return by_group


def group_of(cell: Cell) -> str:
    """What cells that differ in the iteration alone have in common."""
    return json.dumps({**cell.params, "iteration": None, "place": None}, sort_keys=True)


def _narrow(plan: Plan, state: str, group: str) -> bool:
    """Whether every rate of a group has an interval that is narrow enough."""
    stop = plan.study.cells.stop
    if stop is None:
        return False
    cells = groups(plan.cells[state])[group]
    metrics = [metrics_of(plan, state, cell) or {} for cell in cells]
    for rate in workloads.rates_of(cells[0].params):
        interval = median_interval([of_cell[rate] for of_cell in metrics if rate in of_cell])
        if interval is None:
            return False
        middle = (interval.high + interval.low) / 2
        if (interval.high - interval.low) / middle * 100 >= stop.interval_percent:
            return False
    return True


LEFT_OUT = "the time was over before, and a primary comparison needs them"
"""What the reason of a skipped cell begins with, where the question of the study is not answered without it."""


class WindowClosed(Refusal):
    """What comes next would not end in time; the message says what, and when it would have to."""


def window_end(text: str, now: datetime) -> datetime:
    """'18:00' is when the clock shows that next; else ISO 8601, such as 2026-11-21T18:00. Raises StudyError."""
    try:
        if "T" not in text and " " not in text and ":" in text:
            wanted = datetime.strptime(text, "%H:%M")
            moment = now.replace(hour=wanted.hour, minute=wanted.minute, second=0, microsecond=0)
            if moment > now:
                return moment
            return moment + timedelta(days=1)
        moment = datetime.fromisoformat(text)
        if moment.tzinfo:
            return moment
        return moment.replace(tzinfo=now.tzinfo)
    except ValueError:
        raise StudyError(f"until: {text!r} is no time; write 18:00 or 2026-11-21T18:00") from None


def length(text: str) -> timedelta:
    """'45m', '8h', '1h30m', '90s'. Raises StudyError."""
    match = re.fullmatch(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?", text)
    if not text or not match:
        raise StudyError(f"budget: {text!r} is no length of time; write 45m, 8h or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def check_window(plan: Plan, what: str, needed_s: float) -> None:
    """Raises WindowClosed when `what`, which takes `needed_s` seconds, would not end before window or hours close."""
    why = limits.why_not_begun(plan.target.spec["limits"], what, needed_s, time.time())
    if why:
        raise WindowClosed(f"{why}. What was measured is kept")
    end = runs.current().until
    now = datetime.now().astimezone()
    if end and now + timedelta(seconds=needed_s) > end:
        raise WindowClosed(
            f"{what} takes about {needed_s:.0f} s and would not end before {end:%Y-%m-%d %H:%M}, when this run is to "
            "end (until, budget): not begun. What was measured is kept; the same command resumes later"
        )
