"""Each request that the kernel gives to a target's device while a command runs: when, where, how much, which way.

The kernel's event block:block_rq_issue, in a tracing instance of our own (Documentation/trace/ftrace.rst, "Instances").
Where that cannot be had, blktrace, which notes the same event. Some kernels refuse the one, some the other.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import ClassVar

from fsage.base import Failure, Json, in_words
from fsage.host.instruments import Around, Instrument
from fsage.host.system import kernel, mounting, places, settings
from fsage.host.targets import Target
from fsage.layouts import machine
from fsage.model.request import Cell, Phase

EVENT = "block:block_rq_issue"
PLACE = Path("/run/fsage/tracing")  # where tracefs is mounted for the time of a trace, where it is not already
BUFFER_KIB = 16384  # a CPU; some 150 000 requests
SECTOR_BYTES = 512
BLKTRACE_PATIENCE_S = 10.0

# fio-9 [001] ..... 97.103581: block_rq_issue: 7,0 WS 524288 () 8192 + 1024 none,0,0 [fio]; older kernels lack a word
LINE = re.compile(r" (\d+\.\d+): block_rq_issue: \d+,\d+ (\w+) \d+ \(.*?\) (\d+) \+ (\d+) ")
BLKPARSE = "%T.%9t %d %S %N\n"  # seconds, way, sector, bytes


def end(entry: settings.Entry) -> str:
    """Remove a tracing instance and the mount made for it, as far as they are there."""
    instance = Path(entry["instance"])
    if instance.is_dir():
        with suppress(OSError):
            (instance / "tracing_on").write_text("0")
        instance.rmdir()
    if entry["mounted"]:
        point = Path(entry["mounted"])
        mount = machine.mounted_at(point)
        if mount and mount.type == "tracefs":
            mounting.unmount(point)
        with suppress(OSError):
            point.rmdir()  # not the one above it, in which another target may just make its own
    return f"the tracing instance {instance} is gone"


class RequestTrace(Instrument):
    """The trace of each phase of a cell with `trace`."""

    name = "trace"
    order = 2
    changes: ClassVar[Mapping[str, settings.Undo]] = {"trace": end}

    def around_phase(self, phase: Phase, cell: Cell) -> Around:
        if cell.get("trace"):
            return tracing(self.target)
        return nullcontext({})


@contextmanager
def tracing(target: Target) -> Iterator[Json]:
    """Note the requests to the device of the target's first store while the block runs; complete when it has ended.

    {"source", "device": "major:minor", "lost_events", "columns": {"seconds" from the block's beginning,
    "offset_bytes", "bytes", "write"}}, or {"why_none"}: a trace that cannot be had never disturbs what is traced.
    """
    noted: Json = {}
    if not target.devices:
        noted["why_none"] = f"target {target.name} is a {target.kind}: its device is not known"
        yield noted
        return
    device = target.devices[0]
    refused = []
    for source in (_events, _blktrace):
        try:
            begun = source(target, device, noted)
            begun.__enter__()
            break
        except (OSError, Failure) as why:
            refused.append(f"{source.__name__.lstrip('_')}: {in_words(why)}")
    else:
        noted["why_none"] = f"no requests of {device} can be traced: {'; '.join(refused)}"
        yield noted
        return
    try:
        yield noted
    finally:
        try:
            begun.__exit__(None, None, None)
        except (OSError, Failure) as why:
            noted.clear()
            noted["why_none"] = f"the trace of {device} was lost: {in_words(why)}"


def _stays(mount: machine.Mount) -> bool:
    """Whether tracefs is mounted there for good, and not for the time of another target's trace."""
    return mount.type == "tracefs" and mount.root == "/" and PLACE not in Path(mount.point).parents


