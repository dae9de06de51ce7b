"""Flow records in one striped file: a scan that indexes them, then random reads of records, model by model.

Phase `generate` makes the file (its format: fsage.studies.netflow.host), `index` scans it in large reads, `models`
reads the records of some models, each with the block that it is in, at the offsets of the index. Work is shared out
beforehand in equal shares (synchronous), or in small ones to whichever task is ready (asynchronous). The tasks are
processes of this project's own, on several clients each under its agent. A cell is valid only if both phases found what
was generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fsage.api.model import MIB, Claim, Device, JsonView, Phase, PhaseResult, Step, kinds, tools
from fsage.api.study import BadOutput, Metrics, Outcome, Unsupported, judge, places_of, program_results, tasks
from fsage.studies.striping import striped
from fsage.studies.striping.model import Segment

from .model import CHECKSUMS, LEAST_BYTES, LENGTHS, MOST_MODELS, Assignment, Distribution, PhaseName

PHASES: tuple[PhaseName, ...] = get_args(PhaseName)
MEASURED: tuple[PhaseName, ...] = ("index", "models")
PROGRAM = "fsage.studies.netflow.host.phase"
PAGE_BYTES = 4096
RECORD_BYTES = LEAST_BYTES + (LENGTHS - 1) / 2  # on average
GENERATE_MIB_S = 400.0  # of a process's work and the cache's; what the stores take is not waited for
REMOUNT_S = 0.02  # of a store, before each phase
CELL_S = 11.0  # before a claim; three phases on 16 modelled stores


class Params(striped.Params):
    """Parameters of one cell."""

    workload: Literal["netflow"] = "netflow"
    distribution: Distribution = Field(
        default="synchronous",
        description="synchronous: work is shared out beforehand; asynchronous: a task takes the next segment "
        "when it is ready",
    )
    transfer_size: int = Field(default=MIB, gt=0, description="bytes of one read of the scan")
    segment_size: int = Field(
        default=4 * MIB, gt=0, description="bytes that a task scans at a time in asynchronous distribution"
    )
    block_size: int = Field(
        default=65536,
        gt=0,
        description="bytes of a block; no record crosses its end, and a random read is of one block",
    )
    models: int = Field(
        default=16384, ge=1, le=MOST_MODELS, description="how many models there are; their records are spread evenly"
    )
    models_read: int = Field(
        default=128, ge=1, le=MOST_MODELS, description="the records of the first so many models are read at random"
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="of the generated records")
    direct: bool = Field(default=True, description="true: O_DIRECT, past the page cache")
    tasks: int | None = Field(
        default=None,
        ge=1,
        description="processes on each client; null: the target's tasks, or one for each store where it has several",
    )


def check(params: Params, steps: Sequence[Step]) -> None:
    """Raise ValueError where the state has no layout, or sizes do not fit each other."""
    striped.check(params, steps)
    _check_multiple("block_size", params.block_size, PAGE_BYTES, "a page")
    _check_multiple("transfer_size", params.transfer_size, params.block_size, "the block_size")
    _check_multiple("segment_size", params.segment_size, params.transfer_size, "the transfer_size")
    if params.models_read > params.models:
        raise ValueError(f"models_read: {params.models_read} are more than the {params.models} models that there are")


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """Generate, index and read by model; `Unsupported` where the target has not got the state's layout.

    `ValueError` if sizes do not fit the layout.
    """
    check(params, steps)
    segments, paths = striped.opened(steps, claim)
    at_work = _at_work(params, claim)
    count = tasks(at_work)
    _check(params, segments, count)
    hosts = at_work["hosts"]
    tasks_here = at_work["tasks"]
    requested = Assignment(
        phase="generate",
        distribution="synchronous",
        seed=params.seed,
        block_bytes=params.block_size,
        transfer_bytes=params.transfer_size,
        segment_bytes=params.segment_size,
        segments=tuple(segments),
        paths=tuple(paths),
        models=params.models,
        models_read=params.models_read,
        tasks=count,
        tasks_here=tasks_here,
        direct=params.direct,
        index=places_of(claim)[0],
    )
    phases: list[Phase] = []
    for name in PHASES:
        assignment = replace(
            requested, phase=name, distribution=params.distribution if name in MEASURED else "synchronous"
        )
        phase = tools.program_phase(name, PROGRAM, assignment, reads=name in MEASURED)
        if len(hosts) > 1:
            phase["jobs"] = {host: f"{number * tasks_here}\n" for number, host in enumerate(hosts)}
            phase["asks_next"] = True
        phases.append(phase)
    return striped.controlled(params, phases, steps, claim)


def bytes_written(params: Params, claim: Claim) -> int:
    """The file, once; the index is a hundredth of it."""
    return claim["amount_mib"] * tasks(claim) * MIB


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate from the claim's calibration and device model: what the OST with most of the file has to do.

    `ValueError` for more nodes than the target has, or a state without a layout.
    """
    striped.clients(params.nodes, claim)
    try:
        layout = striped.layout(steps, claim)
    except Unsupported:
        return 0.0
    size_bytes = layout[-1].end_bytes
    calibration = claim["calibration"]
    reads = size_bytes / RECORD_BYTES * params.models_read / params.models
    around = len(PHASES) * (calibration["cell_overhead_s"] + REMOUNT_S * len(claim["stores"]))
    around += size_bytes / MIB / GENERATE_MIB_S
    around += striped.eviction_seconds(params, len(PHASES), steps, claim)
    if not kinds.kind_of(claim).own_stores:
        read_s = params.block_size / MIB / calibration["read_mib_s"]
        return around + size_bytes / MIB / calibration["read_mib_s"] + reads * read_s
    of_osts = [size for size in striped.ost_bytes(layout, claim) if size]
    random_s = max(size / size_bytes * reads * _random_s(params, claim, size) for size in of_osts)
    return around + max(of_osts) / MIB / calibration["read_mib_s"] + random_s


