"""Lustre on its clients: where it is mounted, cold caches, and tunables.

The mounts of servers' targets have the same type as clients', and are left out here.

Locks protect a client's pages. So unused locks of the target's mount are cancelled, and the caches are cold.

Tunables are osc.* of each OST's connection and llite.* of the target's own mount, set and read back. Every user of the
client has them. So what was there first is noted on the host (fsage.host.system.settings).
"""

from __future__ import annotations

import functools
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fsage.api.helper import OF_LUSTRE, settings
from fsage.api.host import caches, run
from fsage.api.model import Failure, Json, Refusal
from fsage.api.target import Dropped, why_not_root
from fsage.layouts.machine import Mount

from ..helper import lctl
from ..helper.lctl import TUNABLES, tunable
from ..model import LustreSpec

NOTHING_FOUND = 1  # exit status of findmnt


class ClientMount(NamedTuple):
    """A client's mount: `mgs` the NIDs of the management server as mounted, `root` the part of the tree (all: "/")."""

    point: Path
    mgs: str
    fsname: str
    root: str
    options: str


def parse_mounts(text: str) -> list[ClientMount]:
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
    return parse_mounts(run(["findmnt", "--json", "--list", "--types", "lustre"], ok=(0, NOTHING_FOUND)).stdout)


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
def instance_of(mount: Path, fsname: str) -> str:
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
    of_mount = instance_of(mount, fsname)
    osts = needed()
    deadline = time.monotonic() + PATIENCE_S
    while lost := silent(fsname, of_mount, osts):
        if time.monotonic() > deadline:
            raise Failure(
                f"{lctl.names([f'{name} ({state})' for name, state in lost.items()])}: no answer on "
                f"{os.uname().nodename} for {PATIENCE_S:.0f} s. A read or write there would wait for ever. Bring it "
                "back, or have it deactivated, and run the same command again"
            )
        time.sleep(LOOK_EVERY_S)


def silent(fsname: str, of_mount: str = "", osts: list[int] | None = None) -> dict[str, str]:
    """The servers that do not answer, with the state of the connection to each; of one mount, and of these OSTs."""
    patterns = f"osc.{fsname}-OST*.ost_server_uuid", f"mdc.{fsname}-MDT*.mds_server_uuid"
    lost = {}
    for full, value in lctl.get(*patterns).items():
        words = value.split()
        if len(words) < 2 or words[1] in ANSWERS or LEFT_OUT in words or of_mount not in full:
            continue
        name = words[0].removesuffix("_UUID")
        if osts is None or "-OST" not in name or lctl.number_of(name) in osts:
            lost[name] = words[1]
    return lost


PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Between attempts: a lock that was in use at first, such as by the client's reading ahead, is unused later."""


def drop_caches(mount: Path, fsname: str, files: list[Path]) -> Dropped:
    """Cancel the unused locks of a mount, then drop the caches; the answer of caches.drop, with `locks` cancelled.

    A user without root or its helper drops the pages of these files alone, and keeps their names and attributes.

    Counting the pages of files takes new locks, which keep names and attributes in memory: they are cancelled last.
    """
    if not caches.may_drop():
        return caches.drop(files)
    connections = f"{fsname}-{{}}-{instance_of(mount, fsname)}"
    counts: list[tuple[int, int]] = []
    dropped = caches.drop(files, before=lambda: counts.append(give_locks_back(connections)))
    locks = counts[0][0]
    left = counts[-1][1]
    others = f" ({left} of others' stay)" if left else ""
    method = f"lru_size=clear{others}, {dropped['method']}"
    return {**dropped, "method": method, "locks": locks, "locks_left": left}


def give_locks_back(connections: str) -> tuple[int, int]:
    """Cancel the unused locks; how many there were, and how many there are after the last attempt.

    Those are new ones, of others who work on the same mount: nobody waits for them. Whether anything of the target's
    files stayed in memory is counted for itself (fsage.host.system.caches).
    """
    before = left = unused_locks(connections)
    for pause_s in PAUSES_S:
        if not left:
            break
        lctl.cancel_locks(connections.partition("-{}")[0], [name.rpartition(".")[0] for name in left])
        left = unused_locks(connections)
        if left:
            time.sleep(pause_s)
    return sum(before.values()), sum(left.values())


def unused_locks(connections: str) -> dict[str, int]:
    """Unused locks of a mount, by connection to an OST (osc) or MDT (mdc); only where there are any."""
    of_mount = map(connections.format, ("OST*-osc", "MDT*-mdc"))
    found = lctl.get(*(f"ldlm.namespaces.{name}.lock_unused_count" for name in of_mount))
    return {name: int(count) for name, count in found.items() if int(count)}


