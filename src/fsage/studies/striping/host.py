"""The step `stripe`: a layout for the striped file that is measured. It does not make it: each cell makes its own.

On Lustre it is a composite layout of the directory in which cells make theirs, until the next scrub (`pfl`). Or it is a
directory for each segment, which each cell makes anew (`segments`). On a target with stores the file is its objects, by
the map of model.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fsage.api.host import Target, Work, make_eviction_files
from fsage.api.model import EVICTION_FILES, Json, Refusal, Shard, Step

from .model import PFL, Layout, Stripe, counts, osts_of


def stripe(step: Stripe, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Note the layout as this target has it, or why it has none: its cells are then unsupported."""
    noted: Json = {"osts": osts_of(target.claim), "realisation": step.realisation}
    made = 0
    if step.eviction_file is not None:
        noted["eviction_bytes"] = make_eviction_files(target, step.eviction_file, check_lease)
        made = EVICTION_FILES
    try:
        segments = step.on(target.claim)
    except Refusal as why:
        return Work(made, {**noted, "unsupported": str(why)})
    target.osts.lay_out(target.mounts[0] / "measured", segments, step.realisation == PFL)
    return Work(made, {**noted, "segments": list(map(list, segments))})


def stripe_folder(folder: Path, layout: Layout, target: Target, segment: int) -> None:
    """On Lustre: give files that are made in a folder later the stripes of one of the layout's segments."""
    target.osts.stripe(folder, *_stripes(layout, target, segment))


def astray(paths: Sequence[Path], layout: Layout, target: Target, segment: int) -> list[str]:
    """On Lustre: a sentence for each file, of a sample of them, that has other stripes than a segment of the layout."""
    return target.osts.astray(paths, *_stripes(layout, target, segment))


def _stripes(layout: Layout, target: Target, segment: int) -> tuple[int, int]:
    """How many stripes files of one segment have, and of how many bytes."""
    return counts(layout, osts_of(target.claim))[segment], layout.segments[segment].stripe_bytes
