"""What workloads share: which tool runs on which directories, and judging what its phases left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel, ValidationError

from fsage.agent import containers
from fsage.parse import BadOutput, fio
from fsage.workloads import Outcome

Metrics = dict[str, float | int]


# The cheapest start and end (measured): no clock calibration, threads in place of processes, no progress timer. No
# statistics of disks: it fails a run when somebody else's device goes while fio looks through sysfs.
FIO = (
    "--output-format=json",
    "--clocksource=clock_gettime",
    "--thread",
    "--eta=never",
    "--disk_util=0",
)


def tasks(claim: Mapping) -> int:
    """How many tasks run at a time."""
    return claim.get("tasks", 1)


def directories(claim: Mapping, separator: str) -> str:
    """`<mount>/measured` of all stores, joined; `ValueError` if the separator is part of a path.

    fio, IOR and mdtest all put task i on directory i mod how many there are.
    """
    places = [f"{store['mount']}/measured" for store in claim["stores"]]
    for place in places:
        if separator in place:
            raise ValueError(
                f"{place} holds {separator!r}, which separates directories on the tool's command line: "
                "declare another mount_dir for the target"
            )
    return separator.join(places)


def choose_tool(asked: str, mpi_tool: str, claim: Mapping) -> str:
    """`fio` or `mpi_tool`, as asked; `auto` is `mpi_tool` where it is installed, with mpirun, else fio.

    `ValueError` if what was asked for is not on the target's hosts.
    """
    there = [name for name, version in claim["tools"].items() if version]
    needs = {mpi_tool: {mpi_tool, "mpirun"}, "fio": {"fio"}}
    tool = asked if asked != "auto" else mpi_tool if needs[mpi_tool] <= set(there) else "fio"
    if missing := sorted(needs[tool].difference(there)):
        raise ValueError(
            f"tool: {asked} needs {' and '.join(missing)}, not found when the target was claimed (there are "
            f"{', '.join(there) or 'none'}): install it and claim again, or choose another tool"
        )
    return tool


def mpirun(claim: Mapping) -> list[str]:
    """The launcher in front of IOR and mdtest. Its output is not tagged: not every MPI knows how to."""
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(tasks(claim))]


def fio_argv(claim: Mapping, *options: str) -> list[str]:
    """A run of fio with one job per task; what a task makes is named `measured.<task>.<file>`."""
    return [
        *containers.start(claim, "fio"),
        *FIO,
        "--name=measured",
        f"--directory={directories(claim, ':')}",
        f"--numjobs={tasks(claim)}",
        "--group_reporting",
        *options,
    ]


def is_fio(argv: Sequence[str]) -> bool:
    """Whether a command runs fio, and not IOR or mdtest; launcher and container may stand before the tool."""
    return "fio" in argv


def options_of(argv: Sequence[str]) -> dict[str, str]:
    """`--key=value` words of a fio command line."""
    return dict(word[2:].split("=", 1) for word in argv if word.startswith("--") and "=" in word)


def read_fio(phase: Mapping) -> fio.FioRun:
    """What fio left of a phase, after checking that it is of this command."""
    run = fio.parse(phase["stdout"], phase["stderr"], phase["rc"])
    asked = options_of(phase["argv"])
    # fio echoes what it was given, some of it in a form of its own: these come back as they were.
    for option in ("rw", "ioengine", "directory", "size", "bs", "nrfiles", "numjobs", "direct", "loops"):
        if option in asked and run.options.get(option) != asked[option]:
            raise BadOutput(
                f"the output is not of this command: --{option} was {asked[option]}, "
                f"fio reports {run.options.get(option)}"
            )
    return run


def judge(
    observation: Mapping,
    model: type[BaseModel],
    steps: Callable[..., Sequence[str]],
    judge_phase: Callable[..., Metrics],
) -> Outcome:
    """The outcome of an observation: `judge_phase(params, phase)` of each phase that `steps(params)` names.

    An observation that failed on its host stays failed; the reason is what the tool says, if it says any.
    """
    status, why = observation["status"], observation.get("why")
    if status in ("unsupported", "spared"):  # nothing was run
        return Outcome(status, why)
    metrics: Metrics = {}
    try:
        params = model.model_validate(observation["params"])
        taken = {phase["name"]: phase for phase in observation["phases"]}
        for name in steps(params):
            if name not in taken:
                raise BadOutput(why or f"phase {name} is missing; there are {', '.join(taken) or 'none'}")
            if "rc" not in taken[name]:
                raise BadOutput(why or f"phase {name} was not run")
            try:
                metrics |= judge_phase(params, taken[name])
            except BadOutput as error:
                raise BadOutput(f"{name}: {error}") from error
    except BadOutput as error:
        return Outcome("failed", str(error))
    except ValidationError as error:
        return Outcome("failed", f"these are no parameters of the workload: {error}")
    except KeyError as error:
        return Outcome("failed", f"the observation is not whole: it lacks {error}")
    if status != "done":
        return Outcome("failed", why or f"the observation's status is {status!r}")
    return Outcome("valid", None, metrics)
