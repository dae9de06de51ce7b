"""On which OSTs a target's files were put, and whether that is as declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fsage.host.lustre import stripes
from fsage.host.structure import fillers
from fsage.host.targets.target import Target
from fsage.model import striping
from fsage.model.declaration import lustre_of
from fsage.model.errors import Failure
from fsage.model.striping import Segment
from fsage.model.structure import Notes


def placement(target: Target, written: list[Path], segments: Sequence[Segment] = ()) -> dict[str, Any]:
    """Where files that were written lie (stripes.placement)."""
    return stripes.placement(written, lustre_of(target.spec), len(target.claim["lustre"]["osts"]), segments)


def of_striped(target: Target, written: list[Path], notes: Mapping[str, Notes]) -> dict[str, Any]:
    """The same for a cell in a state (its notes), which may have a layout of its own; its segment files one by one."""
    segments = striping.noted(notes)
    if not _in_folders(notes):
        return placement(target, written, segments)
    measured = target.mounts[0] / "measured"
    found, stripes_on, astray, left = 0, Counter[str](), list[str](), set(written)
    for number, segment in enumerate(segments):
        mine = [path for path in written if measured / striping.folder(number) in path.parents]
        one = placement(target, mine, [segment._replace(start_bytes=0)])
        found += one["looked_at"]
        stripes_on.update(one["stripes"])
        astray += one["astray"]
        left -= set(mine)
    astray += [f"{path} is in no segment's directory" for path in sorted(left)]
    return {"files": len(written), "looked_at": found, "stripes": dict(stripes_on), "astray": astray}


def make_folders(target: Target, notes: Mapping[str, Notes]) -> None:
    """Make the directories that a state's segments need, where it has such. Raises Failure."""
    if _in_folders(notes):
        stripes.cut(target.mounts[0] / "measured", striping.noted(notes))


def _in_folders(notes: Mapping[str, Notes]) -> bool:
    return bool(striping.noted(notes)) and notes["stripe"]["realisation"] == striping.SEGMENTS


def verify_fillers(target: Target) -> None:
    """`Failure` where files of the structure, a sample of them, lie on other OSTs than declared."""
    there = [Path(entry.path) for entry in fillers(target.mounts[0])]
    if astray := placement(target, there)["astray"]:
        raise Failure(
            f"the files are not where they were asked to be: {len(astray)} of a sample lie elsewhere: {astray[0]}"
        )
