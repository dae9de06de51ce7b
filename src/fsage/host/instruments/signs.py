"""A look at this host before and after a phase: its kernel's log, its connections to servers, its network, its load.

Looking never disturbs what is measured: what cannot be read is noted with its reason. fsage.model.signs says what a
difference between two looks means.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, cast

from fsage.base import Failure, Json, Refusal, in_words
from fsage.host.instruments.instrument import Instrument
from fsage.host.lustre import lctl
from fsage.host.lustre.clients import fsname_of, instance_of
from fsage.host.remote.connection import Lost, answers_of
from fsage.host.system import kernel, kernel_log
from fsage.host.targets.target import OtherHost, Target
from fsage.layouts import machine
from fsage.layouts.machine import Mount
from fsage.model import declaration
from fsage.model.request import Cell, Phase
from fsage.model.signs import Connection, Look, Network, Nfs, evicted
from fsage.model.target import Spec

SNMP = Path("/proc/net/snmp")
MOUNTSTATS = Path("/proc/self/mountstats")
LNET_TROUBLE = re.compile(
    r"^ +((?:resend|response_timeout|local_(?:timeout|error|dropped)|network_timeout"
    r"|remote_(?:timeout|error|dropped)|drop)_count): (\d+)$",
    re.MULTILINE,
)
WAITS = re.compile(r"^req_waittime +(\d+) samples \[\w+\] \d+ (\d+) (\d+) (\d+)", re.MULTILINE)
OF_DISK = re.compile(r"\bloop\d+")
SHUT_DOWN = re.compile(r"shut down requested|User initiated shutdown")  # of ext4 and XFS, by an ioctl of root's


EVERY_S = 1.0
COMPLETED = (0, 4, 11, 15)
IN_FLIGHT = 8  # places in a block device's `stat` (Documentation/block/stat.rst)


def look_there(host: OtherHost, last: int | None) -> Json:
    """A look at another host, at a server with its own spec."""
    if not host.target:
        return dict(look(host.spec, (), (), last, serves=True))
    return dict(look_at(host.target, last))


class Signs(Instrument):
    """Signs of trouble: a look at every host before a phase and after it, and whether the devices stalled meanwhile."""

    name = "signs"
    remote: ClassVar = {"signs": look_there}
    stalls: Stalls | None = None  # while a phase runs

    @contextlib.contextmanager
    def around_phase(self, phase: Phase, cell: Cell) -> Iterator[Json]:
        seen: Json = {}
        before = self.look()
        self.stalls = stalls = Stalls(self.target)
        yield seen
        self.stalls = None
        after = self.look(before)
        seen |= {"before": before, "after": after}
        unused = self._unused(before, after)
        if unused:
            seen["unused"] = unused
        if stalls.longest_s:
            after[self.hosts.client_names[0]]["stalled_s"] = stalls.longest_s

    def check(self) -> None:
        if self.stalls:
            self.stalls.look()

    def look(self, before: Mapping[str, Look] | None = None) -> dict[str, Look]:
        """Look at every host; `before`: the looks before the phase, if it has ended.

        Raises Lost. A host that fails to look says why.
        """
        last = {name: seen["kernel"]["last"] for name, seen in (before or {}).items() if "kernel" in seen}
        for host in self.hosts.remote_hosts:
            host.tell({"do": "signs", "last": last.get(host.name)})
        first = self.hosts.client_names[0]
        looks = {first: look_at(self.target, last.get(first))}
        for host in self.hosts.remote_hosts:
            try:
                answer = cast(Look, answers_of([host])[host.name])
            except Lost:
                raise
            except Failure as why:
                answer = {"absent": {"all": str(why)}}
            looks.setdefault(host.name, answer)  # where the launcher is a server too, it is looked at once
        return looks

    def _unused(self, before: Mapping[str, Look], after: Mapping[str, Look]) -> list[str]:
        """The OSTs that evicted a client during a phase, and on which no file of the target lies."""
        by = {name for host, seen in after.items() for name in evicted(before.get(host, {}), seen)}
        return [name for name in sorted(by) if not self.target.osts.is_used(name)]


class Stalls:
    """How long a target's devices ended no request although some waited: a frozen server, a disk that is gone.

    `longest_s`: by the device's number, where it was over EVERY_S. A file system without a block device, such as NFS,
    has none: what it counts itself is in fsage.model.signs.
    """

    def __init__(self, target: Target) -> None:
        numbers = set(map(kernel.number_of, target.devices))
        if not numbers:
            numbers = {kernel.shown_number(os.stat(mount).st_dev) for mount in target.mounts}
        places = list(map(kernel.folder_of, numbers))
        self.stats = [place.resolve() / "stat" for place in places if place.exists()]
        self.completed: dict[Path, tuple[int, float]] = {}
        self.looked = 0.0
        self.longest_s = dict[str, float]()

    def look(self) -> None:
        """Look at each device, not more often than EVERY_S."""
        now = time.monotonic()
        if now - self.looked < EVERY_S:
            return
        self.looked = now
        for path in self.stats:
            with contextlib.suppress(OSError, IndexError):  # the device is gone: then its requests fail
                fields = list(map(int, path.read_text().split()))
                completed = sum(fields[place] for place in COMPLETED if place < len(fields))
                last, since = self.completed.get(path, (-1, now))
                if completed != last or not fields[IN_FLIGHT]:
                    self.completed[path] = completed, now
                else:
                    name = path.parent.name
                    self.longest_s[name] = max(self.longest_s.get(name, 0.0), round(now - since, 1))


def look_at(target: Target, last: int | None) -> Look:
    """A look at this host, a client (`look`)."""
    return look(target.spec, target.mounts, target.devices, last)


def look(spec: Spec, places: Sequence[Path], devices: Sequence[str], last: int | None, serves: bool = False) -> Look:
    """Look at this host. `places` and `devices`: of the target. `last`: the record of the kernel's log after which its
    lines are wanted; None before a phase.

    `serves`: it is a server of Lustre, whose connections are not looked at.
    """
    seen: Look = {"time": time.time(), "load": list(os.getloadavg()), "absent": {}}
    absent = seen["absent"]
    try:
        log = kernel_log.since(-1 if last is None else last)
        log["lines"] = list(of_target(log["lines"], {Path(device).name for device in devices}))
        seen["kernel"] = log
    except FileNotFoundError:
        absent["kernel"] = f"there is no {kernel_log.KMSG} here, as in a container"
    except (OSError, Failure, Refusal) as why:
        absent["kernel"] = in_words(why, kernel_log.KMSG)
    seen["network"] = segments(SNMP.read_text())
    below = _mounts(places)
    nfs = {mount.point for mount in below if mount.type.startswith("nfs")}
    if nfs:
        counted = nfs_counters(MOUNTSTATS.read_text())
        seen["nfs"] = {point: counters for point, counters in counted.items() if point in nfs}
    for fsname in () if serves else _fsnames(spec, below):
        try:
            seen["connections"] = connections(lctl.imports(fsname), _instance(fsname, below))
        except (OSError, Failure, Refusal) as why:
            absent["connections"] = in_words(why)
        try:
            seen["lnet"] = lnet(lctl.network_counters())
        except (OSError, Failure, Refusal) as why:
            absent["lnet"] = in_words(why)
    return seen


def of_target(lines: Iterable[str], ours: Collection[str]) -> Iterator[str]:
    """Lines of the kernel's log without those of other loop devices.

    A file system that was shut down on request tells many errors afterwards: they are no trouble, nor is the request.
    """
    down: set[str] = set()
    for line in lines:
        devices = set(OF_DISK.findall(line))
        if SHUT_DOWN.search(line):
            down |= devices
        elif devices <= set(ours) and not devices & down:
            yield line


def _mounts(places: Sequence[Path]) -> list[Mount]:
    """The mounts that these places are on. No place is touched: its caches are cold."""
    every = machine.mounts()
    above = [[mount for mount in every if Path(mount.point) in (place, *place.parents)] for place in places]
    return [max(reversed(found), key=lambda mount: len(mount.point)) for found in above if found]


def _fsnames(spec: Spec, below: Sequence[Mount]) -> set[str]:
    """The name of the Lustre file system that a target is on, a directory on it too; none for any other."""
    declared = declaration.fsname_of(spec)
    if declared:
        return {declared}
    return {name for mount in below if (name := fsname_of(mount))}


def segments(snmp: str) -> Network:
    """The segments that TCP sent, and those that it sent again (/proc/net/snmp, RFC 4022)."""
    names, values = (line.split()[1:] for line in snmp.splitlines() if line.startswith("Tcp:"))
    counters = dict(zip(names, map(int, values)))
    return {"sent": counters["OutSegs"], "retransmitted": counters["RetransSegs"]}


def nfs_counters(mountstats: str) -> dict[str, Nfs]:
    """The counters of each NFS mount in /proc/self/mountstats (statvers 1.1), by its mount point.

    A line of an operation begins `NAME: operations transmissions timeouts`; `xprt: tcp` has its connects as the third.
    """
    counted: dict[str, Nfs] = {}
    now: Nfs | None = None
    for line in mountstats.splitlines():
        match = re.match(r"device .+ mounted on (\S+) with fstype (\S+)", line)
        if match:
            now = None
            if match[2].startswith("nfs"):
                now = counted[machine.plain(match[1])] = {
                    "operations": 0,
                    "transmissions": 0,
                    "timeouts": 0,
                    "connects": 0,
                }
        elif now is not None and (match := re.match(r"\s*xprt:\s+tcp \d+ \d+ (\d+)", line)):
            now["connects"] += int(match[1])
        elif now is not None and (match := re.match(r"\s+[A-Z_0-9]+: (\d+) (\d+) (\d+)( \d+){5}", line)):
            now["operations"] += int(match[1])
            now["transmissions"] += int(match[2])
            now["timeouts"] += int(match[3])
    return counted


def _instance(fsname: str, below: Sequence[Mount]) -> str:
    """What tells the target's mount of a file system from others on this host; empty where that is not known."""
    for mount in below:
        if fsname_of(mount) == fsname:
            with contextlib.suppress(Failure):
                return instance_of(Path(mount.point), fsname)
    return ""


def connections(text: str, of_mount: str = "") -> dict[str, Connection]:
    """The connections of a client's mount in the output of `lctl get_param` (granted.imports)."""
    seen: dict[str, Connection] = {}
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
