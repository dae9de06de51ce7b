"""What is on the screen: how far a study is, how long it will still take, and what of Snakemake's lines people need.

The plan's estimates are corrected by what the study's last cells and states really took, and within a visit by what its
cells take. The rest of Snakemake's lines is in its log, and what people need is said by the jobs.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from snakemake_interface_logger_plugins.common import LogEvent

from fsage import interrupt
from fsage.base.message import printable
from fsage.base.sizes import duration
from fsage.plan import Plan, results
from fsage.plan.estimates import Outlook


def doing_of(log: Path) -> Path:
    """Where stands what a playbook's command does at the moment: the action plugin puts there what it hears."""
    return log.with_suffix(".doing")


LAST = 8
VISITS = 24
"""Records that tell the pace of cells, and visits that tell that of states."""


class Pace(NamedTuple):
    """How many times longer than estimated cells take, and building a state: from empty, or from another state."""

    cells: float = 1.0
    from_empty: float = 1.0
    from_another: float = 1.0

    def reach_seconds(self, state: Outlook) -> float:
        """What bringing a state about takes at this pace."""
        if state.from_empty:
            return state.reach_s * self.from_empty
        return state.reach_s * self.from_another


class Line(NamedTuple):
    """What is shown while something runs: `what` it does and how far it is, and the time that is `left`."""

    what: str
    left: str = ""

    def __str__(self) -> str:
        return self.what + self.left


def heard(log: Path) -> tuple[str, int]:
    """What a playbook's command does at the moment, as its host tells (fsage.host.targets.claims).

    In words, and how many of the requested cells are measured; no words where it is not known.
    """
    try:
        noted = json.loads(doing_of(log).read_bytes())
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
        self.log = plan.results.log(f"visit_{state}")
        self.began = time.monotonic()
        self.at_start = self._waiting()
        outlook = plan.outlook()
        self.total = sum(map(len, plan.cells.values()))
        self.before = self.total - _left_in(outlook)
        own = self.own = outlook[state]
        self.in_visit = len(own.left) if cells is None else cells
        self.ends_in_s = seconds
        self.pace = known_pace(plan, outlook)
        self.reach_s = 0.0
        if not plan.results.state(state).exists():
            self.reach_s = self.pace.reach_seconds(own)
        self.own_s = [own.cells_s[cell.name] for cell in own.left[: self.in_visit]]
        self.others_cells_s = 0.0
        self.others_reach_s = 0.0
        for name, other in outlook.items():
            if name != state and other.left:
                self.others_reach_s += self.pace.reach_seconds(other)
                self.others_cells_s += other.left_s
        self.seen_at_s = [self.began]  # the visit's begin, then when each of its cells was seen

    def _waiting(self) -> int:
        return len(list(self.folder.glob("*.json")))

    def __call__(self) -> Line:
        """One line while a visit continues."""
        words, seen = heard(self.log)
        if self.visible:  # received results leave the queue
            seen = self._waiting() - self.at_start
        self.seen_at_s += [time.monotonic()] * (min(seen, self.in_visit) - self._seen)
        return self._line(self._seen, words and f", {words}")

    def done(self) -> str:
        """One line at the end of a visit, when all its cells came home; another visit may have ended meanwhile."""
        self.before = self.total - self.in_visit - _left_in(self.plan.outlook())
        return str(self._line(self.in_visit))

    @property
    def _seen(self) -> int:
        return len(self.seen_at_s) - 1

    @property
    def _cell_pace(self) -> float:
        """Seconds a cell of this visit, as soon as two looks saw some; else of the study's last ones."""
        if not self._seen or self.plan.target.of_kind.guests:
            return self.pace.cells
        at_first_look = self.seen_at_s.count(self.seen_at_s[1])
        planned_s = sum(self.own_s[at_first_look : self._seen])
        if planned_s:
            return (self.seen_at_s[-1] - self.seen_at_s[1]) / planned_s
        return self.pace.cells

    def _line(self, done: int, words: str = "") -> Line:
        measured = f"{self.before + done} of {self.total} cells, state {self.state}: {done} of {self.in_visit}"
        return Line(f"{self.plan.title}: {measured}{words}", self._left(max(done, self._seen)))

    def _left(self, done: int) -> str:
        now = time.monotonic()
        if self.ends_in_s is not None:
            left_s = self.ends_in_s - (now - self.began)
            whole_s = self.ends_in_s
        else:
            cells_s = self.others_cells_s + sum(self.own_s[done:])
            whole_s = cells_s * self._cell_pace + self.others_reach_s
            if not done:
                whole_s += self.reach_s
            left_s = whole_s
            if done < self.in_visit:
                left_s -= now - self.seen_at_s[-1]
        if math.isinf(whole_s) or not whole_s:  # it has no end, or all is measured
            return ""
        if left_s > 0:
            return f"; about {duration(left_s)} left"
        gone_s = now - self.began
        return f"; {duration(gone_s)} since it began, longer than the {duration(whole_s)} that were estimated"


