"""Kind `uml`: which of its work guests do, and what it lacks here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fsage.api.host import Lacking, guests
from fsage.api.model import Claim, Json, Refusal, Spec

from .. import model as facts
from ..model import images, programs
from . import asked


class Uml(guests.GuestTarget, facts.Uml):
    """On the host there are only images."""

    device = "/dev/ubda"

    @classmethod
    def lacking(cls, spec: Spec) -> Lacking:
        missing = []
        try:
            images.mkfs(spec["filesystem"])
            images.limit_gib()
            why = programs.why_not(programs.some(None, facts.is_virtual(spec)), spec["filesystem"])
            if why:
                missing.append(why)
        except Refusal as why:
            missing.append(str(why))
        return Lacking(missing, {})

    @classmethod
    def undo_claim(cls, spec: Spec, claim: Claim | None) -> list[str]:
        return [f"images stay in {images.place()}, a cache of {images.limit_gib():g} GiB"]

    @classmethod
    def answered(cls, verb: str, given: Json, request: Any, check: bool) -> Json | None:
        if verb not in asked.VERBS:
            return None
        return asked.VERBS[verb](guests.Question(cls, given, request), check)

    @classmethod
    def counted(cls, job: Any) -> Iterator[Json]:
        return asked.counted(job)


TARGET = Uml
