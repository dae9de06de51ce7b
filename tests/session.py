"""What tells this session's targets, mounts and files from those of any other, other hosts, and waiting for them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

PREFIX = f"t{os.getpid()}-"


def another_host(place: Path, name: str, *lies: str) -> dict:
    """A host of an inventory: a Python of this machine that was told something else than the truth."""
    python = place / name
    python.write_text("\n".join([f"#!{sys.executable}", "import os, pwd, sys, time", *lies, "exec(sys.argv[-1])", ""]))
    python.chmod(0o755)
    return {"name": name, "python": str(python), "local": True}


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