def _left_in(outlook: Mapping[str, Outlook]) -> int:
    """How many cells are left."""
    return sum(len(state.left) for state in outlook.values())


def known_pace(plan: Plan, outlook: Mapping[str, Outlook]) -> Pace:
    """The pace of a study's last records; the usual one where one cannot be read, of which the report tells."""
    try:
        return pace_of(plan, outlook)
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError):
        return Pace()


def pace_of(plan: Plan, outlook: Mapping[str, Outlook]) -> Pace:
    """The pace of a study's last records: what cells took, in the middle, and what passed between visits, in all.

    A populate is as far off its estimate as what is deleted afterwards, but in another direction (seen at 22.6 TiB).
    """
    paths = sorted(results.stored(plan.results.records("")), key=lambda path: path.stat().st_mtime)
    visits = [list(of_visit) for _, of_visit in groupby(paths, key=lambda path: path.parent)][-VISITS:]
    if plan.target.of_kind.guests and visits:
        pace = _pace_of_visits(plan, outlook, visits)
        return Pace(pace, pace, pace)
    of_cells = []
    for path in paths[-LAST:]:
        record = results.read(path)
        estimated_s = _estimate_of(record, outlook)
        took_s = record.get("seconds", {}).get("total")
        if estimated_s and took_s:
            of_cells.append(took_s / estimated_s)
    took = {True: 0.0, False: 0.0}
    estimated = {True: 0.0, False: 0.0}
    for before, after in pairwise(visits):
        last = results.read(before[-1])
        first = results.read(after[0])
        if last["run"] == first["run"] and _estimate_of(first, outlook):
            state = outlook[first["state"]]
            passed = datetime.fromisoformat(first["began"]) - datetime.fromisoformat(last["ended"])
            took[state.from_empty] += passed.total_seconds()
            estimated[state.from_empty] += state.reach_s
    return Pace(median(of_cells or [1.0]), _ratio(took[True], estimated[True]), _ratio(took[False], estimated[False]))


def _estimate_of(record: Mapping[str, Any], outlook: Mapping[str, Outlook]) -> float | None:
    """What the plan estimates for a record's cell; None for a cell that is no more in it."""
    state = outlook.get(record["state"])
    if state is None:
        return None
    return state.cells_s.get(record["cell"])


def _pace_of_visits(plan: Plan, outlook: Mapping[str, Outlook], visits: list[list[Path]]) -> float:
    """The pace of a run's last visits to guests, by the clock: cells there have a disk's seconds.

    Two states are visited at once.
    """
    run = results.read(visits[-1][-1])["run"]
    own = [paths for paths in visits if results.read(paths[-1])["run"] == run]
    estimated_s = 0.0
    for paths in own:
        state = outlook[paths[0].parent.name]
        estimated_s += state.reach_s + sum(state.cells_s[path.stem] for path in paths)
    began = plan.results.request(f"visit_{own[0][0].parent.name}").stat().st_mtime
    return (own[-1][-1].stat().st_mtime - began) / estimated_s


