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

from fsage.api.host import Instrument, OtherHost, Target, kernel, kernel_log, target_kinds
from fsage.api.model import Cell, Failure, Json, Phase, Refusal, Spec, in_words, signs
from fsage.layouts import machine
from fsage.layouts.machine import Mount

SNMP = Path("/proc/net/snmp")
MOUNTSTATS = Path("/proc/self/mountstats")
OF_DISK = re.compile(r"\bloop\d+")
SHUT_DOWN = re.compile(r"shut down requested|User initiated shutdown")  # of ext4 and XFS, by an ioctl of root's


EVERY_S = 1.0
COMPLETED = (0, 4, 11, 15)
IN_FLIGHT = 8  # places in a block device's `stat` (Documentation/block/stat.rst)


def look_there(host: OtherHost, last: int | None) -> Json:
    """A look at another host, at a server with its own spec."""
    return dict(look(host.spec, host.target, last))


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

    def look(self, before: Mapping[str, signs.Look] | None = None) -> dict[str, signs.Look]:
        """signs.Look at every host; `before`: the looks before the phase, if it has ended.

        A host that fails to look says why.
        """
        names = [host.name for host in self.hosts.remote_hosts]
        last = {name: seen["kernel"]["last"] for name, seen in (before or {}).items() if "kernel" in seen}
        first = self.hosts.client_names[0]
        looks = {first: look(self.target.spec, self.target, last.get(first))}
        answers = self.hosts.ask_each("signs", {name: {"last": last.get(name)} for name in names})
        for name, answer in answers.items():
            if "failed" in answer:
                answer = {"absent": {"all": f"{name}: {answer['failed']}"}}
            looks.setdefault(name, cast(signs.Look, answer))  # where the launcher is a server too, it is looked at once
        return looks

    def _unused(self, before: Mapping[str, signs.Look], after: Mapping[str, signs.Look]) -> list[str]:
        """The OSTs that evicted a client during a phase, and on which no file of the target lies."""
        by: set[str] = set()
        for host, seen in after.items():
            by.update(signs.evicted(before.get(host, {}), seen))
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
        """signs.Look at each device, not more often than EVERY_S."""
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


def look(spec: Spec, target: Target | None, last: int | None) -> signs.Look:
    """signs.Look at this host: a client with its target, or a server of Lustre, whose connections are not looked at.

    `last`: the record of the kernel's log after which its lines are wanted; None before a phase.
    """
    devices = target.devices if target else []
    seen: signs.Look = {"time": time.time(), "load": list(os.getloadavg()), "absent": {}}
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
    below = _mounts(target.mounts) if target else []
    nfs = {mount.point for mount in below if mount.type.startswith("nfs")}
    if nfs:
        counted = nfs_counters(MOUNTSTATS.read_text())
        seen["nfs"] = {point: counters for point, counters in counted.items() if point in nfs}
    for name in {spec["kind"], *(mount.type for mount in below)} if target else ():
        of_kind = target_kinds.get(name)
        more: signs.Look = of_kind.look(spec, below) if of_kind else {}
        absent.update(more.pop("absent", {}))
        seen.update(more)
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
    below = []
    for place in places:
        above = [mount for mount in machine.mounts() if Path(mount.point) in (place, *place.parents)]
        if above:
            below.append(max(reversed(above), key=lambda mount: len(mount.point)))
    return below


def segments(snmp: str) -> signs.Network:
    """The segments that TCP sent, and those that it sent again (/proc/net/snmp, RFC 4022)."""
    names, values = (line.split()[1:] for line in snmp.splitlines() if line.startswith("Tcp:"))
    counters = dict(zip(names, map(int, values)))
    return {"sent": counters["OutSegs"], "retransmitted": counters["RetransSegs"]}


def nfs_counters(mountstats: str) -> dict[str, signs.Nfs]:
    """The counters of each NFS mount in /proc/self/mountstats (statvers 1.1), by its mount point.

    A line of an operation begins `NAME: operations transmissions timeouts`; `xprt: tcp` has its connects as the third.
    """
    counted: dict[str, signs.Nfs] = {}
    now: signs.Nfs | None = None
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
