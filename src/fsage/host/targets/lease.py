"""One holder: a run holds a target's lease from its first change to its end, and each command locks the target."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from fsage.base import Json, JsonView, Refusal
from fsage.host.system import files, kernel, places, settings
from fsage.host.system.files import boot_id, lock, locked, read_json, remove, write_json
from fsage.model import declaration
from fsage.model.hosts import Asker, Holder
from fsage.model.target import Spec

NOTE = "lease.json"  # in a target's home
PATIENCE_S = 20.0  # a killed run's last command notices within a second and unlocks
BELIEVED_S = 900.0  # a holder on another machine counts as alive so long after it renewed its lease
RENEW_S = 60.0  # how often a long command renews the lease of its run


def machine() -> str:
    """The scope in which a process number is unique: this boot, and this namespace of process numbers."""
    return f"{boot_id()}/{os.stat('/proc/self/ns/pid').st_ino}"


def start_of(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, None when it is gone."""
    try:
        fields = files.stat_of(pid)
    except OSError:
        return None
    if fields[0] in "ZX":
        return None
    return int(fields[19])


def ended(pid: int, start: object) -> bool:
    """Whether the process that began then has ended. Another user's that /proc hides (hidepid) counts as running."""
    if start_of(pid) == start:
        return False
    if not os.access(f"/proc/{pid}/stat", os.R_OK):
        try:
            os.kill(pid, 0)
        except PermissionError:
            return False
        except ProcessLookupError:
            return True
    return True


def alive(holder: JsonView) -> bool:
    """Whether the run that holds a lease is still running."""
    if holder.get("machine") == machine():
        return not ended(holder["pid"], holder["pid_start"])
    return holder["host"] != socket.gethostname() and time.time() - holder["renewed"] < BELIEVED_S


class Held(Refusal):
    """Another run holds the target; `holder` is its lease, for a caller that can look its process up."""

    def __init__(self, message: str, holder: Holder) -> None:
        super().__init__(message)
        self.holder = holder


def dead_here(holder: JsonView) -> bool:
    """Whether a holder's process ran on this machine and has ended; `holder` may be another host's answer."""
    pid = holder.get("pid")
    return holder.get("machine") == machine() and type(pid) is int and ended(pid, holder.get("pid_start"))


def holder_of(spec: Spec, request: Asker | None = None) -> settings.Holder:
    """For whom this process sets what others share on this host: a target, and the request's run."""
    run = (request or {}).get("holder")
    return {
        "user": os.geteuid(),
        "target": spec["name"],
        "home": str(declaration.home_of(spec)),
        "fsname": declaration.fsname_of(spec) or "",
        "run": {key: run.get(key) for key in ("run", "host", "machine", "pid", "pid_start")} if run else None,
    }


def gone(holder: settings.Holder, request: Asker) -> bool:
    """Whether the run for which something was set here has ended; not where somebody set it by hand.

    A run whose process is elsewhere has its lease on the first of the clients.
    """
    run = holder["run"]
    if not run:
        return False
    if run["run"] in request.get("gone", ()):
        return True
    if run.get("machine") == machine():
        return ended(run["pid"], run["pid_start"])
    home = Path(holder["home"])
    try:
        if not (home / "claim.json").exists():
            return False
        current = read_json(home / NOTE)
    except (OSError, Refusal):
        return False
    return not current or current["run"] != run["run"] or not alive(current)


def describe(holder: JsonView) -> str:
    """The holder as text: run, process, host, since when, with which command."""
    return (
        f"run {holder['run']} (process {holder['pid']} on {holder['host']}, since {holder['since']}: "
        f"{holder['command']})"
    )


@contextlib.contextmanager
def _changing(home: Path) -> Iterator[Path]:
    """The lease's file, locked, so that one process at a time reads and writes it.

    A command that only waits for the target changes the lease too. Without the lock, the command of a killed run could
    write an old lease over that of the next run.
    """
    with locked(home / "lease.lock"):
        yield home / NOTE


