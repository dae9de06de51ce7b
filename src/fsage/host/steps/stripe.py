"""Step `stripe`: a layout for the striped file that is measured. It does not make it: each cell makes its own.

On Lustre it is a composite layout of the directory in which cells make theirs, until the next scrub (`pfl`), or a
directory for each segment, which each cell makes anew (`segments`); on a target with stores the file is its objects, by
the map of fsage.host.structure.striping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fsage.host.lustre import stripes
from fsage.host.structure import eviction, striping
from fsage.host.structure.step import Files, Notes, Shard, Step, Work
from fsage.model.errors import Refusal

if TYPE_CHECKING:
    from fsage.host.targets.target import Target


@dataclass(frozen=True)
class Stripe(striping.Layout):
    """Lay the file out.

    `eviction_file`: the size of one that is made first (fsage.host.structure.eviction), or None.
    """

    eviction_file: float | Literal["memory"] | None = None

    def describe(self) -> str:
        """The step in words."""
        return f"lay out a file as {self.pattern} ({self.realisation})"

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Note the layout as this target has it, or why it has none: its cells are then unsupported."""
        noted: Notes = {"osts": striping.osts_of(target.claim), "realisation": self.realisation}
        made = 0
        if self.eviction_file is not None:
            noted["eviction_bytes"] = eviction.make(target, self.eviction_file, check_lease)
            made = eviction.COUNT
        try:
            segments = self.on(target.claim)
        except Refusal as why:
            return Work(made, {**noted, "unsupported": str(why)})
        if target.has_osts:
            measured = target.mounts[0] / "measured"
            if self.realisation == striping.PFL:
                stripes.compose(measured, segments)
            else:  # tried once, so that a layout which comes otherwise fails here and not in each cell
                for place in stripes.cut(measured, segments):
                    place.rmdir()
        return Work(made, {**noted, "segments": [list(segment) for segment in segments]})

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """The cache-eviction file, if asked for; of a size that only the target knows."""
        if self.eviction_file is not None:
            files.update({(self.generation, index): None for index in range(eviction.COUNT)})
