"""Runs of Snakemake in one folder: who each is, what it has still to measure, and which of them have gone.

A run notes in one file, before its first job, who it is (`holder`), and to what it narrows its studies (`only`). The
file also has when its window closes (`until`), which states each of its targets has (`parts`), and its jobs. A job that
parses the Snakefile again must see the same DAG.

Jobs find the file by an environment variable. It is also their licence. A run that was killed leaves it, and its jobs
on a cluster continue or still wait. The next run in this folder takes the target over and takes the note away, so those
jobs can do nothing any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import starmap
from pathlib import Path

from fsage import seam
from fsage.base import Json, Refusal
from fsage.model.hosts import Holder
from fsage.plan import results
from fsage.plan.plan import Job
from fsage.plan.pool import Parts, Pool

NOTE = "FSAGE_RUN"  # environment variable: the note of the run that a job belongs to


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
        jobs[study] = {plan.target.name: plan.jobs(batch_states, adaptive) for plan in pool.plans}
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
        if holder["machine"] != seam.machine() or seam.ended(holder["pid"], holder["pid_start"]):
            reasons[holder["run"]] = path
    return reasons
