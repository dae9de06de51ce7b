"""What several targets of one study are for."""

from __future__ import annotations

from pydantic import Field, ValidationError

from fsage.text.strict import Strict, problems_of, refuse, unknown_value

TARGETS = r"^[a-z][a-z0-9_-]{0,31}(,[a-z][a-z0-9_-]{0,31}){0,63}$"
SHARE, REPEAT = "share", "repeat"
"""Each measures a part of the states; each measures all."""


class Bind(Strict):
    """Targets that stand for the levels of an axis of the states, one each: four servers with a preallocation each."""

    bind: str = Field(description="an axis of the states; the targets get its levels in turn")


def read_targets(block: object) -> object:
    """Return 'share', 'repeat' or a Bind; raises ValueError or ValidationError for anything else."""
    if block in (SHARE, REPEAT):
        return block
    if not isinstance(block, dict):
        raise ValueError(unknown_value(block, [SHARE, REPEAT, "{bind: AXIS}"]))
    try:
        return Bind.model_validate(block)
    except ValidationError as error:
        refuse(problems_of(error, Bind))
