"""What a state is made of: which files a structure has, and the kinds of step that bring it about.

Everything follows from the steps, their seeds and the capacity, so any host can work on its shard alone and anyone can
compute afterwards what must be there. One module a kind of step, fsage.agent.steps.<kind>; each offers
- `describe(step) -> str`: the step in words;
- `work(target, step, done, shard, check_lease) -> dict`: do one shard of it and return `files`, how many changed, and
  what else should be noted with the state, or `unsupported`, why this machine cannot. `check_lease` is called before
  each file; what it raises ends the step. Raises Failure;
- `expect(files, step, capacity_bytes)`: change {(generation, index): bytes} into what must be there after the step;
- `achieve(shares, step, done, capacity_bytes)`: add to what the steps before, `done`, achieved: a dict a generation;
- `SHARDED`: whether several hosts may share the work.
A step that goes on from a smaller one of its kind offers `continues(last, step) -> bool` too; one whose files have
names of their own offers `named(mounts, noted) -> list[Path]`, these files by what its `work` noted.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from fsage.agent import steps
from fsage.agent.errors import Failure
from fsage.agent.structure.files import path_of

Step = dict[str, Any]


@cache
def kinds() -> list[str]:
    """Names of the kinds of step there are."""
    return sorted(found.name for found in pkgutil.iter_modules(steps.__path__))


def of(step: Step) -> ModuleType:
    """The module of a step. Raises Failure for a kind that there is not."""
    if step["kind"] not in kinds():
        raise Failure(f"unknown kind of step {step['kind']!r}: there are {', '.join(kinds())}")
    return importlib.import_module(f"{steps.__name__}.{step['kind']}")


def continues(last: Step, step: Step) -> bool:
    """Whether `step` goes on from where `last`, a step of the same kind, left."""
    goes_on = getattr(of(step), "continues", None)
    return last["kind"] == step["kind"] and goes_on is not None and goes_on(last, step)


def expected(done: list[Step], capacity_bytes: int) -> dict[tuple[int, int], int | None]:
    """(generation, index) -> bytes of every file that must be there after the steps `done`; None: of any size."""
    files: dict[tuple[int, int], int | None] = {}
    for step in done:
        of(step).expect(files, step, capacity_bytes)
    return files


def achieved(done: list[Step], capacity_bytes: int) -> list[dict[str, Any]]:
    """Nominal beside achieved shares of every generation, in files and in bytes."""
    shares: list[dict[str, Any]] = []
    for number, step in enumerate(done):
        of(step).achieve(shares, step, done[:number], capacity_bytes)
    return shares


def unsupported(now: dict[str, Any]) -> str | None:
    """Why the state of a token could not be brought about on this machine, as a step noted; None when it could."""
    return next((notes["unsupported"] for notes in now.get("notes", {}).values() if "unsupported" in notes), None)


def verify(mounts: list[Path], done: list[Step], capacity_bytes: int, notes: dict[str, Any] | None = None) -> None:
    """Compare what lies on the stores with what `done` asks, by name and size; Failure names the first differences.

    `notes`: what was noted with the state, by the kind of step.
    """
    wanted = {
        path_of(mounts, generation, index): size for (generation, index), size in expected(done, capacity_bytes).items()
    }
    for step in done:
        if named := getattr(of(step), "named", None):
            wanted.update(dict.fromkeys(named(mounts, (notes or {})[step["kind"]])))
    present = {Path(entry.path): entry.stat().st_size for mount in mounts for entry in fillers(mount)}
    missing = sorted(set(wanted) - set(present))
    extra = sorted(set(present) - set(wanted))
    wrong = sorted(path for path in set(wanted) & set(present) if wanted[path] not in (None, present[path]))
    if missing or extra or wrong:
        shown = ", ".join(str(path) for path in (missing + extra + wrong)[:3])
        raise Failure(
            f"the structure is not what was asked: {len(missing)} files missing, {len(extra)} too many, "
            f"{len(wrong)} of another size; first: {shown}"
        )


def fillers(mount: Path) -> list[os.DirEntry]:
    """Directory entries of all filler files of one store, by generation and name."""
    root = mount / "filler"
    if not root.is_dir():
        return []
    return [
        entry
        for generation in sorted(os.scandir(root), key=lambda e: e.name)
        for entry in sorted(os.scandir(generation.path), key=lambda e: e.name)
    ]
