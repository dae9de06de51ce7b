"""Where clients mount Lustre: the mounts of servers' targets have the same type, and are left out here."""

from __future__ import annotations

import functools
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fsage.host.lustre import params
from fsage.host.system.mounting import Mount
from fsage.host.system.shell import run
from fsage.model.errors import Failure, Refusal
from fsage.model.target import LustreSpec

NOTHING_FOUND = 1  # exit status of findmnt


class ClientMount(NamedTuple):
    """A client's mount: `mgs` the NIDs of the management server as mounted, `root` the part of the tree (all: "/")."""

    point: Path
    mgs: str
    fsname: str
    root: str
    options: str


def parse(text: str) -> list[ClientMount]:
    """The clients' mounts in `findmnt --json` output; a server's source is a device, a client's holds `:/`.

    Raises Failure.

    >>> parse('{"filesystems": [{"target": "/l", "source": "1.2.3.4@tcp:/a/b", "fstype": "lustre", "options": "rw"}]}')
    [ClientMount(point=PosixPath('/l'), mgs='1.2.3.4@tcp', fsname='a', root='/b', options='rw')]
    """
    mounts = []
    try:
        for mount in json.loads(text)["filesystems"] if text.strip() else ():
            mgs, colon, path = mount["source"].partition(":/")
            if mount["fstype"] == "lustre" and colon:
                fsname, _, root = path.partition("/")
                mounts.append(ClientMount(Path(mount["target"]), mgs, fsname, f"/{root}", mount["options"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Failure(f"`findmnt --json` said {text[:80]!r}: no list of mounts ({error!r})") from error
    return mounts


def of_clients() -> list[ClientMount]:
    """The clients' mounts of this host."""
    return parse(run(["findmnt", "--json", "--list", "--types", "lustre"], ok=(0, NOTHING_FOUND)).stdout)


def fsname_of(mount: Mount) -> str | None:
    """The file system that a client's mount is of; None for any other mount, those of servers' targets too."""
    _, colon, path = mount.source.partition(":/")
    if mount.type == "lustre" and colon:
        return path.partition("/")[0]
    return None


def client_mount(lustre: LustreSpec, directory: Path) -> ClientMount:
    """The mount of the declared file system that holds `directory`; `Refusal` names what is mounted instead."""
    mounts = of_clients()
    wanted = f"{lustre['mgs']}:/{lustre['fsname']}"
    mounted = ", ".join(f"{mount.mgs}:/{mount.fsname}{mount.root.rstrip('/')} at {mount.point}" for mount in mounts)
    fitting = [mount for mount in mounts if mount.point in directory.parents]
    if not fitting:
        raise Refusal(
            f"fsage_target.directory is {directory}, and no Lustre client mount of {os.uname().nodename} is above it; "
            f"mounted are {mounted or 'none'}; declare a directory below a mount of {wanted}"
        )
    mount = max(fitting, key=lambda mount: len(mount.point.parts))
    if (mount.mgs, mount.fsname) != (lustre["mgs"], lustre["fsname"]):  # of a fileset the root is what it is
        raise Refusal(
            f"{directory} on {os.uname().nodename} is on {mount.mgs}:/{mount.fsname}{mount.root.rstrip('/')}, "
            f"and {wanted} is declared (fsage_target.lustre); nothing was touched"
        )
    return mount


@functools.cache  # a mount keeps it, and so does what a command works on
def instance(mount: Path, fsname: str) -> str:
    """What tells a mount of a file system from others on this host, in the names of its parameters. Raises Failure."""
    said = run(["lfs", "getname", str(mount)]).stdout
    match = re.search(rf"(?:^|\s){re.escape(fsname)}-([0-9a-f]+)(?:\s|$)", said)
    if not match:
        raise Failure(f"`lfs getname {mount}` said {said[:80]!r}: no client of {fsname}")
    return match[1]


ANSWERS = ("FULL", "IDLE")  # an idle connection is made again at the next request
LEFT_OUT = "DEACTIVATED"  # by an administrator: nothing waits for this server
PATIENCE_S = 120.0
LOOK_EVERY_S = 1.0  # after a server came back its clients recover first


def await_servers(mount: Path, fsname: str, needed: Callable[[], list[int] | None]) -> None:
    """Wait until every MDT, and every OST that files may lie on, answers this mount. Raises Failure naming the others.

    `needed`: the numbers of these OSTs; None: all. The kernel shows that to root only. For a user no server is listed
    here, and he waits.
    """
    if not silent(fsname):  # asked first for all mounts: it costs one command
        return
    of_mount = instance(mount, fsname)
    osts = needed()
    deadline = time.monotonic() + PATIENCE_S
    while lost := silent(fsname, of_mount, osts):
        if time.monotonic() > deadline:
            raise Failure(
                f"{params.names([f'{name} ({state})' for name, state in lost.items()])}: no answer on "
                f"{os.uname().nodename} for {PATIENCE_S:.0f} s. A read or write there would wait for ever. Bring it "
                "back, or have it deactivated, and run the same command again"
            )
        time.sleep(LOOK_EVERY_S)


def silent(fsname: str, of_mount: str = "", osts: list[int] | None = None) -> dict[str, str]:
    """The servers that do not answer, with the state of the connection to each; of one mount, and of these OSTs."""
    patterns = f"osc.{fsname}-OST*.ost_server_uuid", f"mdc.{fsname}-MDT*.mds_server_uuid"
    lost = {}
    for full, value in params.get(*patterns).items():
        words = value.split()
        if len(words) < 2 or words[1] in ANSWERS or LEFT_OUT in words or of_mount not in full:
            continue
        name = words[0].removesuffix("_UUID")
        if osts is None or "-OST" not in name or int(name[-4:], 16) in osts:
            lost[name] = words[1]
    return lost
