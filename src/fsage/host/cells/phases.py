"""A cell's phases: drop the caches and verify that, run the command, examine the files that it made."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple, cast

from fsage.base import Call, Failure, Json, Refusal, in_words
from fsage.host.cells import clean, observed
from fsage.host.instruments import Instruments
from fsage.host.remote import Lost
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.states.inspection import layout_of
from fsage.host.system import commands
from fsage.host.system.library import at_hand
from fsage.host.targets import Target
from fsage.host.targets.directories import measured_files
from fsage.model.observation import PhaseResult
from fsage.model.request import Cell, Phase


class Ran(NamedTuple):
    """What came of a cell: the results of its phases, why it failed, and what instruments saw of all of it."""

    phases: list[PhaseResult]
    why: str | None
    seen: Json


class Phases:
    """Runs the phases of cells on a target."""

    def __init__(self, target: Target, hosts: Hosts, instruments: Instruments, slurm_job: str | None = None) -> None:
        self.target = target
        self.hosts = hosts
        self.instruments = instruments
        self.slurm_job = slurm_job
        self.left: set[Path] = set()  # files of phases that leave theirs to be beside what is measured

    def run(self, cell: Cell, remove: Call) -> Ran:
        """Run a cell's commands. The first failure ends it. `remove` deletes its files, where they must run again."""
        phases: list[PhaseResult] = []
        seen: Json = {}
        try:
            with self.instruments.around(lambda each: each.around_cell(cell)) as seen:
                why = self.commands(cell, phases)
                while self.instruments.again(failed=why is not None):
                    remove()
                    phases.clear()
                    why = self.commands(cell, phases)
        except Lost:
            raise
        except (Failure, OSError) as failure:  # EIO, where a phase shut its file system down
            why = in_words(failure)
        return Ran(phases, why, seen)

    def commands(self, cell: Cell, phases: list[PhaseResult]) -> str | None:
        """Run a cell's commands once, with a result of each in `phases`; why one failed, or None."""
        why = None
        self.left.clear()
        try:
            for phase in cell["phases"]:
                self.phase(cell, phase, phases)
        except Lost:
            raise
        except (Failure, OSError) as failure:
            why = f"{phase['name']}: {in_words(failure)}"
        if any("mount_options" in phase for phase in cell["phases"]):
            self.target.remount()
        return why

    def phase(self, cell: Cell, planned: Phase, phases: list[PhaseResult]) -> None:
        """Run one phase; its result is the last of `phases`. Raises Failure."""
        phase = self.instruments.prepared({"timeout_s": observed.limit_s(cell), **planned, "argv": self.argv(planned)})
        for folder in phase.get("folders", ()):  # before caches are dropped: mkdir reads the directory above
            Path(folder).mkdir(exist_ok=True)
            self.target.give(Path(folder))
        dropped = self.drop_caches(phase)
        result = observed.begun_phase(self.target, phase, dropped)
        phases.append(result)
        clean.refuse_warm(phase, dropped)
        if self.target.watch and phase.get("folders"):  # it makes many names, and a watch costs some µs for each
            self.target.watch.lift()
        with self.instruments.around(lambda each: each.around_phase(phase, cell)) as seen:
            result.update(cast(PhaseResult, self.served(phase)))
        result.update(cast(PhaseResult, seen))
        ended = self.instruments.ended()
        if ended:
            raise ended
        observed.refuse_failed(cell, result)
        made: list[Path] = []
        if not phase.get("reads"):
            made = [path for path in measured_files(self.target.mounts) if path not in self.left]
            if phase.get("leaves"):
                self.left.update(made)
            result["extents"] = layout_of(made, self.target)
        why = self.instruments.first(lambda each: each.failed_phase(phase, made, result))
        if why:
            raise Failure(why)

    def argv(self, phase: Phase) -> list[str]:
        """A phase's command, `{device}` replaced by the device of the first store."""
        device = next(iter(self.target.devices), "no device")
        return [word.replace("{device}", device) for word in phase["argv"]]

    def drop_caches(self, phase: Phase) -> Json:
        """Make the target cold, or warm, as a phase wants it."""
        if phase.get("warm"):
            return clean.made_warm(phase)
        return clean.made_cold(self.target, self.hosts, phase)

    def served(self, phase: Phase) -> Json:
        """The result of a phase's command; with `jobs` on several clients."""
        try:
            if "jobs" in phase:
                return self.hosts.together(phase, self.target, self.instruments.watch)
            result = self.instruments.first(lambda each: each.run(phase, self.instruments.watch))
            if result:
                return result
            with at_hand(phase["argv"], phase.get("files", {})) as (argv, numbers):
                return self.call({**phase, "argv": argv}, numbers)
        except Lost:
            raise
        except (Failure, Refusal) as why:
            return {"rc": 127, "stdout": "", "stderr": str(why), "wall_s": 0.0}

    def call(self, phase: Phase, inherited: Sequence[int] = ()) -> Json:
        """Run a phase's command, and those of its `beside` at the same time, in the device model's group.

        Returns the result of the first, under `beside` those of the others, and the processor time of all (`cpu_s`).
        """
        used_s = _used_by_children()
        env = {**os.environ, "LC_ALL": "C", **commands.marked()}
        if self.slurm_job and "srun" in phase["argv"]:  # a step in the present job; else srun would wait for nodes
            env["SLURM_JOB_ID"] = self.slurm_job
        free = phase.get("leaves") or phase.get("uncharged")
        front = [] if phase.get("as_root") else self.target.front(phase["argv"])
        with nullcontext() if free else self.target.charged():
            first, *others = commands.run(
                [phase["argv"], *phase.get("beside", ())],
                self.instruments.watch,
                phase["timeout_s"],
                cwd=self.target.mounts[0] / "measured",
                env=env,
                front=front,
                pass_fds=inherited,
            )
        first["cpu_s"] = _used_by_children() - used_s
        if others:
            return {**first, "beside": others, "wall_s": max(command["wall_s"] for command in (first, *others))}
        del first["line_s"]  # of use only beside other commands
        return first


def _used_by_children() -> float:
    """Seconds of processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
