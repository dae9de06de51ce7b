"""What a command's processes still do after it has ended: MPICH's tasks outlive a launcher that is ended or fails.

They have sessions of their own and write on, and what they have open takes space although it is deleted. They are told
by a variable of their environment; other people's processes are left alone.
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
GRACE_S, PATIENCE_S = 2.0, 60.0
LOOK_EVERY_S = 0.05


def marked() -> dict[str, str]:
    """What the environment of commands has, so that what they start is known."""
    return {MARK: str(os.getpid())}


def end(folders: Sequence[Path]) -> None:
    """Wait until no process of a command has a file below these folders open; those that still have then are killed.

    Raises Failure where one does not even end by that.
    """
    began = time.monotonic()
    while left := [pid for pid in _marked() if _has_open(pid, folders)]:
        waited_s = time.monotonic() - began
        if waited_s > PATIENCE_S:
            raise Failure(f"processes {', '.join(map(str, left))} of a command do not end, {waited_s:.0f} s after it")
        if waited_s > GRACE_S:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_EVERY_S)


def _marked() -> list[int]:
    """Processes whose environment has our mark."""
    wanted, pids = os.fsencode("=".join(*marked().items())), []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                pids.append(int(process.name))
    return pids


def _has_open(pid: int, folders: Sequence[Path]) -> bool:
    try:
        links = [os.readlink(descriptor) for descriptor in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any(link.startswith(f"{folder}/") for link in links for folder in folders)
