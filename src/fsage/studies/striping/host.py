"""The step `stripe`: a layout for the striped file that is measured. It does not make it: each cell makes its own.

On Lustre it is a composite layout of the directory in which cells make theirs, until the next scrub (`pfl`). Or it is a
directory for each segment, which each cell makes anew (`segments`). On a target with stores the file is its objects, by
the map of fsage.model.striping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fsage.base import MIB, Refusal
from fsage.host.instruments import eviction
from fsage.host.lustre import stripes
from fsage.host.structure import Work
from fsage.host.targets.target import Target
from fsage.model import striping
from fsage.model.declaration import lustre_of
from fsage.model.striping import EVICTION_FILES, Layout
from fsage.model.structure import Notes, Shard, Step
from fsage.model.target import Striping
from fsage.studies.striping.model import Stripe


def stripe(step: Stripe, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Note the layout as this target has it, or why it has none: its cells are then unsupported."""
    noted: Notes = {"osts": striping.osts_of(target.claim), "realisation": step.realisation}
    made = 0
    if step.eviction_file is not None:
        noted["eviction_bytes"] = eviction.make_files(target, step.eviction_file, check_lease)
        made = EVICTION_FILES
    try:
        segments = step.on(target.claim)
    except Refusal as why:
        return Work(made, {**noted, "unsupported": str(why)})
    if target.has_osts:
        measured = target.mounts[0] / "measured"
        declared = lustre_of(target.spec)
        if step.realisation == striping.PFL:
            stripes.compose(measured, segments, declared)
        else:  # tried once, so that a layout which comes otherwise fails here and not in each cell
            for place in stripes.cut(measured, segments, declared):
                place.rmdir()
    return Work(made, {**noted, "segments": list(map(list, segments))})


def stripe_folder(folder: Path, layout: Layout, target: Target, segment: int) -> None:
    """On Lustre: give files that are made in a folder later the stripes of one of the layout's segments."""
    stripes.set_on(folder, _striping(layout, target, segment), lustre_of(target.spec))


def astray(paths: Sequence[Path], layout: Layout, target: Target, segment: int) -> list[str]:
    """On Lustre: a sentence for each file, of a sample of them, that has other stripes than a segment of the layout."""
    osts = striping.osts_of(target.claim)
    usable = target.claim["lustre"].get("usable", ())
    elsewhere: list[str] = stripes.of_files(paths, _striping(layout, target, segment), osts, allowed=usable)["astray"]
    return elsewhere


def _striping(layout: Layout, target: Target, segment: int) -> Striping:
    """The striping of files of one segment, as a target's declaration has it."""
    count = striping.counts(layout, striping.osts_of(target.claim))[segment]
    size_mib = layout.segments[segment].stripe_bytes // MIB
    return {"stripe_count": count, "stripe_size_mib": size_mib, "first_ost": stripes.ANY}
