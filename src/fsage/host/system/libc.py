"""The C library of this host, for system calls that Python does not have."""

from __future__ import annotations

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_TIMERSLACK = 29
PR_SET_IO_FLUSHER = 57  # prctl(2)

library = ctypes.CDLL(None, use_errno=True)


def error(what: str = "") -> OSError:
    """What the last call of this thread failed with; `what` it was about, such as a path."""
    code = ctypes.get_errno()
    if what:
        return OSError(code, os.strerror(code), what)
    return OSError(code, os.strerror(code))
