"""Settings of a host that a study does not name, and that are in force all the same: somebody else has set them.

A cell that was measured under one is not valid. Its reason has the setting, its value, and who noted it.
"""

from __future__ import annotations

from typing import ClassVar, cast

from fsage.base import Failure, Json
from fsage.host.instruments import Instrument, Visit
from fsage.host.remote import Lost, ask_all
from fsage.host.targets import OtherHost, claims, kinds
from fsage.model.request import Cell, Request


def settings_there(host: OtherHost, tuning: Json) -> Json:
    """A sentence for each setting of a host that a study with this `tuning` does not name, under `astray`."""
    if host.target:
        return {"astray": host.target.astray(tuning)}
    return {"astray": kinds.named(host.spec["kind"]).astray_here(host.spec)}


class Settings(Instrument):
    """Under which settings cells are measured: what was tuned, and that nobody else has set anything.

    No cell is measured where the servers are not tuned as noted: to build the state again would not change that.
    """

    remote: ClassVar = {"settings": settings_there}

    def __init__(self, visit: Visit) -> None:
        super().__init__(visit)
        self.noted = claims.complete_tunables(self.target.home)

    def conditions(self) -> Json:
        why = self.target.osts.untuned()
        if why:
            raise Failure(f"no cell of state {self.visit.request.get('state')} was measured: {why}")
        return {"tunables": self.noted}

    def refused(self, cell: Cell) -> str | None:
        tuning = cast(Request, self.visit.request).get("tuning", {})
        try:
            asked = ask_all(self.hosts.remote_hosts, {"do": "settings", "tuning": dict(tuning)})
            sentences = self.target.astray(tuning)
            for answer in asked.values():
                sentences += answer["astray"]
            return first(sentences)
        except Lost:
            raise
        except Failure as why:
            return f"under which settings it is measured is not known: {why}"

    def failed_cell(self, cell: Cell) -> str | None:
        return self.target.osts.untuned() or self.refused(cell)


def first(sentences: list[str]) -> str | None:
    """The first of them, with the number of the others; None where there is none."""
    if not sentences:
        return None
    return sentences[0] + (f" (and {len(sentences) - 1} more settings)" if sentences[1:] else "")
