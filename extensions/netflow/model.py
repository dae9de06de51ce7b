"""The assignment of a phase: TASK.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fsage.studies.striping.model import Segment

LEAST_BYTES = 64
LENGTHS = 2048  # a power of two: lengths of records are LEAST_BYTES and up to so many less one
KEY_BITS = 16
MOST_MODELS = 1 << KEY_BITS
CHECKSUMS = 2**48
"""Checksums are below that."""
PhaseName = Literal["generate", "index", "models"]
Distribution = Literal["synchronous", "asynchronous"]


@dataclass(frozen=True)
class Assignment:
    """One phase. `segment_bytes`: a share of the file in asynchronous distribution.

    `segments` and `paths`: the map of the file. `models`: how many there are; the keys below `models_read` are read.
    `tasks`: on all hosts; `tasks_here`: on each. `index`: the folder of the index.
    """

    phase: PhaseName
    distribution: Distribution
    seed: int
    block_bytes: int
    transfer_bytes: int
    segment_bytes: int
    segments: tuple[Segment, ...]
    paths: tuple[str, ...]
    models: int
    models_read: int
    tasks: int
    tasks_here: int
    direct: bool
    index: str
