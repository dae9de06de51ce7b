"""Lustre's parameters, by `lctl get_param` and `lctl set_param`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fsage.host.system.shell import run
from fsage.model.errors import Failure

LINE = re.compile(r"([a-z][\w-]*\.[^=\s]+)=(.*)")
# Where client and metadata server share a node, osc.* has the server's own connections to the OSTs too.
OF_SERVER = re.compile(r"-osc-MDT[0-9a-f]{4}\b")
MISSING = "No such file or directory"
ENOENT = 2  # lctl's exit status is an errno: what it found is on stdout all the same


def parse(text: str) -> dict[str, str]:
    """The values by name in the output of `lctl get_param`; one of several lines ends where the next name begins.

    >>> parse("osc.a-OST0000-osc-ff.max_dirty_mb=742\\n")
    {'osc.a-OST0000-osc-ff.max_dirty_mb': '742'}
    """
    values: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        if match:
            lines = values[match[1]] = [match[2]] if match[2] else []
        else:
            lines.append(line)
    return {name: "\n".join(value).strip() for name, value in values.items()}


def get(*patterns: str) -> dict[str, str]:
    """Values by full name of a client's parameters that match; empty where none does. Raises Failure."""
    done = run(["lctl", "get_param", *patterns], ok=(0, ENOENT))
    other = [line for line in done.stderr.splitlines() if MISSING not in line]
    if other:
        raise Failure(f"`lctl get_param {' '.join(patterns)}`: {'; '.join(other)}")
    return {name: value for name, value in parse(done.stdout).items() if not OF_SERVER.search(name)}


def put(values: Mapping[str, str]) -> None:
    """Set parameters by full name. `set_param` only echoes its input, so the caller reads back. Raises Failure."""
    run(["lctl", "set_param", "-n", *(f"{name}={value}" for name, value in values.items())])


def version() -> str:
    """The version of Lustre that runs here."""
    return run(["lctl", "get_param", "-n", "version"]).stdout.strip()


def names(listed: Sequence[str]) -> str:
    """The first three names and the number of the others, for a message."""
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
