"""Groups that share a target's device by weight: each a control group with one process, whose I/O the kernel counts.

A phase with `io_groups` runs so. Its keys are `queue` (the scheduler), `cgroup` (v1 or v2), `cost` (IOCost's model;
none: off), `settle_s`, `seconds` and `groups`. Each group has a name, a weight, and either `argv`, a reader that never
ends, or `query` (module `query`; at most one group). The readers run for `settle_s`. Then all are counted over the
same `seconds`, or for as long as the query takes, at most the phase's `timeout_s`. At last they are stopped.
Scheduler, cost model and groups of cgroup v1 are restored after each cell. The groups of v2, and a controller
that was moved there, are restored at the end of the run, at the release, or by `recover`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fsage.api.host import Call, Instrument, Target, at_hand, stop, undo_cell
from fsage.api.model import Cell, Failure, IoGroups, Json, Phase, in_words
from fsage.studies.slowdisk.host import cgroups, groups, iocost

from . import query

BEGIN_PATIENCE_S = 10.0
LOOK_EVERY_S = 0.02
SHOWN = 300  # characters of a reader's output in a message
LEAST_CHARGED = 0.9
"""Share of the time that IOCost may charge. Readers that never pause use all of it, unless the device gives less than
its model promises, because others use the disk below. Then no weight has an effect (seen: 2:1 became 1:1)."""
SPANS = 10


class Groups(Instrument):
    """Runs the phases with `io_groups`."""

    def unsupported(self, cell: Cell) -> str | None:
        for phase in cell["phases"]:
            if "io_groups" in phase:
                why = self._unsupported(phase["io_groups"])
                if why:
                    return why
        return None

    def _unsupported(self, wanted: IoGroups) -> str | None:
        why = groups.why_no_scheduler(self.target.devices[0], wanted["queue"])
        if not why and wanted["cgroup"] == "v1":
            why = groups.v1_unavailable_because()
        if not why and wanted["cgroup"] == "v2":
            no_shares = iocost.unavailable_because({}) if wanted["cost"] else iocost.groups_unavailable_because({})
            why = no_shares and f"no shares by weight in cgroup v2: {no_shares}"
        if not why and any("query" in group for group in wanted["groups"]):
            why = query.unavailable_because()
        return why

    def run(self, phase: Phase, check_alive: Call) -> Json | None:
        if "io_groups" in phase:
            return run(self.target, phase, check_alive)
        return None


def run(target: Target, phase: Phase, check_alive: Call) -> Json:
    """Run the groups beside each other; a phase's result, with what each of `groups` read in `shared_s`.

    `check_alive` is called often; what it raises ends everything. Raises Failure for a setting that the kernel refuses,
    and for a process or a group that ends too early.
    """
    shares = phase["io_groups"]
    began = time.monotonic()
    running = Running(target, phase, check_alive)
    try:
        running.start()
        spans = 0
        charged: float | None = 0.0
        while charged is not None and charged < LEAST_CHARGED:
            if spans == SPANS:
                raise Failure(
                    f"no weight had an effect: in {SPANS} spans the groups used less of the device than its cost model "
                    f"gives ({charged:.0%} in the last, {LEAST_CHARGED:.0%} is needed). Something else uses the disk "
                    "below: end that, or give a cost model of lower rates (cost_*)"
                )
            spans += 1
            first, last, shared_s = running.span()
            charged = _charged_s(first, last) / shared_s if shares["cost"] and running.readers else None
    finally:
        running.end()
        undo_cell(target)
    read: list[Json] = []
    for group, was, now in zip(shares["groups"], first, last):
        read.append({**group, "read_bytes": now.read_bytes - was.read_bytes, "ios": now.ios - was.ios})
    result: Json = {
        "rc": 0,
        "stdout": "",
        "stderr": "",
        "wall_s": time.monotonic() - began,
        "queue": shares["queue"],
        "cgroup": shares["cgroup"],
        "cost": shares["cost"],
        "shared_s": shared_s,
        "spans": spans,
        "charged": charged,
        "groups": read,
    }
    if running.query:
        result["queries"] = running.query.answers
    return result


class Running:
    """The groups of a phase, with what runs in them. Its methods raise Failure, and what `check_alive` raises."""

    def __init__(self, target: Target, phase: Phase, check_alive: Call) -> None:
        self.target = target
        self.shares = phase["io_groups"]
        self.timeout_s = phase["timeout_s"]
        self.check_alive = check_alive
        self.readers: list[subprocess.Popen[str]] = []
        self.query: query.QueryProcess | None = None

    def start(self) -> None:
        """Make the groups, start what runs in them, and wait until all readers have read and `settle_s` is over."""
        groups.put_scheduler(self.target, self.shares["queue"])
        self.folders = [groups.make(self.target, self.shares, group) for group in self.shares["groups"]]
        zero = self.counted()
        reading = []
        for number, group in enumerate(self.shares["groups"]):
            folder = self.folders[number]
            if "query" in group:
                with at_hand(query.argv(group["query"]), {}) as (words, code):
                    self.query = query.QueryProcess(_start(self.target, words, folder, code))
            else:
                self.readers.append(_start(self.target, group["argv"], folder))
                reading.append(number)

        def have_read() -> bool:
            now = self.counted()
            return all(now[number].ios > zero[number].ios for number in reading)

        late = time.monotonic() + BEGIN_PATIENCE_S
        self.wait(lambda: _is_over(late) or have_read())
        self.wait(lambda: self.query is None or self.query.ready())
        self.wait(partial(_is_over, time.monotonic() + self.shares["settle_s"]))

    def span(self) -> tuple[list[groups.Counted], list[groups.Counted], float]:
        """What the groups had read before a span of time and after it, and how long it was."""
        first = self.counted()
        start = time.monotonic()
        if self.query:
            self.query.go()
            self.wait(partial(self.query.ended, start + self.timeout_s))
        else:
            self.wait(partial(_is_over, start + self.shares["seconds"]))
        last = self.counted()
        shared_s = time.monotonic() - start
        self.wait(lambda: True)
        return first, last, shared_s

    def counted(self) -> list[groups.Counted]:
        """What each group has read so far."""
        return [groups.counted(self.target, folder) for folder in self.folders]

    def wait(self, done: Callable[[], bool]) -> None:
        """Wait until something is done. Raises Failure where a reader ends before."""
        while True:
            self.check_alive()
            for process in self.readers:
                if process.poll() is not None:
                    output = process.communicate()[0].strip()[-SHOWN:]
                    raise Failure(f"a reader ended with code {process.returncode} before all was counted: {output}")
            if done():
                return
            time.sleep(LOOK_EVERY_S)

    def end(self) -> None:
        """End all that runs."""
        for process in [*self.readers, *([self.query.process] if self.query else [])]:
            stop(process)
            process.wait()
            for pipe in (process.stdout, process.stdin):
                if pipe:
                    pipe.close()


def _is_over(at: float) -> bool:
    return time.monotonic() >= at


def _charged_s(first: Sequence[groups.Counted], last: Sequence[groups.Counted]) -> float:
    """Seconds of the device that IOCost charged to all groups together."""
    return (sum(counted.cost_us for counted in last) - sum(counted.cost_us for counted in first)) / 1e6


def _start(target: Target, argv: list[str], group: Path, code: Sequence[int] = ()) -> subprocess.Popen[str]:
    """Start a command in a group; `code`: descriptors that it inherits; then it waits for lines."""
    try:
        with cgroups.inside(group):
            return subprocess.Popen(
                [*target.as_user(), *argv],
                stdin=subprocess.PIPE if code else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=target.mounts[0] / "measured",
                env={**os.environ, "LC_ALL": "C"},
                pass_fds=code,
                start_new_session=True,
            )
    except OSError as error:
        raise Failure(f"starting {argv[0]} in {group}: {in_words(error)}") from error
