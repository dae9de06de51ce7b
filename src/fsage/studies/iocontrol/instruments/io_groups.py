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


class Shares(Instrument):
    """Runs the phases with `io_groups`."""

    changes = groups.CHANGES
    of_a_cell = groups.OF_A_CELL
    left_over = staticmethod(groups.left_over)
    end_running = staticmethod(groups.end_readers)

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
    io_groups = phase["io_groups"]
    began = time.monotonic()
    running: list[subprocess.Popen[str]] = []
    query_process: query.QueryProcess | None = None

    def wait(done: Callable[[], bool]) -> None:
        while True:
            check_alive()
            for process in running:
                if process.poll() is not None:
                    output = process.communicate()[0].strip()[-SHOWN:]
                    raise Failure(f"a reader ended with code {process.returncode} before all was counted: {output}")
            if done():
                return
            time.sleep(LOOK_EVERY_S)

    def have_read() -> bool:
        now = _counted(target, folders)
        return all(now[number].ios > zero[number].ios for number in busy)

    try:
        groups.put_scheduler(target, io_groups["queue"])
        folders = [groups.make(target, io_groups, group) for group in io_groups["groups"]]
        zero = _counted(target, folders)
        for group, place in zip(io_groups["groups"], folders):
            if "query" in group:
                with at_hand(query.argv(group["query"]), {}) as (words, code):
                    query_process = query.QueryProcess(_start(target, words, place, code))
            else:
                running.append(_start(target, group["argv"], place))
        busy = [number for number, group in enumerate(io_groups["groups"]) if "argv" in group]
        late = time.monotonic() + BEGIN_PATIENCE_S
        wait(lambda: _is_over(late) or have_read())
        wait(lambda: query_process is None or query_process.ready())
        wait(partial(_is_over, time.monotonic() + io_groups["settle_s"]))
        spans = 0
        charged = None
        while not spans or (charged is not None and charged < LEAST_CHARGED):
            if spans == SPANS:
                raise Failure(
                    f"no weight had an effect: in {SPANS} spans the groups used less of the device than its cost model "
                    f"gives ({charged:.0%} in the last, {LEAST_CHARGED:.0%} is needed). Something else uses the disk "
                    "below: end that, or give a cost model of lower rates (cost_*)"
                )
            spans += 1
            first = _counted(target, folders)
            start = time.monotonic()
            if query_process:
                query_process.go()
                wait(partial(query_process.ended, start + phase["timeout_s"]))
            else:
                wait(partial(_is_over, start + io_groups["seconds"]))
            last = _counted(target, folders)
            shared_s = time.monotonic() - start
            wait(lambda: True)
            charged = _charged_s(first, last) / shared_s if io_groups["cost"] and busy else None
    finally:
        if query_process:
            running.append(query_process.process)
        for process in running:
            stop(process)
            process.wait()
            for pipe in (process.stdout, process.stdin):
                if pipe:
                    pipe.close()
        undo_cell(target)
    read: list[Json] = []
    for group, was, now in zip(io_groups["groups"], first, last):
        read.append({**group, "read_bytes": now.read_bytes - was.read_bytes, "ios": now.ios - was.ios})
    result: Json = {
        "rc": 0,
        "stdout": "",
        "stderr": "",
        "wall_s": time.monotonic() - began,
        **{key: io_groups[key] for key in ("queue", "cgroup", "cost")},
        "shared_s": shared_s,
        "spans": spans,
        "charged": charged,
        "groups": read,
    }
    if query_process:
        result["queries"] = query_process.answers
    return result


def _counted(target: Target, places: Sequence[Path]) -> list[groups.Counted]:
    return [groups.counted(target, group) for group in places]


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
