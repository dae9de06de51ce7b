"""A command on one of several hosts: started, and at work once it is told its job, so that all begin together.

It reads its job from standard input (`fio -`, netflow). What it takes to load (a container, a program that cold caches
have dropped) is over when it has begun to read; a line that it ignores shows when that is. One that shares
work with the other hosts asks for it meanwhile: a line NEXT is answered by the next number of a count that all share.
Nothing listens on any port.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from io import BufferedReader
from types import MappingProxyType

from fsage.host.system.commands import Command, too_late, wait
from fsage.host.system.library import at_hand
from fsage.host.system.shell import stop
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.typed import Json

IGNORED = b";\n"  # a comment in a job file
NEXT = b"next\n"
PATIENCE_S = 60.0  # of a container, from a disk that is cold
LOOK_EVERY_S = 0.002


class _Asking(Command):
    """A command whose lines NEXT are no output: each calls `asked`. They come before all else that it says."""

    asked: Callable[[], None] | None = None

    def hear(self, chunk: bytes, of_stdout: bool) -> None:
        super().hear(chunk, of_stdout)
        while self.asked and self.out.startswith(NEXT):
            del self.out[: len(NEXT)]
            self.asked()


class SynchronisedCommand:
    """A command that reads its job from standard input, and has begun to. Raises Failure if it does not.

    `argv` and `files`: as fsage.host.system.library.at_hand takes them.
    """

    def __init__(self, argv: Sequence[str], files: Mapping[str, str], target: Target) -> None:
        here = os.uname().nodename
        theirs, ours = os.pipe()
        self.input = os.fdopen(ours, "wb", buffering=0)
        how = {"stdin": theirs, "cwd": target.mounts[0] / "measured", "env": {**os.environ, "LC_ALL": "C"}}
        try:
            with at_hand(argv, files) as (words, numbers), target.charged():
                front = target.front(argv)
                self.command = _Asking([*front, *words], time.monotonic(), {**how, "pass_fds": numbers})
        except OSError as error:
            self.input.close()
            raise Failure(f"{argv[0]} does not start on {here}: {error.strerror}") from error
        finally:
            os.close(theirs)
        self.tell(IGNORED)
        deadline = time.monotonic() + PATIENCE_S
        while self._unread():
            if self.command.process.poll() is not None or time.monotonic() > deadline:
                stop(self.command.process)
                error_output = self.command.process.communicate()[1].decode(errors="replace").strip()
                self.end()
                raise Failure(f"`{' '.join(argv)}` reads no job on {here}: {error_output or 'it said nothing'}")
            time.sleep(LOOK_EVERY_S)

    def run(
        self,
        job: str,
        check_alive: Callable[[], None],
        timeout_s: float,
        asked: Callable[[], None] | None = None,
        also: Mapping[BufferedReader, Callable[[], bool]] = MappingProxyType({}),
    ) -> Json:
        """Tell it its job, and wait; what fsage.host.system.commands.run gives of a command.

        `asked`: called for each line NEXT; `tell` answers it. Without it the command is told nothing more. `also`: as
        fsage.host.system.commands.wait hears it.
        """
        self.command.began, self.command.asked = time.monotonic(), asked
        try:
            self.tell(job.encode())
            if not asked:
                self.input.close()
            late = wait([self.command], check_alive, self.command.began + timeout_s, also)
        except BaseException:  # nobody else knows its session
            self.end()
            raise
        self.input.close()
        result = self.command.result(too_late(self.command.began) if late else "")
        del result["line_s"]
        return {**result, "timed_out": late}

    def tell(self, content: bytes) -> None:
        """Have it read that."""
        with contextlib.suppress(BrokenPipeError):  # its code tells why
            self.input.write(content)

    def end(self) -> None:
        """Stop it, with its children."""
        self.input.close()
        if self.command.process.poll() is None:
            stop(self.command.process)
            self.command.process.wait()

    def _unread(self) -> int:
        """Bytes that it was told and has not read (ioctl_pipe(2))."""
        left = array.array("i", [0])
        fcntl.ioctl(self.input, termios.FIONREAD, left)
        return left[0]
