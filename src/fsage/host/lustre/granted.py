"""What of Lustre needs root, verbs of the helper: locks and tunables of a client, commit and counters of a server."""

from __future__ import annotations

import json
import os
import re
import shlex

from fsage.host.lustre import params
from fsage.host.system import privilege
from fsage.host.system.privilege import privileged
from fsage.host.system.shell import run
from fsage.model.errors import Refusal
from fsage.model.message import shown
from fsage.model.tuning import OF_LUSTRE

FSNAME = r"[A-Za-z0-9_-]{1,8}"
OST = re.compile(rf"{FSNAME}-OST[0-9a-f]{{4}}")
LOCKS = re.compile(rf"ldlm\.namespaces\.{FSNAME}-(OST|MDT)[0-9a-f]{{4}}-(osc|mdc)-[0-9a-f]{{1,16}}")
PREFIX = rf"(osc\.{FSNAME}-OST[0-9a-f]{{4}}-osc|llite\.{FSNAME})-[0-9a-f]{{1,16}}"
TUNABLE = re.compile(rf"{PREFIX}\.(\w{{1,64}})")
VALUE = re.compile(r"[0-9][0-9.]{0,19}")
MOST = 10_000  # connections of a client
FREE_SPACE = "lustre-free-space"


@privileged("lustre-locks")
def cancel_locks(connections: list[str]) -> None:
    """Cancel the unused locks of connections, given by their names below ldlm.namespaces. Raises Failure."""
    params.put({f"{name}.lru_size": "clear" for name in connections})


@privileged("lustre-tune")
def tune(values: dict[str, str]) -> None:
    """Set tunables of this client by their full names. Raises Failure."""
    params.put(values)


@privileged("lustre-sync")
def commit(fsname: str) -> str:
    """Have the targets of this server commit; the objects that its MDTs still have to destroy. Raises Failure."""
    run(["lctl", "set_param", "-n", f"osd-*.{fsname}-*.force_sync=1"])
    return run(["lctl", "get_param", "-n", f"osp.{fsname}-OST*.destroys_in_flight"], ok=(0, params.ENOENT)).stdout


@privileged("lustre-counters")
def counters(fsname: str) -> str:
    """The counters of this server's OSTs (brw_stats), as Lustre prints them. Raises Failure."""
    return run(["lctl", "get_param", f"osd-*.{fsname}-OST*.brw_stats"], ok=(0, params.ENOENT)).stdout


@privileged("lustre-imports")
def imports(fsname: str) -> str:
    """The imports of this client, their states and how long requests waited, as Lustre prints them. Raises Failure."""
    wanted = [f"{kind}.{fsname}-*.{name}" for kind in ("osc", "mdc") for name in ("import", "state", "stats")]
    return run(["lctl", "get_param", *wanted], ok=(0, params.ENOENT)).stdout


@privileged("lustre-network")
def network_counters() -> str:
    """What LNet has counted on this host, as Lustre prints it. Raises Failure."""
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
    ask = shlex.join(privilege.command(FREE_SPACE))
    return ["sh", "-c", f"printf %s {shlex.quote(json.dumps({'ost': ost}))} | {ask}"]


def check_locks(connections: object) -> list[str]:
    """The list of connections, checked. Raises Refusal."""
    if not isinstance(connections, list) or not 0 < len(connections) <= MOST:
        raise Refusal(f"{shown(connections)} is no list of connections")
    if wrong := [name for name in connections if not isinstance(name, str) or not LOCKS.fullmatch(name)]:
        raise Refusal(f"{shown(wrong[0])} is no connection of a Lustre client")
    return connections


def check_tunables(values: object) -> dict[str, str]:
    """The tunables with their values, checked. Raises Refusal."""
    if not isinstance(values, dict) or not 0 < len(values) <= MOST:
        raise Refusal(f"{shown(values)} is no object of tunables")
    for name, value in values.items():
        match = TUNABLE.fullmatch(name)
        if not match or match[2] not in OF_LUSTRE:
            raise Refusal(f"{shown(name)} is no tunable of a Lustre client that is known: {', '.join(OF_LUSTRE)}")
        if not isinstance(value, str) or not VALUE.fullmatch(value):
            raise Refusal(f"{shown(value)} is no value of {name}: a number is wanted")
    return values


def check_fsname(fsname: object) -> str:
    """The name of a file system, checked. Raises Refusal."""
    if not isinstance(fsname, str) or not re.fullmatch(FSNAME, fsname):
        raise Refusal(f"{shown(fsname)} is not the name of a Lustre file system")
    return fsname


def check_ost(ost: object) -> str:
    """The name of an OST, checked. Raises Refusal."""
    if not isinstance(ost, str) or not OST.fullmatch(ost):
        raise Refusal(f"{shown(ost)} is not the name of an OST")
    return ost
