"""Sequential bandwidth: each task writes, then reads, a file of its own, by O_DIRECT or through the cache.

File i lies on store i mod stores, in `<mount>/measured/`. Writing and reading are two processes, so that
caches can be dropped in between and each is judged on its own. The agent makes the directories and deletes
the files.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

from pydantic import Field

from fsage.base import MIB, Json, JsonView
from fsage.model import device, filesystems, request, tools
from fsage.model.claim import Claim
from fsage.model.observation import CommandResult, Extents, PhaseResult
from fsage.model.request import Phase
from fsage.model.structure import Step
from fsage.parse import BadOutput, Transfer, ior
from fsage.workloads import Outcome, by_fio, shared

PLACE = "place_"
OWN_DISK = "own_disk"
READS = ("read", OWN_DISK)


class Params(shared.CellParams):
    workload: Literal["sequential"] = "sequential"
    tool: Literal["auto", "fio", "ior"] = Field(
        default="auto",
        description="auto: IOR where the target has it, else fio; in a guest its own process",
    )
    transfer_size: int = Field(gt=0, description="bytes of one write or read")
    iteration: int = Field(ge=1)
    place: int = Field(default=1, ge=1)
    phases: shared.ReadWrite = Field(
        default=("write", "read"),
        description="[write], [read] or [write, read]; a cell that only reads prepares its files first",
    )
    direct: bool = Field(default=True, description="true: O_DIRECT, past the page cache")
    own_disk: bool = Field(
        default=False,
        description="true: the file is read once more without the target's device model, as fast as this machine's "
        "disk can: `own_disk_mib_s`. Device model seek charges for whatever is read, and leaves this out",
    )
    passes: int | None = Field(
        default=None,
        ge=1,
        description="how often the file is written and read; more than 1 needs fio; "
        "null: as often as the claim says. "
        "Only the first pass of a write allocates: do not compare samples of different passes",
    )
    amount_percent: float | None = Field(
        default=None,
        gt=0,
        le=100,
        description="what all tasks together move, in percent of the target's capacity; "
        "null: the claim's amount_mib a task",
    )


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """The phases of one cell on a claimed target; `ValueError` if the parameters do not fit it.

    A cell that only reads writes its files first, in a phase `prepare` that is checked but gives no numbers. One at
    place k writes k - 1 files before, each as its own is written: `place_1` and so on.
    """
    block_bytes = _block_bytes(params, claim)
    passes = _passes(params, claim)
    requested = "fio" if params.tool == "auto" and passes > 1 else params.tool  # IOR goes over a file once
    tool = shared.choose_tool(requested, "ior", claim)
    if tool == "ior" and passes > 1:
        raise ValueError(
            f"passes: {passes} needs fio, for IOR goes over a file once: set tool: fio or auto, "
            "or a target that holds an amount_mib which lasts a second"
        )
    phases: list[Phase] = []
    in_process = params.tool == "auto" and params.direct and passes == shared.tasks(claim) == 1
    model = device.Model.of_claim(claim)
    for name in _steps(params, model):
        reads = name in READS
        leaves = name.startswith(PLACE)
        if in_process and (model.in_guests or (leaves and _is_image_of_root(claim))):
            phases.append(_transfer(params, name, block_bytes, reads))
        elif tool == "ior":
            file = name if leaves else "f"
            path = shared.directories(claim, "@").replace("@", f"/{file}@") + f"/{file}"
            argv = ior_command(claim, (params.transfer_size, block_bytes), params.direct, reads, path, "-F")
            phases.append({"name": name, "argv": argv, "reads": reads})
        else:
            phases.append({**_fio(params, claim, name, block_bytes, 1 if leaves else passes), "reads": reads})
        if leaves:
            phases[-1]["leaves"] = True
        if name == OWN_DISK:
            phases[-1]["uncharged"] = True
    return phases


def _is_image_of_root(claim: Claim) -> bool:
    """Whether root measures on a target of one image: then fsage's own process may write a file there.

    It writes what a program would write, by the same requests, without a program's start.
    """
    [store, *others] = claim["stores"]
    return "image" in store and not others and not claim.get("uid")


def bytes_written(params: Params, claim: Claim) -> int:
    """Bytes that one cell writes, all passes and tasks."""
    return _file_bytes(params, claim) * (params.place - 1 + _passes(params, claim))


def makes_bytes(params: Params, claim: Claim) -> int:
    """Bytes that the files of one cell hold, with those at the places before."""
    return _file_bytes(params, claim) * params.place


def _file_bytes(params: Params, claim: Claim) -> int:
    return _block_bytes(params, claim) * shared.tasks(claim)


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate of what one cell takes, from the claim's calibration."""
    calibration = claim["calibration"]
    file_mib = _file_bytes(params, claim) / MIB
    mib = file_mib * _passes(params, claim)
    measuring = calibration["cell_overhead_s"] + mib / calibration["write_mib_s"]
    if "read" in params.phases:
        measuring += mib / calibration["read_mib_s"]
    # No model charges for files at the places before: they come as fast as what is below.
    below_mib_s = calibration.get("backing_write_mib_s") or calibration["write_mib_s"]
    uncharged = params.place - 1 + params.own_disk
    return measuring + uncharged * (file_mib / below_mib_s + calibration["cell_overhead_s"] / 2)


