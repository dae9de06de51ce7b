"""Processes that outlive their command, as MPICH's tasks do when their launcher is killed or fails.

They have sessions of their own and write on. A file that they have open takes space although it is deleted. A variable
in their environment identifies them, so that nobody else's process is touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from fsage.model.errors import Failure

MARK = "FSAGE_AGENT"
GRACE_S = 2.0
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.05


def marked() -> dict[str, str]:
    """The variable that the environment of every command gets, and all that it starts inherits."""
    return {MARK: str(os.getpid())}


def end(folders: Sequence[Path]) -> None:
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
