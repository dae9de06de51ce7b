"""How far a study is and how long it will still take.

The plan's estimates are corrected by what the study's last cells and states really took, and within a visit by what its
cells take.
"""

from __future__ import annotations

import json
import math
import time
from datetime import datetime
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from fsage.base import Json
from fsage.base.sizes import duration
from fsage.plan import results
from fsage.plan.plan import Plan
from fsage.study.cells import Cell


def doing_of(log: Path) -> Path:
    """Where stands what a playbook's command does at the moment."""
    return log.with_suffix(".doing")


LAST = 8
VISITS = 24
"""Records that tell the pace of cells, and visits that tell that of states."""


class Pace(NamedTuple):
    """How many times longer than estimated cells take, and building a state: from empty, or from another state."""

    cells: float = 1.0
    from_empty: float = 1.0
    from_another: float = 1.0

    def reach_seconds(self, plan: Plan, state: str) -> float:
        """What bringing a state about takes at this pace."""
        return plan.reach_seconds(state) * (self.from_empty if plan.from_empty(state) else self.from_another)


class Line(NamedTuple):
    """What is shown while something runs: `what` it does and how far it is, and the time that is `left`."""

    what: str
    left: str = ""

    def __str__(self) -> str:
        return self.what + self.left


class Doing:
    """What a playbook's command does at the moment, as its host tells (fsage.host.targets.claims)."""

    def __init__(self, log: Path) -> None:
        """`log`: the playbook's; beside it the action plugin puts what it hears."""
        self.path = doing_of(log)

    def __call__(self) -> tuple[str, int]:
        """In words, and how many of the requested cells are measured; no words where it is not known."""
        try:
            noted = json.loads(self.path.read_bytes())
            return str(noted["doing"]), int(noted["cells"])
        except (OSError, ValueError, KeyError, TypeError):
            return "", 0


class Progress:
    """Counts the observations of a visit as they appear, against the plan's estimate.

    `cells` and `seconds`: how many a visit of a budget takes, and what is left of its time (inf: it has no end).
    """

    def __init__(self, plan: Plan, state: str, cells: int | None = None, seconds: float | None = None) -> None:
        self.plan = plan
        self.state = state
        claim = plan.claim["id"] if plan.claim else ""
        # On another machine there is none, and the command that measures tells how many there are.
        self.folder = plan.target.outbox / claim / plan.study.name / state
        self.visible = plan.target.outbox.parent.is_dir()
        self.doing = Doing(plan.results.log(f"visit_{state}"))
        self.began = time.monotonic()
        self.at_start = self._waiting()
        self.total = sum(map(len, plan.cells.values()))
        self.missing = {name: plan.to_measure(name) for name in plan.missing}
        self.before = self.total - sum(map(len, self.missing.values()))
        todo = self.missing.get(state, [])
        self.here = len(todo) if cells is None else cells
        self.ends_in_s = seconds
        self.pace = known_pace(plan)
        if state in plan.unreached:
            self.reach_s = self.pace.reach_seconds(plan, state)
        else:
            self.reach_s = 0.0
        self.own_s = [plan.cell_seconds(state, cell) for cell in todo[: self.here]]
        others = {name: cells for name, cells in self.missing.items() if name != state}
        self.others = (
            sum(plan.cell_seconds(name, cell) for name, cells in others.items() for cell in cells),
            sum(self.pace.reach_seconds(plan, name) for name in others),
        )
        self.seen_at_s = [self.began]  # the visit's begin, then when each of its cells was seen

    def _waiting(self) -> int:
        return sum(1 for _ in self.folder.glob("*.json"))

    def __call__(self) -> Line:
        """One line while a visit continues."""
        words, there = self.doing()
        # received results leave the queue
        if self.visible:
            seen = self._waiting() - self.at_start
        else:
            seen = there
        self.seen_at_s += [time.monotonic()] * (min(seen, self.here) - self._seen)
        return self._line(self._seen, f", {words}" if words else "")

    def done(self) -> str:
        """One line at the end of a visit, when all its cells came home; another visit may have ended meanwhile."""
        self.before = self.total - self.here - sum(len(self.plan.to_measure(name)) for name in self.missing)
        return str(self._line(self.here))

    @property
    def _seen(self) -> int:
        return len(self.seen_at_s) - 1

    @property
    def _cell_pace(self) -> float:
        """Seconds a cell of this visit, as soon as two looks saw some; else of the study's last ones."""
        if self._seen:
            at_first_look = self.seen_at_s.count(self.seen_at_s[1])
        else:
            at_first_look = 0
        planned_s = sum(self.own_s[at_first_look : self._seen])
        if planned_s and not self.plan.target.of_kind.guests:
            return (self.seen_at_s[-1] - self.seen_at_s[1]) / planned_s
        return self.pace.cells

    def _line(self, done: int, words: str = "") -> Line:
        measured = f"{self.before + done} of {self.total} cells, state {self.state}: {done} of {self.here}"
        return Line(f"{self.plan.title}: {measured}{words}", self._left(max(done, self._seen)))

    def _left(self, done: int) -> str:
        now = time.monotonic()
        if self.ends_in_s is not None:
            left_s = self.ends_in_s - (now - self.began)
            whole_s = self.ends_in_s
        else:
            cells_s, states_s = self.others
            whole_s = (cells_s + sum(self.own_s[done:])) * self._cell_pace + states_s
            whole_s += 0 if done else self.reach_s
            left_s = whole_s - (now - self.seen_at_s[-1] if done < self.here else 0.0)
        if math.isinf(whole_s) or not whole_s:  # it has no end, or all is measured
            return ""
        if left_s > 0:
            return f"; about {duration(left_s)} left"
        gone_s = now - self.began
        return f"; {duration(gone_s)} since it began, longer than the {duration(whole_s)} that were estimated"


