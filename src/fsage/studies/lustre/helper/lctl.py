"""Lustre's parameters, by `lctl get_param` and `lctl set_param`, and what else of Lustre needs root.

What needs root are verbs of the helper: locks and tunables of a client, commit and counters of a server.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fsage.api.helper import Failure, helper_command, privileged, run, settings

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


def is_ost(fsname: str, name: object) -> bool:
    """Whether a name is that of an OST of a file system (lustre-OST000a)."""
    return isinstance(name, str) and re.fullmatch(rf"{re.escape(fsname)}-OST[0-9a-f]{{4}}", name) is not None


def number_of(name: str) -> int:
    """The number in the name of an OST."""
    return int(name[-4:], 16)


def names(listed: Sequence[str]) -> str:
    """The first three names and the number of the others, for a message."""
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")


FREE_SPACE = "lustre-free-space"


@privileged("lustre-locks")
def cancel_locks(fsname: str, connections: list[str]) -> None:
    """Cancel the unused locks of connections, given by their names below ldlm.namespaces. Raises Failure."""
    put({f"{name}.lru_size": "clear" for name in connections})


@privileged("lustre-tune")
def tune(fsname: str, holder: settings.Holder, values: dict[str, str]) -> list[list[str]]:
    """Have a holder set these tunables of this client, by their full names, and no others: what else he set goes back.

    Returns [name, value before, value now] of each that changed. Raises Failure.
    """
    return list(map(list, settings.change(holder, TUNABLES, values)))


def _put(values: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Set tunables and read them back. Before a Failure is raised, the values of `before` are restored.

    Lustre may take a value out of range at one OST and refuse it at the next. It may also clip or ignore it, with exit
    status 0. Names are given one by one, because a glob reaches the metadata server's connections as well. The order is
    alphabetical: max_read_ahead_mb must be set before max_read_ahead_per_file_mb, which it limits.
    """
    touched: list[str] = []
    for name in sorted(set(map(tunable, values))):
        wanted = {full: value for full, value in values.items() if tunable(full) == name}
        touched += wanted
        why = None
        try:
            put(wanted)
        except Failure as error:
            why = str(error)
        after = get(*touched)
        other = [full for full, value in wanted.items() if after.get(full) != value]
        if not why and not other:
            continue
        back = {full: before[full] for full in touched if after.get(full) != before[full]}
        if back:
            put(back)
        holds = ", ".join(f"{full} read back {after.get(full)}" for full in other[:3]) or "all were set"
        requested = ", ".join(sorted(set(wanted.values())))
        raise Failure(f"{name}: requested {requested}; {holds}{'; ' + why if why else ''}; put back to what was there")


TUNABLES = settings.Kind("tunables", lambda names: dict(get(*sorted(names))), _put)


def tunable(full: str) -> str:
    """The tunable of a parameter's full name."""
    return full.rpartition(".")[2]


@privileged("lustre-sync")
def commit(fsname: str) -> str:
    """Have the targets of this server commit; the objects that its MDTs still have to destroy. Raises Failure."""
    run(["lctl", "set_param", "-n", f"osd-*.{fsname}-*.force_sync=1"])
    return run(["lctl", "get_param", "-n", f"osp.{fsname}-OST*.destroys_in_flight"], ok=(0, ENOENT)).stdout


@privileged("lustre-counters")
def counters(fsname: str) -> str:
    """The counters of this server's OSTs (brw_stats), as Lustre prints them. Raises Failure."""
    return run(["lctl", "get_param", f"osd-*.{fsname}-OST*.brw_stats"], ok=(0, ENOENT)).stdout


@privileged("lustre-imports")
def imports(fsname: str) -> str:
    """The imports of this client, their states and how long requests waited, as Lustre prints them. Raises Failure."""
    wanted = [f"{kind}.{fsname}-*.{name}" for kind in ("osc", "mdc") for name in ("import", "state", "stats")]
    return run(["lctl", "get_param", *wanted], ok=(0, ENOENT)).stdout


@privileged("lustre-network")
def network_counters(fsname: str) -> str:
    """What LNet has counted on this host, of all file systems, as Lustre prints it. Raises Failure."""
    return run(["lnetctl", "stats", "show"]).stdout


def print_free_space(ost: str) -> None:
    """Become dumpe2fs on the device of an ldiskfs OST of this server: its text is too long for an answer.

    Raises Failure.
    """
    device = run(["lctl", "get_param", "-n", f"osd-ldiskfs.{ost}.mntdev"]).stdout.strip()
    os.execvp("dumpe2fs", ["dumpe2fs", device])


def free_space_words(ost: str, device: str) -> list[str]:
    """The command that prints the free space of an OST of this server: of root, or by the helper (print_free_space)."""
    if os.geteuid() == 0:
        return ["dumpe2fs", device]
    ask = shlex.join(helper_command(FREE_SPACE, ost.rpartition("-OST")[0]))
    return ["sh", "-c", f"printf %s {shlex.quote(json.dumps({'ost': ost}))} | {ask}"]
