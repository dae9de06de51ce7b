"""A session: the cells of one state, measured one after another, with the state checked before, between and after."""

from __future__ import annotations

import contextlib
import time
from typing import cast

from fsage.base import Failure
from fsage.host.cells import clean, observed
from fsage.host.cells.phases import Phases
from fsage.host.instruments import Instruments, Visit, opened
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.states.inspection import inspect, layout_record, remove_measured
from fsage.host.states.structure_check import StructureCheck
from fsage.host.system import kernel, places
from fsage.host.targets import Target, claims
from fsage.host.targets.lease import Watch
from fsage.model import structure
from fsage.model.claim import MEASURING, Token, utc_now
from fsage.model.observation import Conditions, Observation
from fsage.model.request import Cell, Request

OUTLIVE_S = 1.0
LOOK_EVERY_S = 0.1


class Session:
    """The measurement of cells in one state. `enter` sets `now` (the target's token) and what stands below it."""

    now: Token
    conditions: Conditions
    instruments: Instruments
    phases: Phases

    def __init__(self, target: Target, request: Request, watch: Watch, hosts: Hosts) -> None:
        self.target = target
        self.request = request
        self.watch = watch
        self.hosts = hosts
        target.osts.session = hosts
        self.structure = StructureCheck(target)
        self.opened = contextlib.ExitStack()
        self.opened.callback(self.structure.close)
        self.unsure: list[Cell] = []  # cells since the last look at all files: only a sample was examined before each

    def enter(self) -> str | None:
        """Compare the whole layout with the request; why the target is in another state, or None.

        Raises Failure where an instrument says that no cell can be measured.
        """
        if not self.target.spec["run_as"]:
            for mount in self.target.mounts:
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
        if self.structure.check(self.now)["agreed"]:
            differs = self.structure.whole_differs(self.now)
            if not differs:
                return None
            why = f"the state changed during this session, and before which cell is not known: {differs}"
        else:
            why = f"the state changed while its last cell was measured: {self.structure.why}"
        observed.doubt(self.target, self.request, self.unsure)
        return why

    def close(self) -> None:
        """Close the instruments, and end the watch of the target."""
        self.opened.close()

    def cell(self, cell: Cell) -> str | None:
        """Measure one cell and keep its observation; how the state differs from the session's, or None."""
        self.watch.check()
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
        why = cell.get("unsupported")
        if not why and cell["kind"] == "planned":
            why = structure.unsupported(self.now.notes)
        why = why or self.instruments.first(lambda each: each.unsupported(cell))
        refused = None if why else self.instruments.first(lambda each: each.refused(cell))
        if why:
            observation["status"] = "unsupported"
            observation["why"] = why
        elif refused:
            observation["status"] = "failed"
            observation["why"] = refused
        else:
            broken = self.measure(cell, observation)
            ended = self.instruments.stopped
            if ended and not broken:
                if not ended.on_record:  # it counts as not measured
                    return None
                observation["status"] = "stopped"
                observation["why"] = str(ended)
        observation["ended"] = utc_now()
        observation["layout"] = layout_record(self.target, self.now)
        observed.keep(observed.place(self.target, self.request, cell), observation)
        return broken

    def measure(self, cell: Cell, observation: Observation) -> str | None:
        """Run the phases of a cell and remove its files; why the state is lost, or None."""
        began = time.monotonic()
        self.now = claims.token_changed(self.target.mounts[0], self.now, status=MEASURING, cell=cell["name"])
        ran = self.phases.run(cell, lambda: remove_measured(self.target, self.now))
        if ran.why:
            self.outlive()
        why = ran.why or self.instruments.first(lambda each: each.failed_cell(cell))
        cleaning = time.monotonic()
        broken = None
        try:
            self.now = clean.remove_files(self.target, self.now, failed=bool(why))
        except Failure as failure:
            broken = f"cleaning up failed: {failure}"
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

    def alive(self) -> None:
        """Raise Orphaned when the run has ended, Lost when a host was lost."""
        self.watch.check()
        self.hosts.alive()

    def outlive(self) -> None:
        """Wait a moment, and raise as `alive` does where the run ends too.

        Who kills a run may kill its commands first: their cell is then interrupted, and has not failed.
        """
        for last in kernel.attempts(OUTLIVE_S, LOOK_EVERY_S):
            self.alive()
            if last:
                break