def rates(params: Params) -> list[str]:
    """The bandwidth of each phase."""
    return [f"{phase}_bw_mib_s" for phase in params.phases]


def read(observation: JsonView) -> Outcome:
    """`<phase>_bw_mib_s`, `<phase>_seconds` (by the tool's own clock), `<phase>_bytes`; or why not.

    Of fio its percentiles of latency too (`by_fio.latencies`).
    """
    conditions = cast(Json, observation.get("conditions", {}))
    model = device.Model.of(conditions.get("device_model") or {})
    outcome = shared.judge(observation, Params, partial(_steps, model=model), _judge)
    if outcome.status == "valid" and isinstance(model, device.Computed):
        return _computed(observation, model, outcome)
    return outcome


def _computed(observation: JsonView, model: device.Model, outcome: Outcome) -> Outcome:
    """Rates that follow from where the files lie: the seconds that passed are no disk's."""
    params = Params.model_validate(observation["params"])
    metrics: shared.Metrics = {}
    for name in params.phases:
        [extents] = [phase["extents"] for phase in observation["phases"] if phase["name"] in ("write", "prepare")]
        moved_bytes = int(outcome.metrics[f"{name}_bytes"])
        charged = moved(params, extents, moved_bytes) if extents else None
        if not charged:
            return Outcome("failed", "what it costs is computed for one file that is written past the cache (direct)")
        [stdout] = [phase["stdout"] for phase in observation["phases"] if phase["name"] == name]
        charged = _with_beside(charged, json.loads(stdout), name == "read", observation["conditions"]["filesystem"])
        seconds = model.charges_s(charged)
        if seconds is None:
            return Outcome("failed", "a device with noise or drift has no one cost: declare it without")
        metrics[f"{name}_bw_mib_s"] = moved_bytes / MIB / seconds
        metrics[f"{name}_seconds"] = seconds
        metrics[f"{name}_bytes"] = moved_bytes
    return Outcome("valid", None, metrics)


def _with_beside(charged: device.Moved, said: Json, reads: bool, filesystem: str | None) -> device.Moved:
    """What is charged, with jumps to the file and to all that the file system read beside it, as it was counted.

    A map, or what the allocator needs, is read before the piece that it tells of: one jump more. Checksums are read
    amid a piece, and one jump leads back to it. Where fio moved the file, nothing was counted.
    """
    system = filesystems.get(filesystem)
    counts = said.get("device")
    if not (counts and system):
        return charged._replace(jumps=charged.jumps + 1)
    pieces = charged.jumps + 1
    beside = counts["reads"]
    back = 0
    if reads:
        beside = math.ceil((counts["read_bytes"] - charged.bytes) / system.node_bytes)
        if system.checked_bytes:
            back = pieces * (math.ceil(charged.bytes / pieces / system.checked_bytes) - 1)
    return charged._replace(jumps=pieces + beside + back, requests=charged.requests + beside)


