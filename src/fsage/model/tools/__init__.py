"""The programs that measure. One module each, found by the program's name: `fsage.model.tools.<name>`.

Each offers `TOOL`: how it names its version, which stands in every record, and which image it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fsage.model import plugins


class Tool(NamedTuple):
    """A program that measures."""

    options: tuple[str, ...]
    """What makes it name its version."""
    before: str
    """What stands before the version in what it then says, at the beginning of a line; empty: anything."""
    image: str | None = None
    """The Apptainer image that has it, where a target declares a folder of such (`fsage_target.containers`)."""
    writes: bool = False
    """Whether it makes files for that, where it is started."""


ANALYSIS = "analysis"  # the image that reports are made in, by Snakemake


def names() -> list[str]:
    """Names of the tools there are."""
    return plugins.names(__name__)


def of(name: str) -> Tool:
    """The tool of this name."""
    found: Tool = plugins.module(__name__, name).TOOL
    return found


def command(tool: str, folder: str | None, mounts: Iterable[str] = ()) -> list[str]:
    """The words that start a tool, its own options to follow: its name, in front of it what puts it into its image.

    >>> command("fio", "/images", ["/mnt/0"])
    ['apptainer', 'exec', '--bind', '/mnt/0', '/images/fio.sif', 'fio']
    >>> command("fio", None, ["/mnt/0"])
    ['fio']
    """
    image = of(tool).image
    if folder is None or image is None:
        return [tool]
    binds = [word for mount in mounts for word in ("--bind", mount)]
    return ["apptainer", "exec", *binds, f"{folder}/{image}", tool]


def start(claim: Mapping[str, Any], tool: str, *folders: str) -> list[str]:
    """`command` on a claimed target, whose mounts the container sees; other folders too where they are named."""
    return command(tool, claim.get("containers"), [*(store["mount"] for store in claim["stores"]), *folders])


def version_in(tool: str, said: str) -> str | None:
    """The version in what a tool says of itself; None if it is not there.

    >>> version_in("ior", "IOR-4.1.0+dev: MPI Coordinated Test of Parallel I/O")
    '4.1.0+dev'
    >>> version_in("blastn", "blastn: 2.12.0+\\n Package: blast 2.12.0, build Feb 17 2022 10:04:48")
    '2.12.0+'
    """
    named = of(tool).before
    match = re.search(rf"^{named}(\d+\.\d[\w.+-]*)" if named else r"(\d+\.\d[\w.+-]*)", said, re.MULTILINE)
    return match[1] if match else None
