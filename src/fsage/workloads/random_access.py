"""Small transfers at random places of a file that is there: each task overwrites some, then reads some, of its own.

The file is written whole first, in a phase `prepare` that gives no numbers, so that no transfer allocates. fio draws
the places, each at most once, the same in every cell. What one costs is its latency: one is under way at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from fsage.base import MIB, JsonView
from fsage.model.claim import Claim
from fsage.model.observation import PhaseResult
from fsage.model.request import Phase
from fsage.model.structure import Step
from fsage.workloads import Outcome, by_fio, shared

PREPARE = "prepare"
OTHERWISE_A_SECOND = 100.0
"""Transfers, where nothing says how many the device does: those of a disk."""


class Params(shared.CellParams):
    workload: Literal["random_access"] = "random_access"
    transfer_size: int = Field(gt=0, description="bytes of one write or read; the places are multiples of it")
    transfers: int = Field(default=256, ge=1, description="how many each task does in a phase, at different places")
    iteration: int = Field(ge=1)
    phases: shared.ReadWrite = Field(
        default=("write", "read"), description="[write], [read] or [write, read]; the file is always prepared first"
    )
    direct: bool = Field(default=True, description="true: O_DIRECT, past the page cache")


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """`prepare`, and the requested phases. Raises ValueError where the file has not so many places."""
    check_amount(params, claim["amount_mib"])
    file_bytes = claim["amount_mib"] * MIB
    same = [f"--size={file_bytes}", f"--direct={int(params.direct)}", "--ioengine=psync"]
    sync = [] if params.direct else ["--end_fsync=1"]
    whole = [*same, "--rw=write", f"--bs={MIB}", "--fallocate=none", *sync]
    phases: list[Phase] = [{**by_fio.fio_phase(claim, PREPARE, *whole), "reads": False}]
    for name in params.phases:
        options = [*same, f"--rw=rand{name}", f"--bs={params.transfer_size}"]
        options.append(f"--io_size={params.transfers * params.transfer_size}")
        options.append("--allow_file_create=0")  # fio would make a missing file, and then go over that
        if name == "write":
            options += sync
        phases.append({**by_fio.fio_phase(claim, name, *options), "reads": name == "read"})
    return phases


def check_amount(params: Params, amount_mib: int) -> None:
    """Raise ValueError where a file of so many MiB has not so many places."""
    if params.transfers * params.transfer_size > amount_mib * MIB:
        raise ValueError(
            f"transfers: {params.transfers} of {params.transfer_size} bytes at different places need a larger file "
            f"than amount_mib of the target, {amount_mib}: fewer of them, or another amount_mib"
        )


def bytes_written(params: Params, claim: Claim) -> int:
    """Bytes that one cell writes, all tasks."""
    again = params.transfers * params.transfer_size * ("write" in params.phases)
    return (claim["amount_mib"] * MIB + again) * shared.tasks(claim)


def makes_bytes(params: Params, claim: Claim) -> int:
    """Bytes that the files of one cell hold."""
    return claim["amount_mib"] * MIB * shared.tasks(claim)


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate of what one cell takes: the claim's calibration, and what the modelled device does at random."""
    calibration = claim["calibration"]
    a_second = float(claim["device_model"].get("random_iops") or OTHERWISE_A_SECOND)
    moved = len(params.phases) * params.transfers * shared.tasks(claim) / a_second
    return calibration["cell_overhead_s"] + makes_bytes(params, claim) / MIB / calibration["write_mib_s"] + moved


def rates(params: Params) -> list[str]:
    """The bandwidth of each phase."""
    return [f"{phase}_bw_mib_s" for phase in params.phases]


def read(observation: JsonView) -> Outcome:
    """`<phase>_bw_mib_s`, `<phase>_seconds`, `<phase>_bytes` and percentiles of latency; or why not."""
    return shared.judge(observation, Params, lambda params: [PREPARE, *params.phases], _judge)


def _judge(params: Params, phase: PhaseResult) -> shared.Metrics:
    moved, more = by_fio.fio_moved(phase)
    if phase["name"] == PREPARE:
        return {}
    return shared.metrics_of(phase["name"], moved, more)
