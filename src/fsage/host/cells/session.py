"""A session: the cells of one state, measured one after another, with the state checked before, between and after."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import time
import uuid
from pathlib import Path
from typing import cast

from fsage.host import token
from fsage.host.cells import io_groups, leftover, outbox
from fsage.host.cells.phases import Phases
from fsage.host.cells.sparse_room import SparseRoom
from fsage.host.cells.structure_check import StructureCheck
from fsage.host.instruments.instrument import Instruments, Work
from fsage.host.lustre import servercache, servers
from fsage.host.preallocation import setting
from fsage.host.remote.connection import Lost
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.states.inspection import inspect, layout_record, remove_measured
from fsage.host.structure.quota import Quota
from fsage.host.system import places
from fsage.host.system.files import read_json
from fsage.host.targets import tuned
from fsage.host.targets.lease import Orphaned, Watch
from fsage.host.targets.site_limits import why_not_now
from fsage.host.targets.target import Target
from fsage.model import frozen, structure
from fsage.model.claim import utc_now
from fsage.model.errors import Failure
from fsage.model.observation import Check, Conditions, Observation, Outcome, PhaseResult
from fsage.model.request import Cell, Request
from fsage.model.token import MEASURING, READY, Token
from fsage.model.tuning import PREALLOCATION


class Session:
    """The measurement of cells in one state. `enter` sets `now`, the target's token, and `conditions`."""

    now: Token
    conditions: Conditions

    def __init__(self, target: Target, request: Request, watch: Watch, hosts: Hosts) -> None:
        self.target, self.request, self.watch, self.hosts = target, request, watch, hosts
        self.mount, target.osts.session = target.mounts[0], hosts
        self.lustre = target.spec["lustre"]
        self.phases = Phases(target, hosts, request.get("slurm_job"), self.alive)
        self.structure = StructureCheck(target)
        self.below = SparseRoom(target)
        self.differs: str | None = None  # how the state differed at the last check
        self.unsure: list[Cell] = []  # cells since the last look at all files: only a sample was examined before each

    def enter(self) -> str | None:
        """Compare the whole layout with the request; why the target is in another state, or None.

        Raises Failure where the servers are not tuned as noted: to build the state again would not change that.
        """
        for mount in () if self.target.spec["run_as"] else self.target.mounts:
            with places.opened(mount) as store:
                places.make_in(store, mount / "measured")  # the owner may have taken a right from himself
        now, why = inspect(self.target, whole=True)
        if why or not now:
            return why
        if list(now.done) != self.request["steps"]:
            return f"the target is in state {now.state!r}, requested is {self.request['state']!r}"
        self.now = now
        self.conditions = {
            "device_model": self.target.model_in_place(),
            "filesystem": self.target.filesystem,
            "mount_options": self.target.mount_options(),
            "allocator_reset": self.target.allocator_reset,
            "disks": self.target.disks(),
            "tunables": tuned.whole(self.target.home),
            "tools": self.target.claim["tools"],
            "images": self.target.claim.get("images", {}),
            "uid": self.target.uid,
            "amount_mib": self.request.get("amount_mib", self.target.claim["amount_mib"]),
            "amount_source": self.request.get("amount_source", self.target.claim["amount_source"]),
            "launch": frozen.launch(self.target.claim),
        }
        if self.lustre:
            if why := self.untuned():
                raise Failure(f"no cell of state {self.now.state} was measured: {why}")
            self.conditions["lustre"] = {key: self.target.claim["lustre"][key] for key in ("version", "declared")}
        return None

    def leave(self) -> str | None:
        """Compare the whole layout again after the last cell; how it changed, or None."""
        if not self.check()["agreed"]:
            self.doubt()
            return f"the state changed while its last cell was measured: {self.differs}"
        if why := self.structure.whole_differs(self.now):
            self.doubt()
        return f"the state changed during this session, and before which cell is not known: {why}" if why else None

    @property
    def unwatched(self) -> str | None:
        """Why the kernel does not report what others do to the target, and what is checked instead; None: it does."""
        if not (why := self.structure.why_unwatched):
            return None
        if not (share := self.structure.unseen_share):
            return f"all files were examined before each cell: {why}"
        return (
            f"a sample of the files and all directories were examined before each cell: {why}. A change of one file "
            f"is missed there with a chance of {share:.1%}; all files were examined at the end"
        )

    def close(self) -> None:
        """Give back what cells took below a sparse target, and end the watch of the target."""
        with contextlib.suppress(OSError, Failure):  # a target that is lost is made anew, which gives back all
            self.below.give_back()
        self.structure.close()

    def check(self) -> Check:
        """Compare token, epoch and structure with those of this session."""
        began = time.monotonic()
        now = token.read(self.mount)
        self.differs, looked_at = self.structure.differs(self.now)
        if now != self.now:
            self.differs = "its token was replaced"
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
        if (changed_bytes := self.structure.osts_changed_bytes) is not None:
            checked |= {"osts_changed_bytes": changed_bytes, "tolerance_bytes": self.target.osts.tolerance_bytes}
        return checked

    def cell(self, cell: Cell) -> str | None:
        """Measure one cell and keep its observation; how the state differs from the session's, or None."""
        if self.watch.orphaned():
            raise Orphaned
        began, clock, broken = utc_now(), time.monotonic(), None
        seen = self.check()
        if not seen["agreed"]:
            self.doubt()
            return f"before cell {cell['name']}: the state changed since the session began: {self.differs}"
        self.unsure = [*self.unsure, cell] if seen["looked_at"] == "sample" else []
        if cannot := cell.get("unsupported") or self.unavailable_because(cell):
            observation = self.observation(cell, began, seen, [], "unsupported", cannot)
        elif not_now := self.over_quota(cell) or self.below.refused(cell) or self.astray():
            observation = self.observation(cell, began, seen, [], "failed", not_now)
        else:
            self.now = token.changed(self.mount, self.now, status=MEASURING, cell=cell["name"])
            osts = servers.Watch(self.mount, self.lustre, self.hosts) if self.lustre else None
            with self.instruments.around(Work("cell", f"cell {cell['name']}")) as looked:
                (phases, why), given = self.below.measured(
                    lambda: self.phases.run(cell, self.now), lambda: remove_measured(self.target, self.now)
                )
            ended = self.instruments.stopped
            counted = osts.ended() if osts else None
            why = why or (self.untuned() if osts else None) or self.astray()
            cleaning = time.monotonic()
            broken = self.clean(failed=bool(why))
            why = why or broken
            outcome: Outcome = "failed" if why else "done"
            if ended and not broken:
                if not ended.on_record:  # it counts as not measured
                    return None
                outcome, why = "stopped", str(ended)
            observation = self.observation(cell, began, seen, phases, outcome, why)
            observation = cast(Observation, {**observation, **looked})
            if counted:
                observation["osts"] = counted
            if self.target.spec["sparse"]:
                observation["below"] = given
            observation["seconds"] = {
                "check": seen["seconds"],
                "drop": sum(phase["cache_drop_s"] for phase in phases),
                "run": sum(phase["wall_s"] for phase in phases),
                "clean": time.monotonic() - cleaning,
                "total": time.monotonic() - clock,
            }
        outbox.keep(outbox.place(self.target, self.request, cell), observation)
        return broken

    def is_kept(self, cell: Cell) -> bool:
        """Whether a cell has an observation."""
        return outbox.place(self.target, self.request, cell).exists()

    def why_not_begun(self, cell: Cell) -> str | None:
        """Why a cell is not begun, after any wait; None: it is. Its bytes count for the day then."""
        estimate_s, writes_bytes = cell.get("estimate_s", 0.0), cell.get("writes_bytes", 0)
        return (
            self.instruments.held_up()
            or too_late(self.request.get("until"), cell)
            or why_not_now(self.hosts.limits, f"cell {cell['name']}", estimate_s, writes_bytes)
        )

    def untuned(self) -> str | None:
        """Why the servers have another preallocation than was noted; None: the same, or none was set."""
        return setting.unavailable_because(self.hosts, self.conditions["tunables"].get(PREALLOCATION))

    def astray(self) -> str | None:
        """Which setting is in force that the study does not name, or is not as it says; None: none."""
        try:
            return self.hosts.astray(self.target, self.request.get("tuning", {}))
        except Lost:
            raise
        except Failure as why:
            return f"under which settings it is measured is not known: {why}"

    def doubt(self) -> None:
        """Fail the cells that only a sample vouches for, once all files were examined and a change was found."""
        for cell in self.unsure:
            path = outbox.place(self.target, self.request, cell)
            kept: Observation | None = read_json(path)
            if kept and kept["status"] == "done":
                kept["status"] = "failed"
                kept["why"] = (
                    "files of the state were changed during this session. Only a sample of them was examined before "
                    "this cell, so it may have been measured after the change"
                )
                outbox.keep(path, kept)
        self.unsure = []

    def unavailable_because(self, cell: Cell) -> str | None:
        """Why the cell cannot run in this state, on this machine or at this site; None when it can."""
        of_state = structure.unsupported(self.now.notes) if cell["kind"] == "planned" else None
        return (
            of_state
            or io_groups.unavailable_because(self.target, cell["phases"])
            or servercache.unavailable_because(self.hosts, cell["phases"])
            or self.below.unavailable_because(cell)
        )

    def over_quota(self, cell: Cell) -> str | None:
        """Why the files of a cell do not fit beside those of the state; None where they do.

        The limit is the free space of a target's own file systems, or what is left of the claim.
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

    def alive(self) -> None:
        """Raise Orphaned when the run has ended, Lost when a host was lost."""
        if self.watch.orphaned():
            raise Orphaned
        self.hosts.alive()

    @property
    def instruments(self) -> Instruments:
        """What looks on: `measure` opens it."""
        return self.phases.instruments

    def clean(self, failed: bool) -> str | None:
        """Remove the files of the cell and note that on the target; why that failed, or None: then the state is lost.

        Processes of a cell that failed are ended first. A file system that shut itself down after an I/O error is
        mounted anew. A client of Lustre that was evicted gets EIO once more, at the next fsync.
        """
        try:
            if failed:
                leftover.end([Path(os.path.realpath(mount)) / "measured" for mount in self.target.mounts])
            self._remove()
        except Failure as failure:
            return f"cleaning up failed: {failure}"
        except OSError:
            try:
                self.target.remount()
                self._remove()
            except (OSError, Failure) as error:
                return f"cleaning up failed: {error}"
        return None

    def _remove(self) -> None:
        """Remove the files of the cell, and note that. Raises OSError, Failure."""
        remove_measured(self.target, self.now)
        self.now = token.changed(self.mount, self.now, status=READY, cell=None)

    def observation(
        self, cell: Cell, began: str, seen: Check, phases: list[PhaseResult], status: Outcome, why: str | None
    ) -> Observation:
        """The observation of a cell, with all raw output."""
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


def too_late(until: float | None, cell: Cell) -> str | None:
    """Why a cell is not begun: it would end after `until` (seconds since 1970), when the run ends; None: it is."""
    if until is None or time.time() + cell["estimate_s"] <= until:
        return None
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(until))
    return (
        f"cell {cell['name']} takes about {cell['estimate_s']:.0f} s and would not end before {end}, when this run is "
        "to end (until, budget); the same command resumes later"
    )
