"""A client's connections to the servers of Lustre, and what Lustre's network counted of trouble."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

from fsage.api.model import Failure, Refusal, Spec, in_words, signs
from fsage.api.target import declaration
from fsage.layouts.machine import Mount

from ..helper import lctl
from .clients import fsname_of, instance_of

LNET_TROUBLE = re.compile(
    r"^ +((?:resend|response_timeout|local_(?:timeout|error|dropped)|network_timeout"
    r"|remote_(?:timeout|error|dropped)|drop)_count): (\d+)$",
    re.MULTILINE,
)
WAITS = re.compile(r"^req_waittime +(\d+) samples \[\w+\] \d+ (\d+) (\d+) (\d+)", re.MULTILINE)


def look(spec: Spec, below: Sequence[Mount]) -> signs.Look:
    """Look at this client of the file system that a target is on, whose mounts are `below`."""
    absent: dict[str, str] = {}
    seen: signs.Look = {"absent": absent}
    for fsname in _fsnames(spec, below):
        try:
            seen["connections"] = connections(lctl.imports(fsname), _instance(fsname, below))
        except (OSError, Failure, Refusal) as why:
            absent["connections"] = in_words(why)
        try:
            seen["lnet"] = lnet(lctl.network_counters(fsname))
        except (OSError, Failure, Refusal) as why:
            absent["lnet"] = in_words(why)
    return seen


def _fsnames(spec: Spec, below: Sequence[Mount]) -> set[str]:
    """The name of the Lustre file system that a target is on, a directory on it too; none for any other."""
    declared = declaration.fsname_of(spec)
    if declared:
        return {declared}
    return {name for mount in below if (name := fsname_of(mount))}


def _instance(fsname: str, below: Sequence[Mount]) -> str:
    """What tells the target's mount of a file system from others on this host; empty where that is not known."""
    for mount in below:
        if fsname_of(mount) == fsname:
            with contextlib.suppress(Failure):
                return instance_of(Path(mount.point), fsname)
    return ""


def connections(text: str, of_mount: str = "") -> dict[str, signs.Connection]:
    """The connections of a client's mount in the output of `lctl get_param` (granted.imports)."""
    seen: dict[str, signs.Connection] = {}
    for name, value in lctl.parse(text).items():
        if lctl.OF_SERVER.search(name):
            continue
        _, device, parameter = name.split(".")
        if not device.endswith(of_mount):
            continue
        connection = seen.setdefault(device, {"state": "unknown"})
        if parameter == "import":
            for key, pattern in _OF_IMPORT.items():
                match = re.search(pattern, value)
                if match:
                    connection[key] = int(match[1])  # type: ignore[literal-required]  # all are of Connection
        elif parameter == "state":
            match = re.search(r"current_state: (\w+)", value)
            if match:
                connection["state"] = match[1]
            connection["history"] = [[int(at), state] for at, state in re.findall(r"\[ (\d+), (\w+) \]", value)]
        elif match := WAITS.search(value):
            connection["waits"] = list(map(int, match.groups()))
    return seen


_OF_IMPORT = {
    "generation": r"\bgeneration: (\d+)",
    "attempts": r"\bconnection_attempts: (\d+)",
    "timeouts": r"\btimeouts: (\d+)",
}


def lnet(text: str) -> dict[str, int]:
    """What LNet counted of trouble, in the output of `lnetctl stats show`."""
    return {name: int(count) for name, count in LNET_TROUBLE.findall(text)}
