"""Writing the file of workload new_file, in this process: a program of its own takes longer to start in a guest."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable

from fsage.base import Json, in_words
from fsage.host.instruments.instrument import Instrument
from fsage.host.structure import files
from fsage.model.request import Phase
from fsage.model.structure import Method
from fsage.studies.kernels.model import TASK


class NewFile(Instrument):
    """For phases that have a TASK. Their standard output is JSON: with which error the file ended, if with one."""

    def run(self, phase: Phase, check_alive: Callable[[], None]) -> Json | None:
        text = phase.get("files", {}).get(TASK)
        if text is None:
            return None
        task = json.loads(text)
        began = time.monotonic()
        error = None
        method: Method = "write" if task["direct"] else "buffered"
        path = self.target.mounts[0] / "measured/new"
        try:
            files.in_turns([path], [task["bytes"]], task["request_bytes"], method, check_alive)
        except OSError as why:
            error = errno.errorcode.get(why.errno or 0, in_words(why))
        said = json.dumps({"errno": error, "bytes": path.stat().st_size if path.exists() else 0})
        return {"rc": 0, "stdout": said, "stderr": "", "wall_s": time.monotonic() - began}
