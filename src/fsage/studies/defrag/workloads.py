"""A file of the state itself, that of step `fragmented_file`, read from its beginning to its end through the cache.

Cold: what is in memory is dropped, and that verified, before each read. Warm: it is read once, and then from memory,
which is verified too. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import Field

from fsage.api.model import MIB, Claim, JsonView, Phase, PhaseResult, Step, path_of
from fsage.api.study import (
    BadOutput,
    CellParams,
    Metrics,
    Outcome,
    fio_command,
    judge,
    latencies,
    read_fio,
    steps_of,
)

from .model import FragmentedFile

NAME: Literal["file_read"] = "file_read"


class Params(CellParams):
    """Parameters of one cell: the file of the state, read as often as a sample of about a second needs."""

    workload: Literal["file_read"] = NAME
    cache: Literal["cold", "warm"] = Field(
        default="cold", description="cold: caches are dropped before each read; warm: the file was read before"
    )
    transfer_size: int = Field(gt=0, description="bytes of one read; the same for all that is compared")
    cold_reads: int = Field(
        default=1, ge=1, description="cold: how often the file is read in one cell, caches dropped before each"
    )
    warm_reads: int = Field(
        default=10, ge=1, description="warm: how often the file is read in one cell, in one process"
    )
    iteration: int = Field(ge=1)


def check(params: Params, steps: Sequence[Step]) -> None:
    """Raise ValueError where the state has no such file."""
    if FragmentedFile.among(steps) is None:
        raise ValueError("workload file_read needs a state with a fragmented file: `recipe: defrag`")


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """The phases of one cell: as many cold reads as requested; or one, and then as many warm ones in one process."""
    path = path_of([Path(claim["stores"][0]["mount"])], 1, 0)
    argv = fio_command(
        claim,
        "--name=measured",
        f"--filename={path}",
        "--readonly",
        "--allow_file_create=0",
        "--invalidate=0",  # fio would drop the file's pages itself, unasked
        "--rw=read",
        f"--bs={params.transfer_size}",
        "--direct=0",
        "--ioengine=psync",
    )
    cold: Phase = {"name": "warm_up", "argv": argv, "reads": True, "reads_files": [str(path)]}
    if params.cache == "cold":
        return [{**cold, "name": name} for name in _phases(params)]
    return [cold, {**cold, "name": "read", "argv": [*argv, f"--loops={params.warm_reads}"], "warm": True}]


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate from the claim's calibration: a cold read at least; a fragmented file takes longer."""
    calibration = claim["calibration"]
    reads = params.cold_reads if params.cache == "cold" else 1
    return reads * (calibration["cell_overhead_s"] + claim["amount_mib"] / calibration["read_mib_s"])


def rates(params: Params) -> list[str]:
    """How fast it was read."""
    return ["read_bw_mib_s"]


def read(observation: JsonView) -> Outcome:
    """`read_bw_mib_s`, `read_seconds` (by fio's own clock, all reads), `read_bytes`, and fio's percentiles of
    latency, of several reads the median; or why not.
    """
    layout = observation["layout"]
    step = FragmentedFile.among(steps_of(observation))
    if step is None:
        return Outcome("failed", "the state has no fragmented file to read: its steps have no `fragmented_file`")
    whole = step.file_bytes(layout["capacity_bytes"])
    outcome = judge(observation, Params, _phases, partial(_judge, whole))
    if outcome.status != "valid":
        return outcome
    moved = sum(value for name, value in outcome.metrics.items() if name.endswith("_bytes"))
    spent = sum(value for name, value in outcome.metrics.items() if name.endswith("_seconds"))
    bandwidth = {"read_bw_mib_s": moved / MIB / spent, "read_seconds": spent, "read_bytes": int(moved)}
    return Outcome("valid", None, {**bandwidth, **_latencies(outcome.metrics)})


def _latencies(metrics: Mapping[str, float]) -> dict[str, float]:
    """The median over the reads of each percentile of latency."""
    by_name: dict[str, list[float]] = {}
    for name, value in metrics.items():
        if "_latency_" in name:
            by_name.setdefault(f"read_latency_{name.partition('_latency_')[2]}", []).append(value)
    return {name: median(values) for name, values in by_name.items()}


def _phases(params: Params) -> list[str]:
    """The names of a cell's phases."""
    if params.cache == "cold":
        return [f"read_{number}" for number in range(1, params.cold_reads + 1)]
    return ["warm_up", "read"]


def _judge(whole_bytes: int, params: Params, phase: PhaseResult) -> Metrics:
    run = read_fio(phase)
    if run.read is None or run.write:
        raise BadOutput(f"fio did not read and nothing else: wrote {run.write}, read {run.read}")
    requested_bytes = whole_bytes // params.transfer_size * params.transfer_size * int(run.options.get("loops", 1))
    if run.read.moved_bytes != requested_bytes:
        raise BadOutput(f"moved {run.read.moved_bytes} bytes of {requested_bytes} requested")
    if int(run.options["bs"]) != params.transfer_size:
        raise BadOutput(f"ran with transfers of {run.options['bs']} bytes, the cell's are {params.transfer_size}")
    name = phase["name"]
    if name == "warm_up":
        return {}
    moved = {f"{name}_seconds": run.read.seconds, f"{name}_bytes": run.read.moved_bytes}
    return {**moved, **latencies(name, run.read)}
