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


def memory_bytes() -> int:
    """This host's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_bytes() -> int:
    """Memory that a process may still take without another one losing any (proc_meminfo(5))."""
    with open("/proc/meminfo", encoding="ascii") as table:
        return next(int(line.split()[1]) << 10 for line in table if line.startswith("MemAvailable:"))
