"""What workloads share: which tool runs on which directories, and judging what its phases left."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from fsage.base import Json, JsonView
from fsage.model import device, limits
from fsage.model.claim import Claim
from fsage.model.observation import CommandResult, PhaseResult
from fsage.model.structure import Step, read_all
from fsage.parse import VERSION, BadOutput, Transfer, printed_version, program_result
from fsage.text.strict import Spelled
from fsage.workloads import Outcome

Metrics = dict[str, float | int]


class CellParams(BaseModel):
    """Parameters of one cell: each is named and of its type, and none changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kernel: Annotated[str, Spelled(r"\d[\w.+-]*", "a release of Linux, such as 6.12")] | None = Field(
        default=None,
        description="release of Linux, or its beginning (6.12), that runs as a program; null: the target's own",
    )
    mount: Annotated[str, Spelled(r"[a-z][\w=.,-]*", "a list of options, such as nodelalloc,noatime")] | None = Field(
        default=None,
        description="mount options beside the usual ones, e.g. mb_optimize_scan=0; defaults: none; null: none",
    )

    @model_serializer(mode="wrap")
    def _as_named(self, written: SerializerFunctionWrapHandler) -> Json:
        """Where neither is named, nothing is said of them."""
        said = written(self)
        return {key: value for key, value in said.items() if value is not None or key not in ("kernel", "mount")}


def _in_order(phases: tuple[str, ...]) -> tuple[str, ...]:
    if phases not in (("write",), ("read",), ("write", "read")):
        raise ValueError(f"phases {list(phases)}: allowed are [write], [read] and [write, read]")
    return phases


ReadWrite = Annotated[tuple[Literal["write", "read"], ...], AfterValidator(_in_order)]
"""The phases of a cell that writes, reads, or both."""
Run = TypeVar("Run")


CLOCK_STEP_S = 1.0  # a clock that is off by more was set; what pulls it slowly is much slower
MPI_PROGRAM = {"openmpi": "mpirun", "mpich": "mpirun", "srun": "srun"}


def hosts(claim: Claim) -> list[str]:
    """Names of the clients that measure together; none: the launcher alone."""
    return claim.get("hosts", [])


def tasks(claim: Claim) -> int:
    """How many tasks run at a time, on all clients."""
    return claim.get("tasks", 1) * max(1, len(hosts(claim)))


def places_of(claim: Claim, below: str = "") -> list[str]:
    """`<mount>/measured` of each store, or a folder in it."""
    return [f"{store['mount']}/measured{below}" for store in claim["stores"]]


def directories(claim: Claim, separator: str, below: str = "") -> str:
    """`places_of`, joined; `ValueError` if the separator is part of a path.

    fio, IOR and mdtest all put task i on directory i mod how many there are.
    """
    places = places_of(claim, below)
    for place in places:
        if separator in place:
            raise ValueError(
                f"{place} holds {separator!r}, which separates directories on the tool's command line: "
                "declare another mount_dir for the target"
            )
    return separator.join(places)


def choose_tool(requested: str, mpi_tool: str, claim: Claim) -> str:
    """`fio` or `mpi_tool`, as requested; `auto` is `mpi_tool` where it is installed, with what launches it, else fio.

    Where the claim has limits of rate, `auto` is fio, which alone keeps to them. `ValueError` if the requested one is
    not on the target's hosts.
    """
    installed = [name for name, version in claim["tools"].items() if version]
    needs = {mpi_tool: {mpi_tool, MPI_PROGRAM[launcher(claim)]}, "fio": {"fio"}}
    tool = requested
    if requested == "auto":
        is_there = needs[mpi_tool] <= set(installed) and not limits.of_rate(claim.get("limits"))
        tool = mpi_tool if is_there else "fio"
    missing = sorted(needs[tool].difference(installed))
    if missing:
        raise ValueError(
            f"tool: {requested} needs {' and '.join(missing)}, not found when the target was claimed (there are "
            f"{', '.join(installed) or 'none'}): install it and claim again, or choose another tool"
        )
    return tool


def launcher(claim: Claim) -> str:
    """`openmpi`, `mpich` or `srun`."""
    return claim.get("launcher", "openmpi")


