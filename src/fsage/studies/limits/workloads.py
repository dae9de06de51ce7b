"""What can still be had: an inode, a block of a directory or tree, 2, 32 and 256 MiB in one piece. Nothing is timed.

All is tried in the layout as it is, and again and again while a file grows until nothing is left. The record has for
each when it first fails: how full the file system is then, how much is free for users, and the error's number.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from fsage.base import MIB, Json, JsonView, typed
from fsage.model.claim import Claim
from fsage.model.observation import PhaseResult
from fsage.model.request import Phase
from fsage.model.structure import BLOCK_BYTES, Step
from fsage.parse import BadOutput
from fsage.studies.limits.model import PROBES, Assignment
from fsage.workloads import Outcome, shared

TASK = "limits.json"
PHASE = "limits"
CELL_S = 20.0


class Params(shared.Params):
    """Parameters of one cell."""

    workload: Literal["limits"] = "limits"
    looks: int = Field(default=64, ge=2, le=1000, description="how often all is tried until nothing is left")
    request_size: int = Field(
        default=MIB, ge=BLOCK_BYTES, description="bytes of one request of the file that uses up what is free"
    )
    iteration: int = Field(ge=1)


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """The one phase, on the first store."""
    assignment = Assignment(shared.places_of(claim)[0], params.looks, params.request_size)
    task = json.dumps(typed.to_json(assignment), sort_keys=True)
    argv = ["env", "PYTHONPATH={agent}", "{python}", "-S", "-m", "fsage.studies.limits.host", f"{{files}}/{TASK}"]
    return [{"name": PHASE, "argv": argv, "files": {TASK: task}, "reads": True}]


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate of what one cell takes."""
    return CELL_S * params.looks / 64


def rates(params: Params) -> list[str]:
    """None: nothing is timed."""
    return []


def read(observation: JsonView) -> Outcome:
    """When each that was tried first failed; or why nothing is known."""
    return shared.judge(observation, Params, lambda params: [PHASE], _judge)


def _judge(params: Params, phase: PhaseResult) -> shared.Metrics:
    if phase["rc"] != 0:
        raise BadOutput(phase["stderr"].strip().rpartition("\n")[2] or f"it ended with code {phase['rc']}")
    looks: list[Json] = json.loads(phase["stdout"])
    metrics: shared.Metrics = {"from_full_percent": looks[0]["full_percent"], "looks": len(looks)}
    for name in PROBES:
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
