"""The index on disk, a part from each task: entries in order of their model, so that a few models are its front."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fsage.model.errors import Failure
from fsage.studies.netflow.host.blocks import ENTRY

CHUNK_ENTRIES = 4096
Entry = tuple[int, int, int]
"""Model, offset, length."""


def part(folder: str, number: int) -> Path:
    """Where the part of a task lies."""
    return Path(folder, f"index.{number}")


def write(path: Path, entries: list[bytes]) -> None:
    """Write a part, and have it on disk."""
    try:
        with open(path, "xb") as file:
            file.writelines(sorted(entries))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from error


def front(paths: Iterable[Path], models: int) -> list[Entry]:
    """The entries of the models below `models`, by model and offset."""
    return sorted(entry for path in paths for entry in _front(path, models))


def _front(path: Path, models: int) -> list[Entry]:
    entries: list[Entry] = []
    try:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK_ENTRIES * ENTRY.size):
                if len(chunk) % ENTRY.size:
                    raise Failure(f"{path} ends within an entry: phase index did not write all of it")
                entries += ENTRY.iter_unpack(chunk)
                if entries[-1][0] >= models:
                    break
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}; phase index writes it before phase models") from error
    return [entry for entry in entries if entry[0] < models]
