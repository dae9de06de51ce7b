"""States of striping with a database beside each layout."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fsage.api.study import Seed, State, Strict
from fsage.studies.striping import recipe as striping
from fsage.studies.striping.model import Stripe

from . import model


class Database(Strict):
    """A database for BLAST beside the layout."""

    volumes: Annotated[int, Field(ge=1)] = Field(
        79, description="number of volumes, each a file; the published database has 79"
    )
    percent: Annotated[int, Field(ge=1, le=100)] = Field(
        100, description="size, in percent of the target's striped file"
    )
    queries: Annotated[int, Field(ge=1)] = Field(8, description="number of queries, parts of the database")

    @model_validator(mode="after")
    def _each_of_its_own_volume(self) -> Database:
        if self.queries > self.volumes:
            raise ValueError(f"{self.queries} queries of {self.volumes} volumes: each is from another volume")
        return self


class States(striping.Patterned):
    """Block `states:` of a study: a state for each pattern, and in each the same database."""

    recipe: Literal["blast"] = "blast"
    database: Database = Field(description="what workload blast searches")
    seed: Seed | None = Field(0, description="seed of the database's sequences")


def expand(states: States) -> list[State]:
    """Return a state for each pattern, the default one first."""
    return [_with_database(states, state) for state in striping.expand(states)]


def _with_database(states: States, state: State) -> State:
    (stripe,) = state.parts
    assert isinstance(stripe, Stripe)
    beside = states.database
    database = model.Database(
        1,
        stripe.pattern,
        stripe.realisation,
        stripe.nominal_bytes,
        stripe.largest_count,
        stripe.segments,
        beside.volumes,
        beside.queries,
        beside.percent,
        states.seed,
    )
    return state._replace(parts=(stripe, database))
