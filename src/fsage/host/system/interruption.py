"""Whether this process was told to end: a thread gets no KeyboardInterrupt, so it asks."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from fsage.base import Failure

_came = threading.Event()


def interrupt(number: int, frame: FrameType | None) -> None:
    """The handler of a signal that ends this process: whatever runs is stopped, in all threads."""
    _came.set()
    signal.default_int_handler(number, frame)


def check() -> None:
    """Raise Failure where the process was told to end."""
    if _came.is_set():
        raise Failure("it was interrupted")
