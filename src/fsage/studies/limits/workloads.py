"""What can still be had: an inode, a block of a directory or tree, 2, 32 and 256 MiB in one piece. Nothing is timed.

All is tried in the layout as it is, and again and again while a file grows until nothing is left. The record has for
each when it first fails: how full the file system is then, how much is free for users, and the error's number.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from fsage.api.model import BLOCK_BYTES, MIB, Claim, Json, JsonView, Phase, PhaseResult, Step, tools
from fsage.api.study import CellParams, Metrics, Outcome, judge, places_of, program_results

from .model import WORDS, Assignment

PHASE = "limits"
CELL_S = 20.0


class Params(CellParams):
    """Parameters of one cell."""

    workload: Literal["limits"] = "limits"
    looks: int = Field(default=64, ge=2, le=1000, description="how often all is tried until nothing is left")
    request_size: int = Field(
        default=MIB, ge=BLOCK_BYTES, description="bytes of one request of the file that uses up what is free"
    )
    iteration: int = Field(ge=1)


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """The one phase, on the first store."""
    assignment = Assignment(places_of(claim)[0], params.looks, params.request_size)
    return [tools.program_phase(PHASE, "fsage.studies.limits.host", assignment)]


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate of what one cell takes."""
    return CELL_S * params.looks / 64


def rates(params: Params) -> list[str]:
    """None: nothing is timed."""
    return []


def read(observation: JsonView) -> Outcome:
    """When each that was tried first failed; or why nothing is known."""
    return judge(observation, Params, lambda params: [PHASE], _judge)


def _judge(params: Params, phase: PhaseResult) -> Metrics:
    looks: list[Json] = program_results(phase)[0]
    metrics: Metrics = {"from_full_percent": looks[0]["full_percent"], "looks": len(looks)}
    for name in WORDS:
        failed = next((seen for seen in looks if seen["had"][name] != 1), None)
        if failed is None:
            continue
        had = failed["had"][name]
        metrics |= {
            f"{name}_fails_at_percent": failed["full_percent"],
            f"{name}_fails_free_mib": failed["free_bytes"] / MIB,
        }
        if isinstance(had, int):
            metrics[f"{name}_fails_pieces"] = had
        else:
            metrics[f"{name}_fails_errno"] = getattr(errno, had, 0)
    return metrics
