"""A question to a target that is not opened on this host: its claim, its lease, and what is kept of its cells."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import cast

from fsage.base import Json, typed
from fsage.host.cells import observed
from fsage.host.instruments.instrument import does_itself
from fsage.host.system import files, library
from fsage.host.targets import claims, opening
from fsage.host.targets.lease import Watch, held, refuse_if_held
from fsage.host.targets.target import Target
from fsage.model import declaration
from fsage.model.claim import Claim
from fsage.model.observation import Observation
from fsage.model.request import Cell, Request
from fsage.model.target import Spec

OF_THE_RUN = ("holder", "gone")
"""Keys of a request that are no guest's business."""


class Question:
    """A question to a target whose work guests do, and the target itself, which is not open here."""

    def __init__(self, kind: type[Target], given: Json, request: Request) -> None:
        self.kind = kind
        self.given = given
        self.request = request
        self.spec: Spec = declaration.complete(given["target"])
        self.home = declaration.home_of(self.spec)

    @property
    def noted(self) -> Claim | None:
        """The claim that is noted here, if there is one. Raises Refusal where its declaration was edited."""
        claim = claims.read(self.home)
        if claim:
            declaration.refuse_edits(claim, self.spec)
        return claim

    @property
    def claim(self) -> Claim:
        """The claim. Raises Refusal where there is none, or another one."""
        refuse_if_held(self.home, self.request)
        claim = opening.claim_of(self.spec)
        declaration.refuse_edits(claim, self.spec)
        opening.refuse_other_claim(self.request, claim)
        return claim

    @cached_property
    def target(self) -> Target:
        """The target as its claim has it."""
        return self.kind(self.spec, self.claim)

    @property
    def wanted(self) -> Json:
        """The state that is wanted and its steps, as plain JSON."""
        return {"state": self.request["state"], "steps": typed.to_json(self.request["steps"])}

    @property
    def code(self) -> str:
        """A digest of fsage on this host."""
        return library.digest()

    @contextlib.contextmanager
    def held(self) -> Iterator[Watch]:
        """Hold the target, perhaps beside other commands of the same run. Raises Refusal.

        The watch says whether the run is still there.
        """
        with held(self.home, self.request, shared=True) as lease:
            yield Watch(self.home, self.request, lease)

    def doing(self, what: str, measured: int = 0) -> None:
        """Note what is being done, for those who wait."""
        claims.note_doing(self.home, what, measured)

    def save(self, claim: Json) -> None:
        """Write the claim durably."""
        files.write_json(self.home / "claim.json", claim)

    def job(self, home: str, verbs: Sequence[str], claim: Claim | None, **request: object) -> Json:
        """What a guest is to do: verbs to its own target. It knows nothing of runs and leases."""
        own = {key: value for key, value in self.given.get("request", {}).items() if key not in OF_THE_RUN}
        target = {**self.given["target"], "home": home}
        given = {**self.given, "target": target, "request": {**own, **request}}
        return {"do": "verbs", "verbs": list(verbs), "given": given, "claim": claim, "code": self.code}

    def unmeasured(self) -> list[Cell]:
        """The cells of the request of which no observation is kept."""
        target = self.target
        return [cell for cell in self.request["cells"] if not observed.place(target, self.request, cell).exists()]

    def keep(self, cell: Cell, observation: Json) -> None:
        """Keep an observation until the launcher has it."""
        observed.keep(observed.place(self.target, self.request, cell), cast(Observation, observation))

    def measured(self, measured: int, wanted: int) -> Json:
        """The answer to `measure`: so many of the wanted cells are measured."""
        return {
            "changed": measured > 0,
            "msg": f"measured {measured} of {wanted} cells",
            "undone": None,
            "measured": measured,
            "remaining": wanted - measured,
            "lost": None,
            "stopped": None,
            "kinds": [],
        }

    @staticmethod
    def are_quick(cells: Sequence[Cell]) -> bool:
        """Whether no cell runs a command: the guest's own process does all."""
        return all(does_itself(phase) for cell in cells for phase in cell["phases"])

    @staticmethod
    def noting(cell: Cell, **more: object) -> Cell:
        """A cell with what its guest is to note of it: why it is `unsupported`, or `failed`."""
        return cast(Cell, {**cell, **more})