def _ratio(took_s: float, estimated_s: float) -> float:
    """What was taken over what was estimated; 1 where nothing is known."""
    if estimated_s:
        return max(0.0, took_s / estimated_s)
    return 1.0


HANDLER = "DefaultStreamHandler"
"""Snakemake's name of its screen logger. Loggers given by `--logger` stay as they are."""
OWN = f"{os.sep}snakemake{os.sep}"
"""Snakemake itself; executors are packages of their own."""
TELLS = {LogEvent.ERROR, LogEvent.DEBUG_DAG}
STAYS = ("Nothing to be done", "Shutting down", "Report created", "Unlocking", "Unlocked", "Congratulations")
SAID_BY_JOBS = re.compile(
    r"Command 'set -euo pipefail;  fsage .*' returned non-zero exit status (1|130)\.|"
    r"Exiting because a job execution failed|--keep-incomplete mode is set|"
    r"At least one job did not complete successfully",
    re.DOTALL,
)
"""What Snakemake adds where a job has ended in a sentence. How a job ended that could not say why stays."""
NO_RULE = re.compile(r"No rule to produce (\S+) \(if you use input functions")
"""How Snakemake refuses a file that nothing makes."""


class ForPeople(logging.Filter):
    """Lets warnings and errors through, what an executor says (a job's id in Slurm), and that there is nothing to do.

    Events are rules, job tables, shell commands and steps done: a long study has hundreds, and each job says in words
    of the study what it did, also when it failed.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is for people. Who stopped a run knows why it ended."""
        if interrupt.came() or SAID_BY_JOBS.search(record.getMessage()):
            return False
        unknown = NO_RULE.search(record.getMessage())
        if unknown:
            record.msg = f"fsage: {unknown[1]}: no study has a result of this name; give a study instead of a file"
        event = getattr(record, "event", None)
        if event:
            return event in TELLS
        if record.levelno > logging.INFO:
            return True
        return OWN not in record.pathname or record.getMessage().startswith(STAYS)


def set_up(verbose: bool) -> None:
    """From now on the screen has what is for people, or all (`verbose`); the log, which is another handler, has all."""
    logger = logging.getLogger("snakemake.logging")
    logger.addHandler(FailedJobs())
    for handler in logger.handlers:
        if handler.name == HANDLER and not verbose:
            handler.addFilter(ForPeople())


REQUEUEING = re.compile(r"Consider enabling requeueing .* executor settings\. *")
"""The advice of Snakemake's plugin, which profiles/slurm does not take: no cell is measured again unasked."""


class FailedJobs(logging.Handler):
    """Prints, of each job that a scheduler lost or refused, what the scheduler says and what the job said last.

    Snakemake, quiet about rules, would keep that to itself. Jobs of this machine have said themselves what was wrong.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Print the complaint of one record; all other records are left to Snakemake."""
        message = getattr(record, "rule_msg", None)
        if message and record.__dict__.get("event") == LogEvent.JOB_ERROR:
            text = " ".join(message.partition("\n    sbatch call:")[0].split())
            text = REQUEUEING.sub("The same command measures what is left. ", text)
            print(printable(f"fsage: {record.__dict__['rule_name']}: {text}"), file=sys.stderr)
            for log in map(Path, record.__dict__["log"][-1:]):  # the scheduler's comes last
                print(printable(f"fsage: its log is {log}{last_words(log)}"), file=sys.stderr)


def last_words(log: Path) -> str:
    """The last line that fsage wrote into a job's log."""
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("fsage: ")]
    except OSError:
        return ""
    if lines:
        return f"; it last said: {lines[-1].removeprefix('fsage: ')}"
    return ""
