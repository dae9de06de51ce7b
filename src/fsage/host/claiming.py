"""Claiming: a claim is begun on an empty target, and complete once the target is calibrated.

Calibration finds how fast the store is, and how much a task must move for a sample of at least one second.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from fsage.base import MIB, Call, Failure, Json, Refusal
from fsage.host import containers
from fsage.host.instruments import Instruments, Stopped, Visit, opened
from fsage.host.structure.quota import Quota
from fsage.host.system import caches, commands
from fsage.host.system import places as owned
from fsage.host.targets import Target, budget, claims, kinds
from fsage.model import declaration, limits, tools
from fsage.model.claim import Claim, ClaimedStore, utc_now
from fsage.model.declaration import tasks_of
from fsage.model.filesystems import takes
from fsage.model.hosts import Asker, clients_of
from fsage.model.target import Limits, Spec

TRANSFER_MIB = 64  # the largest transfer of the studies: amounts are multiples of it
NONE = Instruments([])
UNLIMITED = limits.of_site({})
SAMPLE_S = 1.02  # a sample lasts at least a second, with a margin for noise
PAIRS = 5  # so often a pair is tried that instruments end
BACKING_MIB = 2048
BACKING_RUNS = 3
LEAST_S = 300.0
SLOWEST_MIB_S = 1.0  # what fio is given, whatever the store
PARTS = 2  # at most half of a small device is written
BACKING_FIRST_MIB = 256  # tells whether the device is fast enough by far
SHARE_FOR_MEASURED = 0.15  # of the capacity, for measured files: they must fit beside a target filled to 80%
FIO = ["--clocksource=clock_gettime", "--thread", "--eta=never", "--disk_util=0", "--output-format=json"]
DIRECT = ["--ioengine=psync", "--direct=1"]


def backing(device: str, size_bytes: int, images: str | None, enough_mib_s: float = math.inf) -> Json:
    """Sequential write and read rates of a raw device or image without a file system, in MiB/s: medians of three runs.

    It is overwritten: call this only before mkfs, on a device that was verified to be the target's own. A first, short
    run is not counted. The first run that gives `enough_mib_s` is the last.
    """
    whole_mib = min(BACKING_MIB, size_bytes // PARTS // MIB)
    rates: dict[str, float] = {}
    commands: dict[str, str] = {}

    def run_mib_s(direction: str, amount_mib: int) -> float:
        argv = _argv(tools.command("fio", images), "backing", f"filename={device}", direction, 1, amount_mib)
        commands[direction] = " ".join(argv)
        return amount_mib / _fio(argv, direction, amount_mib * MIB)

    for direction in ("write", "read"):
        runs: list[float] = []
        rates[direction] = run_mib_s(direction, min(BACKING_FIRST_MIB, whole_mib))
        while rates[direction] < enough_mib_s and len(runs) < BACKING_RUNS:
            rates[direction] = run_mib_s(direction, whole_mib)
            runs.append(rates[direction])
        if rates[direction] < enough_mib_s:
            rates[direction] = statistics.median(runs)
    return {
        "backing_write_mib_s": round(rates["write"], 1),
        "backing_read_mib_s": round(rates["read"], 1),
        "commands": [*commands.values()],
    }


Pair = Callable[[int, int], Json]
"""A write and a read of so many MiB for each task, so many times: `calibration`, with `write_s` and `read_s`."""


def amount_for(target: Target, first_guess_mib_s: float, pair_of: Pair) -> Json:
    """How much each task moves, from pairs of a write and a read on the empty target.

    Returns `amount_mib` (per task, a multiple of 64 unless declared), `passes`, `amount_source` and `calibration`.
    `passes`: how often a task goes through its file, more than once where the amount does not fit. `calibration`: MiB/s
    of all tasks together, and seconds, in both directions. `first_guess_mib_s` is of all tasks together. It alone
    decides on a modelled device, so that each claim of one measures as much.
    """
    tasks = tasks_of(target.spec)
    room_mib = room(target.spec, target.capacity_bytes, len(target.claim.get("hosts", ())))
    declared = target.spec["amount_mib"]
    if declared is not None:
        pair = pair_of(declared, 1)
        return {"amount_mib": declared, "passes": 1, "amount_source": "declared", "calibration": pair}
    wanted_mib = _whole(first_guess_mib_s / tasks * SAMPLE_S)
    amount: Json = {"amount_source": "calibrated"}
    if target.claim["device_model"].get("bytes_per_s") is not None:  # a short pair shows that the model charges
        return {**amount, **_in_room(wanted_mib, room_mib), "calibration": pair_of(TRANSFER_MIB, 1)}
    fastest_mib_s = 0.0
    for attempt in range(8):
        amount |= _in_room(wanted_mib, room_mib)
        each_mib = amount["amount_mib"]
        passes = amount["passes"]
        pair = pair_of(each_mib, passes)
        shortest_s = min(pair["write_s"], pair["read_s"])
        fastest_mib_s = max(fastest_mib_s, each_mib * passes / shortest_s)
        if attempt and shortest_s >= SAMPLE_S:
            return {**amount, "calibration": pair}
        needed_mib = _whole(fastest_mib_s * SAMPLE_S)
        if attempt == 0:
            wanted_mib = needed_mib
        else:
            wanted_mib = max(needed_mib, wanted_mib + TRANSFER_MIB)
    raise Failure(
        f"calibrating {target.name}: after {attempt + 1} runs a sample still lasts only {shortest_s:.2f} s "
        f"({wanted_mib} MiB a task). The store's speed is not steady: declare fsage_target.amount_mib"
    )


def _in_room(wanted_mib: int, room_mib: int) -> dict[str, int]:
    """How often a task goes through its file, and how large that is, to move so much."""
    passes = math.ceil(wanted_mib / room_mib)
    return {"amount_mib": _whole(wanted_mib / passes), "passes": passes}


def room(spec: Spec, capacity_bytes: int, clients: int = 1) -> int:
    """MiB that each task of all clients may write on an empty target of this capacity. Raises Refusal if too few."""
    name = spec["name"]
    tasks = tasks_of(spec) * max(1, clients)
    declared = spec["amount_mib"]
    capacity_mib = capacity_bytes // MIB
    if declared is not None:
        if declared * tasks > capacity_mib:
            raise Refusal(
                f"fsage_target.amount_mib is {declared} for each of {tasks} tasks, and target {name} has "
                f"{capacity_mib} MiB; declare less, or a larger target"
            )
        return int(declared)
    for_measured = capacity_mib * SHARE_FOR_MEASURED
    if spec["sparse"]:
        for_measured = min(for_measured, takes(spec).cell_bytes // MIB)
    room_mib = int(for_measured / tasks) // TRANSFER_MIB * TRANSFER_MIB
    if room_mib < TRANSFER_MIB:
        raise Refusal(
            f"target {name} has {capacity_mib} MiB, and {SHARE_FOR_MEASURED:.0%} of it does not hold "
            f"{TRANSFER_MIB} MiB for each of {tasks} tasks; declare a larger target or fewer tasks"
        )
    return room_mib


def measured(target: Target, instruments: Instruments, each_mib: int, passes: int) -> Json:
    """A pair that no instrument ended; one that was ended begins anew when it may, PAIRS times. Raises Failure."""
    for _ in range(PAIRS):
        why = instruments.held_up()
        if why:
            raise Failure(f"target {target.name} was not calibrated: {why}")
        try:
            return _pair(target, each_mib, passes, instruments)
        except Stopped as stopped:
            why = str(stopped)
    raise Failure(
        f"target {target.name} was not calibrated: that was ended {PAIRS} times, at last because {why}. Declare a "
        "smaller amount_mib, or limits.bandwidth_mib_s, or a limit of stop_if that leaves room for it"
    )


def _pair(target: Target, each_mib: int, passes: int, instruments: Instruments = NONE) -> Json:
    """One write and one read like those of a cell, in the device model's group: rates, seconds, command lines."""
    tasks = tasks_of(target.spec)
    Quota(target).must_hold(each_mib * tasks * MIB, "calibrating")
    places = [mount / "measured" for mount in target.mounts]
    for place in places:
        target.take(place)
        owned.make(place)
        target.give(place)
    seconds: dict[str, float] = {}
    commands: list[str] = []
    began = time.monotonic()
    clients = max(1, len(target.claim.get("hosts", ())))
    allowed = target.spec["limits"]
    # fio leaves out what is less than a whole transfer, and keeps to a rate between transfers
    transfer_mib = 1 if limits.of_rate(allowed) else math.gcd(TRANSFER_MIB, each_mib)
    where = "directory=" + ":".join(str(place).replace(":", r"\:") for place in places)
    # The first write on a sparse image gives it blocks, which is not to be measured.
    for direction in ("write", "write", "read") if target.spec["sparse"] else ("write", "read"):
        argv = _argv(tools.tool_command(target.claim, "fio"), "calibrate", where, direction, transfer_mib, each_mib)
        argv += ["--fallocate=none", f"--numjobs={tasks}", f"--loops={passes}"]
        argv = limits.kept_to(allowed, {"name": "calibrate", "argv": argv}, clients)["argv"]
        commands.append(" ".join(argv))
        wanted_bytes = each_mib * passes * tasks * MIB
        budget.refuse_now(allowed, "calibrating", 0, wanted_bytes if direction == "write" else 0)
        with target.charged(), instruments.beside(f"calibrating ({direction})"):
            seconds[direction] = _fio(argv, direction, wanted_bytes, target.front(), allowed, instruments.check)
        instruments.check()
    pair_s = time.monotonic() - began
    for place in places:
        for file in place.glob("calibrate.*"):
            file.unlink()
        with contextlib.suppress(OSError):
            place.rmdir()
        caches.flush(place.parent)
    total_mib = each_mib * passes * tasks
    return {
        "write_mib_s": round(total_mib / seconds["write"], 1),
        "read_mib_s": round(total_mib / seconds["read"], 1),
        "write_s": round(seconds["write"], 3),
        "read_s": round(seconds["read"], 3),
        "pair_s": round(pair_s, 3),
        "cell_overhead_s": round(pair_s - seconds["write"] - seconds["read"], 3),
        "when": utc_now(),
        "commands": commands,
    }


