"""What a state is made of: which files a structure has, and the steps that lead to it.

Everything follows from the steps, their seeds and the capacity, so any host can work on its shard alone and anyone can
compute afterwards what must be there. A kind of step is a module of fsage.host.steps with a class in it, a Step.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fsage.host.structure.files import place_of
from fsage.host.structure.step import Achieved, Files, Notes, Step, read
from fsage.host.structure.step import kinds as kinds
from fsage.host.structure.step import of as of
from fsage.model.errors import Failure
from fsage.model.message import Unacceptable, shown

UNWANTED = -1


def read_all(values: Any, where: str = "steps") -> list[Step]:
    """Steps, in order. Raises Unacceptable."""
    if not isinstance(values, list):
        raise Unacceptable(f"{where} is {shown(values)}: a list is wanted")
    return [read(value, f"{where}[{number}]") for number, value in enumerate(values)]


def expected(done: Sequence[Step], capacity_bytes: int) -> Files:
    """(generation, index) -> bytes of every file that must be there after the steps `done`; None: of any size."""
    files: Files = {}
    for step in done:
        if step.REPLACES:
            files.clear()
        step.expect(files, capacity_bytes)
    return files


def achieved(done: Sequence[Step], capacity_bytes: int) -> list[Achieved]:
    """Nominal beside achieved shares of every generation, in files and in bytes."""
    shares: list[Achieved] = []
    for number, step in enumerate(done):
        step.achieve(shares, list(done[:number]), capacity_bytes)
    return shares


def unsupported(notes: Mapping[str, Notes]) -> str | None:
    """Why a state with such notes could not be reached on this machine, as a step noted; None when it could."""
    return next((noted["unsupported"] for noted in notes.values() if "unsupported" in noted), None)


def verify(mounts: list[Path], done: Sequence[Step], capacity_bytes: int, notes: Mapping[str, Notes]) -> None:
    """Compare what lies on the stores with what `done` asks, by name and size; Failure names the first differences.

    `notes`: what was noted with the state, by the kind of step.
    """
    files = expected(done, capacity_bytes)
    wanted = {place_of(mounts, generation, index): size for (generation, index), size in files.items()}
    del files  # of a million files each such table is felt
    last = max((number for number, step in enumerate(done) if step.REPLACES), default=0)
    for step in done[last:]:
        wanted.update(dict.fromkeys(map(str, step.named(mounts, notes.get(step.kind, {})))))
    extra, wrong = list[str](), list[str]()
    for mount in mounts:
        for entry in fillers(mount):
            size = wanted.pop(entry.path, UNWANTED)
            if size == UNWANTED:
                extra.append(entry.path)
            elif size not in (None, entry.stat().st_size):
                wrong.append(entry.path)
    missing = sorted(wanted)
    if missing or extra or wrong:
        shown = ", ".join((missing + sorted(extra) + sorted(wrong))[:3])
        raise Failure(
            f"the structure is not what was asked: {len(missing)} files missing, {len(extra)} too many, "
            f"{len(wrong)} of another size; first: {shown}"
        )


def fillers(mount: Path) -> Iterator[os.DirEntry[str]]:
    """Directory entries of all filler files of one store, by directory and name; one directory's are held at a time."""
    root = mount / "filler"
    if root.is_dir():
        for folder in sorted(os.scandir(root), key=lambda e: e.name):
            yield from sorted(os.scandir(folder.path), key=lambda e: e.name)
