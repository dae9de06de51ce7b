"""States of F2FS: the files of recipe `iocontrol`, as they were written, and after the one in pieces was moved."""

from __future__ import annotations

from typing import Literal

from fsage.api.study import State
from fsage.studies.iocontrol import recipe as iocontrol

NAME: Literal["f2fs"] = "f2fs"


class States(iocontrol.States):
    """Block `states:` of a study: that of recipe `iocontrol`."""

    recipe: Literal["f2fs"] = NAME  # type: ignore[assignment]


def expand(states: States) -> list[State]:
    """Return the states of recipe `iocontrol`."""
    return [state._replace(nominal={**state.nominal, "recipe": NAME}) for state in iocontrol.expand(states)]
