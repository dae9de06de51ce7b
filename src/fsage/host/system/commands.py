"""Commands that run beside each other, each with its own output, timed by one clock.

Processes may outlive their command, as MPICH's tasks do when their launcher is killed or fails. They have sessions of
their own and write on. A file that they have open takes space although it is deleted. A variable in their environment
identifies them, so that nobody else's process is touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BufferedReader
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import IO

from fsage.base import Call, Failure, Json, in_words
from fsage.base.shell import stop

LOOK_EVERY_S = 0.2
PATIENCE_S = 60.0
"""So long a command, or what it left, may take to end after it was killed."""
CHUNK_BYTES = 1 << 16


class _Interrupted:
    """When a signal came that ends this process, monotonic. No lock: a second signal would wait for it for ever."""

    at: float | None = None


def interrupt(number: int, frame: FrameType | None) -> None:
    """The handler of a signal that ends this process: whatever runs is stopped, in all threads.

    A second one does not disturb that, because the ends of the parent and of who reads our answer come together. After
    PATIENCE_S it ends the process.
    """
    if _Interrupted.at is None:
        _Interrupted.at = time.monotonic()
        signal.default_int_handler(number, frame)
    elif time.monotonic() > _Interrupted.at + PATIENCE_S:
        os._exit(2)


def check_interrupted() -> None:
    """Raise Failure where this process was told to end: a thread gets no KeyboardInterrupt, so it asks."""
    if _Interrupted.at is not None:
        raise Failure("it was interrupted")


class Command:
    """A running command. `line_s`: when each line of its standard output came, in seconds since `began`."""

    def __init__(self, argv: Sequence[str], began: float, how: Json) -> None:
        self.began = began
        self.ended_s = 0.0
        self.line_s = list[float]()
        self.out = bytearray()
        self.err = bytearray()
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(argv, **{**pipes, "start_new_session": True, **how})

    def hear(self, chunk: bytes, of_stdout: bool) -> None:
        """Keep a chunk of its output."""
        self.ended_s = time.monotonic() - self.began
        (self.out if of_stdout else self.err).extend(chunk)
        if of_stdout:
            self.line_s += [round(self.ended_s, 6)] * chunk.count(b"\n")

    def result(self, note: str) -> Json:
        """Code, output and times of the command; `note` is added to its error output."""
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()
        return {
            "rc": self.process.returncode,
            "stdout": self.out.decode(errors="replace"),
            "stderr": self.err.decode(errors="replace") + note,
            "wall_s": self.ended_s,
            "line_s": self.line_s,
        }


def run(
    commands: Sequence[Sequence[str]],
    check_alive: Call,
    timeout_s: float,
    front: Sequence[str] = (),
    **how: object,
) -> list[Json]:
    """Run all commands at once and wait for them; of each: argv, rc, stdout, stderr, wall_s, line_s, timed_out.

    `line_s`: when each line of stdout came, in seconds since the first command was started. `check_alive` is called
    often; what it raises ends all commands, and so does `timeout_s`. A command that cannot be started has code 127, and
    the others are stopped. `front` stands before each command, but not in its `argv`. `how` goes to subprocess.Popen.
    """
    began = time.monotonic()
    running = list[Command]()
    why = ""
    try:
        try:
            for argv in commands:
                # A front reports a missing program only when the others run already.
                if front and not shutil.which(argv[0]):
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
                running.append(Command([*front, *argv], began, how))
        except OSError as error:
            why = in_words(error)
            for command in running:
                stop(command.process)
        late = wait(running, check_alive, began + timeout_s)
    except BaseException:  # on Ctrl-C too: each command has a session of its own, which nobody else ends
        for command in running:
            stop(command.process)
        raise
    note = f"\nfsage: stopped, because another command did not start: {why}" if why else ""
    if late:
        note += too_late(began)
    unstarted = {"rc": 127, "stdout": "", "stderr": why, "wall_s": 0.0, "line_s": []}
    results = [command.result(note) for command in running]
    results += [dict(unstarted) for _ in commands[len(running) :]]
    return [{"argv": list(argv), "timed_out": late, **result} for argv, result in zip(commands, results)]


def too_late(began: float) -> str:
    """The note on a command that was ended at its time limit."""
    return f"\nfsage: stopped after {time.monotonic() - began:.0f} s"


def wait(
    running: list[Command],
    check_alive: Call,
    end: float,
    also: Mapping[BufferedReader, Callable[[], bool]] = MappingProxyType({}),
) -> bool:
    """Read the commands' output until all have ended; whether they reached the time `end`.

    `also`: further streams to read meanwhile, each with a function that reads it and returns True. Raises Failure where
    one does not end although it was killed, because a device or a server does not answer it.
    """
    looked = 0.0
    late = False
    with selectors.DefaultSelector() as heard, contextlib.ExitStack() as ends:
        for command in running:
            assert command.process.stdout and command.process.stderr
            for pipe, of_stdout in ((command.process.stdout, True), (command.process.stderr, False)):
                heard.register(pipe, selectors.EVENT_READ, partial(_chunk_of, pipe, command, of_stdout))
            descriptor = _end_of(command.process)
            if descriptor is not None:
                ends.callback(os.close, descriptor)
                heard.register(descriptor, selectors.EVENT_READ, lambda: False)
        for source, hear in also.items():
            heard.register(source, selectors.EVENT_READ, hear)
        while len(heard.get_map()) > len(also) or any(command.process.poll() is None for command in running):
            if heard.get_map():
                for key, _ in heard.select(LOOK_EVERY_S):
                    if not key.data():
                        heard.unregister(key.fileobj)
            else:  # all pipes are closed, and no pidfd shows the end of a process: an old kernel, or one that is traced
                with contextlib.suppress(subprocess.TimeoutExpired):
                    for command in running:
                        command.process.wait(LOOK_EVERY_S)
            now = time.monotonic()
            if now - looked > LOOK_EVERY_S:
                looked = now
                check_alive()
                if now > end and not late:
                    late = True
                    for command in running:
                        stop(command.process)
                elif now > end + PATIENCE_S:
                    left = [str(command.process.pid) for command in running if command.process.poll() is None]
                    raise Failure(
                        f"process {', '.join(left) or 'of a command'} was killed at its time limit, and lives on "
                        f"{now - end:.0f} s later: a device or server does not answer. Bring it back, or deactivate it"
                    )
    return late


def _end_of(process: subprocess.Popen[bytes]) -> int | None:
    """A descriptor that can be read once a process has ended; None before Linux 5.3, or for one that has ended."""
    if process.returncode is not None:  # another process may have its number by now
        return None
    try:
        return os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return None


def _chunk_of(pipe: IO[bytes], command: Command, of_stdout: bool) -> bool:
    """Read a chunk of a command's output; whether more may follow."""
    chunk = os.read(pipe.fileno(), CHUNK_BYTES)
    command.hear(chunk, of_stdout)
    return bool(chunk)


MARK = "FSAGE_AGENT"
GRACE_S = 2.0


def marked() -> dict[str, str]:
    """The variable that the environment of every command gets, and all that it starts inherits."""
    return {MARK: str(os.getpid())}


def end_leftover(folders: Sequence[Path]) -> None:
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
        links = list(map(os.readlink, Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return False
    below = tuple(f"{folder}/" for folder in folders)
    return any(link.startswith(below) for link in links)
