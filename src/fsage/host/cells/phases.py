"""A cell's phases: drop the caches and verify that, run the command, examine the files that it made."""

from __future__ import annotations

import errno
import json
import mmap
import os
import resource
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import cast

from fsage.host.cells import io_groups, leftover
from fsage.host.cells.counters import Counters
from fsage.host.cells.stalls import Stalls
from fsage.host.instruments.instrument import Instruments, Work
from fsage.host.lustre import servercache
from fsage.host.remote.connection import Lost
from fsage.host.remote.host_agent import measured_files
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.settings.trace import tracing
from fsage.host.states.fingerprint import layout_of
from fsage.host.system import caches, commands
from fsage.host.system.library import at_hand
from fsage.host.targets.target import Target
from fsage.model import limits, signs
from fsage.model.caches import WARM
from fsage.model.errors import Failure, Refusal
from fsage.model.observation import PhaseResult
from fsage.model.request import Cell, Phase
from fsage.model.signs import Looks
from fsage.model.token import Token
from fsage.model.typed import Json

LEAST_LIMIT_S, TIMES_ESTIMATE = 900.0, 10
"""The time limit of a phase: TIMES_ESTIMATE times the estimate of its whole cell, at least LEAST_LIMIT_S."""
WARM_ATTEMPTS = 3
QUOTA_REACHED = os.strerror(errno.EDQUOT)  # as fio, IOR and mdtest say it


