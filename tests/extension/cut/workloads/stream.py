"""One file written from its beginning to its end by dd, past the cache."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from fsage.api.model import MIB, Claim, JsonView, Phase, PhaseResult, Step, tools
from fsage.api.study import BadOutput, CellParams, Metrics, Outcome, check_end, judge, places_of

COPIED = re.compile(r"^(\d+) bytes .* copied, ([\d.e-]+) s", re.MULTILINE)


class Params(CellParams):
    """Parameters of one cell; `transfer_size` in bytes."""

    workload: Literal["stream"] = "stream"
    transfer_size: int = Field(gt=0)
    iteration: int = Field(ge=1)


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """One phase, `write`."""
    argv = [
        *tools.tool_command(claim, "dd"),
        "if=/dev/zero",
        f"of={places_of(claim)[0]}/stream",
        f"bs={params.transfer_size}",
        f"count={bytes_written(params, claim) // params.transfer_size}",
        "oflag=direct",
    ]
    return [{"name": "write", "argv": argv, "reads": False}]


def bytes_written(params: Params, claim: Claim) -> int:
    """What a task moves."""
    return claim["amount_mib"] * MIB


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate from the claim's calibration."""
    calibration = claim["calibration"]
    return calibration["cell_overhead_s"] + claim["amount_mib"] / calibration["write_mib_s"]


def rates(params: Params) -> list[str]:
    """How fast it was written."""
    return ["write_bw_mib_s"]


def read(observation: JsonView) -> Outcome:
    """`write_bw_mib_s`, by dd's own clock; or why not."""
    return judge(observation, Params, lambda params: ["write"], _judge)


def _judge(params: Params, phase: PhaseResult) -> Metrics:
    check_end("dd", phase["rc"], [], phase["stderr"])
    if not (copied := COPIED.search(phase["stderr"])):
        raise BadOutput("dd does not say what it copied")
    return {"write_bw_mib_s": int(copied[1]) / MIB / float(copied[2])}
