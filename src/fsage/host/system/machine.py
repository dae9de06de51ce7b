"""What this host is."""

from __future__ import annotations

import os


def memory_bytes() -> int:
    """This host's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
