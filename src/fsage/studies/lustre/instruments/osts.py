"""The OSTs of a target on Lustre: what each did in a cell, how full it is, and which of them have the cell's files.

`brw_stats` are histograms of the reads and writes that an OST has done since it was started.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from fsage.api.host import Instrument, Visit
from fsage.api.model import Cell, Failure, Json, Phase, PhaseResult

from ..helper import lctl
from ..host import ldiskfs, space, stripes
from ..host.servers import Counted, between, stats
from ..model import lustre_of

NONE_DECLARED = "fsage_target.lustre.oss names no servers to ask"


class Osts(Instrument):
    """What cannot be had never disturbs what is measured: the reason is noted."""

    name = "osts"
    remote: ClassVar = {
        "counters": lambda host: {"text": lctl.counters(lustre_of(host.spec)["fsname"])},
        "prealloc": lambda host: {"tables": ldiskfs.tables_of(host.spec)},
    }

    def __init__(self, visit: Visit) -> None:
        super().__init__(visit)
        self.lustre = lustre_of(visit.target.spec)
        self.absent: dict[str, str] = {}

    @classmethod
    def wanted(cls, visit: Visit) -> bool:
        return super().wanted(visit) and visit.target.has_osts

    def conditions(self) -> Json:
        return {"lustre": {key: self.target.claim["lustre"][key] for key in ("version", "declared")}}

    @contextlib.contextmanager
    def around_cell(self, cell: Cell) -> Iterator[Json]:
        """{"fullness": {"before", "after"} by OST, "brw_stats": what each counted in between, "absent": reasons}."""
        seen: Json = {}
        if self.lustre["oss"]:
            self.absent = {}
        else:
            self.absent = {"brw_stats": NONE_DECLARED}
        fullness = self._fullness()
        before = self._stats()
        stripes.make_folders(self.target, self.now.notes)
        yield seen
        counted = {}
        for ost, after in self._stats().items():
            counts = between(before.get(ost, {}), after)
            if counts is None:
                self.absent[f"brw_stats of {ost}"] = "it counts from zero since the cell began"
            else:
                counted[ost] = counts
        seen["fullness"] = {"before": fullness, "after": self._fullness()}
        seen["brw_stats"] = counted if "brw_stats" not in self.absent else None
        seen["absent"] = self.absent

    def failed_phase(self, phase: Phase, made: list[Path], result: PhaseResult) -> str | None:
        """Why the files that a phase made do not lie on the declared OSTs."""
        if phase.get("reads"):
            return None
        try:
            placement = stripes.of_striped(self.target, made, self.now.notes)
        except Failure as why:
            return str(why)
        result["placement"] = placement
        astray = placement["astray"]
        if astray:
            return f"{len(astray)} files lie elsewhere: {astray[0]}"
        return None

    def _fullness(self) -> Json | None:
        try:
            return space.fullness(space.read_osts(self.target.mounts[0], ()))
        except Failure as why:
            self.absent["fullness"] = str(why)
            return None

    def _stats(self) -> Counted:
        try:
            if "brw_stats" not in self.absent:
                return stats(self.hosts, self.lustre)
            return {}
        except Failure as why:
            self.absent["brw_stats"] = str(why)
            return {}