def moved(params: Params, extents: Extents, moved_bytes: int) -> device.Moved | None:
    """What the device is charged for when `moved_bytes` go to or from the file; None: several tasks move at a time."""
    if extents["files"] != 1 or not params.direct or "jumps" not in extents:
        return None
    passes = moved_bytes / extents["bytes"]
    requests = extents["bytes"] / min(params.transfer_size, device.REQUEST_BYTES) + extents["extents"] - 1
    return device.Moved(
        moved_bytes, round(passes * requests), round(passes * extents["jumps"]), device.place_of(extents)
    )


def _steps(params: Params, model: device.Model) -> list[str]:
    """Names of the phases. Own disk: where a model leaves it to be read beside."""
    before = [f"{PLACE}{number}" for number in range(1, params.place)]
    steps = [*before, "write" if "write" in params.phases else "prepare"]
    steps += ["read"] if "read" in params.phases else []
    if params.own_disk and model.leaves_own_disk:
        return [*steps, OWN_DISK]
    return steps


def _passes(params: Params, claim: Claim) -> int:
    return params.passes or claim.get("passes", 1)


def _block_bytes(params: Params, claim: Claim) -> int:
    if params.amount_percent:
        share = claim["capacity_bytes"] * params.amount_percent / 100 / shared.tasks(claim)
        block_bytes = int(share) // params.transfer_size * params.transfer_size
        if not block_bytes:
            raise ValueError(
                f"amount_percent: {params.amount_percent}% of the target are {share:.0f} bytes a task, less than one "
                f"transfer of {params.transfer_size}"
            )
        return block_bytes
    check_amount(params, claim["amount_mib"])
    return claim["amount_mib"] * MIB


def check_amount(params: Params, amount_mib: int) -> None:
    """Raise ValueError where a task cannot move so many MiB in whole transfers."""
    if not params.amount_percent and amount_mib * MIB % params.transfer_size:
        raise ValueError(
            f"transfer_size {params.transfer_size} does not divide the {amount_mib * MIB} bytes that a task moves "
            f"(amount_mib: {amount_mib}): use a transfer_size that divides it, or declare another amount_mib for the "
            "target"
        )


def _fio(params: Params, claim: Claim, name: str, block_bytes: int, passes: int) -> Phase:
    reading = name in READS
    options = [
        f"--rw={'read' if reading else 'write'}",
        f"--size={block_bytes}",
        f"--bs={params.transfer_size}",
        f"--direct={int(params.direct)}",
        "--ioengine=psync",
        "--fallocate=none",
    ]
    if passes > 1:
        options.append(f"--loops={passes}")
    if reading:
        options.append("--allow_file_create=0")  # fio would make a missing file, and then read that
    elif not params.direct:
        options.append("--end_fsync=1")
    return by_fio.fio_phase(claim, name, *options, job=name if name.startswith(PLACE) else "measured")


def _transfer(params: Params, name: str, block_bytes: int, reads: bool) -> Phase:
    """A phase in which fsage's own process moves the file."""
    file = name if name.startswith(PLACE) else "measured"
    task = request.Transfer(file=file, bytes=block_bytes, request_bytes=params.transfer_size, reads=reads)
    argv = ["transfer", "read" if reads else "write", file]
    return {"name": name, "argv": argv, "reads": reads, "files": {request.TRANSFER: json.dumps(task, sort_keys=True)}}


