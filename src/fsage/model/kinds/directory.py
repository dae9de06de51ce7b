"""Kind `directory`: a place on somebody else's file system."""

from __future__ import annotations

from pathlib import Path

from fsage.base import GIB
from fsage.model.kinds import Kind
from fsage.model.target import Spec


class Directory(Kind):
    """A directory on a file system that is other people's too, and of which nothing is known."""

    kind = "directory"
    title = "a plain directory, whose file system is others' too"
    takes_turns = True
    how_shared = "; of several clients all share fsage_target.home"

    @classmethod
    def most_bytes(cls, spec: Spec) -> int | None:
        return int(spec["budget_gib"] * GIB)

    @classmethod
    def destroys(cls, spec: Spec, claimed: bool) -> str:
        return f"files that fsage made in {spec['directory']}; nothing else there is touched"

    @classmethod
    def disturbs(cls, spec: Spec, other: Spec) -> str | None:
        ours = Path(spec["directory"]).resolve()
        theirs = Path(other["directory"]).resolve()
        if ours != theirs and ours not in theirs.parents and theirs not in ours.parents:
            return None
        return f"shares a file tree with {spec['name']} ({other['directory']}, {spec['directory']})"
