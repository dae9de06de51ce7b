"""One call of the allocator, timed: `fallocate` of a size, cold or warm; or `unlink` of a file in so many extents.

Umount and mount before and after it are timed too. `cold`: the allocator has nothing in memory, which the device's
reads show. `warm`: it has every bitmap (ext4), so that its choice repeats. A call that takes longer than `limit_s` is
left behind and ended by shutting the file system down. That is a result too, with the processor time that it took.

In a guest nothing is timed. What is counted are results: where the file lies, the error, what stays free, and what the
device and the allocator count, as far as its kernel does.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from functools import partial
from typing import Literal

from pydantic import Field, model_validator

from fsage.api.model import (
    BLOCK_BYTES,
    Claim,
    Device,
    Json,
    JsonView,
    Phase,
    PhaseResult,
    Step,
    filesystems,
    kinds,
    tools,
)
from fsage.api.study import (
    BadOutput,
    CellParams,
    Metrics,
    Outcome,
    Unsupported,
    counts_in_guests,
    judge,
    places_of,
    program_results,
)

from .model import Assignment, Operation

EXTENTS_A_S = 100_000.0
CELL_S = 1.0  # before a claim
AFTER = "umount"
"""The phase before which the file system is unmounted as the call left it, and mounted again."""
MOUNTING = ("umount_ms", "umount_cpu_ms", "mount_ms", "mount_cpu_ms")
SUMS = {
    "groups_considered": "_groups_considered",
    "groups_scanned": "groups_scanned",
    "free_extents_scanned": "extents_scanned",
    "buddies_made": "buddies_generated",
    "tree_lookups": "_lookups",
    "tree_compares": "_compares",
}
"""Metric -> the end of the counters' names that it sums up."""


class Params(CellParams):
    """Parameters of one cell: either `request_size` or `extents`."""

    workload: Literal["allocator"] = "allocator"
    request_size: int | None = Field(
        default=None, ge=BLOCK_BYTES, description="bytes of one `fallocate`; null: `unlink` is timed"
    )
    extents: int | None = Field(
        default=None, ge=1, le=1_000_000, description="extents, of one block each, of the file that is unlinked"
    )
    until_full: bool = Field(
        default=False, description="true: call after call until nothing is left, or one does not end"
    )
    cache: Literal["cold", "warm"] = Field(default="cold", description="what the allocator has in memory")
    mb_optimize_scan: Literal[0, 1] | None = Field(
        default=None, description="ext4's mount option of this name; null: the kernel's own choice"
    )
    limit_s: int = Field(default=60, ge=1, le=3600, description="time limit of one call")
    iteration: int = Field(ge=1)

    @model_validator(mode="after")
    def _one_call(self) -> Params:
        if (self.request_size is None) == (self.extents is None):
            raise ValueError("give either request_size, for fallocate, or extents, for unlink")
        if self.until_full and self.request_size is None:
            raise ValueError("until_full wants a request_size")
        return self

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What is called, in order; the last one is timed."""
        if self.extents is not None:
            return "make", "unlink"
        return ("fill" if self.until_full else "fallocate",)

    @property
    def options(self) -> str:
        """The mount options that it wants beside."""
        if self.mb_optimize_scan is None:
            return ""
        return f"mb_optimize_scan={self.mb_optimize_scan}"


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """A phase a call, and a last one that does nothing. Raises Unsupported."""
    if not kinds.kind_of(claim).own_stores:
        raise Unsupported(f"a target of kind {claim['kind']} is not mounted by fsage, so its allocator cannot be cold")
    system = filesystems.named(claim["stores"][0]["filesystem"] or "")
    if params.options and params.options.partition("=")[0] not in system.allocator_options:
        raise Unsupported(f"{system.title} has no mount option {params.options}")
    # Where not all can be read after a mount, the same call is made once before, and what it got is given back.
    before: tuple[Operation, ...] = ("warm_up",) if params.cache == "warm" and not system.loads_all else ()
    phases: list[Phase] = []
    for operation in (*before, *params.operations):
        assignment = Assignment(
            operation, places_of(claim)[0], params.request_size or 0, params.extents or 0, float(params.limit_s)
        )
        program = "fsage.studies.allocator.host"
        phase = tools.program_phase(operation, program, assignment, reads=not Device.of_claim(claim).in_guests)
        reset: Literal["cold", "warm", "kept"] = params.cache
        if before:
            reset = "kept" if operation == params.operations[-1] else "cold"
        phases.append({**phase, "as_root": True, "allocator": reset})
    phases.append({"name": AFTER, "argv": ["true"], "reads": True, "allocator": "cold"})
    if params.options:
        return [{**phase, "mount_options": params.options} for phase in phases]
    return phases


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate of what one cell takes: what a cell costs, and making a file in pieces."""
    return claim["calibration"]["cell_overhead_s"] + 3 * (params.extents or 0) / EXTENTS_A_S