def _argv(fio: list[str], name: str, where: str, direction: str, transfer_mib: int, size_mib: int) -> list[str]:
    """A fio that moves so much in one direction, past the cache."""
    amount = [f"--rw={direction}", f"--bs={transfer_mib}M", f"--size={size_mib}M"]
    return [*fio, *FIO, f"--name={name}", f"--{where}", *amount, *DIRECT]


def _fio(
    argv: list[str],
    direction: str,
    wanted_bytes: int,
    front: Sequence[str] = (),
    allowed: Limits = UNLIMITED,
    check: Call = lambda: None,
) -> float:
    """Run fio; the seconds of its slowest job by its own clock. Raises Failure unless it moved all bytes in time.

    `check` is called often meanwhile; what it raises ends fio.
    """
    command = " ".join(argv)
    (done,) = commands.run([argv], check, limit_s(wanted_bytes, allowed), front)
    if done["timed_out"]:
        raise Failure(
            f"{shutil.which(argv[0])} did not end within {done['wall_s']:.0f} s and was stopped: `{command}` was to "
            f"{direction} {wanted_bytes // MIB} MiB. Try it by hand; if it ends there, the store is slower than fsage "
            "waits for, so declare a smaller fsage_target.amount_mib"
        )
    if done["rc"]:
        how = f"was ended by signal {-done['rc']}" if done["rc"] < 0 else f"ended with status {done['rc']}"
        said = (done["stderr"] or done["stdout"]).strip() or "it printed nothing"
        raise Failure(f"{shutil.which(argv[0]) or argv[0]} {how}: `{command}`: {said}")
    start = done["stdout"].find("{\n")
    try:
        jobs = json.JSONDecoder().raw_decode(done["stdout"][max(start, 0) :])[0]["jobs"]
        moved = sum(job[direction]["io_bytes"] for job in jobs)
        errors = [job["error"] for job in jobs if job["error"]]
        seconds = max(job[direction]["runtime"] for job in jobs) / 1000
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"`{command}` ended well, but its answer cannot be read: {error}") from error
    if errors or moved != wanted_bytes or not seconds:
        raise Failure(
            f"`{command}` moved {moved} bytes of {wanted_bytes} in {seconds} s, errors {errors}; {done['stderr']}"
        )
    return float(seconds)


