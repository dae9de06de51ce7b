"""The segments of a striped file, as its state notes them (study striping makes them, from a pattern).

A file is divided into segments at watermarks. A segment has its own objects, which get its stripes in turn. Objects are
numbered through the whole file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fsage.base import typed
from fsage.model.structure import Notes

ALL = -1  # a stripe count: as many as there are OSTs
SEGMENTS = "segments"
"""The realisation in which each segment is a file of its own, in a directory."""
EVICTION_FILES = 16
"""Parts of the file that is read to evict caches: so many that they spread over a target's stores."""


class Segment(NamedTuple):
    """Bytes `start_bytes` to `end_bytes` of a file, a stripe in turn to each of `stripes` objects from `first` on."""

    start_bytes: int
    end_bytes: int
    stripes: int
    stripe_bytes: int
    first: int

    @property
    def length_bytes(self) -> int:
        """How many bytes of the file it holds."""
        return self.end_bytes - self.start_bytes


def noted(notes: Mapping[str, Notes]) -> list[Segment]:
    """The segments of the layout in which a target's state is, of its notes; none where it has no such layout."""
    return typed.read(list[Segment], notes.get("stripe", {}).get("segments", []))


def folder(segment: int) -> str:
    """The directory, beside other segments', of the file that segment number `segment` of a file is on Lustre."""
    return f"segment{segment}"
