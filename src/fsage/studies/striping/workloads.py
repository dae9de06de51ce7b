"""One shared file in the state's layout, written, then read.

On Lustre IOR's tasks share the file. Where it is a file for each segment there is an IOR for each, beside each other,
because IOR cannot cut one file at watermarks. On a target whose stores are the OSTs the file is its objects, one fio
job each, found by the map of model.py. The tasks of all segments run at once, and the bandwidth is all
bytes by the time from the first one's start to the last one's end. The agent makes the directories and deletes the
files.

An IOR ended when its row came (it is flushed then), by the agent's clock. It began as long before as the row's
`total(s)` says, open and close in it. What mpirun takes to start does not count. Rows come some milliseconds late, each
IOR's alike: tens of milliseconds are what the span may be off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from pydantic import Field

from fsage.api.model import MIB, Claim, Phase, PhaseResult, Segment, Step, kinds
from fsage.api.study import (
    BadOutput,
    Metrics,
    Outcome,
    Unsupported,
    fio_command,
    ior_command,
    judge,
    judge_ior,
    latencies,
    read_fio,
    tasks,
)

from . import striped

NAME: Literal["striped_file"] = "striped_file"
PHASES = ("write", "read")
CELL_S = 6.5  # before a claim; both phases on 16 modelled stores


class Params(striped.Params):
    """Parameters of one cell."""

    workload: Literal["striped_file"] = NAME
    transfer_size: int = Field(
        default=MIB, gt=0, description="bytes of one write or read of a task; divides every stripe"
    )
    direct: bool = Field(default=True, description="true: O_DIRECT, past the page cache")


check = striped.check


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """Write the objects of the state's layout, then read them; `Unsupported` where the target has not got that layout.

    `ValueError` if the state has no layout, or transfers do not fit its stripes.
    """
    striped.clients(params.nodes, claim)
    check(params, steps)
    layout = striped.layout(steps, claim)
    segments, paths = striped.opened(steps, claim)
    if kinds.kind_of(claim).has_osts:
        iors = [_iors(params, claim, name, segments, paths) for name in PHASES]
        return striped.controlled(params, iors, steps, claim)
    odd = next((segment.stripe_bytes for segment in layout if segment.stripe_bytes % params.transfer_size), None)
    if odd:
        raise ValueError(f"transfer_size: {params.transfer_size} bytes do not divide a stripe of {odd}")
    jobs = []
    for number, size in striped.objects(layout).items():
        jobs += [f"--name=object{number}", f"--filename={paths[number]}", f"--size={size}"]
    options = (f"--bs={params.transfer_size}", f"--direct={int(params.direct)}", "--ioengine=psync", "--fallocate=none")
    end = ["--end_fsync=1"] if not params.direct else []
    phases: list[Phase] = [
        {"name": name, "argv": fio_command(claim, f"--rw={name}", *options, *end, *jobs), "reads": name == "read"}
        for name in PHASES
    ]
    return striped.controlled(params, phases, steps, claim)


def bytes_written(params: Params, claim: Claim) -> int:
    """The file, once."""
    return claim["amount_mib"] * tasks(claim) * MIB


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate from the claim's calibration, which with one task is of one store: what the fullest one has to move.

    `ValueError` as `commands`: before the first state is built.
    """
    try:
        commands(params, claim, steps)
        layout = striped.layout(steps, claim)
    except Unsupported:
        return 0.0
    mib = bytes_written(params, claim) / MIB
    calibration = claim["calibration"]
    if kinds.kind_of(claim).own_stores:
        mib = max(striped.ost_bytes(layout, claim)) / MIB
    rest = calibration["cell_overhead_s"] + striped.eviction_seconds(params, len(PHASES), steps, claim)
    return rest + mib / calibration["write_mib_s"] + mib / calibration["read_mib_s"]


def rates(params: Params) -> list[str]:
    """The bandwidth of both phases."""
    return [f"{phase}_bw_mib_s" for phase in PHASES]


