"""What steps need beside what they say, such as a layout that is to be copied: a request has it by its digest."""

from __future__ import annotations

from fsage.model import plugins
from fsage.model.structure import Step
from fsage.plan.plan import Plan

PLACE = "layouts"
"""The folder beside the studies where saved layouts and images lie."""


def with_inputs(plan: Plan, steps: list[Step]) -> tuple[list[Step], dict[str, str]]:
    """The steps with the names of what they need, and that by its name. Raises StudyError.

    Where a step needs something, the module `inputs` of its study says what: `needed(plan, step)`.
    """
    named: list[Step] = []
    inputs: dict[str, str] = {}
    for step in steps:
        if step.needs_input:
            name, inputs[name] = plugins.beside(step, "inputs").needed(plan, step)
            step = step.with_input(name)
        named.append(step)
    return named, inputs
