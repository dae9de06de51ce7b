"""One shared file in the state's layout, written, then read.

On Lustre the layout is native, and IOR's tasks share the file. On a target whose stores are the OSTs the file is its
objects, one fio job each, found by the map of fsage.agent.striping: the jobs of all segments run at once, and the
bandwidth is all bytes by the time from the first job's start to the last one's end. The agent makes the directories
and deletes the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fsage.agent import containers
from fsage.agent.declaration import MIB
from fsage.parse import BadOutput, fio
from fsage.workloads import Outcome, Unsupported, _shared, _striped, sequential

PHASES = ("write", "read")


class Params(BaseModel):
    """Parameters of one cell. `transfer_size` in bytes: each task's, which must divide every stripe.

    `nodes`: how many of the target's clients work at the file, which is of the same size for any number; null: all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: Literal["striped_file"] = "striped_file"
    transfer_size: int = Field(default=MIB, gt=0)
    direct: bool = True
    nodes: int | None = Field(default=None, ge=1)
    iteration: int = Field(ge=1)


def commands(params: Params | dict, claim: Mapping, steps: Sequence[Mapping] = ()) -> list[dict]:
    """Write the objects of the state's layout, then read them; `Unsupported` where the target has not got that layout.

    `ValueError` if the state has no layout, or transfers do not fit its stripes.
    """
    params = Params.model_validate(params)
    _striped.clients(params.nodes, claim)
    layout = _striped.layout(steps, claim)
    if claim["kind"] == "lustre":
        return [_ior(params, claim, name) for name in PHASES]
    odd = next((one.stripe_bytes for one in layout if one.stripe_bytes % params.transfer_size), None)
    if odd:
        raise ValueError(f"transfer_size: {params.transfer_size} bytes do not divide a stripe of {odd}")
    places = _shared.directories(claim, ":").split(":")
    jobs = []
    for number, size in _striped.objects(layout).items():
        path = f"{places[number % len(places)]}/object{number}"
        jobs += [f"--name=object{number}", f"--filename={path}", f"--size={size}"]
    options = (f"--bs={params.transfer_size}", f"--direct={int(params.direct)}", "--ioengine=psync", "--fallocate=none")
    start = [*containers.start(claim, "fio"), *_shared.FIO]
    end = ["--end_fsync=1"] if not params.direct else []
    return [
        {"name": name, "argv": [*start, f"--rw={name}", *options, *end, *jobs], "reads": name == "read"}
        for name in PHASES
    ]


def bytes_written(params: Params | dict, claim: Mapping) -> int:
    """The file, once."""
    return claim["amount_mib"] * _shared.tasks(claim) * MIB


def seconds(params: Params | dict, claim: Mapping, steps: Sequence[Mapping] = ()) -> float:
    """Estimate from the claim's calibration, which with one task is of one store: what the fullest one has to move.

    `ValueError` for more nodes than the target has, or a state without a layout.
    """
    _striped.clients(Params.model_validate(params).nodes, claim)
    try:
        layout = _striped.layout(steps, claim)
    except Unsupported:
        return 0.0
    mib, calibration = bytes_written(params, claim) / MIB, claim["calibration"]
    if claim["kind"] == "loop":
        mib = max(_striped.ost_bytes(layout, claim)) / MIB
    return calibration["cell_overhead_s"] + mib / calibration["write_mib_s"] + mib / calibration["read_mib_s"]


def rates(params: Params | dict) -> list[str]:
    """The bandwidth of both phases."""
    return [f"{phase}_bw_mib_s" for phase in PHASES]


def read(observation: Mapping) -> Outcome:
    """`<phase>_bw_mib_s`, `<phase>_seconds` (first start to last end), `<phase>_bytes`; or why not."""
    layout = _striped.noted(observation)
    if observation["status"] == "done" and not layout:
        return Outcome("failed", "the state has no layout of a striped file: its steps have no `stripe`")
    return _shared.judge(observation, Params, lambda params: PHASES, partial(_judge, _striped.objects(layout)))


def _ior(params: Params, claim: Mapping, name: str) -> dict:
    _shared.choose_tool("ior", "ior", claim)  # several tasks of fio on several clients cannot share a file
    whole, at_work = bytes_written(params, claim), {**claim, "hosts": _striped.clients(params.nodes, claim)}
    each_bytes, rest = divmod(whole, _shared.tasks(at_work))
    if rest or each_bytes % params.transfer_size:
        raise ValueError(
            f"transfer_size: {_shared.tasks(at_work)} tasks cannot share a file of {whole} bytes in whole transfers of "
            f"{params.transfer_size}: declare another amount_mib for the target"
        )
    path = f"{_shared.directories(claim, '@')}/shared"
    sizes = (params.transfer_size, each_bytes)
    argv = sequential.ior_command(at_work, sizes, params.direct, name == "read", path)
    return {"name": name, "argv": argv, "reads": name == "read"}


def _judge(objects: Mapping[int, int], params: Params, phase: Mapping[str, Any]) -> _shared.Metrics:
    if not _shared.is_fio(phase["argv"]):
        moved = sequential.judge_ior(params.transfer_size, phase)
        return _metrics(phase["name"], moved.moved_bytes, moved.seconds)
    run = fio.parse(phase["stdout"], phase["stderr"], phase["rc"])
    name, whole = phase["name"], sum(objects.values())
    done, other = (run.write, run.read) if name == "write" else (run.read, run.write)
    if done is None or other is not None:
        raise BadOutput(f"fio did not {name} and nothing else: wrote {run.write}, read {run.read}")
    if list(run.jobs) != [f"object{number}" for number in objects]:
        raise BadOutput(f"fio reports the jobs {', '.join(run.jobs)}; the layout has {len(objects)} objects")
    if done.moved_bytes != whole:
        raise BadOutput(f"moved {done.moved_bytes} bytes of {whole} asked for")
    for key, asked in (("rw", name), ("bs", str(params.transfer_size)), ("direct", str(int(params.direct)))):
        if run.options.get(key) != asked:
            raise BadOutput(f"--{key} was {asked}, fio reports {run.options.get(key)}")
    _striped.check_objects(phase, objects)
    return _metrics(name, whole, run.span_seconds)


def _metrics(name: str, moved_bytes: int, seconds: float) -> _shared.Metrics:
    return {
        f"{name}_bw_mib_s": moved_bytes / MIB / seconds,
        f"{name}_seconds": seconds,
        f"{name}_bytes": moved_bytes,
    }
