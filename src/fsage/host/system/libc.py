"""The C library of this host, for system calls that Python does not have."""

from __future__ import annotations

import ctypes
import os

PR_SET_PDEATHSIG, PR_SET_TIMERSLACK, PR_SET_IO_FLUSHER = 1, 29, 57  # prctl(2)

library = ctypes.CDLL(None, use_errno=True)


def error(what: str = "") -> OSError:
    """What the last call of this thread failed with; `what` it was about, such as a path."""
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), what) if what else OSError(code, os.strerror(code))