def ior_command(claim: Claim, sizes: tuple[int, int], direct: bool, reading: bool, path: str, *files: str) -> list[str]:
    """IOR on all clients. `sizes`: bytes of a transfer, and of what each task moves; `files`: whose file is whose."""
    shared.choose_tool("ior", "ior", claim)
    # -B is O_DIRECT up to 3.2; 3.3.0 knows it no more, and then measures nothing with code 0.
    old = re.match(r"[0-2]\.|3\.[0-2]\.", claim["tools"]["ior"] or "")
    options = ["-v", *files, "-t", str(sizes[0]), "-b", str(sizes[1]), "-r" if reading else "-w"]
    if not (reading or direct):
        options.append("-e")
    options.append("-k")
    if direct:
        options.append("-B" if old else "--posix.odirect")
    options += ["-o", path]
    return [*shared.mpirun(claim), *tools.tool_command(claim, "ior"), *options]


def _judge(params: Params, phase: PhaseResult) -> shared.Metrics:
    name = phase["name"]
    more: shared.Metrics = {}
    moved: Transfer
    if request.TRANSFER in phase.get("files", {}):
        moved = _judge_transfer(phase)
    elif by_fio.is_fio(phase["argv"]):
        moved, more = by_fio.fio_moved(phase)
        _check_size(params.transfer_size, int(by_fio.requested_of(phase)["bs"]))
    else:
        moved = judge_ior(params.transfer_size, name, phase)
    if name == "prepare" or name.startswith(PLACE):
        return {}
    if name == OWN_DISK:
        return {"own_disk_mib_s": moved.bw_mib_s}
    return shared.metrics_of(name, moved, more)


def _judge_transfer(phase: PhaseResult) -> Transfer:
    said = json.loads(phase["stdout"] or "{}")
    task: request.Transfer = json.loads(phase["files"][request.TRANSFER])
    if said.get("errno") or said.get("bytes") != task["bytes"]:
        why = said.get("errno") or phase["stderr"] or "no error was given"
        raise BadOutput(f"moved {said.get('bytes', 0)} bytes of {task['bytes']} requested: {why}")
    return Transfer(said["bytes"], said["seconds"], said["bytes"] / MIB / said["seconds"])


@dataclass(frozen=True)
class IorMoved(Transfer):
    """What an IOR moved, and when its row came by the agent's clock, where that was noted."""

    ended_s: float


def judge_ior(transfer_size: int, name: str, phase: CommandResult) -> IorMoved:
    """What a phase of IOR moved; BadOutput unless it is what its command requested, in transfers of that size."""
    run = ior.parse(phase["stdout"], phase["stderr"], phase["rc"])
    argv = phase["argv"]
    requested_bytes = int(argv[argv.index("-b") + 1])
    # The echo is the only sign of O_DIRECT. The paths come last and are left out: an echo may be cut there.
    shared.check_command("ior", argv, "-o", run.command)
    shared.check_placement(argv, run.tasks, run.nodes, run.tasks_on_first)
    if run.block_bytes != requested_bytes:
        raise BadOutput(f"each task has {run.block_bytes} bytes, requested {requested_bytes}")
    done, other = (run.read, run.write) if name in READS else (run.write, run.read)
    if len(done) != 1 or other:
        raise BadOutput(f"IOR reports writes: {len(run.write)}, reads: {len(run.read)}, not one of them")
    moved = done[0]
    _check_size(transfer_size, run.transfer_bytes)
    if moved.moved_bytes != run.tasks * requested_bytes:
        raise BadOutput(f"moved {moved.moved_bytes} bytes of {run.tasks * requested_bytes} requested")
    ended_s = phase["line_s"][ior.row_of(phase["stdout"], name)] if "line_s" in phase else 0.0
    return IorMoved(moved.moved_bytes, moved.seconds, moved.bw_mib_s, ended_s)


def _check_size(transfer_size: int, transfer_bytes: int) -> None:
    if transfer_bytes != transfer_size:
        raise BadOutput(f"ran with transfers of {transfer_bytes} bytes, the cell's are {transfer_size}")