def rates(params: Params) -> list[str]:
    """The throughput of both phases that are measured."""
    return [f"{phase}_bw_mib_s" for phase in MEASURED]


def read(observation: JsonView) -> Outcome:
    """Of both measured phases `_bw_mib_s`, `_seconds` (first to last I/O), `_bytes`, `_records` and `_checksum`.

    Or why not. The bytes of `models` are those of its records.
    """
    layout = striped.noted(observation)
    if observation["status"] == "done" and not layout:
        return Outcome("failed", "the state has no layout of a striped file: its steps have no `stripe`")
    made: dict[str, Result] = {}

    def judge_phase(params: Params, phase: PhaseResult) -> Metrics:
        result = _result(phase)
        requested = tools.assignment_of(phase, Assignment)
        for what in ("phase", "distribution", "tasks"):
            _compare(what, getattr(result, what), getattr(requested, what), "as requested")
        if phase["name"] == "generate":
            made["file"] = result
            _compare("bytes", result.bytes, layout[-1].end_bytes, "the layout's")
            striped.check_objects(phase, striped.objects(requested.segments))
            return {}
        return _metrics(phase["name"], result, made["file"])

    return judge(observation, Params, lambda params: PHASES, judge_phase)


def _at_work(params: Params, claim: Claim) -> Claim:
    """The claim as it were with the clients and tasks of the cell."""
    each = params.tasks or (len(claim["stores"]) if len(claim["stores"]) > 1 else claim.get("tasks", 1))
    return {**claim, "hosts": striped.clients(params.nodes, claim), "tasks": each}


def _result(phase: PhaseResult) -> Result:
    """What all hosts did in a phase, by the launcher's clock."""
    return together([checked(result) for result in program_results(phase)])


def _check(params: Params, segments: Sequence[Segment], tasks: int) -> None:
    """`ValueError` unless sizes fit the layout, and there is work for every task."""
    for segment in segments:
        _check_multiple("block_size", segment.stripe_bytes, params.block_size, "the block_size, in a stripe")
    largest = params.segment_size if params.distribution == "asynchronous" else params.transfer_size
    shares = -(-segments[-1].end_bytes // largest)
    if shares < tasks or params.models_read < tasks:
        raise ValueError(
            f"tasks: {shares} times {largest} bytes of the file and {params.models_read} models are no work for "
            f"{tasks} tasks: use fewer, or another segment_size or models_read"
        )


def _check_multiple(key: str, size: int, part: int, what: str) -> None:
    if size % part:
        raise ValueError(f"{key}: {size} bytes are no multiple of {part}, {what}")


def _random_s(params: Params, claim: Claim, span_bytes: int) -> float:
    """Estimate of a random read of a block within so many bytes of a store."""
    transfer_s = params.block_size / MIB / claim["calibration"]["read_mib_s"]
    return transfer_s + Device.of_claim(claim).reach_s(span_bytes)


def _metrics(name: str, result: Result, made: Result) -> Metrics:
    if name == "index":
        _compare("bytes", result.bytes, made.bytes, "as generated")
    wanted = (made.records, made.checksum) if name == "index" else (made.read_records, made.read_checksum)
    _compare("records", result.records, wanted[0], "as generated")
    _compare("checksum", result.checksum, wanted[1], "as generated")
    return {
        f"{name}_bw_mib_s": result.bytes / MIB / result.seconds,
        f"{name}_seconds": result.seconds,
        f"{name}_bytes": result.bytes,
        f"{name}_records": result.records,
        f"{name}_checksum": result.checksum,
    }


def _compare(what: str, value: object, wanted: object, how: str) -> None:
    if value != wanted:
        raise BadOutput(f"{what} {value} is not {wanted}, {how}")


class Result(BaseModel):
    """The tasks of a host, or of several; `seconds` from the first I/O, at `began`, to the last one.

    `least_shares`: of the task that did the fewest. Of a file that was generated `records` and `checksum` are what its
    index must have, `read_records` and `read_checksum` what reading its models must give.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    phase: str
    distribution: str
    tasks: int
    shares: int
    least_shares: int
    began: float
    seconds: float
    bytes: int
    records: int
    checksum: int
    read_records: int | None = None
    read_checksum: int | None = None


def checked(result: object) -> Result:
    """The result of a phase that went right; `BadOutput` says why it did not."""
    try:
        read = Result.model_validate(result)
    except ValidationError as error:
        raise BadOutput(f"this is no result of netflow: {error.errors()[0]['msg']}") from error
    if read.least_shares < 1 or read.seconds <= 0:
        raise BadOutput(f"a task did {read.least_shares} shares in the {read.seconds} s: not all took part")
    return read


def together(results: Sequence[Result]) -> Result:
    """Hosts beside each other, on clocks that agree, as one: from the first I/O of all to the last one."""
    began = min(result.began for result in results)
    summed: dict[str, int] = {}
    for name in ("tasks", "shares", "bytes", "records", "checksum", "read_records", "read_checksum"):
        if getattr(results[0], name) is not None:
            summed[name] = sum(getattr(result, name) or 0 for result in results)
    for name in summed.keys() & {"checksum", "read_checksum"}:
        summed[name] %= CHECKSUMS
    return results[0].model_copy(
        update={
            **summed,
            "least_shares": min(result.least_shares for result in results),
            "began": began,
            "seconds": max(result.began + result.seconds for result in results) - began,
        }
    )
