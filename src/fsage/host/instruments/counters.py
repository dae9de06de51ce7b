"""What a phase cost beside its own time: the allocator's counters, the device's, and the processors' time.

Differences from before a command to after it. What this machine does not count is null, with its reason. Counters that
did not change are left out.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fsage.base import Failure, Json, Refusal, in_words
from fsage.host import filesystems
from fsage.host.instruments import Instrument
from fsage.host.system import kernel
from fsage.model.request import Cell, Phase

SECTOR_BYTES = 512
BUSIEST = 3
"""So many kernel threads are named."""
OF_DEVICE = {
    **{"reads": 0, "read_bytes": 2, "read_ms": 3},
    **{"writes": 4, "write_bytes": 6, "write_ms": 7, "busy_ms": 9},
}
"""Their places in a block device's `stat` (Documentation/block/stat.rst); there, bytes are sectors."""
OF_MACHINE = {"user_s": 0, "nice_s": 1, "system_s": 2, "iowait_s": 4, "irq_s": 5, "softirq_s": 6}
"""Their places in the first line of /proc/stat (proc_stat(5)), in ticks."""


class _Seen(NamedTuple):
    """All counters at a time, each a number or why there is none."""

    clock_s: float
    allocators: list[Json | str]
    devices: list[Json | str]
    machine: Json
    threads: dict[int, tuple[str, int]] | str


class Counters(Instrument):
    """The counters of a target's stores and of this machine: `allocator` and `device` a store each, and `processor`."""

    name = "counters"
    order = 1

    @contextlib.contextmanager
    def around_phase(self, phase: Phase, cell: Cell) -> Iterator[Json]:
        counted: Json = {}
        before = self._seen()
        yield counted
        now = self._seen()
        counted["allocator"] = list(map(_difference, before.allocators, now.allocators))
        counted["device"] = list(map(_difference, before.devices, now.devices))
        if not now.devices:
            none = {"why_none": f"target {self.target.name} is a {self.target.kind}: its device is not known"}
            counted["allocator"] = counted["device"] = [none]
        counted["processor"] = {
            "seconds": round(now.clock_s - before.clock_s, 6),
            **{name: round(now.machine[name] - before.machine[name], 2) for name in OF_MACHINE},
            **_of_threads(before.threads, now.threads),
        }

    def _seen(self) -> _Seen:
        system = filesystems.get(self.target.filesystem)
        devices = self.target.devices
        no_file_system = f"nothing is known of the allocator of {self.target.filesystem}"
        if system:
            read = [_tried(partial(system.allocator_counts, device)) for device in devices]
        else:
            read = []
        return _Seen(
            time.monotonic(),
            read or [no_file_system] * len(devices),
            [_tried(partial(of_device, device)) for device in devices],
            _of_machine(),
            _threads(),
        )


def _tried(read: Callable[[], Json]) -> Json | str:
    try:
        return read()
    except (OSError, ValueError, IndexError) as why:
        return f"it cannot be read: {in_words(why)}"
    except (Failure, Refusal) as why:
        return str(why)


def _difference(before: Json | str, now: Json | str) -> Json:
    for seen in (before, now):
        if isinstance(seen, str):
            return {"why_none": seen}
    assert isinstance(before, dict) and isinstance(now, dict)
    counts = {name: count - before.get(name, 0) for name, count in now.items()}
    if any(count < 0 for count in counts.values()):
        return {"why_none": "the counters began anew while the command ran: it was mounted again"}
    return {"counts": {name: count for name, count in counts.items() if count}}


def of_device(device: str) -> Json:
    """What a block device has done since it is there."""
    words = list(map(int, (kernel.folder_of(kernel.number_of(device)) / "stat").read_text().split()))
    return {name: words[at] * (SECTOR_BYTES if name.endswith("bytes") else 1) for name, at in OF_DEVICE.items()}


def _of_machine() -> Json:
    words = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    ticks = os.sysconf("SC_CLK_TCK")
    return {name: int(words[at]) / ticks for name, at in OF_MACHINE.items()}


def _threads() -> dict[int, tuple[str, int]] | str:
    """Name and nanoseconds of each kernel thread: what the kernel does beside the calls of processes."""
    try:
        if Path("/proc/2/comm").read_text() != "kthreadd\n":
            return "kernel threads cannot be seen from a process namespace of its own"
        pids = Path("/proc/2/task/2/children").read_text().split()
    except OSError as why:
        return f"kernel threads cannot be listed: {in_words(why)}"
    threads = {}
    for pid in pids:
        try:
            with open(f"/proc/{pid}/schedstat", "rb") as file:
                ran_ns = int(file.read().split()[0])
            with open(f"/proc/{pid}/comm", "rb") as file:
                threads[int(pid)] = (file.read().decode(errors="replace").strip(), ran_ns)
        except (OSError, IndexError):  # it has ended
            continue
    return threads


def _of_threads(before: dict[int, tuple[str, int]] | str, now: dict[int, tuple[str, int]] | str) -> Json:
    for seen in (before, now):
        if isinstance(seen, str):
            return {"kernel_threads_s": None, "why_none": seen}
    assert isinstance(before, dict) and isinstance(now, dict)
    busiest = []
    for pid, (name, now_ns) in now.items():
        ran_ns = now_ns - before.get(pid, ("", 0))[1]
        if ran_ns > 0:
            busiest.append((ran_ns, name))
    busiest.sort(reverse=True)
    return {
        "kernel_threads_s": round(sum(ran_ns for ran_ns, _ in busiest) / 1e9, 6),
        "busiest": [{"name": name, "seconds": round(ran_ns / 1e9, 6)} for ran_ns, name in busiest[:BUSIEST]],
    }
