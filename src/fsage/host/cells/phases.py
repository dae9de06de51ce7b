"""A cell's phases: drop the caches and verify that, run the command, examine the files that it made.

Before a phase the caches are cold as a rule, on every host, and verified; warm where a phase wants that.

Processes may outlive their command, as MPICH's tasks do when their launcher is killed or fails. They have sessions of
their own and write on. A file that they have open takes space although it is deleted. A variable in their environment
identifies them, so that nobody else's process is touched.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple, cast

from fsage.base import Failure, Json, Refusal
from fsage.host.cells import observed
from fsage.host.instruments.instrument import Instruments
from fsage.host.remote.connection import Lost
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.states.inspection import layout_of
from fsage.host.system import caches, commands
from fsage.host.system.library import at_hand
from fsage.host.targets.directories import measured_files
from fsage.host.targets.target import Target
from fsage.model.caches import WARM
from fsage.model.observation import PhaseResult
from fsage.model.request import Cell, Phase

MARK = "FSAGE_AGENT"
GRACE_S = 2.0
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.05


def marked() -> dict[str, str]:
    """The variable that the environment of every command gets, and all that it starts inherits."""
    return {MARK: str(os.getpid())}


def end_leftover(folders: Sequence[Path]) -> None:
    """Wait until no process of a command has a file below these folders open; kill what still has after GRACE_S.

    Raises Failure where a process lives on after PATIENCE_S.
    """
    began = time.monotonic()
    while left := [pid for pid in _marked() if _has_open(pid, folders)]:
        waited_s = time.monotonic() - began
        if waited_s > PATIENCE_S:
            raise Failure(
                f"processes {', '.join(map(str, left))} of a command were killed and have not ended, {waited_s:.0f} s "
                "after the command"
            )
        if waited_s > GRACE_S:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_EVERY_S)


def _marked() -> list[int]:
    """Processes whose environment has our mark."""
    wanted = os.fsencode("=".join(*marked().items()))
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                pids.append(int(process.name))
    return pids


def _has_open(pid: int, folders: Sequence[Path]) -> bool:
    try:
        links = [os.readlink(descriptor) for descriptor in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any(link.startswith(f"{folder}/") for link in links for folder in folders)


WARM_ATTEMPTS = 3


def made_warm(phase: Phase) -> Json:
    """Have all pages of what is read in memory. Raises Failure where some do not stay there."""
    began = time.monotonic()
    paths = [Path(path) for path in phase["reads_files"]]
    whole = sum(path.stat().st_size for path in paths) // mmap.PAGESIZE
    for _ in range(WARM_ATTEMPTS):
        cached = caches.cached_pages(paths)
        if cached >= whole:
            warm = {"method": "none: from memory", "metadata": WARM, "cached_names": len(paths)}
            return {**warm, "seconds": time.monotonic() - began, "cached_pages": cached}
        caches.bring_in(paths)
    raise Failure(f"{cached} of {whole} pages of what it reads are in memory, so it would not be read warm")


def made_cold(target: Target, hosts: Hosts, phase: Phase) -> Json:
    """Make the target cold on every host; what of the measured files stayed in memory (caches.left_of).

    Where umount and mount reset the allocator, they drop all that the kernel has of the file system: data, names,
    inodes, maps of extents, bitmaps. Nobody else's caches are lost, for the kernel lets a file system go only when
    nobody uses it. No file is touched from then on until the phase runs.
    """
    if phase.get("allocator") == "kept":
        kept = caches.left_of(measured_files(target.mounts))
        return {**kept, "method": "none: as the phase before left it", "seconds": 0.0}
    began = time.monotonic()
    # caches.known wants paths without symbolic links: to follow one the kernel would have to read it.
    of_state = [Path(os.path.realpath(path)) for path in phase.get("reads_files", ())]
    warm = {"cold": False, "warm": True}.get(phase.get("allocator", ""))
    if target.allocator_reset == "none" and warm is None:
        dropped = hosts.drop(target, of_state)
    else:
        try:
            files = [*measured_files(target.mounts), *of_state]
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            files = of_state  # an XFS that the phase before shut down tells no names
        mounting = target.remount(phase.get("mount_options", ""), warm)
        dropped = {**caches.left_of(files), "method": "umount and mount", "mounting": mounting}
    return {**dropped, "seconds": time.monotonic() - began}


def refuse_warm(phase: Phase, dropped: Json) -> None:
    """Raise Failure where something of what is read stayed in memory."""
    if phase.get("warm"):
        return
    if phase.get("reads") and dropped["cached_pages"]:
        raise Failure(f"{dropped['cached_pages']} pages of its files stayed in the cache")
    if dropped["metadata"] == WARM:
        raise Failure(f"{dropped['cached_names']} names of its files stayed in memory")


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

    def run(self, cell: Cell, clean: Callable[[], None]) -> Ran:
        """Run a cell's commands. The first failure ends it. `clean` deletes its files, where they must run again."""
        phases: list[PhaseResult] = []
        seen: Json = {}
        try:
            with self.instruments.around(lambda each: each.around_cell(cell)) as seen:
                why = self.commands(cell, phases)
                while self.instruments.again(failed=why is not None):
                    clean()
                    phases.clear()
                    why = self.commands(cell, phases)
        except Lost:
            raise
        except Failure as failure:
            why = str(failure)
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
        except Failure as failure:
            why = f"{phase['name']}: {failure}"
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
        refuse_warm(phase, dropped)
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
            made += (path for path in measured_files(self.target.mounts) if path not in self.left)
            self.left.update(made if phase.get("leaves") else ())
            result["extents"] = layout_of(made, self.target)
        why = self.instruments.first(lambda each: each.failed_phase(phase, made, result))
        if why:
            raise Failure(why)

    def argv(self, phase: Phase) -> list[str]:
        """A phase's command, `{device}` replaced by the device of the first store."""
        if self.target.devices:
            device = self.target.devices[0]
        else:
            device = "no device"
        return [word.replace("{device}", device) for word in phase["argv"]]

    def drop_caches(self, phase: Phase) -> Json:
        """Make the target cold, or warm, as a phase wants it (fsage.host.cells.phases)."""
        if phase.get("warm"):
            return made_warm(phase)
        return made_cold(self.target, self.hosts, phase)

    def served(self, phase: Phase) -> dict[str, object]:
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

    def call(self, phase: Phase, inherited: Sequence[int] = ()) -> dict[str, object]:
        """Run a phase's command, and those of its `beside` at the same time, in the device model's group.

        Returns the result of the first, under `beside` those of the others, and the processor time of all (`cpu_s`).
        """
        used_s = _used_by_children()
        env = {**os.environ, "LC_ALL": "C", **marked(), **phase.get("env", {})}
        if self.slurm_job and "srun" in phase["argv"]:  # a step in the present job; else srun would wait for nodes
            env["SLURM_JOB_ID"] = self.slurm_job
        free = phase.get("leaves") or phase.get("uncharged")
        with nullcontext() if free else self.target.charged():
            first, *others = commands.run(
                [phase["argv"], *phase.get("beside", ())],
                self.instruments.watch,
                phase["timeout_s"],
                cwd=self.target.mounts[0] / "measured",
                env=env,
                front=[] if phase.get("as_root") else self.target.front(phase["argv"]),
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