@contextmanager
def _events(target: Target, device: str, seen: Json) -> Iterator[None]:
    """By the kernel's own event; the instance is journalled, for a killed agent leaves it."""
    number = kernel.number_of(device)
    major, minor = map(int, number.split(":"))
    noted = settings.journal_of(target.home)
    for left in noted.entries("trace"):
        end(left)
        noted.strike(left)
    mount_points = [mount.point for mount in machine.mounts() if _stays(mount)]
    mounted = None if mount_points else str(PLACE / target.name)
    root = Path(mounted or mount_points[0])
    entry = {"kind": "trace", "instance": str(root / "instances" / f"fsage-{target.name}"), "mounted": mounted}
    noted.note(entry)
    instance = Path(entry["instance"] or "")
    try:
        if mounted:
            places.make(root)
            mounting.mount_call("fsage", mounted, "tracefs", 0, "")
        instance.mkdir()
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text(str(BUFFER_KIB))
        event = instance / "events" / EVENT.replace(":", "/")
        (event / "filter").write_text(f"dev == {major << 20 | minor}")  # the kernel's own dev_t
        (event / "enable").write_text("1")
        began = time.monotonic()
        yield
        (instance / "tracing_on").write_text("0")
        with open(instance / "trace", encoding="utf-8", errors="replace") as lines:
            requests = [(round(seconds - began, 6), *rest) for seconds, *rest in requests_in(lines)]
        lost = sum(lost_in(stats.read_text()) for stats in instance.glob("per_cpu/cpu*/stats"))
        seen.update(_kept(f"tracefs {EVENT}", number, requests, lost))
    finally:
        end(entry)
        noted.strike(entry)


@contextmanager
def _blktrace(target: Target, device: str, seen: Json) -> Iterator[None]:
    """By the program, which counts its time from its own beginning."""
    if not (shutil.which("blktrace") and shutil.which("blkparse")):
        raise Failure("no such program")
    folder = target.home / "blktrace"
    places.make(folder)
    try:
        with open(folder / "said", "w+b") as output:
            process = subprocess.Popen(
                ["blktrace", "-d", device, "-a", "issue", "-D", str(folder), "-o", "trace"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_interrupted_with_parent,
            )
            began = time.monotonic()
            time.sleep(0.5)  # it says nothing when it is ready
            if process.poll() is not None:
                output.seek(0)
                raise Failure(
                    " ".join(output.read().decode(errors="replace").split()) or f"ended with {process.returncode}"
                )
            waited = time.monotonic() - began
            try:
                yield
            finally:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(BLKTRACE_PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise Failure(f"blktrace did not end within {BLKTRACE_PATIENCE_S:g} s") from None
            output.seek(0)
            lost = sum(map(int, re.findall(r"(\d+) dropped", output.read().decode(errors="replace"))))
        parse = ["blkparse", "-q", "-D", str(folder), "-i", "trace", "-a", "issue", "-f", BLKPARSE]
        text = subprocess.run(parse, capture_output=True, text=True, check=False, errors="replace").stdout
        requests = [(round(seconds - waited, 6), *rest) for seconds, *rest in requests_of_blkparse(text.splitlines())]
        seen.update(_kept("blktrace", kernel.number_of(device), requests, lost))
    finally:
        places.remove(folder)


def _kept(source: str, device: str, requests: Iterable[object], lost: int) -> Json:
    """The requests of one device, by column."""
    names = ("seconds", "offset_bytes", "bytes", "write")
    columns = dict(zip(names, map(list, zip(*requests)))) or {name: [] for name in names}
    return {"source": source, "device": device, "lost_events": lost, "columns": columns}


Moved = tuple[float, int, int, bool]
"""A request: seconds by the trace's clock, offset in bytes, bytes, whether it writes."""


def requests_in(lines: Iterable[str]) -> Iterator[Moved]:
    """Each request in tracefs' `trace`."""
    for line in lines:
        match = LINE.search(line)
        if match:
            yield from _moving(match[1], match[2], match[3], int(match[4]) * SECTOR_BYTES)


def requests_of_blkparse(lines: Iterable[str]) -> Iterator[Moved]:
    """The requests in blkparse's output in the format BLKPARSE, as `requests_in` gives them."""
    for line in lines:
        words = line.split()
        if len(words) == 4 and words[3].isdigit():
            yield from _moving(words[0], words[1], words[2], int(words[3]))


def _moving(seconds: str, way: str, sector: str, moved_bytes: int) -> Iterator[Moved]:
    """Only what moves data: R or W, not a flush or discard alone. `way` is the kernel's rwbs."""
    if moved_bytes and ("R" in way or "W" in way):
        yield float(seconds), int(sector) * SECTOR_BYTES, moved_bytes, "W" in way


def lost_in(stats: str) -> int:
    """Events that one CPU's buffer lost: written over, or dropped."""
    return sum(map(int, re.findall(r"^(?:overrun|dropped events): (\d+)$", stats, re.MULTILINE)))


def _interrupted_with_parent() -> None:
    """Have blktrace end by itself when the agent is killed: it leaves the device's tracing on otherwise."""
    kernel.library.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGINT)
