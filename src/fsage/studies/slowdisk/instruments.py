"""What control groups with a weight, and schedulers, leave: undone after each cell, whoever had them."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import ClassVar

from fsage.api.host import Instrument, journal_of

from .host import cgroups, groups


class Shares(Instrument):
    """A group of cgroup v1 is removed with its cell: while there is one, the controller cannot move to v2."""

    changes: ClassVar = {"v1_group": lambda entry: cgroups.remove(entry["path"]), "scheduler": groups.undo_scheduler}
    of_a_cell = ("cost", "v1_group", "scheduler")

    @staticmethod
    def left_over(home: Path) -> bool:
        return bool(groups.left_over(home) or journal_of(home).entries("scheduler"))

    @staticmethod
    def end_running(home: Path) -> None:
        starting = str(os.getpid())  # who is about to start a reader is in its group for a moment
        for group in groups.left_over(home):  # which nobody else's process is in
            for pid in set(cgroups.words(group / "cgroup.procs")) - {starting}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