Values = dict[str, str]  # by the parameter's full name


def tunables_now(mount: Path, fsname: str, *names: str) -> Values:
    """Values of tunables of one mount of a file system; without those that Lustre does not have. Raises Failure."""
    instance = instance_of(mount, fsname)
    osc = f"osc.{fsname}-OST*-osc-{instance}"
    llite = f"llite.{fsname}-{instance}"
    return lctl.get(*(f"{of}.{name}" for name in names for of in (osc, llite)))


def known_tunables(mount: Path, fsname: str, names: Iterable[str] = OF_LUSTRE) -> dict[str, str]:
    """The values of tunables, usually all that a study may set, by name; '8 or 16' where connections differ.

    Raises Failure.
    """
    values: dict[str, set[str]] = {}
    for full, value in tunables_now(mount, fsname, *names).items():
        values.setdefault(tunable(full), set()).add(value)
    return {name: " or ".join(sorted(several)) for name, several in values.items()}


def tune(
    mount: Path, wanted: Mapping[str, object], holder: settings.Holder, check: bool
) -> tuple[bool, list[str], Json]:
    """Have a target set `wanted` (name -> whole number) and nothing else: what it set before goes back.

    Returns whether anything changed (or would), a sentence for each, and for each name `asked`, `before` (what was
    there first) and `now`, or `unsupported`.
    """
    fsname = holder["fsname"]
    firsts = settings.notes(TUNABLES.name)
    noted: Json = {}
    sentences: list[str] = []
    desired: Values = {}
    changed = False
    for name, value in sorted(wanted.items()):
        if name in OF_LUSTRE and (isinstance(value, bool) or not isinstance(value, int)):
            raise Refusal(f"tuning: {name} is {value!r}: a whole number is wanted, as Lustre gives it back")
        has = tunables_now(mount, fsname, name) if name in OF_LUSTRE else {}
        if has:
            why = why_not_root()
        else:
            why = f"neither osc nor llite of {fsname} has it"
        if why:
            noted[name] = {"asked": value, "unsupported": why}
            sentences.append(f"{name}: unsupported, {why}")
            continue
        before = {full: firsts.get(full, {}).get("first", now) for full, now in has.items()}
        noted[name] = {"asked": value, "before": before, "now": dict.fromkeys(has, str(value))}
        desired |= noted[name]["now"]
        changes = [(full, now, str(value)) for full, now in has.items() if now != str(value)]
        changed = changed or bool(changes)
        sentences += sentences_of(changes) or [f"{name}: {value} (unchanged)"]
    stale = _stale(holder, desired)
    if check:
        back = sorted(set(map(tunable, stale)))
        return changed or bool(back), [*sentences, *(f"{name}: would be put back" for name in back)], noted
    steps = lctl.tune(fsname, holder, desired) if desired or stale else []
    return bool(steps), [*sentences, *sentences_of(step for step in steps if step[0] in stale)], noted


def put_tunables_back(holder: settings.Holder, check: bool = False) -> list[str]:
    """Let go of all that a target set on this host; a sentence for each tunable that changed by that.

    Connections that ended since are left out: after a new mount they have other names and Lustre's own values.
    """
    if not _stale(holder, {}):
        return []
    if check:
        return sentences_of(settings.change(holder, TUNABLES, {}, check=True))
    return sentences_of(lctl.tune(holder["fsname"], holder, {}))


def _stale(holder: settings.Holder, desired: Mapping[str, str]) -> list[str]:
    """The tunables that a target holds, and wants no more."""
    return [full for full in settings.held(holder, TUNABLES.name) if full not in desired]


def sentences_of(steps: Iterable[Sequence[str]]) -> list[str]:
    """A sentence for each tunable that changed, by its full name, from a value to another.

    >>> sentences_of([["osc.a.x", "8", "2"], ["osc.b.x", "8", "2"], ["osc.c.x", "4", "2"]])
    ['x: 4 -> 2 at 1 connections, 8 -> 2 at 2 connections']
    """
    counts: dict[str, Counter[str]] = {}
    for full, was, now in steps:
        counts.setdefault(tunable(full), Counter())[f"{was} -> {now}"] += 1
    sentences = []
    for name, of_name in sorted(counts.items()):
        joined = ", ".join(f"{step} at {count} connections" for step, count in sorted(of_name.items()))
        sentences.append(f"{name}: {joined}")
    return sentences
