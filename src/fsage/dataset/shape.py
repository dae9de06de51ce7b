"""What of a record is used, with types and bounds: a record may come from anywhere."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST = 1e18
Number = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(min_length=1, max_length=255)]
Metric = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,79}$")]
RATES = ("_bw_mib_s", "_per_s")
Block = dict[str, object]


class _Part(BaseModel):
    """Keys that are not named are left as they are."""

    model_config = ConfigDict(strict=True)


class Generation(_Part):
    files: Count
    capacity_percent_achieved: Number
    deleted_files: Count
    deleted_share_bytes: Number


class Layout(_Part):
    """Of `generations` shares are added up."""

    capacity_bytes: Annotated[int, Field(gt=0, lt=1 << 63)]
    used_bytes: Count
    generations: list[Generation] | None = None
    notes: dict[str, Block] | None = None


class Command(_Part):
    argv: list[str]


class Phase(Command):
    name: Text
    extents: Block | None = None
    beside: list[Command] = []


class Tunable(_Part):
    now: object


class Conditions(_Part):
    device_model: Block | None = None
    tunables: dict[str, Tunable] | None = None
    tools: Block | None = None
    images: Block | None = None


class Nominal(_Part):
    recipe: Text
    axes: Block | None = None


class Record(_Part):
    """One file of `results/records`."""

    study: Name
    target: Name
    state: Name
    cell: Name
    kind: Literal["planned", "sentinel", "reference", "traced"]
    order: Count
    attempt: Count
    status: Literal["valid", "failed", "unsupported", "skipped"]
    why: Text | None
    began: Text | None
    host: Text | None
    kernel: Text | None
    params: Block
    nominal: Nominal
    layout: Layout
    conditions: Conditions
    check: Block
    seconds: Block = {}
    metrics: Annotated[dict[Metric, Number], Field(max_length=200)]
    phases: list[Phase]

    @model_validator(mode="after")
    def _rates_are_rates(self) -> Record:
        for name, value in self.metrics.items():
            if name.endswith(RATES) and value <= 0:
                raise ValueError(f"{name} is {value:g}; a rate is above 0")
        return self