def mpirun(claim: Claim, named: bool = False) -> list[str]:
    """The launcher in front of IOR and mdtest: as many tasks on each client; then the site's own options for it.

    `named`: a single client is named too, for it may be another one than the host that launches.

    Its output is not tagged: not every MPI knows how to. With srun they are a step of the job that visits the target
    (fsage.run.request), so that no cell waits in a queue.
    """
    each = claim.get("tasks", 1)
    names = hosts(claim)
    count = tasks(claim)
    several = len(names) > 1 or named
    site = claim.get("launcher_options", [])
    where = []
    if launcher(claim) == "srun":
        if several:
            where = [f"--nodes={len(names)}", f"--nodelist={','.join(names)}", f"--ntasks-per-node={each}"]
        return ["srun", "--mpi=pmix", "--overlap", *where, *site, f"--ntasks={count}"]
    if launcher(claim) == "mpich":
        front = []
        if several:
            where = ["-hosts", ",".join(names), "-ppn", str(each)]
    else:
        front = [*([] if claim.get("uid") else ["--allow-run-as-root"]), "--oversubscribe"]
        if several:
            where = ["--host", ",".join(f"{name}:{each}" for name in names)]
            # Open MPI 5 puts all tasks on the first host where it may oversubscribe and is not told how to go on.
            if not any("map-by" in word or "rmaps" in word for word in site):
                where += ["--map-by", "slot"]
    return ["mpirun", *front, *where, *site, "-np", str(count)]


def on_client(claim: Claim, name: str) -> list[str]:
    """The launcher in front of what shall run once, on the client of this name."""
    return mpirun({**claim, "hosts": [name], "tasks": 1}, named=True)


class Placed(NamedTuple):
    """How many tasks, on how many nodes, and how many of them on each."""

    tasks: int
    nodes: int
    on_each: int


