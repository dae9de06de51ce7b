"""Groups that share a target's device by weight: each a control group with a process in it, counted by the kernel.

A phase that has `shares` is run so. Its keys: queue (the scheduler), cgroup (v1, v2), cost (IOCost's model; none: it is
off), settle_s, seconds, and groups, each with name, weight, and argv (a reader that never ends) or query (what
fsage.host.cells.query takes; one group at most). The readers run for `settle_s` and are then counted over the same
`seconds`, in which all of them run, or for as long as the query takes (at most the phase's `timeout_s`); then they are
stopped. Scheduler, cost model and groups of cgroup v1 are put back after each cell; the groups of v2, and a controller
that was moved there, at the end of the run, at the release, or by `recover`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fsage.host.cells import query
from fsage.host.device import cgroups, iocost
from fsage.host.settings import cleanup, groups, scheduler
from fsage.host.settings.groups import Counted
from fsage.host.system import library
from fsage.host.system.shell import stop
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.request import Phase

BEGIN_PATIENCE_S = 10.0
LOOK_EVERY_S = 0.02
SAID = 300  # characters of what a reader said
LEAST_CHARGED = 0.9
"""Of the time that IOCost may charge. Where readers without a pause use less, the device gives less than its model
promises, because others use the disk below it; then no weight has an effect (seen: 2:1 became 1:1)."""
SPANS = 10


def unavailable_because(target: Target, phases: Sequence[Phase]) -> str | None:
    """Why this machine cannot run the phases as asked; None when it can."""
    for asked in (phase["io_groups"] for phase in phases if "io_groups" in phase):
        if why := scheduler.unavailable_because(target.devices[0], asked["queue"]):
            return why
        if asked["cgroup"] == "v1" and (why := groups.v1_unavailable_because()):
            return why
        if asked["cgroup"] == "v2" and (why := iocost.possible({}) if asked["cost"] else iocost.grantable({})):
            return f"no shares by weight in cgroup v2: {why}"
        if any("query" in group for group in asked["groups"]) and (why := query.unavailable_because()):
            return why
    return None


def run(target: Target, phase: Phase, check_alive: Callable[[], None]) -> dict[str, object]:
    """Run the groups beside each other; a phase's result, with what each of `groups` read in `shared_s`.

    `check_alive` is called often; what it raises ends everything. Raises Failure for what cannot be set, ends or
    vanishes.
    """
    asked, began = phase["io_groups"], time.monotonic()
    running: list[subprocess.Popen[Any]] = []
    asking: query.Asked | None = None

    def wait(done: Callable[[], bool]) -> None:
        while True:
            check_alive()
            for process in running:
                if process.poll() is not None:
                    output = process.communicate()[0].strip()[-SAID:]
                    raise Failure(f"a reader ended with code {process.returncode} before all was counted: {output}")
            if done():
                return
            time.sleep(LOOK_EVERY_S)

    try:
        scheduler.put(target, asked["queue"])
        folders = [groups.make(target, asked, group) for group in asked["groups"]]
        zero = _counted(target, folders)
        for group, place in zip(asked["groups"], folders):
            if "query" in group:
                with library.in_memory(library.packed()) as code:
                    asking = query.Asked(_start(target, query.argv(group["query"]), place, code))
            else:
                running.append(_start(target, group["argv"], place))
        busy = [number for number, group in enumerate(asked["groups"]) if "argv" in group]
        late = time.monotonic() + BEGIN_PATIENCE_S
        wait(lambda: _is_over(late) or _have_read(zero, _counted(target, folders), busy))
        wait(lambda: asking is None or asking.ready())
        wait(partial(_is_over, time.monotonic() + asked["settle_s"]))
        spans, charged = 0, None
        while not spans or (charged is not None and charged < LEAST_CHARGED):
            if spans == SPANS:
                raise Failure(
                    f"in each of {SPANS} spans the groups used less of the device than its cost model gives them "
                    f"({charged:.0%} in the last one; at least {LEAST_CHARGED:.0%} is wanted), so no weight had an "
                    "effect: something else uses the disk below. End that, or give a cost model of lower rates (cost_*)"
                )
            spans += 1
            first, start = _counted(target, folders), time.monotonic()
            if asking:
                asking.go()
                wait(partial(asking.ended, start + phase["timeout_s"]))
            else:
                wait(partial(_is_over, start + asked["seconds"]))
            last, shared_s = _counted(target, folders), time.monotonic() - start
            wait(lambda: True)
            charged = _charged_s(first, last) / shared_s if asked["cost"] and busy else None
    finally:
        for process in [*running, *([asking.process] if asking else [])]:
            stop(process)
            process.wait()
            for pipe in (process.stdout, process.stdin):
                if pipe:
                    pipe.close()
        cleanup.put_back(target)
    read = [
        {**group, "read_bytes": now.read_bytes - was.read_bytes, "ios": now.ios - was.ios}
        for group, was, now in zip(asked["groups"], first, last)
    ]
    return {
        "rc": 0,
        "stdout": "",
        "stderr": "",
        "wall_s": time.monotonic() - began,
        **{key: asked[key] for key in ("queue", "cgroup", "cost")},
        "shared_s": shared_s,
        "spans": spans,
        "charged": charged,
        "groups": read,
        **({"queries": asking.answers} if asking else {}),
    }


def _counted(target: Target, places: Sequence[Path]) -> list[Counted]:
    return [groups.counted(target, group) for group in places]


def _is_over(at: float) -> bool:
    return time.monotonic() >= at


def _have_read(zero: Sequence[Counted], now: Sequence[Counted], busy: Sequence[int]) -> bool:
    return all(now[number].ios > zero[number].ios for number in busy)


def _charged_s(first: Sequence[Counted], last: Sequence[Counted]) -> float:
    """Seconds of the device that IOCost charged to all groups together."""
    return (sum(counted.cost_us for counted in last) - sum(counted.cost_us for counted in first)) / 1e6


def _start(target: Target, argv: list[str], group: Path, code: int | None = None) -> subprocess.Popen[Any]:
    try:
        with cgroups.inside(group):
            return subprocess.Popen(
                [*target.as_user(), *argv],
                stdin=subprocess.DEVNULL if code is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=target.mounts[0] / "measured",
                env={**os.environ, "LC_ALL": "C", **({"PYTHONPATH": library.path_of(code)} if code else {})},
                pass_fds=[code] if code else [],
                start_new_session=True,
            )
    except OSError as error:
        raise Failure(f"starting {argv[0]} in {group}: {error}") from error
