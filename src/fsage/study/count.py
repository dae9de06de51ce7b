"""Block `count:` of a study: how many layouts of each state are counted, and for which device a cost is computed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from fsage.model.declaration import device_model
from fsage.model.errors import Refusal
from fsage.model.typed import Json
from fsage.text.strict import Strict

LAYOUTS, MOST = 30, 1000


class Count(Strict):
    """What `fsage count` counts."""

    layouts: Annotated[int, Field(ge=1, le=MOST)] = Field(
        LAYOUTS, description="how many layouts of each state, with seeds from the study's on"
    )
    places: Annotated[int, Field(ge=1, le=99)] = Field(
        1, description="how many files are left in a layout one after the other, each at a place of its own"
    )
    with_run: bool = Field(False, description="whether a run of the study counts too, after its cells")
    device: Json | None = Field(
        None,
        description="the device for which the cost is computed, as `device_model` of a target; null: the target's, or "
        "fsage's modelled disk (IOCost)",
    )

    @field_validator("device")
    @classmethod
    def _complete(cls, device: Json | None) -> Json | None:
        try:
            return None if device is None else device_model(device, "device")
        except Refusal as why:
            raise ValueError(str(why)) from why
