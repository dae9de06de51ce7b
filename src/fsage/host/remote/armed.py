"""fio on one of several hosts: started, and at work once it is told its job, so that all begin together.

`fio -` reads its job from standard input. What it takes to load (a container, a program that cold caches have dropped)
is over when it has begun to read; a line that it ignores shows when that is. Nothing listens on any port.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import termios
import time
from collections.abc import Callable, Sequence
from typing import Any

from fsage.host.system.commands import Command, too_late, wait
from fsage.host.system.shell import stop
from fsage.host.targets.target import Target
from fsage.model.errors import Failure

IGNORED = b";\n"  # a comment in a job file
PATIENCE_S = 60.0  # of a container, from a disk that is cold
LOOK_EVERY_S = 0.002
CLOSED = -1


class Armed:
    """A command that reads its job from standard input, and has begun to. Raises Failure if it does not."""

    def __init__(self, argv: Sequence[str], target: Target) -> None:
        here = os.uname().nodename
        theirs, self.ours = os.pipe()
        how = {"stdin": theirs, "cwd": target.mounts[0] / "measured", "env": {**os.environ, "LC_ALL": "C"}}
        try:
            with target.charged():
                self.command = Command([*target.front(argv), *argv], time.monotonic(), how)
        except OSError as error:
            os.close(self.ours)
            raise Failure(f"{argv[0]} does not start on {here}: {error.strerror}") from error
        finally:
            os.close(theirs)
        os.write(self.ours, IGNORED)
        deadline = time.monotonic() + PATIENCE_S
        while self._unread():
            if self.command.process.poll() is not None or time.monotonic() > deadline:
                stop(self.command.process)
                said = self.command.process.communicate()[1].decode(errors="replace").strip()
                self.end()
                raise Failure(f"`{' '.join(argv)}` reads no job on {here}: {said or 'it said nothing'}")
            time.sleep(LOOK_EVERY_S)

    def run(self, job: str, check_alive: Callable[[], None], timeout_s: float) -> dict[str, Any]:
        """Tell it its job, and wait; what fsage.host.system.commands.run gives of a command."""
        self.command.began = time.monotonic()
        try:
            with contextlib.suppress(BrokenPipeError), os.fdopen(self.ours, "wb") as told:  # its code tells why
                self.ours = CLOSED
                told.write(job.encode())
            late = wait([self.command], check_alive, self.command.began + timeout_s)
        except BaseException:  # nobody else knows its session
            self.end()
            raise
        result = self.command.result(too_late(self.command.began) if late else "")
        del result["line_s"]
        return {**result, "timed_out": late}

    def end(self) -> None:
        """Stop it, with its children."""
        if self.ours != CLOSED:
            os.close(self.ours)
            self.ours = CLOSED
        if self.command.process.poll() is None:
            stop(self.command.process)
            self.command.process.wait()

    def _unread(self) -> int:
        """Bytes that it was told and has not read (ioctl_pipe(2))."""
        left = array.array("i", [0])
        fcntl.ioctl(self.ours, termios.FIONREAD, left)
        return left[0]
