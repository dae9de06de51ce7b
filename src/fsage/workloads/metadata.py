"""Metadata rates: each task creates, looks up and removes empty files in a directory of its own.

They are measured with mdtest, or with fio's engines filecreate, filestat and filedelete, each operation a process of
its own. fio looks every file up twice before it takes the time of `stat` or `remove` (seen with strace, 3.33). So its
`stat_per_s` and `remove_per_s` are of a warm cache, and each phase says so (`metadata`). Those of mdtest, after the
caches were dropped, are not. Do not compare rates of different tools.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Literal

from pydantic import Field, field_validator

from fsage.base import JsonView
from fsage.model import device, request, tools
from fsage.model.claim import Claim
from fsage.model.observation import PhaseResult
from fsage.model.request import Phase
from fsage.model.structure import Step
from fsage.parse import BadOutput, mdtest
from fsage.workloads import Outcome, by_fio, shared

# operation: fio's engine, mdtest's option, mdtest's row
OPERATIONS = {
    "create": ("filecreate", "-C", "File creation"),
    "stat": ("filestat", "-T", "File stat"),
    "remove": ("filedelete", "-r", "File removal"),
}
BELOW = "/many"
"""A folder that goes with the cell: a directory of ext4 that was large stays so, and the state would be another."""
LOOKED_UP = "warm: fio looks each file up before its clock starts"
DEVICE = ("reads", "read_bytes", "writes", "write_bytes")
ASSUMED_PER_S = 5000  # for estimates only: the claim has no calibration of metadata


Operation = Literal["create", "stat", "remove"]


class Params(shared.CellParams):
    workload: Literal["metadata"] = "metadata"
    tool: Literal["auto", "fio", "mdtest"] = Field(
        default="auto", description="auto: mdtest where the target has it, else fio; in a guest its own process"
    )
    files_per_task: int = Field(gt=0, description="empty files that each task creates")
    iteration: int = Field(ge=1)
    operations: tuple[Operation, ...] = Field(
        default=("create", "stat", "remove"), description="what is measured, in this order: create, stat, remove"
    )

    @field_validator("operations")
    @classmethod
    def _in_order(cls, operations: tuple[str, ...]) -> tuple[str, ...]:
        if "create" not in operations or operations != tuple(o for o in OPERATIONS if o in operations):
            raise ValueError(f"operations {list(operations)}: allowed are create, [stat], [remove], in this order")
        return operations


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """The phases of one cell on a claimed target; `ValueError` if they cannot run on it."""
    files = params.files_per_task * shared.tasks(claim)
    free = claim.get("free_inodes_empty")
    if free and files > free:
        raise ValueError(
            f"files_per_task: {params.files_per_task} for {shared.tasks(claim)} tasks are {files} files, "
            f"the empty target has room for {free}"
        )
    in_guest = device.Model.of_claim(claim).in_guests
    if params.tool == "auto" and shared.tasks(claim) == 1 and in_guest:
        tool = "names"
    else:
        tool = shared.choose_tool(params.tool, "mdtest", claim)
    make = {"names": _names, "mdtest": _mdtest, "fio": _fio}[tool]
    phases = []
    for operation in params.operations:
        phase = make(params, claim, operation)
        phase["reads"] = operation == "stat"
        phase["folders"] = shared.places_of(claim, BELOW)
        if tool == "fio" and operation != "create":
            phase["metadata"] = LOOKED_UP
        phases.append(phase)
    return phases


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Rough estimate of what one cell takes."""
    done = params.files_per_task * shared.tasks(claim) * len(params.operations)
    return claim["calibration"]["cell_overhead_s"] + done / ASSUMED_PER_S


def rates(params: Params) -> list[str]:
    """How many of each operation in a second."""
    return [f"{operation}_per_s" for operation in params.operations]


def read(observation: JsonView) -> Outcome:
    """`<operation>_per_s` of all tasks together, `<operation>_seconds`, `<operation>_files`; or why not."""
    judge = partial(_judge, shared.counts_in_guests(observation))
    return shared.judge(observation, Params, lambda params: params.operations, judge)


