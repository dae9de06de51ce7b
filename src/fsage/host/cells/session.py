"""A stay at a target in one state: it is checked before and after, and around each cell, whose observation is kept."""

from __future__ import annotations

import os
import platform
import socket
import time
import uuid
from pathlib import Path

from fsage.host import token
from fsage.host.cells import io_groups, leftover, outbox
from fsage.host.cells.phases import Phases
from fsage.host.cells.structure_check import StructureCheck
from fsage.host.lustre import prealloc, servercache, servers
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.states.state import inspect, layout_record, remove_measured
from fsage.host.structure.quota import Quota
from fsage.host.system.files import read_json
from fsage.host.targets.lease import Orphaned, Watch
from fsage.host.targets.target import Target
from fsage.model import frozen, structure
from fsage.model.claim import utc_now
from fsage.model.errors import Failure
from fsage.model.observation import Check, Conditions, Observation, Outcome, PhaseResult
from fsage.model.request import Cell, Request
from fsage.model.token import MEASURING, READY, Token


class Session:
    """One stay at a target in one state. `now`, its token, and `conditions` are known from `enter` on."""

    now: Token
    conditions: Conditions

    def __init__(self, target: Target, request: Request, watch: Watch, hosts: Hosts) -> None:
        self.target, self.request, self.watch, self.hosts = target, request, watch, hosts
        self.mount = target.mounts[0]
        self.lustre = target.spec["lustre"]
        self.phases = Phases(target, hosts, request.get("slurm_job"), self.check_alive)
        self.structure = StructureCheck(target)
        self.differs: str | None = None  # what the last check found
        self.unsure: list[Cell] = []  # measured since all files were looked at, after a look at a sample of them

    def enter(self) -> str | None:
        """Compare the whole layout once; why the state is not as asked, or None.

        Raises Failure where the servers are not tuned as was noted: no state that is made anew would mend that.
        """
        now, why = inspect(self.target, whole=True)
        if why or not now:
            return why
        if list(now.done) != self.request["steps"]:
            return f"the target is at {now.state!r}, asked is {self.request['state']!r}"
        self.now = now
        self.conditions = {
            "device_model": self.target.model_in_place(),
            "filesystem": self.target.filesystem,
            "mount_options": self.target.mount_options(),
            "allocator_reset": self.target.allocator_reset,
            "tunables": read_json(self.target.home / "tunables.json") or {},
            "tools": self.target.claim["tools"],
            "images": self.target.claim.get("images", {}),
            "uid": self.target.uid,
            "amount_mib": self.request.get("amount_mib", self.target.claim["amount_mib"]),
            "amount_source": self.request.get("amount_source", self.target.claim["amount_source"]),
            "launch": frozen.launch(self.target.claim),
        }
        if self.lustre:
            if why := prealloc.unavailable_because(self.hosts, self.conditions["tunables"].get(prealloc.NOTE)):
                raise Failure(f"no cell of state {self.now.state} was measured: {why}")
            self.conditions["lustre"] = {key: self.target.claim["lustre"][key] for key in ("version", "declared")}
        return None

    def leave(self) -> str | None:
        """Compare the whole layout once more after the last cell; why it is not as it was, or None."""
        if not self.check()["agreed"]:
            self.doubt()
            return f"the state changed while its last cell was measured: {self.differs}"
        if why := self.structure.whole_differs(self.now):
            self.doubt()
        return f"the state changed during this visit, before which of its cells is not known: {why}" if why else None

    @property
    def unwatched(self) -> str | None:
        """Why the kernel does not tell what others do to the target, and what is done instead; None where it does."""
        if not (why := self.structure.why_unwatched):
            return None
        if not (share := self.structure.unseen_share):
            return f"all files were looked at before each cell: {why}"
        return (
            f"before each cell a sample of the files was looked at, and all directories: {why}. Which cell a file was "
            f"changed before would be missed with a chance of {share:.1%} a cell; at the end all were looked at"
        )

    def close(self) -> None:
        """Watch the target no more."""
        self.structure.close()

    def check(self) -> Check:
        """Token, epoch and structure against what this visit expects."""
        began = time.monotonic()
        now = token.read(self.mount)
        self.differs, looked_at = self.structure.differs(self.now)
        if now != self.now:
            self.differs = "its token is another one"
        checked: Check = {
            "state": self.now.state,
            "epoch": self.now.epoch,
            "status": now.status if now else None,
            "fingerprint": self.structure.hash,
            "looked_at": looked_at,
            "agreed": self.differs is None,
            "instance": self.now.instance,
            "rebuilt": self.request.get("first_instance") not in (None, self.now.instance),
            "emptied_because": self.now.emptied_because,
            "seconds": time.monotonic() - began,
        }
        if looked_at == "sample":
            checked["unseen_share"] = self.structure.unseen_share
        return checked

    def cell(self, cell: Cell) -> str | None:
        """Measure one cell and keep its observation; why not, when the state is not as asked."""
        if self.watch.orphaned():
            raise Orphaned
        began, clock, broken = utc_now(), time.monotonic(), None
        seen = self.check()
        if not seen["agreed"]:
            self.doubt()
            return f"before cell {cell['name']}: the state is not the one that this visit found: {self.differs}"
        self.unsure = [*self.unsure, cell] if seen["looked_at"] == "sample" else []
        if cannot := cell.get("unsupported") or self.unavailable_because(cell):
            observation = self.observation(cell, began, seen, [], "unsupported", cannot)
        elif full := self.over_quota(cell):
            observation = self.observation(cell, began, seen, [], "failed", full)
        else:
            self.now = token.changed(self.mount, self.now, status=MEASURING, cell=cell["name"])
            osts = servers.Watch(self.mount, self.lustre) if self.lustre else None
            phases, why = self.phases.run(cell, self.now)
            counted = osts.ended() if osts else None
            if osts and (
                untuned := prealloc.unavailable_because(self.hosts, self.conditions["tunables"].get(prealloc.NOTE))
            ):
                why = why or untuned
            cleaning = time.monotonic()
            broken = self.clean(failed=bool(why))
            why = why or broken
            observation = self.observation(cell, began, seen, phases, "failed" if why else "done", why)
            if counted:
                observation["osts"] = counted
            observation["seconds"] = {
                "check": seen["seconds"],
                "drop": sum(phase["cache_drop_s"] for phase in phases),
                "run": sum(phase["wall_s"] for phase in phases),
                "clean": time.monotonic() - cleaning,
                "total": time.monotonic() - clock,
            }
        outbox.keep(outbox.place(self.target, self.request, cell), observation)
        return broken

    def doubt(self) -> None:
        """Fail the cells before which a sample of the files did not tell of what a look at all of them found."""
        for cell in self.unsure:
            path = outbox.place(self.target, self.request, cell)
            kept: Observation | None = read_json(path)
            if kept and kept["status"] == "done":
                kept["status"] = "failed"
                kept["why"] = (
                    "files of the state were changed during this visit, and before this cell only a sample of them was "
                    "looked at: whether it was measured before that or after is not known"
                )
                outbox.keep(path, kept)
        self.unsure = []

    def unavailable_because(self, cell: Cell) -> str | None:
        """Why a cell cannot be run as asked in this state, on this machine or this site; None when it can."""
        of_state = structure.unsupported(self.now.notes) if cell["kind"] == "planned" else None
        return (
            of_state
            or io_groups.unavailable_because(self.target, cell["phases"])
            or servercache.unavailable_because(self.hosts, cell["phases"])
        )

    def over_quota(self, cell: Cell) -> str | None:
        """Why the files that a cell makes would be more than a state leaves room for; None where they are not.

        On a file system of its own that is what files can take there, else what the target's claim allows.
        """
        wanted_bytes = cell.get("makes_bytes", 0)
        if self.target.own_stores:
            stores = [os.statvfs(mount) for mount in self.target.mounts]
            left_bytes = sum(store.f_bavail * store.f_frsize for store in stores)
            if wanted_bytes <= left_bytes:
                return None
            return (
                f"its files take {wanted_bytes} bytes, and state {self.now.state} has room for "
                f"{left_bytes}; declare a smaller amount_mib for target {self.target.name}, or a larger target"
            )
        try:
            quota = Quota(self.target, held=self.now.held_bytes)
            quota.must_hold(wanted_bytes, f"cell {cell['name']}")
        except Failure as why:
            return str(why)
        return None

    def check_alive(self) -> None:
        """While a command runs: raise Orphaned when the run has gone, Lost when a host has."""
        if self.watch.orphaned():
            raise Orphaned
        self.hosts.alive()

    def clean(self, failed: bool) -> str | None:
        """Remove what the cell left and say so on the target; why the state is lost when that cannot be done.

        What a cell that failed left at work ends before. A file system that shut itself down after an I/O error comes
        back by umount and mount.
        """
        try:
            if failed:
                leftover.end([Path(os.path.realpath(mount)) / "measured" for mount in self.target.mounts])
            remove_measured(self.target, self.now)
        except Failure as failure:
            return f"cleaning up failed: {failure}"
        except OSError:
            try:
                self.target.remount()
                remove_measured(self.target, self.now)
            except (OSError, Failure) as error:
                return f"cleaning up failed: {error}"
        self.now = token.changed(self.mount, self.now, status=READY, cell=None)
        return None

    def observation(
        self, cell: Cell, began: str, seen: Check, phases: list[PhaseResult], status: Outcome, why: str | None
    ) -> Observation:
        """What is kept of a cell, all raw output in it."""
        return {
            "schema": 1,
            "id": str(uuid.uuid4()),
            "study": self.request["study"],
            "target": self.target.name,
            "claim": self.target.claim["id"],
            "state": self.request["state"],
            "nominal": self.request.get("nominal", {}),
            "cell": cell["name"],
            "kind": cell["kind"],
            "attempt": cell["attempt"],
            "order": cell["order"],
            "params": cell["params"],
            "run": self.request.get("run"),
            "began": began,
            "ended": utc_now(),
            "host": socket.gethostname(),
            "hosts": self.hosts.client_names,
            "kernel": platform.release(),
            "status": status,
            "why": why,
            "check": seen,
            "layout": layout_record(self.target, self.now),
            "conditions": self.conditions,
            "phases": phases,
        }
