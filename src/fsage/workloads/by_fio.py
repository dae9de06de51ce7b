"""Phases that run fio, and a workload that runs nothing else: its functions, made from the options of each phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fsage.base import MIB, JsonView
from fsage.model import tools
from fsage.model.claim import Claim
from fsage.model.observation import PhaseResult
from fsage.model.request import Phase
from fsage.model.structure import Step
from fsage.parse import BadOutput, fio
from fsage.workloads import Outcome, shared

READING = ("read", "randread")
"""Ways of fio in which a phase reads."""
# The cheapest start and end (measured): no clock calibration, threads in place of processes, no progress timer. No
# statistics of disks: it fails a run when somebody else's device goes while fio looks through sysfs.
FRONT = ("--output-format=json", "--eta=never")
FIO = (*FRONT, "--clocksource=clock_gettime", "--thread", "--disk_util=0")

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
    phase = fio_phase(claim, name, *options, *usual)
    return {**phase, "reads": _reads(options)}


def _reads(options: list[str]) -> bool:
    """Whether fio reads."""
    return any(f"--rw={name}" in options for name in READING)


def _judge(params: object, phase: PhaseResult) -> shared.Metrics:
    return shared.metrics_of(phase["name"], *fio_moved(phase, ": is that a multiple of --bs?"))


def fio_command(claim: Claim, *options: str) -> list[str]:
    """The command of one fio on the launcher's host, which prints what it did as JSON. Raises ValueError."""
    odd = next((option for option in options if option.startswith("--filename=") and ":" in option), None)
    if odd:
        path = odd.partition("=")[2]
        raise ValueError(
            f"{path} holds ':', which separates files on fio's command line: declare another mount_dir for the target"
        )
    return [*tools.tool_command(claim, "fio"), *FIO, *options]


def fio_phase(claim: Claim, name: str, *options: str, below: str = "", job: str = "measured") -> Phase:
    """A phase that runs fio with one job per task; what a task makes is named `<job>.<task>.<file>`.

    It lies in `<mount>/measured`, or in the folder `below` it.

    On several clients each runs a fio of its own, which reads its job from standard input, all beginning together
    (fsage.host.remote); files are then named `<job>.<host>.<task>.<file>`.
    """
    options = (
        f"--directory={shared.directories(claim, ':', below)}",
        f"--numjobs={claim.get('tasks', 1)}",
        "--group_reporting",
        *options,
    )
    names = shared.hosts(claim)
    if len(names) < 2:
        return {"name": name, "argv": fio_command(claim, f"--name={job}", *options)}
    lines = [word.removeprefix("--") for word in (*FIO[len(FRONT) :], *options)]
    jobs = {host: "\n".join([f"[{job}.{host}]", *lines, ""]) for host in names}
    return {"name": name, "argv": [*tools.tool_command(claim, "fio"), *FRONT, "-"], "jobs": jobs}


def is_fio(argv: Sequence[str]) -> bool:
    """Whether a command runs fio, and not IOR or mdtest; launcher and container may stand before the tool."""
    return "fio" in argv


def options_of(argv: Sequence[str], jobs: Mapping[str, str]) -> dict[str, str]:
    """`key=value` options that all jobs of fio have, by its command and what it reads on several clients (`jobs`)."""
    words = [word.removeprefix("--") for word in argv if word.startswith("--")]
    for job in jobs.values():
        words += job.splitlines()
    given = {word for word in words if "=" in word}
    several = Counter(word.partition("=")[0] for word in given)
    return dict(word.split("=", 1) for word in given if several[word.partition("=")[0]] == 1)


def requested_of(phase: PhaseResult) -> dict[str, str]:
    """The options of a phase of fio, on several clients those of each."""
    return options_of(phase["argv"], phase.get("jobs", {}))


def fio_tasks(phase: PhaseResult) -> int:
    """How many tasks a phase of fio has, on all clients."""
    return int(requested_of(phase).get("numjobs", 1)) * len(phase.get("jobs", ["alone"]))


def read_fio(phase: PhaseResult) -> fio.FioRun:
    """What fio left of a phase, of all clients together, after checking that it is of this command."""

    def on_host(name: str, answer: JsonView) -> fio.FioRun:
        """What one host's fio left, its times by the launcher's clock."""
        run = _run_of(answer, options_of(phase["argv"], {name: phase["jobs"][name]}))
        if run.jobs != (phase["jobs"][name].partition("\n")[0][1:-1],):
            raise BadOutput(f"the output is of another host's job: {', '.join(run.jobs)}")
        return replace(run, began=shared.began_here(phase, name, run.began, run.span_seconds))

    if "jobs" not in phase:
        return _run_of(phase, requested_of(phase))
    return fio.together(shared.of_hosts(phase, on_host))


def fio_moved(phase: PhaseResult, hint: str = "") -> tuple[fio.FioTransfer, shared.Metrics]:
    """What a phase of fio moved; and its percentiles of latency, and how far apart several clients began.

    `BadOutput`, with the `hint`, unless that is what its command requested, in one direction.
    """
    run = read_fio(phase)
    requested = requested_of(phase)
    moved, other = run.write, run.read
    if requested["rw"] in READING:
        moved, other = other, moved
    if moved is None or other:
        raise BadOutput(f"fio did not {requested['rw']} and nothing else: wrote {run.write}, read {run.read}")
    file_bytes = int(requested.get("io_size", requested["size"]))
    requested_bytes = file_bytes * int(requested.get("loops", 1)) * fio_tasks(phase)
    if moved.moved_bytes != requested_bytes:
        raise BadOutput(f"moved {moved.moved_bytes} bytes of {requested_bytes} requested{hint}")
    return moved, {**start_spread(phase, run), **latencies(phase["name"], moved)}


def start_spread(phase: PhaseResult, run: fio.FioRun) -> shared.Metrics:
    """`<phase>_start_spread_ms`, where several clients began: how long after the first one the last one did."""
    if "jobs" in phase:
        return {f"{phase['name']}_start_spread_ms": 1000 * run.start_spread_s}
    return {}


def latencies(name: str, moved: fio.FioTransfer) -> shared.Metrics:
    """`<phase>_latency_p50_ms`, `_p99_ms` and `_p99_9_ms`: those that fio gives of what a phase moved."""
    return {f"{name}_latency_{percentile}_ms": value for percentile, value in moved.latency_ms.items()}


def _run_of(phase: JsonView, requested: Mapping[str, str]) -> fio.FioRun:
    run = fio.parse(phase["stdout"], phase["stderr"], phase["rc"])
    # fio echoes what it was given, some of it in a form of its own: these come back as they were.
    for option in ("rw", "ioengine", "directory", "size", "bs", "nrfiles", "numjobs", "direct", "loops"):
        if option in requested and run.options.get(option) != requested[option]:
            raise BadOutput(
                f"the output is not of this command: --{option} was {requested[option]}, "
                f"fio reports {run.options.get(option)}"
            )
    return run