def _names(params: Params, claim: Claim, operation: Operation) -> Phase:
    folder = shared.places_of(claim, BELOW)[0]
    task = request.Names(operation=operation, folder=folder, files=params.files_per_task)
    files = {request.NAMES: json.dumps(task, sort_keys=True)}
    return {"name": operation, "argv": ["names", operation], "files": files}


def _fio(params: Params, claim: Claim, operation: str) -> Phase:
    return by_fio.fio_phase(
        claim,
        operation,
        f"--ioengine={OPERATIONS[operation][0]}",
        f"--nrfiles={params.files_per_task}",
        "--filesize=1",  # counts the files: the engines move no data
        "--bs=1",
        "--openfiles=1",
        "--create_on_open=1",  # or fio lays out, as data, the files that it should only look up or remove
        below=BELOW,
    )


def _mdtest(params: Params, claim: Claim, operation: str) -> Phase:
    places = shared.directories(claim, "@", BELOW)
    options = ["-n", str(params.files_per_task), "-F", "-u", OPERATIONS[operation][1]]
    argv = [*shared.mpirun(claim), *tools.tool_command(claim, "mdtest"), *options, "-d", places]
    return {"name": operation, "argv": argv}


def _judge(counted: bool, params: Params, phase: PhaseResult) -> shared.Metrics:
    """`counted`: nothing is timed."""
    name = phase["name"]
    judge = _judge_mdtest
    if request.NAMES in phase.get("files", {}):
        judge = _judge_names
    elif by_fio.is_fio(phase["argv"]):
        judge = _judge_fio
    files, taken_s, tasks, more = judge(phase)
    expected = tasks * params.files_per_task
    if files != expected:
        raise BadOutput(f"{files} files, requested {expected}, {params.files_per_task} by each task")
    more[f"{name}_files"] = files
    if counted:
        return more
    return {f"{name}_per_s": files / taken_s, f"{name}_seconds": taken_s, **more}


def _judge_names(phase: PhaseResult) -> tuple[int, float, int, shared.Metrics]:
    """As `_judge_fio`, of a guest: its own process does it, and writes out what that changed (syncfs).

    Requests and bytes that reached the device meanwhile are counted: `<operation>_device_reads`, `_device_read_bytes`,
    `_device_writes`, `_device_write_bytes`. Without virtual time these are all that a guest tells.
    """
    said = json.loads(phase["stdout"] or "{}")
    if said.get("errno") or not said.get("seconds"):
        raise BadOutput(f"it ended after {said.get('files', 0)} files: {said.get('errno') or phase['stderr']}")
    counts = {f"{phase['name']}_device_{key}": said["device"][key] for key in DEVICE}
    return said["files"], said["seconds"], 1, counts


def _judge_fio(phase: PhaseResult) -> tuple[int, float, int, shared.Metrics]:
    """Files, seconds, tasks, and what else is known."""
    run = by_fio.read_fio(phase)
    requested = by_fio.requested_of(phase)
    if not run.read or run.write or requested["ioengine"] != OPERATIONS[phase["name"]][0]:
        raise BadOutput(f"fio ran {requested['ioengine']} and moved data, or did nothing")
    return run.read.operations, run.read.seconds, by_fio.fio_tasks(phase), by_fio.start_spread(phase, run)


def _judge_mdtest(phase: PhaseResult) -> tuple[int, float, int, shared.Metrics]:
    run = mdtest.parse(phase["stdout"], phase["stderr"], phase["rc"])
    argv = phase["argv"]
    row = OPERATIONS[phase["name"]][2]
    if run.iterations != 1 or set(run.per_s) != {row}:
        raise BadOutput(f"mdtest did {', '.join(run.per_s)} {run.iterations} times, not {row} once")
    shared.check_command("mdtest", argv, "-d", run.command)
    shared.check_placement(argv, run.tasks, run.nodes, run.tasks_on_first)
    return run.files, run.files / run.per_s[row], run.tasks, {}