def read(observation: Mapping[str, object]) -> Outcome:
    """`<phase>_bw_mib_s`, `<phase>_seconds` (first start to last end), `<phase>_bytes`; or why not.

    Of several IORs also `<phase>_start_spread_ms`: how long after the first one the last one started.
    """
    layout = striped.noted(observation)
    if observation["status"] == "done" and not layout:
        return Outcome("failed", "the state has no layout of a striped file: its steps have no `stripe`")
    return judge(observation, Params, lambda params: PHASES, partial(_judge, striped.objects(layout)))


def _iors(params: Params, claim: Claim, name: str, segments: Sequence[Segment], paths: Sequence[str]) -> Phase:
    """A phase: an IOR for each file, each client's tasks shared out among them."""
    # Several tasks of fio on several clients cannot share a file.
    at_work: Claim = {**claim, "hosts": striped.clients(params.nodes, claim)}
    commands = []
    for segment, path, share in zip(segments, paths, striped.share_out(segments, claim.get("tasks", 1)), strict=True):
        own_claim: Claim = {**at_work, "tasks": share}
        each_bytes, rest = divmod(segment.length_bytes, tasks(own_claim))
        if rest or each_bytes % params.transfer_size:
            raise ValueError(
                f"transfer_size: {tasks(own_claim)} tasks cannot share {segment.length_bytes} bytes of "
                f"{path} in whole transfers of {params.transfer_size}: declare another amount_mib for the target"
            )
        sizes = (params.transfer_size, each_bytes)
        commands.append(ior_command(own_claim, sizes, params.direct, name == "read", path))
    first, *beside = commands
    phase: Phase = {"name": name, "argv": first, "reads": name == "read"}
    if beside:
        phase["beside"] = beside
    return phase


def _judge_iors(params: Params, phase: PhaseResult) -> Metrics:
    """All bytes by the time from the first one's start to the last one's end."""
    name = phase["name"]
    every = [phase, *phase.get("beside", ())]
    moved = [judge_ior(params.transfer_size, name, answer) for answer in every]
    if len(every) == 1:
        return _metrics(name, moved[0].moved_bytes, moved[0].seconds)
    ends = [ran.ended_s for ran in moved]
    starts = [ran.ended_s - ran.seconds for ran in moved]
    apart = max(starts) - min(ends)
    if apart > 0:
        last = starts.index(max(starts))
        raise BadOutput(f"segment {last}'s IOR began {apart:.3g} s after another one had ended, not beside it")
    metrics = _metrics(name, sum(ran.moved_bytes for ran in moved), max(ends) - min(starts))
    return {**metrics, f"{name}_start_spread_ms": 1000 * (max(starts) - min(starts))}


def _judge(objects: Mapping[int, int], params: Params, phase: PhaseResult) -> Metrics:
    if "fio" not in phase["argv"]:
        metrics = _judge_iors(params, phase)
        done_bytes = metrics[f"{phase['name']}_bytes"]
        if done_bytes != sum(objects.values()):
            raise BadOutput(f"moved {done_bytes} bytes, the layout's file has {sum(objects.values())}")
        return metrics
    run = read_fio(phase)
    name = phase["name"]
    whole = sum(objects.values())
    done, other = (run.write, run.read) if name == "write" else (run.read, run.write)
    if done is None or other is not None:
        raise BadOutput(f"fio did not {name} and nothing else: wrote {run.write}, read {run.read}")
    if list(run.jobs) != [f"object{number}" for number in objects]:
        raise BadOutput(f"fio reports the jobs {', '.join(run.jobs)}; the layout has {len(objects)} objects")
    if done.moved_bytes != whole:
        raise BadOutput(f"moved {done.moved_bytes} bytes of {whole} requested")
    for key, requested in (("rw", name), ("bs", str(params.transfer_size)), ("direct", str(int(params.direct)))):
        if run.options.get(key) != requested:
            raise BadOutput(f"--{key} was {requested}, fio reports {run.options.get(key)}")
    striped.check_objects(phase, objects)
    return {**_metrics(name, whole, run.span_seconds), **latencies(name, done)}


def _metrics(name: str, moved_bytes: int, seconds: float) -> Metrics:
    return {
        f"{name}_bw_mib_s": moved_bytes / MIB / seconds,
        f"{name}_seconds": seconds,
        f"{name}_bytes": moved_bytes,
    }
