"""What surrounds a cell in a guest: its kernel and its mount, and the new file that the guest's own process writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Literal

from fsage.api.host import Instrument, Quota, caches
from fsage.api.model import Cell, Failure, Json, Phase

from .model import DEFAULTS, TASK


class Surroundings(Instrument):
    """The kernel and the mount options that a cell names: whether they are here.

    On record: the free bytes after a phase, of a file system of the target's own.
    """

    name = "left"

    def unsupported(self, cell: Cell) -> str | None:
        if "failed" in cell:  # its guest ended, and this one only notes it
            return None
        params = cell["params"]
        return self._other_kernel(params.get("kernel")) or self._not_mounted(params.get("mount"))

    def refused(self, cell: Cell) -> str | None:
        why: str | None = cell.get("failed")  # type: ignore[assignment] # no key of a request
        return why

    @contextlib.contextmanager
    def around_phase(self, phase: Phase, cell: Cell) -> Iterator[Json]:
        seen: Json = {}
        yield seen
        if self.target.own_stores:
            with contextlib.suppress(OSError):  # not known, where the phase shut its file system down
                for mount in self.target.mounts:
                    caches.flush(mount)
                seen["left_bytes"] = sum(self.target.free(mount).bytes for mount in self.target.mounts)

    def _other_kernel(self, name: str | None) -> str | None:
        release = os.uname().release
        if name is None or f"{release}.".startswith(f"{name}.") or f"{release}-".startswith(f"{name}-"):
            return None
        return f"kernel {name} is not the one of target {self.target.name}, which is {release}"

    def _not_mounted(self, options: str | None) -> str | None:
        """Why the kernel does not mount the target with these options; tried."""
        if options is None or options == DEFAULTS:
            return None
        if not self.target.own_stores:
            return f"target {self.target.name} is not mounted by fsage, so it has no mount option {options}"
        try:
            self.target.remount(options)
        except Failure as why:
            said = str(why).replace(self.target.devices[0], "its device")  # a guest has several: one reason, one row
            return f"Linux {os.uname().release} does not mount {self.target.filesystem} with {options}: {said}"
        finally:
            self.target.remount()
        return None


class NewFile(Instrument):
    """Writes the file of workload new_file. Its phases print how many bytes the file has."""

    task = TASK

    def do(self, task: Json, said: Json, check_alive: Callable[[], None]) -> None:
        method: Literal["write", "buffered"] = "write" if task["direct"] else "buffered"
        path = self.target.mounts[0] / "measured/new"
        try:
            # What is free decides: where the file ends before is a result.
            quota = Quota(self.target, known_bytes=0)
            quota.in_turns([path], [task["bytes"]], task["request_bytes"], method, check_alive)
        finally:
            said["bytes"] = path.stat().st_size if path.exists() else 0
