"""A session: the cells of one state, measured one after another, with the state checked before, between and after.

All files are examined when a session begins and ends. That costs 6 to 25 µs a file, and far more over a network, so
between two cells cheaper evidence is used. The kernel tells whether anybody else touched a file
(fsage.host.system.fanotify), and how much space is free. Where the kernel cannot tell, the check reads a sample of the
files, all directories and the free space. A difference in any of these is no verdict: all files are examined then. So
they are after events, and after a watch that was lost.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Literal, cast

from fsage.base import Failure, Refusal, in_words
from fsage.host.cells import observed, phases
from fsage.host.cells.phases import Phases
from fsage.host.instruments.instrument import Instruments, Visit, opened
from fsage.host.lustre import space
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.states.inspection import Sample, differs, digest, fingerprint, inspect, layout_record, remove_measured
from fsage.host.system import places
from fsage.host.system.fanotify import FileWatch
from fsage.host.targets import claims
from fsage.host.targets.lease import Orphaned, Watch
from fsage.host.targets.target import Target
from fsage.model import structure
from fsage.model.claim import MEASURING, READY, Token, utc_now
from fsage.model.observation import Check, Conditions, Observation
from fsage.model.request import Cell, Request

Looked = Literal["files", "events", "sample"]


class StructureCheck:
    """The checks of one session.

    `hash`: the fingerprint of all files when they were last examined. `why_unwatched`: why the kernel does not report
    what others do; None where it does. `osts_changed_bytes`: on Lustre, by how much the used space of any OST had
    changed since the state was built, at the last check; None where it was not looked at.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.hash = ""
        self.why: str | None = None  # how the state differed at the last check
        self.counted: list[str | None] = []
        self.osts_changed_bytes: int | None = None
        self.sample: Sample | None = None
        self.why_unwatched = target.why_unwatched
        if not self.why_unwatched:
            try:
                # the cell's own files are in the directory `measured`, whose events do not matter
                mounts = dict(zip(target.devices, target.mounts))
                target.watch = FileWatch(mounts, "measured")
            except OSError as error:
                self._unwatched(error)

    def check(self, now: Token) -> Check:
        """Compare token, epoch and structure with those of the token `now`; `why` says how they differ."""
        began = time.monotonic()
        status = claims.read_token(self.target.mounts[0])
        self.why, looked_at = self.differs(now)
        if status != now:
            self.why = "its token was replaced"
        checked: Check = {
            "state": now.state,
            "epoch": now.epoch,
            "status": status.status if status else None,
            "fingerprint": self.hash,
            "looked_at": looked_at,
            "agreed": self.why is None,
            "instance": now.instance,
            "rebuilt": False,
            "emptied_because": now.emptied_because,
            "seconds": time.monotonic() - began,
        }
        if looked_at == "sample":
            checked["unseen_share"] = self.unseen_share
        if self.osts_changed_bytes is not None:
            checked["osts_changed_bytes"] = self.osts_changed_bytes
            checked["tolerance_bytes"] = self.target.osts.tolerance_bytes
        return checked

    def differs(self, now: Token) -> tuple[str | None, Looked]:
        """How the target differs from the token `now` (None: it does not), and which evidence told that."""
        if self.target.watch and self.target.watch.quiet() and self._free() == self.counted:
            return None, "events"
        if not self.target.watch and self.sample and self.sample.unseen_share and self._sample_agrees(now):
            return None, "sample"
        return self._files_differ(now), "files"

    @property
    def unwatched(self) -> str | None:
        """Why the kernel does not report what others do to the target, and what is checked instead; None: it does."""
        why = self.why_unwatched
        if not why:
            return None
        share = self.unseen_share
        if not share:
            return f"all files were examined before each cell: {why}"
        return (
            f"a sample of the files and all directories were examined before each cell: {why}. A change of one file "
            f"is missed there with a chance of {share:.1%}; all files were examined at the end"
        )

    @property
    def unseen_share(self) -> float:
        """The share of the files that the sample leaves out; 0 without a sample, or where it has all files."""
        if self.sample:
            return self.sample.unseen_share
        return 0.0

    def whole_differs(self, now: Token) -> str | None:
        """How all files and their extents differ from the token `now`; None where they do not."""
        why = self._files_differ(now)
        if why:
            return why
        if digest(self.target.mounts)["hash"] == now.digest:
            return None
        return "files lie elsewhere (extent digest)"

    def close(self) -> None:
        """End the watch."""
        if self.target.watch:
            self.target.watch.close()
        self.target.watch = None

    def _files_differ(self, now: Token) -> str | None:
        if self.target.watch and self._may_watch():
            try:
                self.target.watch.arm()  # before the files are examined, so that no change is missed
            except OSError as error:
                self._unwatched(error)
        self.sample = None if self.target.watch else Sample(now.epoch)
        prints = fingerprint(self.target, self.sample)
        if self.sample:
            self.sample.freeze(self.target.mounts)
        self.hash = prints["hash"]
        self.counted = prints["counted"]
        self._note(now, prints.get("osts", {}))
        return differs(self.target, now, prints)

    def _may_watch(self) -> bool:
        """Whether a watch that begins now reports every change.

        A process that had a file open before may still store into it through a mapping, which no event reports. After
        an unmount there is none: a target whose allocator is reset by a remount is unmounted before each cell.
        """
        return not self.counted or self.target.allocator_reset != "none"

    def _free(self) -> list[str | None]:
        return [self.target.free(mount).counted for mount in self.target.mounts]

    def _sample_agrees(self, now: Token) -> bool:
        """Whether the sample of files, the directories and the free space are unchanged."""
        assert self.sample
        free = [self.target.free(mount) for mount in self.target.mounts]
        osts = {name: used for store in free for name, used in (store.osts or {}).items()}
        self._note(now, osts)
        moved = osts and space.moved(now.osts or {}, osts, self.target.osts.tolerance_bytes)
        return not moved and [store.counted for store in free] == self.counted and not self.sample.differs()

    def _note(self, now: Token, osts: dict[str, int]) -> None:
        then = now.osts or {}
        self.osts_changed_bytes = max((abs(osts[name] - then[name]) for name in osts if name in then), default=None)

    def _unwatched(self, error: OSError) -> None:
        self.why_unwatched = f"fanotify: {error.strerror}"
        self.close()


