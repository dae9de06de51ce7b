"""Doing the steps of a state (fsage.model.structure) on a target, and verifying that all its files are there.

Its study's module `host` has a function for each kind of step, named after it (fsage.api.host). A function
`verify_<kind>` may check what names and sizes do not show. Both raise Failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fsage.base import Call, Failure
from fsage.host.targets import Target
from fsage.model import plugins
from fsage.model.structure import Notes, Shard, Step, expected, place_of

UNWANTED = -1


@dataclass(frozen=True)
class Work:
    """The result of a shard: number of changed files, and notes. `unsupported` says why the step cannot be done."""

    files: int
    notes: Notes = field(default_factory=dict)


def work(step: Step, target: Target, done: list[Step], shard: Shard, check_lease: Call) -> Work:
    """Do one shard of a step. Raises Failure."""
    if step.ONE_STORE and len(target.mounts) > 1:
        raise Failure(f"target {target.name} has {len(target.mounts)} stores: to {step.describe()} needs stores: 1")
    does: Callable[[Step, Target, list[Step], Shard, Call], Work]
    does = getattr(plugins.beside(step, "host"), step.kind)
    return does(step, target, done, shard, check_lease)


def verify_made(step: Step, target: Target) -> None:
    """Verify what a step made, where its kind has a function for that. Raises Failure."""
    verifies = getattr(plugins.beside(step, "host"), f"verify_{step.kind}", None)
    if verifies:
        verifies(step, target)


def verify(mounts: list[Path], done: Sequence[Step], capacity_bytes: int, notes: Mapping[str, Notes]) -> None:
    """Compare the files on the stores with those of the steps `done`, by name and size. Raises Failure.

    `notes`: what was noted with the state, by the kind of step.
    """
    files = expected(done, capacity_bytes)
    wanted = {place_of(mounts, generation, index): size for (generation, index), size in files.items()}
    del files  # a table of a million files takes much memory
    last = max((number for number, step in enumerate(done) if step.REPLACES), default=0)
    for step in done[last:]:
        wanted.update(dict.fromkeys(map(str, step.named(mounts, notes.get(step.kind, {})))))
    extra = list[str]()
    wrong = list[str]()
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
            f"the structure is not the requested one: {len(missing)} files missing, {len(extra)} too many, "
            f"{len(wrong)} of another size; first: {shown}"
        )


def fillers(mount: Path) -> Iterator[os.DirEntry[str]]:
    """Directory entries of all filler files of one store, by directory and name; one directory's are held at a time.

    What somebody put among the directories is one of them: so the state is another one.
    """
    root = mount / "filler"
    if root.is_dir():
        for folder in sorted(os.scandir(root), key=lambda e: e.name):
            if folder.is_dir(follow_symlinks=False):
                yield from sorted(os.scandir(folder.path), key=lambda e: e.name)
            else:
                yield folder
