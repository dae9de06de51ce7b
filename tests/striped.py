"""Striped files in tests: the step that lays one out, and a target whose stores are its OSTs."""

from __future__ import annotations

from fsage import recipes
from fsage.host.structure.step import Step
from fsage.host.verbs import claim, create
from fsage.recipes.striping import States

STORES = 4


def step(name: str, *others: str) -> Step:
    """The step `stripe` of a pattern, in a study that has others too."""
    states = States(pattern=[name, *others], default=name)
    (found,) = (one for one in recipes.load("striping").expand(states) if one.name == name)
    return found.steps(1, 0)[0]


def osts_of(spec: dict, **more: object) -> dict:
    """The declaration of a loop target with stores, created and claimed."""
    spec = {**spec, "stores": STORES, **more}
    create.create(spec, {}, False)
    claim.claim(spec, {}, False)
    return spec
