"""Groups that share a target's device by weight: each a control group with a reader in it, counted by the kernel.

A phase that has `shares` is run so. Its keys: queue (the scheduler), cgroup (v1, v2), cost (IOCost's model; none: it is
off), settle_s, seconds, and groups, each with name, weight and argv. All run for `settle_s` and are then counted over
the same `seconds`, in which all of them run; then they are stopped. Scheduler and cost model are put back after each
cell; the groups, and a controller moved from cgroup v1, at the end of the run, at the release, or by `recover`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fsage.agent import files, filesystems, iocost, journal, scheduler
from fsage.agent.errors import Failure
from fsage.agent.shell import stop
from fsage.agent.target import Target
from fsage.agent.undo import undo

OF_A_CELL = ("cost", "scheduler")
BEGIN_PATIENCE_S = 10.0
LOOK_EVERY_S = 0.02
SAID = 300  # characters of what a reader said


def why_not(target: Target, phases: list[dict]) -> str | None:
    """Why this machine cannot run the phases as asked; None when it can."""
    for asked in (phase["shares"] for phase in phases if "shares" in phase):
        if why := scheduler.why_not(target.devices[0], asked["queue"]):
            return why
        if asked["cgroup"] == "v1" and _v1() is None:
            return "cgroup v1 does not hold the block I/O controller here, or it is not mounted"
        if asked["cgroup"] == "v2" and (why := iocost.possible({})):
            return f"no shares by weight in cgroup v2: {why}"
    return None


def run(target: Target, phase: dict, attend: Callable[[], None]) -> dict[str, Any]:
    """Run the groups beside each other; a phase's result, with what each of `groups` read in `shared_s`.

    `attend` is called often; what it raises ends everything. Raises Failure for what cannot be set, ends or vanishes.
    """
    asked, began = phase["shares"], time.monotonic()
    running: list[subprocess.Popen] = []

    def wait(done: Callable[[], bool]) -> None:
        while True:
            attend()
            for process in running:
                if process.poll() is not None:
                    said = process.communicate()[0].strip()[-SAID:]
                    raise Failure(f"a reader ended with code {process.returncode} before all was counted: {said}")
            if done():
                return
            time.sleep(LOOK_EVERY_S)

    try:
        scheduler.put(target, asked["queue"])
        groups = [_group(target, asked, one) for one in asked["groups"]]
        zero = [_counted(target, group) for group in groups]
        for one, group in zip(asked["groups"], groups):  # noqa: B905 (hosts: Python 3.9)
            running.append(_start(target, one["argv"], group))
        late = time.monotonic() + BEGIN_PATIENCE_S
        pairs = list(zip(groups, zero))  # noqa: B905 (hosts: Python 3.9)
        wait(lambda: time.monotonic() > late or all(_counted(target, group) > was for group, was in pairs))
        settled = time.monotonic() + asked["settle_s"]
        wait(lambda: time.monotonic() >= settled)
        first, start = [_counted(target, group) for group in groups], time.monotonic()
        wait(lambda: time.monotonic() >= start + asked["seconds"])
        last, end = [_counted(target, group) for group in groups], time.monotonic()
        wait(lambda: True)
    finally:
        for process in running:
            stop(process)
            process.wait()
            if process.stdout:
                process.stdout.close()
        put_back(target)
    read = [
        {**one, "read_bytes": now[0] - was[0], "ios": now[1] - was[1]}
        for one, was, now in zip(asked["groups"], first, last)  # noqa: B905 (hosts: Python 3.9)
    ]
    return {
        "rc": 0,
        "stdout": "",
        "stderr": "",
        "wall_s": time.monotonic() - began,
        **{key: asked[key] for key in ("queue", "cgroup", "cost")},
        "shared_s": end - start,
        "groups": read,
    }


def put_back(target: Target) -> None:
    """End what a killed command left running in the groups; then scheduler and cost model are as before."""
    if left_over(target.home):
        end_readers(target.home)
        undo(target.home, OF_A_CELL)


def end_readers(home: Path) -> None:
    """End what runs in the readers' groups, which nobody else's process is in."""
    for group in left_over(home):
        for pid in _words(group / "cgroup.procs"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def left_over(home: Path) -> list[Path]:
    """The readers' groups that are noted."""
    noted = [Path(entry["path"]) for entry in journal.entries(journal.path_of(home)) if entry["kind"] == "group"]
    return [group for group in noted if group.name.startswith(f"{iocost.PREFIX}{home.name}.")]


def _group(target: Target, asked: dict, one: dict) -> Path:
    """A reader's control group with its weight, made if it is not there; the cost model in place, or off."""
    name = f"{target.name}.{one['name']}"
    if asked["cgroup"] == "v2":
        cost = asked["cost"]
        iocost.put(target.home, name, target.devices if cost else [], cost or {})
        group = iocost.group_of(name)
        _write(group / "io.weight", f"default {one['weight']}")
        if (group / "io.bfq.weight").exists():
            _write(group / "io.bfq.weight", f"default {one['weight']}")
        return group
    root = _v1()
    if root is None:
        raise Failure("cgroup v1 does not hold the block I/O controller any more")
    group = root / f"{iocost.PREFIX}{name}"
    with files.locked(journal.SHARED_LOCK):
        journal.note(journal.path_of(target.home), {"kind": "group", "path": str(group)})
        group.mkdir(exist_ok=True)
    _write(group / "blkio.bfq.weight", str(one["weight"]))
    return group


def _start(target: Target, argv: list[str], group: Path) -> subprocess.Popen:
    procs = os.fsencode(group / "cgroup.procs")

    def enter() -> None:
        descriptor = os.open(procs, os.O_WRONLY)
        os.write(descriptor, b"0")
        os.close(descriptor)

    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=target.mounts[0] / "measured",
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
            preexec_fn=enter,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Failure(f"starting {argv[0]} in {group}: {error}") from error


def _counted(target: Target, group: Path) -> tuple[int, int]:
    """Bytes that a group has read from the target's devices, and in how many I/Os."""
    numbers = {iocost.number_of(device) for device in target.devices}
    read_bytes = ios = 0
    try:
        if (group / "blkio.bfq.io_service_bytes").exists():
            found = []
            for name in ("blkio.bfq.io_service_bytes", "blkio.bfq.io_serviced"):
                lines = [line.split() for line in (group / name).read_text(encoding="ascii").splitlines()]
                found.append(sum(int(words[2]) for words in lines if words[0] in numbers and words[1] == "Read"))
            return found[0], found[1]
        for line in (group / "io.stat").read_text(encoding="ascii").splitlines():
            number, *pairs = line.split()
            if number in numbers:
                values = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
                read_bytes += int(values.get("rbytes", 0))
                ios += int(values.get("rios", 0))
    except OSError as error:
        raise Failure(f"the control group {group} cannot be read: {error.strerror}; somebody removed it") from error
    return read_bytes, ios


def _v1() -> Path | None:
    """Where the block I/O controller of cgroup v1 is mounted."""
    for mount in filesystems.mounts():
        if mount.type == "cgroup" and mount.root == "/" and "blkio" in mount.super_options.split(","):
            return Path(mount.point)
    return None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="ascii")
    except OSError as error:
        raise Failure(f"writing {text!r} to {path}: {error.strerror}") from error
