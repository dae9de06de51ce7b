"""A command of anybody's, and beside it how its file system was before and after: one line of JSON, added to a file.

The keys stay (SCHEMA): schema, fsage, began (UTC), seconds, what, command, exit_code, kernel, before, after, allocator.
Both `before` and `after` have KEYS and verdict (the numbers that --fail-on knows). `allocator` has by how much the file
system's own counters rose.
What is not known is null or left out, and `absent` has the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import fsage
from fsage import seam
from fsage.base import Json, in_words
from fsage.base.message import printable, say
from fsage.layouts import verdict
from fsage.layouts.inspect import inspect

SCHEMA = 1
KEYS = ("filesystem", "device_bytes", "fullness_percent", "free_bytes", "free_extents", "files", "warnings")
NOT_FOUND = 127
NOT_RUN = "the command was not run"


def run(what: str, command: Sequence[str], out: Path, files: int) -> int:
    """Run a command with evidence beside it, add the line to `out`, and return the command's own exit code.

    Raises ValueError before the command runs where the file system or `out` cannot be read and written.
    """
    absent: dict[str, str] = {}
    try:
        before = _look(what, files)
        counted = _counts(what, absent)
        with open(out, "a", encoding="utf-8"):  # before the command, for what it does cannot be had again
            pass
    except ValueError as why:
        raise ValueError(f"{why}; {NOT_RUN}") from why
    except OSError as error:
        raise ValueError(f"{out}: {error.strerror}; {NOT_RUN}") from error
    began = datetime.now(UTC)
    clock = time.monotonic()
    try:
        code = subprocess.run(list(command), check=False).returncode
    except OSError as error:
        absent["exit_code"] = f"{command[0]}: {error.strerror}"
        say(absent["exit_code"])
        code = NOT_FOUND
    seconds = time.monotonic() - clock
    after = None
    try:
        after = _look(what, files)
    except ValueError as why:
        absent["after"] = str(why)
    rose = {name: count - counted.get(name, 0) for name, count in _counts(what, absent).items()} if counted else None
    line = {
        "schema": SCHEMA,
        "fsage": fsage.__version__,
        "began": began.isoformat(timespec="milliseconds"),
        "seconds": seconds,
        "what": printable(what),
        "command": [printable(word) for word in command],
        "exit_code": code,
        "kernel": os.uname().release,
        "before": before,
        "after": after,
        "allocator": rose,
        "absent": absent,
    }
    with open(out, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    if code >= 0:
        return code
    return 128 - code


def _look(what: str, files: int) -> Json:
    """The layout, after what was written has been given its place."""
    os.sync()
    layout = inspect(what, files)
    (store,) = layout["stores"]
    (judged,) = verdict.verdicts(layout)
    return {**{key: store[key] for key in KEYS}, "verdict": judged.as_json()["values"]}


def _counts(what: str, absent: dict[str, str]) -> dict[str, int]:
    try:
        return seam.allocator_counts(Path(what))
    except (OSError, ValueError) as why:
        absent["allocator"] = in_words(why)
        return {}
