"""Ctrl-C and SIGTERM: one sentence at once, and no traceback, whenever they come and however often."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

SENTENCE = b"fsage: stopped; what was measured is kept, and the same command resumes\n"
CODE = 130
"""Exit code, as shells have it of what Ctrl-C ends."""
PATIENCE_S = 10.0
TOLD_BY_THE_RUN = "FSAGE_RUN"
"""Set for the jobs of a run (fsage.run.runs.NOTE): the run itself says that it was stopped."""


class _Came:
    """Whether it has come, in this process, and whether another process says so."""

    is_said = False
    at: float | None = None  # monotonic


def came() -> bool:
    """Whether somebody stopped this process."""
    return _Came.at is not None


def handle() -> None:
    """From now on Ctrl-C and SIGTERM are said once and raise KeyboardInterrupt, of which Python itself says nothing.

    What ends then, and puts things back, is not disturbed by another one, which after PATIENCE_S ends the process.
    SIGINT counts also where a script's `&` left it ignored: Ansible answers it there, and a run would go on without it.
    """
    if signal.getsignal(signal.SIGINT) is not _stop:
        # A job of Slurm has a log of its own.
        _Came.is_said = TOLD_BY_THE_RUN in os.environ and "SLURM_JOB_ID" not in os.environ
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    sys.excepthook = _without_interrupts
    sys.unraisablehook = _without_unraisable_interrupts
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # which whoever started this may have deferred


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Have Ctrl-C wait for the end of the block, and in what is started there until that calls `handle`.

    A Python that Ctrl-C meets while it begins prints a traceback, because no handler is there yet.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


@contextlib.contextmanager
def left_to_what_runs() -> Iterator[None]:
    """Have Ctrl-C and SIGTERM end what the block starts, in its own way and time, and not this process, which waits."""
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, lambda came, _: _pass_on(came, came))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def defer_in_threads() -> None:
    """Have it wait in all threads that begin from now on, whoever begins them: the main thread alone has handlers."""
    threading.setprofile(_defer_once)  # the one call that each thread makes before its own work


def _defer_once(frame: FrameType, event: str, value: Any) -> None:
    sys.setprofile(None)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])


def _stop(number: int, frame: FrameType | None) -> None:
    if _Came.at is not None:
        if time.monotonic() > _Came.at + PATIENCE_S:
            os._exit(CODE)
        return
    _Came.at = time.monotonic()
    if not _Came.is_said:
        os.write(2, (b"\n" if os.isatty(2) else b"") + SENTENCE)  # after the ^C that the terminal shows
    _pass_on(number, signal.SIGINT)
    raise KeyboardInterrupt


def _pass_on(came: int, sent: int) -> None:
    if came == signal.SIGTERM or not _at_terminal():  # which sends its SIGINT to all of them
        for process in _started():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, sent)


def _at_terminal() -> bool:
    """Whether what a terminal sends comes to this process group."""
    with contextlib.suppress(OSError), open("/dev/tty", "rb", buffering=0) as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


def _started() -> set[int]:
    """What this process started, and what those started, in its process group: Ansible's workers have others."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{int(entry)}/stat", encoding="utf-8", errors="replace") as file:
                _, parent, group = file.read().rpartition(")")[2].split()[:3]
            if int(group) == os.getpgrp():
                parents[int(entry)] = int(parent)
    own = os.getpid()
    found = set[int]()
    while new := {process for process, parent in parents.items() if parent in {own, *found}} - found:
        found |= new
    return found


def _without_interrupts(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not came() or not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


def _without_unraisable_interrupts(unraisable: sys.UnraisableHookArgs) -> None:
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
