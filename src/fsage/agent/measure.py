"""Measuring cells: each in a checked state, with cold caches, its observation safe before the next begins."""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import socket
import subprocess
import tempfile
import time
import uuid
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fsage.agent import caches, containers, outbox, shares, striping, token
from fsage.agent.attend import measured_files
from fsage.agent.errors import Failure, Refusal
from fsage.agent.files import read_json, utc_now
from fsage.agent.fingerprint import fingerprint, layout_of
from fsage.agent.hosts import Hosts, Lost, of
from fsage.agent.lease import Watch, held
from fsage.agent.lustre import placement, servers
from fsage.agent.shell import stop
from fsage.agent.state import layout_record, look, opened, remove_measured
from fsage.agent.target import Target
from fsage.agent.trace import tracing

PHASE_TIMEOUT_S = 900.0
LOOK_EVERY_S = 0.2
WARM_ATTEMPTS = 3


class Orphaned(Exception):
    """The run for which we measure has gone."""


def measure(spec: dict, request: dict, check: bool) -> dict[str, Any]:
    """Measure the request's cells in order.

    Returns {"measured", "remaining", "lost", "stopped"}: `lost` says why the target is not (or no longer) in the state
    asked for; the caller then brings it there and asks again for the rest. `stopped` says why no further cell
    was begun although the state is as asked. Raises Failure when the run that asked has gone.
    """
    target = opened(spec, request)
    containers.verify(target.claim)
    hosts = hosts_of(target, request)
    cells = [cell for cell in request["cells"] if not outbox.place(target, request, cell).exists()]
    if check:
        return {
            "changed": bool(cells),
            "msg": f"would measure {len(cells)} cells",
            "measured": 0,
            "remaining": len(cells),
            "lost": None,
            "stopped": None,
        }
    with held(target.home, request) as lease, contextlib.closing(Hosts(target.spec, target.claim, hosts)) as others:
        visit = Visit(target, request, lease, others)
        lost = visit.enter() if cells else None
        measured, stopped = 0, None
        while not lost and not stopped and measured < len(cells):
            if stopped := too_late(request.get("until"), cells[measured]):
                break
            try:
                lost = visit.cell(cells[measured])
            except Orphaned:
                raise Failure(
                    f"the run that asked for cell {cells[measured]['name']} has gone; {measured} of {len(cells)} cells "
                    "were measured and kept"
                ) from None
            measured += outbox.place(target, request, cells[measured]).exists()
        lost = lost or (visit.leave() if cells else None)
        return {
            "changed": measured > 0,
            "msg": f"measured {measured} of {len(cells)} cells"
            + (f"; then: {lost or stopped}" if lost or stopped else ""),
            "measured": measured,
            "remaining": len(cells) - measured,
            "lost": lost,
            "stopped": stopped,
        }


def hosts_of(target: Target, request: dict) -> dict[str, list[dict]]:
    """The hosts to measure with, the launcher first among `clients`; `Refusal` unless they are those of the claim."""
    hosts = of(request)
    names, claimed = [host["name"] for host in hosts["clients"]], target.claim.get("hosts", [])
    if len(claimed) > 1 or len(names) > 1:
        if names != claimed:
            raise Refusal(
                f"target {target.name} was claimed for the clients {', '.join(claimed) or 'none'}, and the inventory "
                f"names {', '.join(names)}: a study's hosts stay the same. Name those again, or release the target and "
                "claim it for these"
            )
        if target.kind == "loop":
            raise Refusal(f"target {target.name} (kind: loop) is of one host: name one in the group clients")
    return hosts


def too_late(until: float | None, cell: dict) -> str | None:
    """Why a cell is not begun: it would not end before the site's window closes (seconds since 1970); or None."""
    if until is None or time.time() + cell["estimate_s"] <= until:
        return None
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(until))
    return (
        f"cell {cell['name']} takes about {cell['estimate_s']:.0f} s and would not end before {end}, when the window "
        "closes; the same command goes on in the next one"
    )


