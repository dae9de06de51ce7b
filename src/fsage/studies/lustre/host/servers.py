"""The servers of Lustre: what they do and tell, and the layout of their OSTs.

What the servers of Lustre do and tell: they commit, count what OSTs do, and read the free space of an OST.

The launcher asks them by their agents (fsage.host.host_agent), which call what is below "On a server".

The layout of OSTs, read on their servers: free space by dumpe2fs on the device that Lustre names.

`mb_groups` in /proc/fs/ldiskfs is never read: in several series a read past the last group turns the OST read-only.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Iterable, Mapping

from fsage.api.helper import shown
from fsage.api.host import OtherHost, Target
from fsage.api.model import Failure, Json, Refusal, Spec
from fsage.api.target import MOST_ENDS, Request, Servers, declaration
from fsage.layouts import ext4
from fsage.layouts.freespace import ONCE, Counting
from fsage.layouts.servers import Ost
from fsage.layouts.store import OF_DEVICE, Store, without

from ..helper import lctl
from ..model import LustreSpec, lustre_of

HEADING = re.compile(r"(\S.*?)\s{2,}\S+\s+% cum % \|")
ROW = re.compile(r"(\d+[KMG]?):\s+(\d{1,19})\s+\d+\s+\d+\s+\|\s+(\d{1,19})\s+\d+\s+\d+")
REQUESTS = re.compile(r"^(?:read|write) +(\d{1,19}) samples \[usecs\] \d+ \d+ (\d{1,19})\b", re.MULTILINE)
Stats = dict[str, dict[str, list[int]]]  # histogram -> bucket as printed (from that on) -> [reads, writes]
Counted = dict[str, Stats]  # by OST


# On the launcher


def stats(servers: Servers, lustre: LustreSpec) -> Counted:
    """brw_stats of every OST that the declared servers serve, of ldiskfs and of ZFS. Raises Failure."""
    answers = servers.ask_servers(do="counters")
    texts = [answer["text"] for name, answer in answers.items() if name in lustre["oss"]]
    return {name.split(".")[1]: parse_stats(counters) for text in texts for name, counters in lctl.parse(text).items()}


def sync(servers: Servers) -> int | None:
    """Have every target on the servers commit now; how many objects their MDTs still have to destroy.

    None where no MDT is among them. An MDT counts objects only after it has committed the unlinks. Raises Failure.
    """
    counts = [count for answer in servers.ask_servers(do="commit").values() for count in answer["to_destroy"]]
    if counts:
        return sum(counts)
    return None


def free_space(servers: Servers, ost: str, counting: Counting = ONCE) -> Store:
    """The free space of an ldiskfs OST, by dumpe2fs on the server that serves it. Raises Failure.

    The name of the device never leaves that server.
    """
    answers = servers.ask_servers(do="free_space", ost=ost)
    for name, answer in answers.items():
        if answer["store"]:
            first = 0
            ends = [0]
            while counting.keep and ends:
                ends = servers.ask_servers(do="free_extents", first=first)[name]["ends"]
                counting.keep(ends[::2], ends[1::2])
                first += len(ends)
            return Store(**answer["store"])
    raise Failure(f"none of the servers {', '.join(answers) or '(none is declared)'} serves {ost} with ldiskfs")


def reach(servers: Servers, lustre: LustreSpec, osts: Iterable[Ost]) -> None:
    """Raise Refusal where a declared server is none of the inventory's, or none of them serves an OST."""
    try:
        counters = stats(servers, lustre)
    except Failure as why:
        raise Refusal(f"fsage_target.lustre.oss: {why}; nothing was touched") from why
    missing = [ost.name for ost in osts if ost.name not in counters]
    if missing:
        raise Refusal(
            f"fsage_target.lustre.oss names {', '.join(lustre['oss'])}, and none of them serves "
            f"{lctl.names(missing)}: name every server of OSTs, and have each in the inventory's group servers"
        )


# On a server


def commit(spec: Spec) -> list[int]:
    """Have the targets that this host serves commit; the objects that each MDT still has to destroy on each OST.

    An OSS has none. Raises Failure.
    """
    text = lctl.commit(lustre_of(spec)["fsname"])
    if not all(re.fullmatch(r"\d{1,19}", word) for word in text.split()):
        raise Failure(f"destroys_in_flight is {shown(text.strip())}, and numbers are wanted")
    return list(map(int, text.split()))


def requests_here(spec: Spec) -> dict[str, list[int]]:
    """How many reads and writes each OST of this host has done, and how long they took, in us.

    Every user may read these counters. Raises Failure.
    """
    seen = {}
    for name, text in lctl.get(f"obdfilter.{lustre_of(spec)['fsname']}-OST*.stats").items():
        each = [(int(match[1]), int(match[2])) for match in REQUESTS.finditer(text)]
        seen[name.split(".")[1]] = list(map(sum, zip((0, 0), *each)))
    return seen


