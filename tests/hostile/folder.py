"""The folder of a process that reads hostile input."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path


@cache
def folder() -> Path:
    """One of this process, for files that are read again and again."""
    return Path(tempfile.mkdtemp(prefix="fsage-hostile-", dir=Path.cwd()))