def refuse_if_held(home: Path, request: Asker) -> None:
    """Raise Refusal when another living run than the request's holds the target. The lease is not taken.

    `request["gone"]` names runs that are known to have been killed, wherever they were.
    """
    current = living(home, request)
    holder = request.get("holder")
    if current and not (holder and current["run"] == holder["run"]):
        raise Held(
            f"target {home.name} is held by {describe(current)}; nothing was touched. "
            "Wait for that run or stop it, then give the same command again.",
            cast(Holder, current),
        )


def living(home: Path, request: Asker) -> Json | None:
    """The lease of another living run, or None; also where it cannot be read."""
    current: Json | None = read_json(home / NOTE)
    if not current or current["run"] in request.get("gone", ()) or not alive(current):
        return None
    return current


def take(home: Path, request: Asker, shared: bool = False) -> Json | None:
    """Note the request's run as the holder; the lease, or None for a request without a run.

    `shared`: a lease that the same run has is kept, for its other commands work under it.
    Raises Refusal where another living run holds the target, and names it.
    """
    with _changing(home) as path:
        refuse_if_held(home, request)
        holder = request.get("holder")
        if not holder:
            return None
        current: Json | None = read_json(path)
        if shared and current and current["run"] == holder["run"]:
            return current
        lease = {**holder, "renewed": time.time(), "taken": str(uuid.uuid4())}
        write_json(path, lease)
        return lease


def drop(home: Path, request: Asker) -> bool:
    """Remove the lease if the request's run holds it; whether it did."""
    holder = request.get("holder")
    with _changing(home) as path:
        current = read_json(path)
        if holder and current and current["run"] == holder["run"]:
            remove(path)
            return True
        return False


def lost(home: Path, request: Asker) -> bool:
    """Whether the request's run no longer holds the lease."""
    holder = request.get("holder")
    return holder is not None and (read_json(home / NOTE) or {}).get("run") != holder["run"]


@contextlib.contextmanager
def held(home: Path, request: Asker, shared: bool = False) -> Iterator[Json | None]:
    """Hold the target while a command works on it; `shared` among commands of one run. Gives the lease.

    Raises Refusal when another run holds the lease, or another command still works after PATIENCE_S.
    """
    with kernel.closing(places.file(home / "lock", os.O_RDWR | os.O_CREAT)) as descriptor:
        for last in kernel.attempts(PATIENCE_S, 0.1):
            if lock(descriptor, shared):
                break
            take(home, request)  # refuses where another living run has the lock; a killed run's command stops (Watch)
            if last:
                drop(home, request)  # else this run, which ends now, would seem to hold the target
                raise Refusal(
                    f"another fsage command has worked on target {home.name} for {PATIENCE_S:.0f} s: "
                    f"{files.describe_holders(descriptor)} holds {home / 'lock'}; nothing was touched"
                )
        yield take(home, request, shared)


class Orphaned(Exception):
    """The run for which this command works has ended."""


class Watch:
    """Tells whether the run for which a command works is still there.

    Ansible runs its commands in sessions of their own, so a signal to the run's process group does not reach them. A
    long command therefore checks three things: the run that holds the lease, its own parent, and the lease. Another
    process may take the lease meanwhile, and then waits until this command stops. It may be a run in the place of a
    killed one, or the next job of the same run after one that was cancelled.
    """

    def __init__(self, home: Path, request: Asker, lease: Json | None) -> None:
        self.home = home
        self.lease = lease
        self.parent = os.getppid()
        holder = request.get("holder")
        self.holder = holder if holder and holder.get("machine") == machine() else None

    def check(self) -> None:
        """Raise Orphaned when the run has ended."""
        if self.orphaned():
            raise Orphaned

    def orphaned(self) -> bool:
        """Whether the holder or the parent process has ended, or another has the lease. If not, renew the lease."""
        if os.getppid() != self.parent:
            return True
        if self.holder is not None and ended(self.holder["pid"], self.holder["pid_start"]):
            return True
        if self.lease is None:
            return False
        if time.time() - self.lease["renewed"] <= RENEW_S:
            return not self._ours(self.home / NOTE)
        with _changing(self.home) as path:
            if not self._ours(path):
                return True
            self.lease = {**self.lease, "renewed": time.time()}
            write_json(path, self.lease)
            return False

    def _ours(self, path: Path) -> bool:
        return self.lease is not None and (read_json(path) or {}).get("taken") == self.lease["taken"]
