"""The programs that measure: how each names its version, which stands in every record, and which image has it.

A study's `model` may declare more, in a table TOOLS of its own. For what no tool does it has a program of its own.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from fsage.base import Failure, in_words, typed
from fsage.base.message import Unacceptable
from fsage.model import plugins
from fsage.model.claim import Claim
from fsage.model.observation import PhaseResult
from fsage.model.request import Phase

T = TypeVar("T")


class Tool(NamedTuple):
    """A program that measures."""

    options: tuple[str, ...]
    """What makes it name its version."""
    before: str
    """What stands before the version in what it then says, at the beginning of a line; empty: anything."""
    image: str | None = None
    """The Apptainer image that has it, where a target declares a folder of images (`fsage_target.containers`)."""
    writes: bool = False
    """Whether it makes files for that, where it is started."""


ANALYSIS = "analysis"  # the image that reports are made in, by Snakemake


# IOR and mdtest name their version only at the head of a run, so that they make a smallest one. IOR's help, which 3.3
# gives with status 0 for whatever it does not understand, says nothing of it.
TOOLS = {
    "fio": Tool(("--version",), "fio-", "fio.sif"),
    "ior": Tool(("-w", "-t", "1k", "-b", "1k", "-o", "ior"), "IOR-", "ior.sif", writes=True),
    "mdtest": Tool(("-n", "1", "-d", "."), "mdtest-", "ior.sif", writes=True),
    "mpirun": Tool(("--version",), ""),
    "srun": Tool(("--version",), ""),
}


@cache
def _all() -> dict[str, Tool]:
    every = [*TOOLS.items()]
    for study in plugins.having("model"):
        every += getattr(plugins.of_study(study, "model"), "TOOLS", {}).items()
    return plugins.by_name(every)


def names() -> list[str]:
    """Names of the tools there are."""
    return sorted(_all())


def named(name: str) -> Tool:
    """The tool of this name."""
    return _all()[name]


PACKAGES = {
    **dict.fromkeys(("wipefs", "setpriv", "unshare"), "util-linux"),
    **dict.fromkeys(("mkfs.ext4", "dumpe2fs", "debugfs", "e4defrag"), "e2fsprogs"),
    **dict.fromkeys(("mkfs.xfs", "xfs_db", "xfs_fsr"), "xfsprogs"),
    **dict.fromkeys(("mkfs.btrfs", "btrfs"), "btrfs-progs"),
    **dict.fromkeys(("blastn", "makeblastdb"), "ncbi-blast+"),
    "mpirun": "openmpi-bin",
    "srun": "slurm-client",
    "ssh": "openssh-client",
}
"""Packages of Debian that have another name than the program that fsage wants of them."""


def install(program: str) -> str:
    """What brings a program that is not there.

    >>> install("mkfs.xfs")
    'install the package xfsprogs'
    """
    return f"install the package {PACKAGES.get(program, program)}"


def command(tool: str, folder: str | None, mounts: Iterable[str] = ()) -> list[str]:
    """The words that start a tool, its own options to follow: its name, in front of it what puts it into its image.

    >>> command("fio", "/images", ["/mnt/0"])
    ['apptainer', 'exec', '--bind', '/mnt/0', '/images/fio.sif', 'fio']
    >>> command("fio", None, ["/mnt/0"])
    ['fio']
    """
    image = named(tool).image
    if folder is None or image is None:
        return [tool]
    binds = [word for mount in mounts for word in ("--bind", mount)]
    return ["apptainer", "exec", *binds, f"{folder}/{image}", tool]


def tool_command(claim: Claim, tool: str, *folders: str) -> list[str]:
    """`command` on a claimed target, whose mounts the container sees; other folders too where they are named."""
    return command(tool, claim.get("containers"), [*(store["mount"] for store in claim["stores"]), *folders])


def version_in(tool: str, output: str) -> str | None:
    """The version in a tool's output; None if it has none.

    >>> version_in("ior", "IOR-4.1.0+dev: MPI Coordinated Test of Parallel I/O")
    '4.1.0+dev'
    >>> version_in("blastn", "blastn: 2.12.0+\\n Package: blast 2.12.0, build Feb 17 2022 10:04:48")
    '2.12.0+'
    """
    before = named(tool).before
    match = re.search(rf"^{before}(\d+\.\d[\w.+-]*)" if before else r"(\d+\.\d[\w.+-]*)", output, re.MULTILINE)
    if match:
        return match[1]
    return None


TASK = "task.json"


def program_phase(name: str, program: str, assignment: object, reads: bool = True) -> Phase:
    """A phase that runs `python -m PROGRAM`, a module of a study's `host`, on an assignment: the phase's file TASK.

    An assignment is a dataclass of the study's `model`, given as JSON. What the program's work returns it prints as
    JSON.
    """
    argv = ["env", "PYTHONPATH={agent}", "{python}", "-S", "-m", program, f"{{files}}/{TASK}"]
    text = json.dumps(typed.to_json(assignment), sort_keys=True)
    return {"name": name, "argv": argv, "files": {TASK: text}, "reads": reads}


def assignment_of(phase: PhaseResult, assignment: type[T]) -> T:
    """The assignment of a phase that runs a program."""
    return typed.read(assignment, json.loads(phase["files"][TASK]))


def program_main(assignment: type[T], work: Callable[[T], object], path: str) -> int:
    """Do the work of a file's assignment. Exit code 0 and the result as JSON, or 1 and why not."""
    try:
        result = work(typed.read(assignment, json.loads(Path(path).read_text(encoding="utf-8"))))
    except Failure as why:
        print(why, file=sys.stderr)
        return 1
    except (Unacceptable, OSError) as why:
        print(in_words(why, path), file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0
