"""On which OSTs a target's files were put, and whether that is as declared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fsage.agent import structure
from fsage.agent.errors import Failure
from fsage.agent.lustre import stripes
from fsage.agent.striping import Segment
from fsage.agent.target import Target


def placement(target: Target, written: list[Path], segments: Sequence[Segment] = ()) -> dict[str, Any]:
    """Where files that were written lie (stripes.placement)."""
    return stripes.placement(written, target.spec["lustre"], len(target.claim["lustre"]["osts"]), segments)


def verify_fillers(target: Target) -> None:
    """`Failure` where files of the structure, a sample of them, lie on other OSTs than declared."""
    fillers = [Path(entry.path) for entry in structure.fillers(target.mounts[0])]
    if astray := placement(target, fillers)["astray"]:
        raise Failure(
            f"the files are not where they were asked to be: {len(astray)} of a sample lie elsewhere: {astray[0]}"
        )
