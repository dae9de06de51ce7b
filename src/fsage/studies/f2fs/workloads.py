"""The files of a pattern read by turns, counted: requests that reach the device, and jumps between them.

A turn is as many reads as the group's weight says, so that bytes are shared by weight, as BFQ shares them. Reads go
past the cache, and end where the first file does. Nothing is timed: rates are computed for the declared device.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from fsage.api.model import MIB, Claim, Device, Json, JsonView, Phase, PhaseResult, Step, counting
from fsage.api.study import BadOutput, CellParams, Metrics, Outcome, judge
from fsage.studies.iocontrol.weighted import PATTERNS, file_of, files_among

from .model import TASK

NAME: Literal["file_requests"] = "file_requests"
IN_GUESTS = True
"""Whether it needs a guest's disk."""
CELL_S = 1.0  # before a claim
TURN_WEIGHT = 100
KIB = 1024


class Params(CellParams):
    """Parameters of one cell."""

    workload: Literal["file_requests"] = NAME
    pattern: Literal["P1", "P2", "P3", "P4", "P5", "P6"] = Field(
        description="what the groups read, as in workload weights: P4 to P6 have a fragmented file"
    )
    scheduler: Literal["none", "bfq"] = Field(default="none", description="of the device's queue, in a guest")
    transfer_size: int = Field(default=64 * KIB, gt=0, description="bytes of one read")
    iteration: int = Field(ge=1)


def check(params: Params, steps: Sequence[Step]) -> None:
    """Raise ValueError where the state has no files to read, or these are not of whole reads."""
    if MIB % params.transfer_size:
        raise ValueError(f"transfer_size {params.transfer_size} does not divide 1 MiB")
    files_among(steps)


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """The one phase."""
    groups: list[Json] = []
    for name, reader in PATTERNS[params.pattern].items():
        path = str(file_of(claim, 1, reader.file))
        groups.append({"name": name, "reads_a_turn": reader.weight // TURN_WEIGHT, "path": path})
    task: Json = {
        "request_bytes": params.transfer_size,
        "scheduler": params.scheduler,
        "device": counting.declared(claim),
        "groups": groups,
    }
    files = {TASK: json.dumps(task, sort_keys=True)}
    names = sorted(group["path"] for group in groups)
    return [{"name": "read", "argv": ["file_requests"], "reads": True, "reads_files": names, "files": files}]


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate of what one cell takes."""
    return claim["calibration"]["cell_overhead_s"]


def rates(params: Params) -> list[str]:
    """The computed bandwidth of each group."""
    return [f"group{name}_computed_bw_mib_s" for name in PATTERNS[params.pattern]]


def read(observation: JsonView) -> Outcome:
    """Reads, requests and jumps of each group, and the rate that is computed from them; or why not."""
    return judge(observation, Params, lambda params: ["read"], _judge)


def _judge(params: Params, phase: PhaseResult) -> Metrics:
    said: Json = json.loads(phase["stdout"] or "{}")
    if phase["rc"] != 0 or said.get("errno"):
        raise BadOutput(said.get("errno") or phase["stderr"].strip() or f"exit code {phase['rc']}")
    task: Json = json.loads(phase["files"][TASK])
    moved: Counter[str] = Counter()
    for group in said["groups"].values():
        moved.update(group)
    charged_s = Device.of(task["device"]).takes_s(moved["bytes"], moved["requests"], moved["far_jumps"])
    metrics: Metrics = {"most_request_kib": said["most_bytes"] / KIB}
    for name, group in said["groups"].items():
        metrics[f"group{name}_computed_bw_mib_s"] = group["bytes"] / MIB / charged_s
        metrics |= {f"group{name}_{key}": value for key, value in group.items()}
        metrics[f"group{name}_requests_a_read"] = group["requests"] / group["reads"]
    return metrics
