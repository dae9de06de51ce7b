"""Evidence of states as hosts leave it (`results/states/…json`), read and checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from fsage.model.evidence.layout import StoresLayout
from fsage.model.message import Unacceptable
from fsage.model.observation import StateEvidence
from fsage.records import messages

AGAIN = "move the file away and run the study again"


@dataclass(frozen=True)
class Evidence:
    """What is left of the states' evidence after the checks.

    `known`: by state; `without`: states with records that have none; `refused`: a sentence for each file that cannot be
    used.
    """

    known: dict[str, StateEvidence] = field(default_factory=dict)
    without: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def layouts(self) -> dict[str, StoresLayout]:
        """The layout of each state."""
        return {state: evidence["layout"] for state, evidence in self.known.items()}


def read(paths: Mapping[str, Path], digests: Mapping[str, Iterable[str]]) -> Evidence:
    """Evidence by state from `paths`; `digests`, by state, are the layouts in which its records were taken."""
    evidence = Evidence()
    for state, path in paths.items():
        try:
            evidence.known[state] = _checked(state, path.read_bytes(), set(digests.get(state, ())))
        except FileNotFoundError:
            if state in digests:
                evidence.without.append(state)
        except (OSError, ValueError) as error:
            evidence.refused.append(f"{path}: {error}.")
    return evidence


def layout_digest(evidence: StateEvidence) -> str:
    """What tells its layout from others, as in the table of records."""
    return evidence["digest"] or evidence["token"]["instance"]


def _checked(state: str, content: bytes, digests: set[str]) -> StateEvidence:
    """The evidence, if it is of `state` and of the layout of its records. Raises ValueError with what is wrong."""
    try:
        evidence = messages.read_evidence(content)
    except Unacceptable as why:
        raise ValueError(f"the evidence of {state} {why}; {AGAIN}") from None
    if evidence["state"] != state:
        raise ValueError(f"this is evidence of the state {evidence['state']}, not of {state}; it is not used")
    if digests and layout_digest(evidence) not in digests:
        raise ValueError(
            f"the evidence of {state} is of another layout (digest {layout_digest(evidence)}) than its records "
            f"({', '.join(sorted(digests))}); it is not used"
        )
    return evidence


def first_problem(error: ValidationError) -> str:
    """Where the first of the problems is, and what: 'stores.0.bitmap: Field required'."""
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
