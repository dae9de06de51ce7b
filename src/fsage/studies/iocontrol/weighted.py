"""What workloads of groups that share a device by weight share: the patterns, the schedulers, how a reader is counted.

The patterns are those of Park and Eom, File Fragmentation from the Perspective of I/O Control. They are a group's
weight, and whether it reads the fragmented file or a contiguous one (step `contended_files`). What each group read, and
in how many I/Os, is what the kernel counted for its control group over the same span of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pydantic import Field

from fsage.api.model import MIB, Claim, Json, JsonView, Phase, PhaseResult, Step, kinds, path_of
from fsage.api.study import BadOutput, CellParams, Metrics, Unsupported, fio_command

from . import model as iocontrol
from .model import KIB

COST_SHARE = 0.6  # a model above this share of the device would measure the device's own noise
LEAST_IOS = 20  # of a group in a sample: fewer tell no share
RUN_ON_S = 3600  # a reader is stopped before


class Reader(NamedTuple):
    """What a group does in a pattern: `file` is one of step `contended_files`."""

    weight: int
    file: int


FRAGMENTED = iocontrol.IN_PIECES
WHOLE = iocontrol.WHOLE
SECOND = Reader(100, iocontrol.OTHER_WHOLE)
PATTERNS: dict[str, dict[str, Reader]] = {
    "P1": {"2": SECOND},
    "P2": {"1": Reader(100, WHOLE), "2": SECOND},
    "P3": {"1": Reader(200, WHOLE), "2": SECOND},
    "P4": {"1": Reader(100, FRAGMENTED), "2": SECOND},
    "P5": {"1": Reader(200, FRAGMENTED), "2": SECOND},
    "P6": {"1": Reader(100, FRAGMENTED)},
}
QUEUES = {"bfq": "bfq", "cfq": "cfq", "iocost": "none", "none": "none"}
"""What stands in the device's queue/scheduler; IOCost is a controller above it."""


class Params(CellParams):
    """Parameters that the workloads of two groups share."""

    pattern: Literal["P1", "P2", "P3", "P4", "P5", "P6"] = Field(
        description="what the groups read. P1: group 2 alone; P2: both, equal weights; P3: both, 2:1; "
        "P4, P5: as P2, P3, group 1 reads the fragmented file; P6: that group alone"
    )
    scheduler: Literal["bfq", "iocost", "none", "cfq"] = Field(
        description="what shares the device: bfq, iocost, cfq, or none as control"
    )
    cgroup: Literal["v2", "v1"] = Field(default="v2", description="version of control groups")
    settle_s: float = Field(
        default=0.5, ge=0, le=60, description="seconds from the start of both groups to the start of the count"
    )
    seconds: float = Field(default=1.0, ge=0.5, le=600, description="seconds that are counted")
    cost_bytes_per_s: int = Field(
        default=200_000_000,
        gt=0,
        description="IOCost: bytes a second; the device must read at least 1.67 times as much",
    )
    cost_sequential_iops: int = Field(default=10_000, gt=0, description="IOCost: sequential I/Os a second")
    cost_random_iops: int = Field(default=5_000, gt=0, description="IOCost: random I/Os a second")
    iteration: int = Field(ge=1)


def file_of(claim: Claim, generation: int, file: int) -> Path:
    """A file of the state."""
    return path_of([Path(claim["stores"][0]["mount"])], generation, file)


def files_among(steps: Sequence[Step]) -> iocontrol.ContendedFiles:
    """The step that made what groups read. Raises ValueError where a state has none."""
    made = iocontrol.ContendedFiles.among(steps)
    if made is None:
        raise ValueError(
            "the patterns read files that `recipe: iocontrol` and `recipe: f2fs` make, and this state has none"
        )
    return made


def fio(claim: Claim, name: str, file: int, options: Sequence[str]) -> list[str]:
    """The command that reads a file of step `contended_files` past the cache until it is stopped."""
    return fio_command(
        claim,
        f"--name=group{name}",
        f"--filename={file_of(claim, 1, file)}",
        "--readonly",
        "--allow_file_create=0",
        "--direct=1",
        "--ioengine=libaio",
        "--time_based",
        f"--runtime={RUN_ON_S}",
        *options,
    )


