"""Evidence of states as the agent leaves it (`results/states/…json`), read and checked before anything is drawn.

The shape of the key `layout` is that of fsage.host.evidence; evidence made before it had that key is taken too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from fsage.records.messages import StoresLayout

AGAIN = "move the file away and run the study again"


class Generation(BaseModel):
    capacity_percent: float


class Token(BaseModel):
    instance: str | None = None


class StateEvidence(BaseModel):
    """What an evidence file says beside its layout, as far as the report uses it."""

    state: str
    digest: str | None = None
    token: Token = Token()
    generations: list[Generation] | None = None
    steps: list[dict[str, Any]] = []

    @property
    def layout_digest(self) -> str | None:
        """What tells its layout from others, as in the table of records."""
        return self.digest or self.token.instance


@dataclass(frozen=True)
class Evidence:
    """What is left of the states' evidence after the checks.

    `known`: by state; `layouts`: of those that have one; `without`: states with records that have none; `refused`: a
    sentence for each file that cannot be used, or only in part.
    """

    known: dict[str, StateEvidence] = field(default_factory=dict)
    layouts: dict[str, StoresLayout] = field(default_factory=dict)
    without: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def read(paths: Mapping[str, Path], digests: Mapping[str, Iterable[str]]) -> Evidence:
    """Evidence by state from `paths`; `digests`, by state, are the layouts in which its records were taken."""
    found = Evidence()
    for state, path in paths.items():
        try:
            content = _content(state, path)
            found.known[state] = _checked(state, content, set(digests.get(state, ())))
        except FileNotFoundError:
            if state in digests:
                found.without.append(state)
            continue
        except (OSError, ValueError) as error:
            found.refused.append(f"{path}: {error}.")
            continue
        if content.get("layout") is None:
            found.without.append(state)
            continue
        try:
            found.layouts[state] = StoresLayout.model_validate(content["layout"])
        except ValidationError as error:
            found.refused.append(f"{path}: layout.{first_problem(error)}; the layout of {state} is not shown.")
    return found


def _content(state: str, path: Path) -> dict[str, Any]:
    """One file's JSON object. Raises FileNotFoundError, OSError, ValueError."""
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"the evidence of {state} is not whole JSON ({error}); {AGAIN}") from None
    if not isinstance(content, dict):
        raise ValueError(f"the evidence of {state} is not a JSON object; {AGAIN}")
    return content


def _checked(state: str, content: dict[str, Any], digests: set[str]) -> StateEvidence:
    """The evidence, if it is of `state` and of the layout of its records. Raises ValueError with what is wrong."""
    try:
        known = StateEvidence.model_validate({"state": state} | content)
    except ValidationError as error:
        raise ValueError(
            f"the evidence of {state} is not as the agent writes it: {first_problem(error)}; {AGAIN}"
        ) from None
    if known.state != state:
        raise ValueError(f"this is evidence of the state {known.state}, not of {state}; it is not used")
    if digests and known.layout_digest not in digests:
        raise ValueError(
            f"the evidence of {state} is of another layout (digest {known.layout_digest}) than its records "
            f"({', '.join(sorted(digests))}); it is not used"
        )
    return known


def first_problem(error: ValidationError) -> str:
    """Where the first of the problems is, and what: 'stores.0.bitmap: Field required'."""
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
