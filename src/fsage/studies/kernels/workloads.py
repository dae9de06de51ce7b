"""One new file, counted: where its bytes come to lie, and what a declared device would take for them. Nothing is timed.

Its rate is computed from the counted extents, jumps and requests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from fsage.base import MIB, Json, JsonView
from fsage.model import device
from fsage.model.claim import Claim
from fsage.model.declaration import device_model
from fsage.model.device import REQUEST_BYTES, Moved
from fsage.model.observation import PhaseResult
from fsage.model.request import Phase
from fsage.model.structure import Step
from fsage.parse import BadOutput
from fsage.studies.kernels.model import TASK
from fsage.workloads import Outcome, shared

NAME: Literal["new_file"] = "new_file"
CELL_S = 5.0


class Params(shared.CellParams):
    """Parameters of one cell."""

    workload: Literal["new_file"] = NAME
    file_size: int = Field(gt=0, description="bytes of the new file")
    transfer_size: int = Field(gt=0, description="bytes of one write")
    direct: bool = Field(default=True, description="true: O_DIRECT, past the page cache")
    cache: Literal["warm", "cold"] = Field(
        default="warm", description="warm: the allocator has every bitmap in memory (ext4); cold: just mounted"
    )
    iteration: int = Field(ge=1)


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """The one phase. Raises ValueError."""
    if params.file_size % params.transfer_size:
        raise ValueError(f"transfer_size {params.transfer_size} does not divide file_size {params.file_size}")
    task: Json = {
        "bytes": params.file_size,
        "request_bytes": params.transfer_size,
        "direct": params.direct,
        "device": claim.get("declared", {}).get("device_model") or device_model({}),
    }
    files = {TASK: json.dumps(task, sort_keys=True)}
    return [{"name": "write", "argv": ["new_file"], "reads": False, "allocator": params.cache, "files": files}]


def bytes_written(params: Params, claim: Claim) -> int:
    """Bytes that one cell writes."""
    return params.file_size


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate of what one cell takes."""
    calibration = claim["calibration"]
    return CELL_S + calibration["cell_overhead_s"] + params.file_size / MIB / calibration["write_mib_s"]


def rates(params: Params) -> list[str]:
    """The computed bandwidth."""
    return ["computed_write_bw_mib_s"]


def read(observation: JsonView) -> Outcome:
    """What was counted, and the cost that is computed from it; or why not."""
    return shared.judge(observation, Params, lambda params: ["write"], _judge)


def _judge(params: Params, phase: PhaseResult) -> shared.Metrics:
    said: Json = json.loads(phase["stdout"] or "{}")
    if said.get("errno") or said.get("bytes") != params.file_size:
        raise BadOutput(f"the file ended after {said.get('bytes', 0)} bytes: {said.get('errno') or phase['stderr']}")
    lies = phase.get("extents")
    if not lies or not lies["files"]:
        raise BadOutput("the file system does not say where the file lies (FIEMAP)")
    requests = lies["bytes"] // min(params.transfer_size, REQUEST_BYTES) + lies["extents"] - lies["files"]
    moved = Moved(lies["bytes"], requests, lies["jumps"], device.place_of(lies))
    model: Json = json.loads(phase["files"][TASK])["device"]
    charged_s = device.KINDS[model["kind"]].charges_s(model, moved)
    if charged_s is None:
        raise BadOutput("a device with noise or drift has no one cost: declare it without")
    return {
        "computed_write_bw_mib_s": lies["bytes"] / MIB / charged_s,
        "computed_write_seconds": charged_s,
        "requests": requests,
        **phase.get("left", {}),
    }