OUTLIVE_S = 1.0
LOOK_EVERY_S = 0.1


class Session:
    """The measurement of cells in one state.

    `enter` sets `now`, the target's token, `conditions`, `instruments` and `phases`.
    """

    now: Token
    conditions: Conditions
    instruments: Instruments
    phases: Phases

    def __init__(self, target: Target, request: Request, watch: Watch, hosts: Hosts) -> None:
        self.target = target
        self.request = request
        self.watch = watch
        self.hosts = hosts
        self.mount = target.mounts[0]
        target.osts.session = hosts
        self.structure = StructureCheck(target)
        self.opened = contextlib.ExitStack()
        self.opened.callback(self.structure.close)
        self.unsure: list[Cell] = []  # cells since the last look at all files: only a sample was examined before each

    def enter(self) -> str | None:
        """Compare the whole layout with the request; why the target is in another state, or None.

        Raises Failure where an instrument says that no cell can be measured.
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
        visit = Visit(self.target, self.request, self.hosts, now)
        self.instruments = self.opened.enter_context(opened(visit, self.alive))
        self.phases = Phases(self.target, self.hosts, self.instruments, self.request.get("slurm_job"))
        of_target = observed.conditions(self.target, self.request)
        self.conditions = cast(Conditions, {**of_target, **self.instruments.conditions()})
        return None

    def leave(self) -> str | None:
        """Compare the whole layout again after the last cell; how it changed, or None."""
        if not self.structure.check(self.now)["agreed"]:
            why = f"the state changed while its last cell was measured: {self.structure.why}"
        elif differs := self.structure.whole_differs(self.now):
            why = f"the state changed during this session, and before which cell is not known: {differs}"
        else:
            return None
        observed.doubt(self.target, self.request, self.unsure)
        return why

    def close(self) -> None:
        """Close the instruments, and end the watch of the target."""
        self.opened.close()

    def cell(self, cell: Cell) -> str | None:
        """Measure one cell and keep its observation; how the state differs from the session's, or None."""
        if self.watch.orphaned():
            raise Orphaned
        observation = observed.begun(self.target, self.request, cell)
        seen = self.structure.check(self.now)
        seen["rebuilt"] = self.request.get("first_instance") not in (None, self.now.instance)
        if not seen["agreed"]:
            observed.doubt(self.target, self.request, self.unsure)
            return f"before cell {cell['name']}: the state changed since the session began: {self.structure.why}"
        if seen["looked_at"] == "sample":
            self.unsure = [*self.unsure, cell]
        else:
            self.unsure = []
        observation["check"] = seen
        observation["conditions"] = self.conditions
        broken = None
        why = cell.get("unsupported") or self.unsupported(cell)
        if why:
            observation["status"] = "unsupported"
            observation["why"] = why
        elif why := self.instruments.first(lambda each: each.refused(cell)):
            observation["status"] = "failed"
            observation["why"] = why
        else:
            broken = self.measure(cell, observation)
            ended = self.instruments.stopped
            if ended and not broken:
                if not ended.on_record:  # it counts as not measured
                    return None
                observation["status"], observation["why"] = "stopped", str(ended)
        observation["ended"], observation["layout"] = utc_now(), layout_record(self.target, self.now)
        observed.keep(observed.place(self.target, self.request, cell), observation)
        return broken

    def measure(self, cell: Cell, observation: Observation) -> str | None:
        """Run the phases of a cell and remove its files; why the state is lost, or None."""
        began = time.monotonic()
        self.now = claims.token_changed(self.mount, self.now, status=MEASURING, cell=cell["name"])
        ran = self.phases.run(cell, lambda: remove_measured(self.target, self.now))
        if ran.why:
            self.outlive()
        why = ran.why or self.instruments.first(lambda each: each.failed_cell(cell))
        cleaning = time.monotonic()
        broken = self.clean(failed=bool(why))
        why = why or broken
        if why:
            observation["status"] = "failed"
            observation["why"] = why
        observation.update(cast(Observation, ran.seen))
        observation["phases"] = ran.phases
        check_s = observation["check"]["seconds"]
        ended = time.monotonic()
        observation["seconds"] = {
            "check": check_s,
            "drop": sum(phase["cache_drop_s"] for phase in ran.phases),
            "run": sum(phase["wall_s"] for phase in ran.phases),
            "clean": ended - cleaning,
            "total": ended - began + check_s,
        }
        return broken

    def unsupported(self, cell: Cell) -> str | None:
        """Why the cell cannot run in this state, on this machine or at this site; None when it can."""
        of_state = structure.unsupported(self.now.notes) if cell["kind"] == "planned" else None
        return of_state or self.instruments.first(lambda each: each.unsupported(cell))

    def alive(self) -> None:
        """Raise Orphaned when the run has ended, Lost when a host was lost."""
        if self.watch.orphaned():
            raise Orphaned
        self.hosts.alive()

    def outlive(self) -> None:
        """Wait a moment, and raise as `alive` does where the run ends too.

        Who kills a run may kill its commands first: their cell is then interrupted, and has not failed.
        """
        end = time.monotonic() + OUTLIVE_S
        while time.monotonic() < end:
            self.alive()
            time.sleep(LOOK_EVERY_S)
        self.alive()

    def clean(self, failed: bool) -> str | None:
        """Remove the files of the cell and note that on the target; why that failed, or None: then the state is lost.

        Processes of a cell that failed are ended first. A file system that shut itself down after an I/O error is
        mounted anew. A client of Lustre that was evicted gets EIO once more, at the next fsync.
        """
        try:
            if failed:
                phases.end_leftover([Path(os.path.realpath(mount)) / "measured" for mount in self.target.mounts])
            self._remove()
        except Failure as failure:
            return f"cleaning up failed: {failure}"
        except OSError:
            try:
                self.target.remount()
                self._remove()
            except (OSError, Failure, Refusal) as error:
                return f"cleaning up failed: {in_words(error)}"
        return None

    def _remove(self) -> None:
        """Remove the files of the cell, and note that. Raises OSError, Failure."""
        remove_measured(self.target, self.now)
        self.now = claims.token_changed(self.mount, self.now, status=READY, cell=None)
