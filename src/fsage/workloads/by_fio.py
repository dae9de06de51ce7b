"""A workload that runs nothing but fio: its functions, made from the options of each phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fsage.model import MIB
from fsage.model.claim import Claim
from fsage.model.observation import PhaseResult
from fsage.model.request import Phase
from fsage.model.structure import Step
from fsage.model.typed import JsonView
from fsage.parse import BadOutput
from fsage.workloads import Outcome, shared

Options = Callable[[Any, Claim, str], list[str]]
"""The options of fio for (params, claim, phase)."""


class ByFio(NamedTuple):
    """What a workload offers (fsage.workloads)."""

    commands: Callable[..., list[Phase]]
    rates: Callable[[Any], list[str]]
    read: Callable[[JsonView], Outcome]
    seconds: Callable[..., float]
    bytes_written: Callable[[Any, Claim], int]


def fio_workload(params: type[shared.CellParams], phases: Sequence[str], options: Options) -> ByFio:
    """The functions of a workload whose `phases` are each a run of fio.

    Each task writes or reads all of a file of the target's amount, past the page cache. `options(params, claim, phase)`
    says in which way: `--rw=` and `--bs=`, and what else fio takes. The metrics are `<phase>_bw_mib_s`, `_seconds`,
    `_bytes` and percentiles of latency.
    """

    def commands(given: Any, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
        return [_phase(claim, name, options(given, claim, name)) for name in phases]

    def rates(given: Any) -> list[str]:
        return [f"{name}_bw_mib_s" for name in phases]

    def read(observation: JsonView) -> Outcome:
        return shared.judge(observation, params, lambda given: phases, _judge)

    return ByFio(commands, rates, read, partial(_seconds, commands), partial(_bytes_written, commands))


def _phase(claim: Claim, name: str, options: list[str]) -> Phase:
    usual = [f"--size={claim['amount_mib'] * MIB}", "--direct=1", "--ioengine=psync"]
    phase = shared.fio_phase(claim, name, *options, *usual)
    return {**phase, "reads": _reads(shared.options_of(phase["argv"], phase.get("jobs", {})))}


def _reads(requested: Mapping[str, str]) -> bool:
    """Whether fio reads: --rw=read, --rw=randread."""
    return requested.get("rw", "").endswith("read")


def _seconds(commands: Callable[..., list[Phase]], params: Any, claim: Claim, steps: Sequence[Step] = ()) -> float:
    calibration = claim["calibration"]
    seconds: float = calibration["cell_overhead_s"]
    for phase in commands(params, claim):
        rate = calibration["read_mib_s" if phase["reads"] else "write_mib_s"]
        seconds += claim["amount_mib"] * shared.tasks(claim) / rate
    return seconds


def _bytes_written(commands: Callable[..., list[Phase]], params: Any, claim: Claim) -> int:
    writing = [phase for phase in commands(params, claim) if not phase["reads"]]
    return len(writing) * claim["amount_mib"] * shared.tasks(claim) * MIB


def _judge(params: object, phase: PhaseResult) -> shared.Metrics:
    name = phase["name"]
    run = shared.read_fio(phase)
    requested = shared.requested_of(phase)
    moved, other = (run.read, run.write) if _reads(requested) else (run.write, run.read)
    if moved is None or other:
        raise BadOutput(f"fio was to do one thing: it wrote {run.write}, and read {run.read}")
    requested_bytes = int(requested["size"]) * shared.fio_tasks(phase)
    if moved.moved_bytes != requested_bytes:
        raise BadOutput(f"moved {moved.moved_bytes} bytes of {requested_bytes} requested: is that a multiple of --bs?")
    return {
        f"{name}_bw_mib_s": moved.bw_mib_s,
        f"{name}_seconds": moved.seconds,
        f"{name}_bytes": moved.moved_bytes,
        **shared.latencies(name, moved),
    }