def launched(argv: Sequence[str]) -> Placed:
    """What a command of `mpirun` starts, and where."""
    given = dict(word.split("=", 1) for word in argv if word.startswith(("--ntasks=", "--nodes=")))
    nodes = int(given.get("--nodes", 1))
    if argv[0] == "srun":
        tasks = int(given["--ntasks"])
    else:
        for option in ("--host", "-hosts"):
            if option in argv:
                nodes = len(argv[argv.index(option) + 1].split(","))
        tasks = int(argv[argv.index("-np") + 1])
    return Placed(tasks, nodes, tasks // nodes)


def check_placement(argv: Sequence[str], tasks: int, nodes: int | None, on_first: int | None) -> None:
    """`BadOutput` unless tasks ran where the command requested them; None: the tool does not say it.

    A tool counts the tasks on the first task's node alone.
    """
    requested = launched(argv)
    if tasks != requested.tasks:
        raise BadOutput(f"{tasks} tasks ran of {requested.tasks} requested")
    if nodes not in (None, requested.nodes) or on_first not in (None, requested.on_each):
        raise BadOutput(
            f"{tasks} tasks ran on {'?' if nodes is None else nodes} nodes, {'?' if on_first is None else on_first} of "
            f"them on the first; requested were {requested.nodes} nodes with {requested.on_each} on each: the launcher "
            "(a job's nodes, a site's fsage_target.launcher_options) places them differently"
        )


def check_command(tool: str, argv: Sequence[str], end: str, echoed: str) -> None:
    """`BadOutput` unless a tool's echo of its command has the options of `argv`, from its name up to option `end`."""
    requested = list(argv[argv.index(tool) + 1 : argv.index(end)])
    try:
        words = shlex.split(echoed)
    except ValueError:  # cut short
        words = echoed.split()
    if words[1 : len(requested) + 2] != [*requested, end]:
        raise BadOutput(f"the output is not of this command: requested {' '.join(requested)}, {tool} reports {echoed}")


def check_version(phase: PhaseResult, claimed: Mapping[str, str | None]) -> None:
    """`BadOutput` unless the tool of a phase says that it is of the version with which the target was claimed.

    Those who share a device (`groups`) are ended when the time is up, and say nothing.
    """
    if "groups" in phase:
        return
    answers: list[CommandResult] = [*phase.get("by_host", {}).values()] or [phase, *phase.get("beside", ())]
    for answer in answers:
        tool = next((word for word in answer.get("argv", phase["argv"]) if word in VERSION), "")
        wanted = claimed.get(tool)
        if not wanted:
            continue
        ran = printed_version(tool, answer["stdout"])
        if ran != wanted:
            raise BadOutput(
                f"{tool} {ran or 'of an unknown version'} ran, and the target was claimed with {tool} {wanted}: put "
                "that one back, or release the target and claim it again"
            )


def metrics_of(name: str, moved: Transfer, more: Metrics) -> Metrics:
    """`<phase>_bw_mib_s`, `<phase>_seconds` (by the tool's own clock) and `<phase>_bytes`; and what there is more."""
    return {
        f"{name}_bw_mib_s": moved.bw_mib_s,
        f"{name}_seconds": moved.seconds,
        f"{name}_bytes": moved.moved_bytes,
        **more,
    }


def of_hosts(phase: PhaseResult, run_of: Callable[[str, JsonView], Run]) -> list[Run]:
    """What `run_of(host, its result)` makes of each host of a phase with `jobs`; `BadOutput` names the host."""
    if "by_host" not in phase:  # no job was begun
        raise BadOutput(phase["stderr"] or "no host tells what came of its job")
    if phase["by_host"].keys() != phase["jobs"].keys():
        hosts_told = ", ".join(phase["by_host"]) or "none"
        raise BadOutput(f"of the clients {', '.join(phase['jobs'])} there is output of {hosts_told}")
    runs = []
    for name in phase["jobs"]:
        try:
            runs.append(run_of(name, phase["by_host"][name]))
        except BadOutput as error:
            raise BadOutput(f"host {name}: {error}") from error
    return runs


def began_here(phase: PhaseResult, name: str, began: float, seconds: float) -> float:
    """When a host's run began, by the launcher's clock. `BadOutput` where that cannot be."""
    answer = phase["by_host"][name]
    began_s = began - answer["clock_ahead_s"]
    slack_s = answer["clock_error_s"] + CLOCK_STEP_S
    if not phase["told"] - slack_s <= began_s <= began_s + seconds <= phase["told"] + answer["wall_s"] + slack_s:
        raise BadOutput("its clock was set while the phase ran, so that nobody knows when it began")
    return began_s


def program_results(phase: PhaseResult) -> list[Any]:
    """What a program of a study's own gave (fsage.model.tools): one result, or one of each client.

    On several clients it says when it `began` and how many `seconds` it took; here that is by the launcher's clock.
    """

    def on_host(name: str, answer: JsonView) -> Json:
        result = program_result(answer["stdout"], answer["stderr"], answer["rc"])
        return {**result, "began": began_here(phase, name, result["began"], result["seconds"])}

    if "jobs" not in phase:
        return [program_result(phase["stdout"], phase["stderr"], phase["rc"])]
    return of_hosts(phase, on_host)


def counts_in_guests(observation: JsonView) -> bool:
    """Whether a guest without virtual time measured: what it counted is a result, and its seconds are no disk's."""
    model = observation.get("conditions", {}).get("device_model") or {}
    return model.get("kind") == device.Computed.kind


def steps_of(observation: JsonView) -> list[Step]:
    """The steps of the state in which a cell was measured."""
    return read_all(observation["layout"]["steps"])


def judge(
    observation: JsonView,
    model: type[BaseModel],
    steps: Callable[..., Sequence[str]],
    judge_phase: Callable[..., Metrics],
) -> Outcome:
    """The outcome of an observation: `judge_phase(params, phase)` of each phase that `steps(params)` names.

    An observation that failed on its host stays failed; the reason is what the tool says, if it says any.
    """
    status = observation["status"]
    why = observation.get("why")
    if status in ("unsupported", "skipped", "stopped"):  # nothing was run to its end
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
                check_version(taken[name], observation.get("conditions", {}).get("tools", {}))
            except BadOutput as error:
                raise BadOutput(f"{name}: {error}") from error
    except BadOutput as error:
        return Outcome("failed", str(error))
    if status != "done":
        return Outcome("failed", why or f"the observation's status is {status!r}")
    return Outcome("valid", None, metrics)