def known_pace(plan: Plan) -> Pace:
    """The pace of a study's last records; the usual one where one cannot be read, of which the report tells."""
    try:
        return pace_of(plan)
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError):
        return Pace()


def pace_of(plan: Plan) -> Pace:
    """The pace of a study's last records: what cells took, in the middle, and what passed between visits, in all.

    A populate is as far off its estimate as what is deleted afterwards, but in another direction (seen at 22.6 TiB).
    """
    paths = sorted(results.stored(plan.results.records("")), key=lambda path: path.stat().st_mtime)
    visits = [list(of_visit) for _, of_visit in groupby(paths, key=lambda path: path.parent)][-VISITS:]
    if plan.target.of_kind.guests and visits:
        pace = _pace_of_visits(plan, visits)
        return Pace(pace, pace, pace)
    cells = {name: {cell.name: cell for cell in cells} for name, cells in plan.cells.items()}
    of_cells = [
        record["seconds"]["total"] / plan.cell_seconds(record["state"], cell)
        for record in map(results.read, paths[-LAST:])
        if (cell := _cell_of(cells, record)) and record.get("seconds", {}).get("total")
    ]
    between: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for before, after in pairwise(visits):
        last = results.read(before[-1])
        first = results.read(after[0])
        if last["run"] == first["run"] and _cell_of(cells, first):
            took_s = (_when(first["began"]) - _when(last["ended"])).total_seconds()
            between[plan.from_empty(first["state"])].append((took_s, plan.reach_seconds(first["state"])))
    return Pace(median(of_cells) if of_cells else 1.0, _ratio(between[True]), _ratio(between[False]))


def _pace_of_visits(plan: Plan, visits: list[list[Path]]) -> float:
    """The pace of a run's last visits to guests, by the clock: cells there have a disk's seconds.

    Two states are visited at once.
    """
    run = results.read(visits[-1][-1])["run"]
    own = [paths for paths in visits if results.read(paths[-1])["run"] == run]
    estimated_s = 0.0
    for paths in own:
        state = paths[0].parent.name
        estimates = {cell.name: plan.cell_seconds(state, cell) for cell in plan.cells[state]}
        estimated_s += plan.reach_seconds(state) + sum(estimates[path.stem] for path in paths)
    began = plan.results.request(f"visit_{own[0][0].parent.name}").stat().st_mtime
    return (own[-1][-1].stat().st_mtime - began) / estimated_s


def _ratio(pairs: list[tuple[float, float]]) -> float:
    """What was taken over what was estimated, in all; 1 where nothing is known."""
    took_s = sum(took_s for took_s, _ in pairs)
    estimated_s = sum(estimated_s for _, estimated_s in pairs)
    if estimated_s:
        return max(0.0, took_s / estimated_s)
    return 1.0


def _cell_of(cells: dict[str, dict[str, Cell]], record: Json) -> Cell | None:
    return cells.get(record["state"], {}).get(record["cell"])


def _when(text: str) -> datetime:
    return datetime.fromisoformat(text)
