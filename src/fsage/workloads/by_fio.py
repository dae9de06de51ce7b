"""A workload that runs nothing but fio: its functions, made from the options of each phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fsage.base import MIB, JsonView
from fsage.model.claim import Claim
from fsage.model.observation import PhaseResult
from fsage.model.request import Phase
from fsage.model.structure import Step
from fsage.workloads import Outcome, shared

Options = Callable[[Any, str], list[str]]
"""The options of fio for (params, phase)."""


class ByFio(NamedTuple):
    """What a workload offers (fsage.workloads)."""

    commands: Callable[..., list[Phase]]
    rates: Callable[[Any], list[str]]
    read: Callable[[JsonView], Outcome]
    seconds: Callable[..., float]
    bytes_written: Callable[[Any, Claim], int]


def fio_workload(params: type[shared.CellParams], phases: Sequence[str], options: Options) -> ByFio:
    """The functions of a workload whose `phases` are each a run of fio.

    Each task writes or reads all of a file of the target's amount, past the page cache. `options(params, phase)` says
    in which way: `--rw=` and `--bs=`, and what else fio takes. The metrics are those of `metrics_of`, percentiles of
    latency, and of several clients `<phase>_start_spread_ms`.
    """

    def commands(given: Any, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
        return [_phase(claim, name, options(given, name)) for name in phases]

    def rates(given: Any) -> list[str]:
        return [f"{name}_bw_mib_s" for name in phases]

    def seconds(given: Any, claim: Claim, steps: Sequence[Step] = ()) -> float:
        calibration = claim["calibration"]
        mib = claim["amount_mib"] * shared.tasks(claim)
        each = [mib / calibration["read_mib_s" if _reads(options(given, name)) else "write_mib_s"] for name in phases]
        return float(calibration["cell_overhead_s"] + sum(each))

    def bytes_written(given: Any, claim: Claim) -> int:
        writing = [name for name in phases if not _reads(options(given, name))]
        return len(writing) * claim["amount_mib"] * shared.tasks(claim) * MIB

    def read(observation: JsonView) -> Outcome:
        return shared.judge(observation, params, lambda given: phases, _judge)

    return ByFio(commands, rates, read, seconds, bytes_written)


def _phase(claim: Claim, name: str, options: list[str]) -> Phase:
    usual = [f"--size={claim['amount_mib'] * MIB}", "--direct=1", "--ioengine=psync"]
    phase = shared.fio_phase(claim, name, *options, *usual)
    return {**phase, "reads": _reads(options)}


def _reads(options: list[str]) -> bool:
    """Whether fio reads."""
    return any(f"--rw={name}" in options for name in shared.READING)


def _judge(params: object, phase: PhaseResult) -> shared.Metrics:
    return shared.metrics_of(phase["name"], *shared.fio_moved(phase, ": is that a multiple of --bs?"))
