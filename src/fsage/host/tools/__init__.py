"""The programs that measure. One module each, found by the program's name: `fsage.host.tools.<name>`.

Each offers `TOOL`: how it names its version, which stands in every record, and which image it comes from.
"""

from __future__ import annotations

from typing import NamedTuple

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


def names() -> list[str]:
    """Names of the tools there are."""
    return plugins.names(__name__)


def of(name: str) -> Tool:
    """The tool of this name."""
    found: Tool = plugins.module(__name__, name).TOOL
    return found
