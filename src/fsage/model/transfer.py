"""A file that is moved in the process of the host side itself, for where a program of its own would take too long."""

from __future__ import annotations

from typing import TypedDict

TASK = "transfer.json"
"""Input of a phase that moves one file so: the text of its Task."""


class Task(TypedDict):
    """What is moved past the cache, in requests of one size. `file`: its name among the measured files."""

    file: str
    bytes: int
    request_bytes: int
    reads: bool
