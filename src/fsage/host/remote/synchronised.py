"""The synchronised start of a command on several hosts: each is started first, and all get their jobs at once.

A command reads its job from standard input (`fio -`, netflow). Loading a container, or a program that cold caches have
dropped, takes time, and is over when the command reads. A line that it ignores shows when it does. A command that
shares work with the other hosts requests it while it runs: each line NEXT is answered by the next number of a common
count. Nothing listens on any port.
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
    """A command whose lines NEXT are no output: each calls `next_number`. They come before all other output."""

    next_number: Callable[[], None] | None = None

    def hear(self, chunk: bytes, of_stdout: bool) -> None:
        super().hear(chunk, of_stdout)
        while self.next_number and self.out.startswith(NEXT):
            del self.out[: len(NEXT)]
            self.next_number()


class SynchronisedCommand:
    """A started command that waits for its job on standard input. Raises Failure if it does not read.

    `argv` and `files`: see fsage.host.system.library.at_hand.
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
                raise Failure(f"`{' '.join(argv)}` reads no job on {here}: {error_output or 'it printed nothing'}")
            time.sleep(LOOK_EVERY_S)

    def run(
        self,
        job: str,
        check_alive: Callable[[], None],
        timeout_s: float,
        next_number: Callable[[], None] | None = None,
        also: Mapping[BufferedReader, Callable[[], bool]] = MappingProxyType({}),
    ) -> Json:
        """Give it its job, and wait until it ends; a result as of fsage.host.system.commands.run.

        `next_number` is called for each line NEXT, and answers by `tell`. Without it the command gets no further input.
        `also`: see fsage.host.system.commands.wait.
        """
        self.command.began, self.command.next_number = time.monotonic(), next_number
        try:
            self.tell(job.encode())
            if not next_number:
                self.input.close()
            late = wait([self.command], check_alive, self.command.began + timeout_s, also)
        except BaseException:  # nobody else can end it: it has a session of its own
            self.end()
            raise
        self.input.close()
        result = self.command.result(too_late(self.command.began) if late else "")
        del result["line_s"]
        return {**result, "timed_out": late}

    def tell(self, content: bytes) -> None:
        """Write to its standard input."""
        with contextlib.suppress(BrokenPipeError):  # its exit code tells why it ended
            self.input.write(content)

    def end(self) -> None:
        """Stop the command with its children."""
        self.input.close()
        if self.command.process.poll() is None:
            stop(self.command.process)
            self.command.process.wait()

    def _unread(self) -> int:
        """Bytes of its standard input that it has not read yet (ioctl_pipe(2))."""
        left = array.array("i", [0])
        fcntl.ioctl(self.input, termios.FIONREAD, left)
        return left[0]
