"""Sequential bandwidth: each task writes, then reads, a file of its own (fio or IOR), with O_DIRECT or without.

File i lies on store i mod stores, in `<mount>/measured/`. Writing and reading are two processes, so that caches can
be dropped in between and each is judged on its own. The agent makes the directories and deletes the files.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fsage.parse import MIB, BadOutput, Transfer, fio
from fsage.workloads import Outcome


class Params(BaseModel):
    """Parameters of one cell. `transfer_size` in bytes.

    `passes`: how often the file is gone over, where the amount is too little for a sample of a second. The first
    pass of a write allocates, the later ones write over what is there: do not compare samples of different passes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: Literal["sequential"] = "sequential"
    tool: Literal["auto", "fio", "ior"] = "auto"
    transfer_size: int = Field(gt=0)
    iteration: int = Field(ge=1)
    phases: tuple[Literal["write", "read"], ...] = ("write", "read")
    direct: bool = True
    passes: int = Field(default=1, ge=1)

    @field_validator("phases")
    @classmethod
    def _in_order(cls, phases: tuple[str, ...]) -> tuple[str, ...]:
        if phases not in (("write",), ("read",), ("write", "read")):
            raise ValueError(f"phases {list(phases)}: use [write], [read] or [write, read]")
        return phases


def commands(params: Params | dict, claim: dict) -> list[dict]:
    """The phases of one cell on a claimed target; `ValueError` if the parameters do not fit it.

    A cell that only reads writes its files first, in a phase `prepare` that is checked but gives no numbers.
    """
    params = Params.model_validate(params)
    block_bytes = _block_bytes(params, claim)
    return [
        {"name": name, "argv": _fio(params, claim, block_bytes, direction), "reads": direction == "read"}
        for name, direction in _steps(params)
    ]


def bytes_written(params: Params | dict, claim: dict) -> int:
    """Bytes that the cell's files take on the target."""
    return _block_bytes(Params.model_validate(params), claim) * claim.get("tasks", 1)


def seconds(params: Params | dict, claim: dict) -> float:
    """Estimate of what one cell takes, from the claim's calibration."""
    params = Params.model_validate(params)
    mib = bytes_written(params, claim) * params.passes / MIB
    calibration = claim["calibration"]
    total = calibration["cell_overhead_s"] + mib / calibration["write_mib_s"]
    return total + (mib / calibration["read_mib_s"] if "read" in params.phases else 0)


def read(observation: dict) -> Outcome:
    """Numbers of one observation: `<phase>_bw_mib_s`, `_seconds` (the tool's clock), `_bytes`; or why not."""
    if observation["status"] != "done":
        return Outcome(observation["status"], observation["why"])
    try:
        params = Params.model_validate(observation["params"])
        taken = {phase["name"]: phase for phase in observation["phases"]}
        metrics: dict[str, float | int] = {}
        for name, _ in _steps(params):
            if name not in taken:
                raise BadOutput(f"the phase {name} is missing; there are {', '.join(taken) or 'none'}")
            moved = _judge(params, taken[name])
            if name != "prepare":
                metrics |= {
                    f"{name}_bw_mib_s": moved.bw_mib_s,
                    f"{name}_seconds": moved.seconds,
                    f"{name}_bytes": moved.moved_bytes,
                }
    except ValidationError as error:
        return Outcome("failed", f"not the parameters of a sequential cell: {error}")
    except BadOutput as error:
        return Outcome("failed", str(error))
    return Outcome("valid", None, metrics)


def _steps(params: Params) -> list[tuple[str, str]]:
    """Name and direction of each process to run."""
    steps = [("write" if "write" in params.phases else "prepare", "write"), ("read", "read")]
    return steps if "read" in params.phases else steps[:1]


def _block_bytes(params: Params, claim: dict) -> int:
    if params.tool == "ior":
        raise ValueError("tool: ior is not yet offered by this workload: use fio or auto")
    block_bytes = claim["amount_mib"] * MIB
    if block_bytes % params.transfer_size:
        raise ValueError(
            f"transfer_size {params.transfer_size} does not divide the {block_bytes} bytes a task moves "
            f"(amount_mib: {claim['amount_mib']}): use a transfer_size that divides it, "
            "or declare another amount_mib for the target"
        )
    return block_bytes


# The cheapest start and end of fio (measured): no clock calibration, no forks, no progress timer.
FIO = ("fio", "--output-format=json", "--clocksource=clock_gettime", "--thread", "--eta=never")


def _fio(params: Params, claim: dict, block_bytes: int, direction: str) -> list[str]:
    directories = ":".join(f"{store['mount']}/measured".replace(":", "\\:") for store in claim["stores"])
    argv = [
        *FIO,
        "--name=measured",
        f"--directory={directories}",
        f"--rw={direction}",
        f"--size={block_bytes}",
        f"--bs={params.transfer_size}",
        f"--numjobs={claim.get('tasks', 1)}",
        f"--direct={int(params.direct)}",
        "--ioengine=psync",
        "--fallocate=none",
        "--group_reporting",
    ]
    if params.passes > 1:
        argv.append(f"--loops={params.passes}")
    if direction == "read":
        argv.append("--allow_file_create=0")  # fio would make a missing file, and then read that
    elif not params.direct:
        argv.append("--end_fsync=1")
    return argv


def _judge(params: Params, phase: dict) -> Transfer:
    """What a phase moved, after checking that it moved what its command asked for and nothing else."""
    name, argv = phase["name"], phase["argv"]
    run = fio.parse(phase["stdout"], phase["stderr"], phase["rc"])
    asked = dict(word.removeprefix("--").partition("=")[::2] for word in argv if word.startswith("--"))
    for option in ("rw", "size", "bs", "numjobs", "direct", "loops", "directory"):
        if option in asked and run.options.get(option) != asked[option]:
            raise BadOutput(
                f"{name}: the output is not of this command: "
                f"--{option} was {asked[option]}, fio reports {run.options.get(option)}"
            )
    if int(asked["bs"]) != params.transfer_size:
        raise BadOutput(f"{name}: ran with --bs={asked['bs']}, the cell's is {params.transfer_size}")
    expected = int(asked["size"]) * int(asked["numjobs"]) * int(asked.get("loops", 1))
    written, read = (moved.moved_bytes if moved else 0 for moved in (run.write, run.read))
    moved = run.read if asked["rw"] == "read" else run.write
    if moved is None or moved.moved_bytes != expected or written + read != expected:
        raise BadOutput(
            f"{name}: asked to {asked['rw']} {expected} bytes, fio reports {written} written and {read} read"
        )
    if phase.get("cached_pages") and asked["rw"] == "read" and not params.direct:
        raise BadOutput(f"{name}: {phase['cached_pages']} pages of the files were still cached before it")
    return moved
