"""Ctrl-C: one sentence at once, and no traceback, whenever it comes and however often."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType, TracebackType

SENTENCE = b"fsage: stopped; what was measured is kept, and the same command resumes\n"
CODE = 130
"""Exit code, as shells have it of what Ctrl-C ends."""
PATIENCE_S = 10.0
TOLD_BY_THE_RUN = "FSAGE_RUN"
"""Set for the jobs of a run (fsage.run.runs.NOTE): the run itself says that it was stopped."""


class _Came:
    """Whether it has come, in this process, and whether that is told elsewhere."""

    told = False
    at: float | None = None  # monotonic


def came() -> bool:
    """Whether somebody stopped this process."""
    return _Came.at is not None


def handle() -> None:
    """From now on Ctrl-C is said once and raises KeyboardInterrupt, of which Python itself says nothing.

    What ends then, and puts things back, is not disturbed by another one, which after PATIENCE_S ends the process.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of what a shell starts in the background
        return
    if signal.getsignal(signal.SIGINT) is not _stop:
        _Came.told = TOLD_BY_THE_RUN in os.environ
    signal.signal(signal.SIGINT, _stop)
    sys.excepthook = _without_interrupts
    sys.unraisablehook = _without_unraisable_interrupts


def _stop(number: int, frame: FrameType | None) -> None:
    if _Came.at is not None:
        if time.monotonic() > _Came.at + PATIENCE_S:
            os._exit(CODE)
        return
    _Came.at = time.monotonic()
    if not _Came.told:
        os.write(2, (b"\n" if os.isatty(2) else b"") + SENTENCE)  # after the ^C that the terminal shows
    raise KeyboardInterrupt


def _without_interrupts(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not came() or not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


def _without_unraisable_interrupts(unraisable: sys.UnraisableHookArgs) -> None:
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
