"""One new file, counted: where its bytes come to lie, and what a declared device would take for them. Nothing is timed.

Its rate is computed from the counted extents, jumps and requests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from fsage.api.model import MIB, Claim, Device, Json, JsonView, Phase, PhaseResult, Step, counting, kinds
from fsage.api.study import BadOutput, CellParams, Metrics, Outcome, judge

from .model import TASK

NAME: Literal["new_file"] = "new_file"
CELL_S = 1.0  # before a claim


class Params(CellParams):
    """Parameters of one cell."""

    workload: Literal["new_file"] = NAME
    file_size: int = Field(gt=0, description="bytes of the new file")
    transfer_size: int = Field(gt=0, description="bytes of one write")
    direct: bool = Field(default=True, description="true: O_DIRECT, past the page cache")
    cache: Literal["warm", "cold"] = Field(
        default="warm", description="warm: the allocator has every bitmap in memory (ext4); cold: just mounted"
    )
    iteration: int = Field(ge=1)


def check(params: Params, steps: Sequence[Step]) -> None:
    """Raise ValueError where the file is not of whole writes."""
    if params.file_size % params.transfer_size:
        raise ValueError(f"transfer_size {params.transfer_size} does not divide file_size {params.file_size}")


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """The one phase."""
    check(params, steps)
    task: Json = {
        "bytes": params.file_size,
        "request_bytes": params.transfer_size,
        "direct": params.direct,
        "device": counting.declared(claim),
    }
    files = {TASK: json.dumps(task, sort_keys=True)}
    return [{"name": "write", "argv": ["new_file"], "reads": False, "allocator": params.cache, "files": files}]


def bytes_written(params: Params, claim: Claim) -> int:
    """Bytes that one cell writes."""
    return params.file_size


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate of what one cell takes."""
    calibration = claim["calibration"]
    if kinds.kind_of(claim).guests:  # zeros are noted there, and not moved
        return calibration["cell_overhead_s"]
    return calibration["cell_overhead_s"] + params.file_size / MIB / calibration["write_mib_s"]


def rates(params: Params) -> list[str]:
    """The computed bandwidth."""
    return ["computed_write_bw_mib_s"]


def read(observation: JsonView) -> Outcome:
    """What was counted, and the cost that is computed from it; or why not."""
    return judge(observation, Params, lambda params: ["write"], _judge)


def _judge(params: Params, phase: PhaseResult) -> Metrics:
    said: Json = json.loads(phase["stdout"] or "{}")
    if said.get("errno") or said.get("bytes") != params.file_size:
        raise BadOutput(f"the file ended after {said.get('bytes', 0)} bytes: {said.get('errno') or phase['stderr']}")
    lies = phase.get("extents")
    if not lies or not lies["files"]:
        raise BadOutput("the file system does not say where the file lies (FIEMAP)")
    requests = lies["bytes"] // min(params.transfer_size, Device.REQUEST_BYTES) + lies["extents"] - lies["files"]
    moved = (lies["bytes"], requests, lies["jumps"], Device.place_of(lies))
    try:
        charged_s = Device.of(json.loads(phase["files"][TASK])["device"]).takes_s(*moved)
    except ValueError as why:
        raise BadOutput(str(why)) from why
    return {
        "computed_write_bw_mib_s": lies["bytes"] / MIB / charged_s,
        "computed_write_seconds": charged_s,
        "requests": requests,
        **phase.get("left", {}),
    }
