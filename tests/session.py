"""What tells this session's targets, mounts and files from those of any other, other hosts, and waiting for them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
PREFIX = f"t{os.getpid()}-"


def another_host(place: Path, name: str, *lies: str) -> dict:
    """A host of an inventory: a Python of this machine that was told something else than the truth."""
    python = place / name
    python.write_text("\n".join([f"#!{sys.executable}", "import os, pwd, sys, time", *lies, "exec(sys.argv[-1])", ""]))
    python.chmod(0o755)
    return {"name": name, "python": str(python), "local": True}


@contextlib.contextmanager
def agent_at_work(verb: str, **given: object) -> Iterator[subprocess.Popen]:
    """The agent with a verb to do, in a session of its own."""
    argv = [sys.executable, "-m", "fsage.host", verb]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, env=environment, start_new_session=True, **pipes) as process:
        assert process.stdin
        process.stdin.write(json.dumps(given))
        process.stdin.close()
        yield process


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