class Visit:
    """One stay at a target in one state."""

    def __init__(self, target: Target, request: dict, lease: dict | None, hosts: Hosts) -> None:
        self.target, self.request, self.hosts = target, request, hosts
        self.mount = target.mounts[0]
        self.watch = Watch(target.home, request, lease)
        self.lustre: dict[str, Any] = target.spec["lustre"] or {}
        self.now: dict = {}
        self.conditions: dict = {}

    def enter(self) -> str | None:
        """Compare the whole layout once; why the state is not as asked, or None."""
        now, why = look(self.target, whole=True)
        if why:
            return why
        if now["done"] != self.request["steps"]:
            return f"the target is at {now['state']!r}, asked is {self.request['state']!r}"
        self.now = now
        self.conditions = {
            "device_model": self.target.model_in_place(),
            "filesystem": self.target.filesystem,
            "mount_options": self.target.mount_options(),
            "allocator_reset": self.target.allocator_reset,
            "tunables": read_json(self.target.home / "tunables.json") or {},
            "tools": self.target.claim["tools"],
            "images": self.target.claim.get("images", {}),
            "amount_mib": self.target.claim["amount_mib"],
            "amount_source": self.target.claim["amount_source"],
        }
        if self.lustre:
            self.conditions["lustre"] = {key: self.target.claim["lustre"][key] for key in ("version", "declared")}
        return None

    def leave(self) -> str | None:
        """Look once more after the last cell."""
        seen = self.check()
        return None if seen["agreed"] else "the state changed while its last cell was measured"

    def check(self) -> dict:
        """Token, epoch and fingerprint against what this visit expects."""
        began = time.monotonic()
        now = token.read(self.mount)
        prints = fingerprint(self.target.mounts, self.target.filesystem)
        agreed = now == self.now and prints["hash"] == self.now["fingerprint"]
        return {
            "state": self.now["state"],
            "epoch": self.now["epoch"],
            "phase": now["phase"] if now else None,
            "fingerprint": prints["hash"],
            "agreed": agreed,
            "instance": self.now["instance"],
            "rebuilt": self.request.get("first_instance") not in (None, self.now["instance"]),
            "emptied_because": self.now["emptied_because"],
            "seconds": time.monotonic() - began,
        }

    def cell(self, cell: dict) -> str | None:
        """Measure one cell and keep its observation; why not, when the state is not as asked."""
        if self.watch.orphaned():
            raise Orphaned
        began, clock, broken = utc_now(), time.monotonic(), None
        seen = self.check()
        if not seen["agreed"]:
            return f"before cell {cell['name']}: the state is not the one that this visit found ({seen['fingerprint']})"
        if cannot := cell.get("unsupported") or shares.why_not(self.target, cell["phases"]):
            observation = self.observation(cell, began, seen, [], "unsupported", cannot)
        else:
            self.now = token.changed(self.mount, self.now, phase=token.MEASURING, cell=cell["name"])
            osts = servers.Watch(self.mount, self.lustre) if self.lustre else None
            phases, why = self.phases(cell)
            counted = osts.ended() if osts else None
            cleaning = time.monotonic()
            broken = self.clean()
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

    def phases(self, cell: dict) -> tuple[list[dict], str | None]:
        """Run a cell's commands; what each gave, and why the cell failed (or None). The first failure ends the cell."""
        taken: list[dict] = []
        for phase in cell["phases"]:
            try:
                dropped = self.found_warm(phase) if phase.get("warm") else self.drop_caches(phase)
            except Lost:
                raise
            except Failure as warm:
                return taken, f"{phase['name']}: {warm}"
            result = {
                "name": phase["name"],
                "argv": self.argv(phase),
                "cache_drop_s": dropped["seconds"],
                "wall_s": 0.0,
                **({"files": phase["files"]} if "files" in phase else {}),
            }
            result.update(cached_pages=dropped["cached_pages"], cache_drop=dropped["method"])
            if dropped.get("hosts"):
                result["cache_drop_hosts"] = dropped["hosts"]
            taken.append(result)
            for folder in phase.get("folders", ()):
                Path(folder).mkdir(exist_ok=True)
            if phase.get("reads") and dropped["cached_pages"] and not phase.get("warm"):
                return (
                    taken,
                    f"{phase['name']}: {dropped['cached_pages']} pages of its files stayed in the cache",
                )
            with tracing(self.target) if cell.get("trace") else nullcontext() as trace:
                result.update(self.served({**phase, "argv": result["argv"]}))
            if trace:
                result["trace"] = trace.noted
            if result["rc"] != 0:
                return taken, f"{phase['name']}: exit code {result['rc']}"
            if not phase.get("reads"):
                files = measured_files(self.target.mounts)
                result["extents"] = layout_of(files, self.target.mounts)
                if self.lustre and (why := self.place(files, result)):
                    return taken, f"{phase['name']}: {why}"
        return taken, None

    def place(self, files: list[Path], result: dict) -> str | None:
        """Note in `result` on which OSTs files were put; why that is not as declared, or None."""
        try:
            found = placement.placement(self.target, files, striping.noted(self.now))
        except Failure as why:
            return str(why)
        result["placement"] = found
        if result["extents"]:  # of every OST on its own, and by what the whole file system has
            result["extents"]["mean_position"] = None
        return f"{len(found['astray'])} files lie elsewhere: {found['astray'][0]}" if found["astray"] else None

    def argv(self, phase: dict) -> list[str]:
        """A phase's command; what it reads past the file system is the first store's device."""
        device = self.target.devices[0] if self.target.devices else "no device"
        return [word.replace("{device}", device) for word in phase["argv"]]

    def clean(self) -> str | None:
        """Remove what the cell left and say so on the target; why the state is lost when that cannot be done.

        A file system that shut itself down after an I/O error comes back by umount and mount.
        """
        try:
            remove_measured(self.target)
        except OSError:
            try:
                self.target.remount()
                remove_measured(self.target)
            except OSError as error:
                return f"cleaning up failed: {error}"
        self.now = token.changed(self.mount, self.now, phase=token.READY, cell=None)
        return None

    def found_warm(self, phase: dict) -> dict:
        """Count the pages of what is read; those that somebody dropped come in again. Raises Failure if some do not."""
        began, paths = time.monotonic(), [Path(path) for path in phase["reads_files"]]
        whole = sum(path.stat().st_size for path in paths) // mmap.PAGESIZE
        for _ in range(WARM_ATTEMPTS):
            if (cached := caches.cached_pages(paths)) >= whole:
                return {"seconds": time.monotonic() - began, "cached_pages": cached, "method": "none: from memory"}
            caches.bring_in(paths)
        raise Failure(f"{cached} of {whole} pages of what it reads are in memory, so it would not be read warm")

    def drop_caches(self, phase: dict) -> dict:
        """Make the target cold on every host, and count the pages of what is measured that are still in memory.

        Where the allocator is reset by umount and mount, that drops all that the kernel knows of the file system
        (data, inodes, bitmaps) and leaves everybody else's caches alone.
        """
        began = time.monotonic()
        if self.target.allocator_reset != "remount":
            dropped = self.hosts.drop(self.target)
        else:
            self.target.remount()
            cached = caches.cached_pages(measured_files(self.target.mounts))
            dropped = {"cached_pages": cached, "method": "umount and mount"}
        of_state = caches.cached_pages([Path(path) for path in phase.get("reads_files", ())])
        cached = dropped["cached_pages"] + of_state
        return {**dropped, "seconds": time.monotonic() - began, "cached_pages": cached}

    def served(self, phase: dict) -> dict:
        """`run`, with the phase's files in a folder of their own ({files}) and what it wants to listen on each host.

        What listens stays for the next phase: to start `fio --server` takes longer than all else that we do for a cell.
        """
        with tempfile.TemporaryDirectory(prefix="fsage-") as folder:
            for name, text in phase.get("files", {}).items():
                (Path(folder) / name).write_text(text)
            argv = [word.replace("{files}", folder) for word in phase["argv"]]
            try:
                if "serve" in phase:
                    self.hosts.serve(phase["serve"])
                if "shares" in phase:
                    result = shares.run(self.target, phase, self.attend)
                else:
                    result = self.run({**phase, "argv": argv})
            except Lost:
                raise
            except Failure as why:
                result = {"rc": 127, "stdout": "", "stderr": str(why), "wall_s": 0.0}
            if result["rc"] != 0:
                self.hosts.end_service()
            return result

    def allocation(self, argv: list[str]) -> dict[str, str]:
        """What makes srun start a step in the job on whose behalf we measure; else it would ask for nodes, and wait."""
        job = self.request.get("slurm_job")
        return {"SLURM_JOB_ID": job} if job and argv[0] == "srun" else {}

    def attend(self) -> None:
        """While a command runs: raise Orphaned when the run has gone, Lost when a host has."""
        if self.watch.orphaned():
            raise Orphaned
        self.hosts.alive()

    def run(self, phase: dict) -> dict:
        """Run one command in the device model's group; stdout, stderr, exit code and wall time."""
        began = time.monotonic()
        try:
            process = subprocess.Popen(
                phase["argv"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                cwd=self.mount / "measured",
                env={**os.environ, "LC_ALL": "C", **phase.get("env", {}), **self.allocation(phase["argv"])},
                start_new_session=True,
                preexec_fn=self.target.enter_model(),
            )
        except OSError as error:
            return {"rc": 127, "stdout": "", "stderr": str(error), "wall_s": time.monotonic() - began}
        late = False
        try:
            while True:
                try:
                    out, err = process.communicate(timeout=LOOK_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    self.attend()
                    if not late and time.monotonic() - began > phase.get("timeout_s", PHASE_TIMEOUT_S):
                        late = True
                        stop(process)
        except BaseException:  # Ctrl-C too: nobody else knows the command's session
            stop(process)
            raise
        wall = time.monotonic() - began
        if late:
            err += f"\nfsage: stopped after {wall:.0f} s"
        return {"rc": process.returncode, "stdout": out, "stderr": err, "wall_s": wall, "timed_out": late}

    def observation(
        self, cell: dict, began: str, seen: dict, phases: list[dict], status: str, why: str | None
    ) -> dict[str, Any]:
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
            "hosts": [host["name"] for host in hosts_of(self.target, self.request)["clients"]],
            "kernel": platform.release(),
            "status": status,
            "why": why,
            "check": seen,
            "layout": layout_record(self.target, self.now),
            "conditions": self.conditions,
            "phases": phases,
        }
