"""Writing the file of workload new_file, in this process: a program of its own takes longer to start in a guest."""

from __future__ import annotations

from collections.abc import Callable

from fsage.base import Json
from fsage.host.instruments.instrument import Instrument
from fsage.host.structure import files
from fsage.model.structure import Method
from fsage.studies.kernels.model import TASK


class NewFile(Instrument):
    """Its phases print how many bytes the file has."""

    task = TASK

    def do(self, task: Json, said: Json, check_alive: Callable[[], None]) -> None:
        method: Method = "write" if task["direct"] else "buffered"
        path = self.target.mounts[0] / "measured/new"
        try:
            files.in_turns([path], [task["bytes"]], task["request_bytes"], method, check_alive)
        finally:
            said["bytes"] = path.stat().st_size if path.exists() else 0