class Phases:
    """Runs the phases of cells on a target. `check_alive` is called often; what it raises ends a command."""

    def __init__(self, target: Target, hosts: Hosts, slurm_job: str | None, check_alive: Callable[[], None]) -> None:
        self.target, self.hosts, self.slurm_job, self.session_check = target, hosts, slurm_job, check_alive
        self.stalls: Stalls | None = None  # while a phase runs
        self.instruments = Instruments([])

    def check_alive(self) -> None:
        """Look at the devices, and check what the session and instruments check; called often while a command runs."""
        if self.stalls:
            self.stalls.look()
        self.session_check()
        self.instruments.check()

    def run(self, cell: Cell, state: Token) -> tuple[list[PhaseResult], str | None]:
        """Run a cell's commands; the result of each, and why the cell failed (or None). The first failure ends it.

        `state`: the token of the state that the target is in.
        """
        taken: list[PhaseResult] = []
        try:
            with servercache.held(self.hosts, cell["phases"]) as server_cache:
                self.target.osts.make_folders(state.notes)
                taken, why = self.measured(cell, state)
            if any("mount_options" in phase for phase in cell["phases"]):
                self.target.remount()
        except Lost:
            raise
        except Failure as failure:
            return taken, str(failure)
        for phase in taken if server_cache else ():
            phase["server_cache"] = server_cache
        return taken, why

    def measured(self, cell: Cell, state: Token) -> tuple[list[PhaseResult], str | None]:
        """Run the commands of a cell for which servers and directories are ready; results, and why it failed."""
        taken: list[PhaseResult] = []
        left: list[Path] = []  # at the places before
        for planned in cell["phases"]:
            phase: Phase = {"timeout_s": limit_s(cell), **planned, "argv": self.argv(planned)}
            if why := limits.why_not_kept(self.hosts.limits, phase):
                return taken, why
            phase = limits.kept_to(self.hosts.limits, phase, len(self.hosts.client_names))
            for folder in phase.get("folders", ()):  # before caches are dropped: mkdir reads the directory above
                Path(folder).mkdir(exist_ok=True)
                self.target.give(Path(folder))
            try:
                dropped = self.found_warm(phase) if phase.get("warm") else self.drop_caches(phase)
            except Lost:
                raise
            except Failure as warm:
                return taken, f"{phase['name']}: {warm}"
            result: PhaseResult = {
                "name": phase["name"],
                "argv": phase["argv"],
                "cache_drop_s": dropped["seconds"],
                "wall_s": 0.0,
                "limit_s": phase["timeout_s"],
                "cached_pages": dropped["cached_pages"],
                "cache_drop": dropped["method"],
                "cached_names": dropped["cached_names"],
                "metadata": phase.get("metadata", dropped["metadata"]),
            }
            if "files" in phase:
                result["files"] = phase["files"]
            if "leaves" in phase:
                result["leaves"] = phase["leaves"]
            if "jobs" in phase:
                result["jobs"] = phase["jobs"]
            if dropped.get("mounting"):
                result["mounting"] = dropped["mounting"]
            if "mount_options" in phase:
                result["mount_options"] = self.target.mount_options()
            if dropped.get("hosts"):
                result["cache_drop_hosts"] = dropped["hosts"]
            taken.append(result)
            if phase.get("reads") and dropped["cached_pages"] and not phase.get("warm"):
                return (
                    taken,
                    f"{phase['name']}: {dropped['cached_pages']} pages of its files stayed in the cache",
                )
            if dropped["metadata"] == WARM and not phase.get("warm"):
                return taken, f"{phase['name']}: {dropped['cached_names']} names of its files stayed in memory"
            if self.target.watch and phase.get("folders"):  # it makes many names, and a watch costs some µs for each
                self.target.watch.lift()
            before = self.hosts.look(self.target)
            counters, self.stalls = Counters(self.target), Stalls(self.target)
            work = Work("phase", f"phase {phase['name']}")
            tracer = tracing(self.target) if cell.get("trace") else nullcontext()
            with tracer as trace, self.instruments.around(work) as looked:
                result.update(cast(PhaseResult, self.served(phase)))
            result.update(cast(PhaseResult, looked))
            result["counters"] = counters.since()
            result["signs"] = {"before": before, "after": self.hosts.look(self.target, before)}
            if unused := self.unused(result["signs"]):
                result["signs"]["unused"] = unused
            if self.stalls.longest_s:
                result["signs"]["after"][self.hosts.client_names[0]]["stalled_s"] = self.stalls.longest_s
            self.stalls = None
            if trace:
                result["trace"] = trace.noted
            if ended := self.instruments.ended():
                return taken, str(ended)
            if result.get("timed_out"):
                return taken, (
                    f"{phase['name']}: it had not ended after {phase['timeout_s']:g} s, its limit. The whole cell was "
                    f"estimated to take {cell.get('estimate_s', 0.0):.1f} s. A phase may take {TIMES_ESTIMATE} times "
                    f"that, at least {LEAST_LIMIT_S:.0f} s"
                )
            if code := next((command["rc"] for command in (result, *result.get("beside", ())) if command["rc"]), 0):
                where = next((f" on {name}" for name, answer in result.get("by_host", {}).items() if answer["rc"]), "")
                quota = "; a quota was reached (EDQUOT)" if QUOTA_REACHED in json.dumps(result) else ""
                return taken, f"{phase['name']}: exit code {code}{where}{quota}"
            if not phase.get("reads"):
                files = [path for path in measured_files(self.target.mounts) if path not in left]
                left += files if phase.get("leaves") else []
                result["extents"] = layout_of(files, self.target.mounts, self.target.model.jump_bytes())
                if why := self.place(files, result, state):
                    return taken, f"{phase['name']}: {why}"
        return taken, None

    def unused(self, looks: Looks) -> list[str]:
        """The OSTs that evicted a client during a phase, and on which no file of the target lies."""
        before = looks["before"]
        by = {name for host, after in looks["after"].items() for name in signs.evicted(before.get(host, {}), after)}
        return [name for name in sorted(by) if not self.target.osts.is_used(name)]

    def place(self, files: list[Path], result: PhaseResult, state: Token) -> str | None:
        """Note in `result` on which OSTs the files lie; why these are not the declared ones, or None."""
        try:
            placement = self.target.osts.placement(files, state.notes)
        except Failure as why:
            return str(why)
        if placement is None:
            return None
        astray, result["placement"] = placement["astray"], placement
        if result["extents"]:  # each OST counts blocks from its own beginning, so positions mean nothing
            result["extents"] |= {"mean_position": None, "position_sd": None}
        return f"{len(astray)} files lie elsewhere: {astray[0]}" if astray else None

    def argv(self, phase: Phase) -> list[str]:
        """A phase's command, `{device}` replaced by the device of the first store."""
        device = self.target.devices[0] if self.target.devices else "no device"
        return [word.replace("{device}", device) for word in phase["argv"]]

    def found_warm(self, phase: Phase) -> Json:
        """Have all pages of what is read in memory. Raises Failure where some do not stay there."""
        began, paths = time.monotonic(), [Path(path) for path in phase["reads_files"]]
        whole = sum(path.stat().st_size for path in paths) // mmap.PAGESIZE
        for _ in range(WARM_ATTEMPTS):
            if (cached := caches.cached_pages(paths)) >= whole:
                warm = {"method": "none: from memory", "metadata": WARM, "cached_names": len(paths)}
                return {**warm, "seconds": time.monotonic() - began, "cached_pages": cached}
            caches.bring_in(paths)
        raise Failure(f"{cached} of {whole} pages of what it reads are in memory, so it would not be read warm")

    def drop_caches(self, phase: Phase) -> Json:
        """Make the target cold on every host; what of the measured files stayed in memory (caches.left_of).

        Where umount and mount reset the allocator, they drop all that the kernel has of the file system: data, names,
        inodes, maps of extents, bitmaps. Nobody else's caches are lost, for the kernel lets a file system go only when
        nobody uses it. No file is touched from then on until the phase runs.
        """
        if phase.get("allocator") == "kept":
            kept = caches.left_of(measured_files(self.target.mounts))
            return {**kept, "method": "none: as the phase before left it", "seconds": 0.0}
        began = time.monotonic()
        # caches.known wants paths without symbolic links: to follow one the kernel would have to read it.
        of_state = [Path(os.path.realpath(path)) for path in phase.get("reads_files", ())]
        warm = {"cold": False, "warm": True}.get(phase.get("allocator", ""))
        if self.target.allocator_reset == "none" and warm is None:
            dropped = self.hosts.drop(self.target, of_state)
        else:
            try:
                files = [*measured_files(self.target.mounts), *of_state]
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                files = of_state  # an XFS that the phase before shut down tells no names
            mounting = self.target.remount(phase.get("mount_options", ""), warm)
            dropped = {**caches.left_of(files), "method": "umount and mount", "mounting": mounting}
        if phase.get("eviction_file"):
            self.hosts.read_eviction_file(self.target)
            dropped["method"] += ", then read the cache-eviction file"
        return {**dropped, "seconds": time.monotonic() - began}

    def served(self, phase: Phase) -> dict[str, object]:
        """The result of a phase's command; with `jobs` on several clients."""
        try:
            if "jobs" in phase:
                return self.hosts.together(phase, self.target, self.check_alive)
            if "io_groups" in phase:
                return io_groups.run(self.target, phase, self.check_alive)
            with at_hand(phase["argv"], phase.get("files", {})) as (argv, numbers):
                return self.call({**phase, "argv": argv}, numbers)
        except Lost:
            raise
        except (Failure, Refusal) as why:
            return {"rc": 127, "stdout": "", "stderr": str(why), "wall_s": 0.0}

    def allocation(self, argv: list[str]) -> dict[str, str]:
        """The variable that has srun start a step in the present job; without it srun would wait for nodes."""
        return {"SLURM_JOB_ID": self.slurm_job} if self.slurm_job and "srun" in argv else {}

    def call(self, phase: Phase, inherited: Sequence[int] = ()) -> dict[str, object]:
        """Run a phase's command, and those of its `beside` at the same time, in the device model's group.

        Returns the result of the first, under `beside` those of the others, and the processor time of all (`cpu_s`).
        """
        before = _used_by_children()
        env = {**os.environ, "LC_ALL": "C", **leftover.marked(), **phase.get("env", {})}
        with nullcontext() if phase.get("leaves") else self.target.charged():
            first, *others = commands.run(
                [phase["argv"], *phase.get("beside", ())],
                self.check_alive,
                phase["timeout_s"],
                cwd=self.target.mounts[0] / "measured",
                env={**env, **self.allocation(phase["argv"])},
                front=[] if phase.get("as_root") else self.target.front(phase["argv"]),
                pass_fds=inherited,
            )
        first["cpu_s"] = _used_by_children() - before
        if others:
            return {**first, "beside": others, "wall_s": max(command["wall_s"] for command in (first, *others))}
        del first["line_s"]  # of use only beside other commands
        return first


def limit_s(cell: Cell) -> float:
    """Seconds that a phase of a cell may take."""
    return max(LEAST_LIMIT_S, TIMES_ESTIMATE * cell.get("estimate_s", 0.0))


def _used_by_children() -> float:
    """Seconds of processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