def free_space_there(host: OtherHost, ost: str) -> Json:
    """The free space of an ldiskfs OST that this host serves: a Store, whose extents `free_extents` has."""
    ends: list[int] = []
    device = next(iter(lctl.get(f"osd-ldiskfs.{ost}.mntdev").values()), "")
    keep = Counting(keep=lambda *each: ends.extend(itertools.chain.from_iterable(zip(*each))))
    store = dataclasses.asdict(of_ost(ost, device, keep)) if device else None
    host.kept["ends"] = ends
    return {"store": store}


def free_extents(host: OtherHost, first: int) -> Json:
    """The next free extents, from end number `first` on: where each begins and ends, bytes, in one list."""
    return {"ends": host.kept["ends"][first : first + MOST_ENDS]}


def of_ost(ost: str, device: str, counting: Counting = ONCE) -> Store:
    """The free space of an ldiskfs OST of this host on a device: as root, or by its helper. Raises Failure."""
    return ext4.of_command(lctl.free_space_words(ost, device), f"dumpe2fs {device}", counting)


def parse_stats(text: str) -> Stats:
    """The histograms of one OST, counts only: the percentages follow from them. Raises Failure."""
    stats: Stats = {}
    rows: dict[str, list[int]] = {}
    for line in text.splitlines():
        match = HEADING.match(line)
        if match:
            rows = stats[match[1]] = {}
        elif match := ROW.match(line):
            rows[match[1]] = [int(match[2]), int(match[3])]
    if not stats:
        raise Failure(f"brw_stats begins {text[:60]!r}: no histogram in it")
    return stats


def between(before: Stats, after: Stats) -> Stats | None:
    """What was counted in between, empty buckets left out; None if the OST counts from zero since."""
    counted: Stats = {}
    for histogram, rows in after.items():
        counted[histogram] = {}
        for bucket, (reads, writes) in rows.items():
            first = before.get(histogram, {}).get(bucket, [0, 0])
            pair = [reads - first[0], writes - first[1]]
            if min(pair) < 0:
                return None
            if any(pair):
                counted[histogram][bucket] = pair
    return counted


NO_FILES = "files are read through a client: see the last store"
NOT_SEEN = "no host of the inventory's group `servers` serves it"


def inspect(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """The verb `osts`: Store.summary, with `ost` and `host`, of each OST of the target that this host serves."""
    spec = declaration.complete(declared)
    fsname = declaration.fsname_of(spec)
    if not fsname:
        return {"changed": False, "msg": f"target {spec['name']} has no OSTs", "osts": []}
    values = lctl.get(f"osd-*.{fsname}-OST*.fstype", f"osd-*.{fsname}-OST*.mntdev")
    seen = []
    for name, fstype in sorted(values.items()):
        osd, ost, parameter = name.split(".")
        if parameter == "fstype":
            store = _of(ost, fstype, values.get(f"{osd}.{ost}.mntdev"))
            seen.append({**store.summary(lctl.number_of(ost)), "ost": ost, "host": os.uname().nodename})
    return {"changed": False, "msg": f"{len(seen)} OSTs of {fsname}", "osts": seen}


def every(target: Target, seen: list[dict[str, object]]) -> list[Json]:
    """The layout of every OST of the claim, by number; all is absent of an OST that no server answered for.

    Raises Refusal for an answer that is of no OST of this file system.
    """
    fsname = lustre_of(target.spec)["fsname"]
    stores = {}
    for store in seen:
        ost = store.get("ost") if isinstance(store, dict) else None
        if not lctl.is_ost(fsname, ost) or store.get("store") != lctl.number_of(str(ost)):
            raise Refusal(f"a server answered for {shown(ost)}, which is no OST of {fsname}, or not with its number")
        stores[str(ost)] = store
    for ost in target.claim["lustre"]["osts"]:
        if ost not in stores:
            nothing = Store("lustre", {}, {}, {**without(OF_DEVICE, NOT_SEEN), "files": NO_FILES})
            stores[ost] = {**nothing.summary(lctl.number_of(ost)), "ost": ost, "host": None}
    return sorted(stores.values(), key=lambda store: store["store"])


def _of(ost: str, fstype: str, device: str | None) -> Store:
    if fstype != "ldiskfs":
        reason = f"unsupported: the layout of {fstype} OSTs is not read, only of ldiskfs"
    elif not device:
        reason = "its server has no parameter mntdev"
    else:
        try:
            store = of_ost(ost, device)
            store.absent["files"] = NO_FILES
            return Store("ldiskfs", store.source, store.found, store.absent)
        except Failure as why:
            reason = str(why)
    return Store(fstype, {}, {}, {**without(OF_DEVICE, reason), "files": NO_FILES})