def limit_s(wanted_bytes: int, allowed: Limits) -> float:
    """Seconds after which a fio that moves so many bytes is taken for one that hangs."""
    slowest_mib_s = SLOWEST_MIB_S
    for rate in (allowed["bandwidth_mib_s"], allowed["operations_s"]):  # 1 MiB an operation
        if rate:
            slowest_mib_s = min(slowest_mib_s, rate / 2)
    return LEAST_S + wanted_bytes / MIB / slowest_mib_s


def _whole(mib: float) -> int:
    """MiB, rounded up to a multiple of the largest transfer."""
    return max(1, math.ceil(mib / TRANSFER_MIB - 1e-9)) * TRANSFER_MIB


UNKNOWN_MIB_S = 500.0  # the first guess where the device below cannot be measured


def calibrated(target: Target, request: Asker, raw: Json, guess_mib_s: float) -> None:
    """Measure how much a task moves and how fast, and mark the target as claimed. `raw`: rates of the bare device."""
    claims.note_doing(target.home, "calibrating")
    with opened(Visit(target, request)) as instruments:
        amount = amount_for(target, guess_mib_s, partial(measured, target, instruments))
    amount["calibration"] = {
        **raw,
        **amount["calibration"],
        "commands": raw["commands"] + amount["calibration"]["commands"],
    }
    ended(target, amount)