def rates(params: Params) -> list[str]:
    """Calls a second, so that a longer call is a lower rate."""
    return [f"{params.operations[-1]}_per_s"]


def read(observation: JsonView) -> Outcome:
    """`<call>_ms`, `<call>_cpu_ms`, `<call>_unended`, umount and mount, what the allocator counted; or why not.

    Of several calls, until the target is full, the slowest one's.
    """
    system = filesystems.get(observation.get("conditions", {}).get("filesystem"))
    lazy = system is not None and not system.reads_at_mount
    judge_phase = partial(_judge, lazy, counts_in_guests(observation))
    return judge(observation, Params, lambda params: [*params.operations, AFTER], judge_phase)


def _judge(lazy: bool, counted: bool, params: Params, phase: PhaseResult) -> Metrics:
    """`counted`: nothing is timed, and a call that is refused is a result."""
    name = phase["name"]
    if name == AFTER and counted:
        return {}
    if name == AFTER:
        mounting: JsonView = phase["mounting"]
        return {name: 1e3 * mounting[f"{name.removesuffix('_ms')}_s"] for name in MOUNTING}
    result: Json = program_results(phase)[0]
    call = max(result["calls"], key=lambda call: call.get("seconds", 0.0))
    unended = call.get("unended", False)
    if name == "make":
        if call.get("extents") != params.extents:
            made = call.get("extents", "no")
            raise BadOutput(f"the file has {made} extents, {params.extents} were to be made: {call.get('error')}")
        return {}
    metrics = _counted(phase["counters"])
    if counted:
        last: str | None = result["calls"][-1].get("error")
        metrics |= {f"{name}_errno": getattr(errno, last or "", 0), f"{name}_unended": int(unended)}
        metrics |= phase.get("left", {})
    elif name != "fill" and call.get("error"):
        raise BadOutput(f"{name} was refused: {call['error']}")
    else:
        metrics |= _timed(name, call, phase["counters"]["processor"])
    if name == "fill":
        metrics |= {"calls": result["count"], "given_bytes": result["bytes"]}
    if lazy and params.cache == "cold" and metrics.get("device_reads") == 0:
        raise BadOutput("the device was not read: what the allocator needs was in memory, so it was not cold")
    return metrics


def _timed(name: str, call: Json, processor: Json) -> Metrics:
    metrics: Metrics = {
        f"{name}_ms": 1e3 * call["seconds"],
        f"{name}_cpu_ms": 1e3 * call["cpu_s"],
        f"{name}_per_s": 1 / call["seconds"],
        f"{name}_unended": int(call.get("unended", False)),
    }
    if processor["kernel_threads_s"] is not None:
        metrics["kernel_threads_ms"] = 1e3 * processor["kernel_threads_s"]
    if call.get("freed_s"):
        metrics["freed_ms"] = 1e3 * call["freed_s"]
    return metrics


def _counted(counters: Json) -> Metrics:
    """What the device and the allocator of the one store counted, where they count."""
    metrics: Metrics = {}
    device = counters["device"][0]
    allocator = counters["allocator"][0]
    if "counts" in device:
        metrics |= {"device_reads": device["counts"].get("reads", 0)}
        metrics |= {"device_read_bytes": device["counts"].get("read_bytes", 0)}
    counts = allocator.get("counts", {})
    for metric, end in SUMS.items():
        values = [count for name, count in counts.items() if name == end or (end[0] == "_" and name.endswith(end))]
        if values:
            metrics[metric] = sum(values)
    return metrics
