"""One fixed range of the first store's device, read by O_DIRECT past the file system: what the device itself gives.

Nothing is written (`--readonly`). The agent puts the device's path where the command says {device}: only the
host knows which loop device an image got this time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from fsage.base import MIB, JsonView
from fsage.model import kinds
from fsage.model.claim import Claim
from fsage.model.observation import PhaseResult
from fsage.model.request import Phase
from fsage.model.structure import Step
from fsage.workloads import Outcome, Unsupported, by_fio, shared

ALIGN_BYTES = 16 * MIB


class Params(shared.CellParams):
    """Parameters of one pass."""

    workload: Literal["device_range"] = "device_range"
    position: float = Field(
        default=0.5, ge=0, le=1, description="where the range lies: 0 the device's beginning, 1 its end"
    )
    iteration: int = Field(ge=1)


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """One phase, `read`. Raises Unsupported where the target has no device of its own."""
    if not kinds.named(claim["kind"]).own_stores:
        raise Unsupported(f"a target of kind {claim['kind']} has no device that could be read past its file system")
    amount_bytes = claim["amount_mib"] * MIB
    room_bytes = claim["stores"][0]["image_id"]["bytes"] - amount_bytes
    argv = by_fio.fio_command(
        claim,
        "--readonly",
        "--name=pass",
        "--filename={device}",
        "--invalidate=0",
        "--rw=read",
        f"--offset={int(params.position * room_bytes) // ALIGN_BYTES * ALIGN_BYTES}",
        f"--size={amount_bytes}",
        f"--bs={MIB}",
        "--direct=1",
        "--ioengine=psync",
    )
    if claim.get("passes", 1) > 1:
        argv.append(f"--loops={claim['passes']}")
    return [{"name": "read", "argv": argv, "reads": True}]


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate from the claim's calibration; none where it is unsupported."""
    if not kinds.named(claim["kind"]).own_stores:
        return 0.0
    mib = claim["amount_mib"] * claim.get("passes", 1)
    return claim["calibration"]["cell_overhead_s"] + mib / claim["calibration"]["read_mib_s"]


def rates(params: Params) -> list[str]:
    """What the device gave."""
    return ["read_bw_mib_s"]


def read(observation: JsonView) -> Outcome:
    """`read_bw_mib_s`, `read_seconds` (by fio's own clock), `read_bytes`; or why not."""
    return shared.judge(observation, Params, lambda _: ["read"], _judge)


def _judge(params: Params, phase: PhaseResult) -> shared.Metrics:
    return shared.metrics_of("read", *by_fio.fio_moved(phase))