def ended(target: Target, amount: Json) -> None:
    """Mark the target as claimed, with what `amount_for` gave."""
    target.claim.update(cast(Claim, amount))
    target.remount()  # XFS frees deleted space in the background; an unmount waits for it
    target.claim["status"] = "claimed"
    target.save()


def no_backing() -> Json:
    """The entry for a device whose bare rates were not measured."""
    return {"backing_write_mib_s": None, "backing_read_mib_s": None, "commands": []}


def measure_empty(target: Target) -> list[os.statvfs_result]:
    """Note the free blocks and inodes of the empty target's stores in the claim."""
    stats = list(map(os.statvfs, target.mounts))
    keys = ("f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree")
    target.claim["statfs_empty"] = []
    for stat in stats:
        target.claim["statfs_empty"].append({key: getattr(stat, key) for key in keys})
    target.claim["free_inodes_empty"] = sum(stat.f_ffree for stat in stats)
    return stats


def new(spec: Spec, request: Asker, stores: list[ClaimedStore]) -> Claim:
    """A begun claim of these stores, for the clients of the request."""
    uname = os.uname()
    return {
        "schema": 1,
        "target": spec["name"],
        "kind": spec["kind"],
        "id": str(uuid.uuid4()),
        "status": "claiming",
        "created": utc_now(),
        **claims.here(),
        "kernel": uname.release,
        "stores": stores,
        "tools": containers.versions(spec["containers"], spec["launcher"]),
        "containers": spec["containers"],
        "images": containers.digests(spec["containers"]),
        "tasks": tasks_of(spec),
        "hosts": [host["name"] for host in clients_of(request)],
        "launcher": spec["launcher"],
        "launcher_options": spec["launcher_options"],
        "declared": declaration.declared_again(spec),
        "limits": budget.of_host(),
        "filesystem_state_known": kinds.named(spec["kind"]).own_stores,
    }


def words_of(target: Target) -> str:
    """A sentence on a claimed target: capacity, device model, amount and rates."""
    ours = target.claim
    pair = ours["calibration"]
    found = f"{target.capacity_bytes / MIB:.0f} MiB, {ours['device_model']['label']}, {ours['amount_mib']} MiB a task"
    if target.model.in_guests:  # nothing was measured
        return found
    return f"{found}, {pair['write_mib_s']} MiB/s written and {pair['read_mib_s']} MiB/s read"
