"""Runs of Snakemake in one folder: who each is, what it has still to measure, and which of them have gone.

A run notes in one file, before its first job, who it is (`holder`), and to what it narrows its studies (`only`). The
file also has when its window closes (`until`), which states each of its targets has (`parts`), and its jobs. A job that
parses the Snakefile again must see the same DAG.

Jobs find the file by an environment variable. It is also their licence. A run that was killed leaves it, and its jobs
on a cluster continue or still wait. The next run in this folder takes the target over and takes the note away, so those
jobs can do nothing any more. Nothing is begun that would not end before the window closes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

from fsage import seam
from fsage.base import Json, Refusal
from fsage.base.sizes import counted
from fsage.model import limits
from fsage.model.hosts import Holder
from fsage.plan import Plan, results
from fsage.plan.pool import Parts, Pool

NOTE = "FSAGE_RUN"  # environment variable: the note of the run that a job belongs to


class Job(NamedTuple):
    """A job of the DAG, which writes the manifests of `states`; `cells` are to be measured, perhaps none.

    `words`: the command of fsage that does it. `what`: to people.
    """

    name: str
    words: Sequence[str]
    states: Sequence[str]
    cells: int
    what: str


TOGETHER_IN_GUESTS = 2
"""States that one job visits where cells run in guests: to begin a job takes a second."""


class Superseded(Refusal):
    """The run that requested this has ended, and another took its place."""

    def __init__(self) -> None:
        super().__init__(
            "the run that submitted this job has ended, and another took its place. What was measured is kept for "
            "the other run"
        )


@dataclass(frozen=True)
class Run:
    """What is known of a run before anything is planned. `only`: study -> an entry of its `only`."""

    holder: Holder | None = None
    only: dict[str, object] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    parts: dict[str, Parts] = field(default_factory=dict)
    """Study -> target -> its states, where a run has several targets."""
    until: datetime | None = None
    precision: float | None = None
    """Where only what says most is measured (fsage.run.adaptive): 0.03 is ±3%."""


NO_RUN = Run()
"""For a command that somebody gives by hand: it narrows nothing, and no window closes."""


def current() -> Run:
    """The run that this process belongs to. Raises Superseded when it has lost its licence."""
    if NOTE not in os.environ:
        return NO_RUN
    noted = _noted(Path(os.environ[NOTE]))
    until = noted["until"]
    ends = datetime.fromisoformat(until) if until else None
    return Run(noted["holder"], noted["only"], tuple(noted["lost"]), noted["parts"], ends, noted["precision"])


def told_before(text: str) -> bool:
    """Whether another job of this run has said on this screen what the first line says; it is noted for the next one.

    A state's job fails for the same reason as the one before: once is enough. What a scheduler runs has a log of its
    own.
    """
    if NOTE not in os.environ or "SLURM_JOB_ID" in os.environ:
        return False
    path = told_by(Path(os.environ[NOTE]))
    line = text.partition("\n")[0]
    with open(path, "a+", encoding="utf-8") as said:
        said.seek(0)
        if line in said.read().splitlines():
            return True
        said.write(f"{line}\n")
    return False


def take_line(until: contextlib.ExitStack) -> bool:
    """Take the line that changes on the terminal, `until` then; whether no other job of this run has it."""
    if NOTE not in os.environ:
        return True
    with contextlib.ExitStack() as own:
        file = own.enter_context(open(told_by(Path(os.environ[NOTE])), "a", encoding="utf-8"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        until.push(own.pop_all())
    return True


def told_by(note_of_run: Path) -> Path:
    """Where the jobs of a run note what they have said."""
    return note_of_run.with_suffix(".told")


def jobs() -> dict[str, dict[str, list[Job]]]:
    """Study -> target -> the jobs that the run of this process has planned. Raises Superseded without its licence."""
    planned: dict[str, dict[str, list[Job]]] = {}
    for study, targets in _noted(Path(os.environ[NOTE]))["jobs"].items():
        planned[study] = {target: list(starmap(Job, jobs)) for target, jobs in targets.items()}
    return planned


def _noted(path: Path) -> Json:
    noted = results.read(path)
    if noted is None:
        raise Superseded
    return noted


def identity(command: str) -> Holder:
    """This process as the holder of a target: see fsage.host.targets.lease."""
    return {
        "run": f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}",
        "host": os.uname().nodename,
        "machine": seam.machine(),
        "pid": os.getpid(),
        "pid_start": seam.start_of(os.getpid()),
        "command": command,
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def note(pools: Mapping[str, Pool], run: Run, folder: Path, batch_states: int | None = None) -> Path:
    """Note a run and its jobs, each of so many states (None: as suits its target); return the file."""
    assert run.holder
    parts: dict[str, dict[str, list[str]]] = {}
    jobs: dict[str, dict[str, list[Job]]] = {}
    for study, pool in pools.items():
        if pool.several:
            parts[study] = {plan.target.name: list(plan.states) for plan in pool.plans}
        adaptive = run.precision is not None
        jobs[study] = {plan.target.name: planned_jobs(plan, batch_states, adaptive) for plan in pool.plans}
    noted = {
        "holder": run.holder,
        "only": run.only,
        "lost": run.lost,
        "parts": parts,
        "until": run.until.isoformat() if run.until else None,
        "precision": run.precision,
        "jobs": jobs,
    }
    path = folder / f"{run.holder['run']}.json"
    results.write(path, noted)
    return path


def planned_jobs(plan: Plan, size: int | None, adaptive: bool) -> list[Job]:
    """What Snakemake is to do, in order. One job measures `size` states, or all of them where it is `adaptive`.

    None: one state, or TOGETHER_IN_GUESTS.
    States of which nothing is missing but the manifest are one more job, which touches no target.
    """
    study = plan.study.name
    states = tuple(plan.missing)
    jobs: list[Job] = []
    if adaptive and states:
        count = plan.missing_count
        what = f"Measure what says most of {counted(count, 'cell')}"
        jobs.append(Job(f"adaptive_{study}", ("adaptive", study), states, count, what))
    elif not adaptive:
        if size is None:
            size = TOGETHER_IN_GUESTS if plan.target.of_kind.guests else 1
        for first in range(0, len(states), size):
            jobs.append(_visit(plan, states[first : first + size], size, len(jobs) + 1))
    measured = tuple(state for state, cells in plan.todo.items() if not cells)
    if measured:
        what = f"List the records of {counted(len(measured), 'state')}"
        jobs.append(Job(f"list_{study}", ("visit", study, *measured), measured, 0, what))
    return jobs


def _visit(plan: Plan, names: tuple[str, ...], size: int, number: int) -> Job:
    """The job that visits these states, where a job visits `size` of them."""
    study = plan.study.name
    first = names[0]
    count = sum(len(plan.missing[name]) for name in names)
    cells = counted(count, "cell")
    if size > 1:
        name = f"visit_{study}_{number}"
        what = f"Visit {counted(len(names), 'state')}, {' to '.join(dict.fromkeys((first, names[-1])))}: {cells}"
    elif first in plan.unreached:
        name = f"{plan.states[first].last_step}_{study}_{first}"
        what = f"Bring the target into state {first}, and measure {cells}"
    else:
        name = f"measure_{study}_{first}"
        what = f"Go back to state {first}, and measure {cells}"
    return Job(name, ("visit", study, *names), names, count, what)


def check() -> None:
    """Raise Superseded when the run that this job belongs to has lost its licence."""
    if NOTE in os.environ and not Path(os.environ[NOTE]).exists():
        raise Superseded


def gone() -> dict[str, Path]:
    """Runs in this run's folder that were killed, each with the note that it left; only this host's can be told."""
    if NOTE not in os.environ:
        return {}
    own = Path(os.environ[NOTE])
    reasons = {}
    for path in own.parent.glob("*.json"):
        holder = (results.read(path) or {}).get("holder")
        if path.name == own.name or holder is None or holder["host"] != os.uname().nodename:
            continue
        if holder["machine"] != seam.machine() or seam.dead(holder):
            reasons[holder["run"]] = path
    return reasons


class WindowClosed(Refusal):
    """What comes next would not end in time; the message says what, and when it would have to."""


def check_window(plan: Plan, what: str, needed_s: float) -> None:
    """Raises WindowClosed when `what`, which takes `needed_s` seconds, would not end before window or hours close."""
    why = limits.why_not_begun(plan.target.spec["limits"], what, needed_s, time.time())
    if why:
        raise WindowClosed(f"{why}. What was measured is kept")
    end = current().until
    now = datetime.now().astimezone()
    if end and now + timedelta(seconds=needed_s) > end:
        raise WindowClosed(
            f"{what} takes about {needed_s:.0f} s and would not end before {end:%Y-%m-%d %H:%M}, when this run is to "
            "end (until, budget): not begun. What was measured is kept; the same command resumes later"
        )
