"""Where clients mount Lustre: the mounts of servers' targets have the same type, and are left out here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

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
    if (mount.mgs, mount.fsname, mount.root) != (lustre["mgs"], lustre["fsname"], "/"):
        raise Refusal(
            f"{directory} on {os.uname().nodename} is on {mount.mgs}:/{mount.fsname}{mount.root.rstrip('/')}, "
            f"and {wanted} is declared (fsage_target.lustre); nothing was touched"
        )
    return mount