def phase(params: Params, claim: Claim, runs: Mapping[str, Json]) -> Phase:
    """The one phase of a cell; `runs`: each group's `argv` or `query`. Raises Unsupported for what can never be."""
    _check(params, claim)
    groups: list[Json] = []
    for name, reader in PATTERNS[params.pattern].items():
        groups.append({"name": name, "weight": reader.weight, "file": reader.file, **runs[name]})
    shares: Any = {
        "queue": QUEUES[params.scheduler],
        "cgroup": params.cgroup,
        "cost": _cost(params, claim) if params.scheduler == "iocost" else None,
        "settle_s": params.settle_s,
        "seconds": params.seconds,
        "groups": groups,
    }
    argv: list[str] = next((group["argv"] for group in groups if "argv" in group), [])
    return {"name": "share", "argv": argv, "reads": True, "io_groups": shares}


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Both spans, and what a cell costs beside."""
    return params.settle_s + params.seconds + float(claim["calibration"]["cell_overhead_s"]) + 0.5


def rates(params: Params) -> list[str]:
    """What each group read."""
    return [f"group{name}_bw_mib_s" for name in PATTERNS[params.pattern]]


def measured(params: Params, phase: PhaseResult, took_s: Mapping[str, float] = MappingProxyType({})) -> Metrics:
    """`share_seconds`, the metrics of each group, and `bw_ratio` of two; `took_s`: of a group, not of the whole phase.

    Raises BadOutput.
    """
    groups = found(params, phase)
    metrics: Metrics = {"share_seconds": phase["shared_s"]}
    for name, group in groups.items():
        metrics |= _of_group(name, group, took_s.get(name, phase["shared_s"]))
    if len(groups) == 2:
        metrics["bw_ratio"] = metrics["group1_bw_mib_s"] / metrics["group2_bw_mib_s"]
    return metrics


def found(params: Params, phase: PhaseResult) -> Json:
    """The groups of a phase by name. Raises BadOutput where it failed, or they are not those of the pattern."""
    if phase["rc"] != 0:
        raise BadOutput(phase["stderr"].strip() or f"exit code {phase['rc']}")
    by_name = {group["name"]: group for group in phase["groups"]}
    if {name: Reader(group["weight"], group["file"]) for name, group in by_name.items()} != PATTERNS[params.pattern]:
        raise BadOutput(f"the groups are not those of pattern {params.pattern}: {', '.join(by_name) or 'none'}")
    return by_name


def _of_group(name: str, group: JsonView, seconds: float) -> Metrics:
    """`_bw_mib_s`, `_ios` (a count) and `_io_kib` (mean size) of one group. Raises BadOutput for too few I/Os."""
    if group["ios"] < LEAST_IOS:
        raise BadOutput(f"group {name} read {group['ios']} times in {seconds:.2f} s; {LEAST_IOS} tell a share")
    return {
        f"group{name}_bw_mib_s": group["read_bytes"] / MIB / seconds,
        f"group{name}_ios": group["ios"],
        f"group{name}_io_kib": group["read_bytes"] / KIB / group["ios"],
    }


def _check(params: Params, claim: Claim) -> None:
    """Raise Unsupported for what this target can never do."""
    if not kinds.kind_of(claim).own_stores:
        raise Unsupported(f"a target of kind {claim['kind']} has no device of its own whose scheduler could be set")
    if claim.get("device_model", {}).get("kind") == "iocost":
        raise Unsupported(
            "the target's device model is IOCost, which shares the device by itself; take a target without (inventory "
            "bare)"
        )
    if params.cgroup == "v1" and params.scheduler not in ("bfq", "cfq"):
        if params.scheduler == "iocost":
            why = "IOCost is of cgroup v2 alone"
        else:
            why = "only BFQ and CFQ count there"
        raise Unsupported(f"cgroup v1 has no shares or counts of scheduler {params.scheduler}: {why}")


def _cost(params: Params, claim: Claim) -> Json:
    most = COST_SHARE * claim["calibration"]["read_mib_s"] * MIB
    return {
        "bytes_per_s": int(min(params.cost_bytes_per_s, most)),
        "sequential_iops": params.cost_sequential_iops,
        "random_iops": params.cost_random_iops,
    }
