"""Which commit of a kernel's tree changed where a new file lies: kernels between two commits are built and counted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fsage.api.model import Failure, Json, Refusal, counted
from fsage.api.study import Plan, StudyError

from . import building, images
from .images import Recipe
from .model import DEFAULTS, programs, run
from .model.boot import Kernel, boot, folder, kept, roomy
from .model.images import Image, copy

GIB = 1 << 30
ROOM_BYTES = 1 * GIB


class Lies(NamedTuple):
    """Where the new file lies, counted."""

    extents: int
    jumps: int

    def __str__(self) -> str:
        return f"{counted(self.extents, 'extent')}, {counted(self.jumps, 'jump')}"


@dataclass(frozen=True)
class Found:
    """The first commit that is as the bad one, and what it changed. `tried`: how many kernels were counted."""

    commit: str
    subject: str
    before: Lies
    after: Lies
    tried: int


@dataclass(frozen=True)
class Bisection:
    """A state of a study with the file that its cells write, and the tree whose commits are tried."""

    plan: Plan
    state: str
    tree: Path
    say: Callable[[str], None]
    cell: str | None = None
    """The cell that is counted; None: one that repeats."""

    def find(self, good: str, bad: str) -> Found:
        """Name the first bad commit. Raises Refusal, Failure, StudyError."""
        building.refuse_unready()
        first = building.commit_of(self.tree, good)
        last = building.commit_of(self.tree, bad)
        if not self._git("rev-list", "-1", "--ancestry-path", f"{first}..{last}"):
            raise Refusal(f"between {good} and {bad} of {self.tree} lies no commit: --good names an ancestor of --bad")
        job = self._job()
        image = images.of(self._recipe(), programs.some(None))
        before = self._counted(first, job, image)
        after = self._counted(last, job, image)
        if before == after:
            raise Refusal(f"{good} and {bad} both give {before}: nothing changed between them in state {self.state}")
        tried = 2
        goods = [first]
        while True:
            middle = self._git("rev-list", "--bisect", last, *(f"^{good}" for good in goods))
            if middle == last:  # no other is left
                break
            seen = self._counted(middle, job, image)
            tried += 1
            if abs(seen.extents - before.extents) < abs(seen.extents - after.extents) or seen == before:
                goods.append(middle)
                before = seen
            else:
                last = middle
                after = seen
        subject = self._git("log", "-1", "--format=%s", last)
        return Found(last, subject, before, after, tried)

    def _git(self, *words: str) -> str:
        return run(["git", "-C", str(self.tree), *words]).strip()

    def _kernel(self, commit: str) -> Kernel:
        """The kernel of a commit, built unless it is here; what did not change is not compiled again."""
        found = building.of_commit(commit)
        if found:
            return found
        self.say(f"building {commit[:12]}")
        place = kept() / "trees" / hashlib.sha256(str(self.tree.resolve()).encode()).hexdigest()[:12]
        place.mkdir(parents=True, exist_ok=True)
        building.checked_out(self.tree, commit, place / "source")
        return building.made(place / "source", place / "out", building.suffix_of(commit))

    def _counted(self, commit: str, job: Json, image: Image) -> Lies:
        """Count twice, for what does not repeat names any commit. Raises Failure."""
        kernel = self._kernel(commit)
        try:
            lies = self._once(kernel, job, image)
            again = self._once(kernel, job, image)
        except Failure as why:
            raise Failure(f"commit {commit[:12]}: {why}") from why
        if lies != again:
            raise Failure(
                f"commit {commit[:12]} gives {lies}, and counted again {again}: this cell does not repeat, so no "
                "commit can be named. Name a --cell whose cache is warm, or whose mount is no_prefetch_block_bitmaps"
            )
        self.say(f"{commit[:12]}: {lies}")
        return lies

    def _once(self, kernel: Kernel, job: Json, image: Image) -> Lies:
        with folder(roomy(ROOM_BYTES + image.taken_bytes)) as place:
            answer = boot(kernel, [job], [copy(image, place / "copy")]).answer()
        return Lies(answer["extents"], answer["jumps"])

    def _recipe(self) -> Recipe:
        steps, inputs = self.plan.with_inputs(self.plan.steps(self.state))
        spec = self.plan.target.spec
        size_bytes = int(spec["size_gib"] * GIB)
        return Recipe(
            spec["filesystem"], size_bytes, self.state, tuple(steps), geometry=spec["geometry"], inputs=inputs
        )

    def _params(self) -> Json:
        """Those of the named cell; else of one with bitmaps in memory, because just mounted a count may not repeat."""
        planned = {cell.name: cell.params for cell in self.plan.cells[self.state] if cell.kind == "planned"}
        if self.cell is None:
            return min(planned.values(), key=lambda of: (of.get("cache") != "warm", of.get("mount") != DEFAULTS))
        self.plan.check_cell(self.cell)
        if self.cell not in planned:
            raise StudyError(f"state {self.state} has no cell {self.cell!r}; it has {', '.join(planned)}")
        return planned[self.cell]

    def _job(self) -> Json:
        """The work of a guest: the file that a cell of the state writes."""
        if not self.plan.target.counts:
            raise StudyError(
                f"target {self.plan.target.name} is of kind {self.plan.target.spec['kind']}, and kernels are compared "
                "on one whose states are images: name it by --target kernel"
            )
        self.plan.check_state(self.state)
        params = self._params()
        if params["workload"] != "new_file":
            raise StudyError(
                f"study {self.plan.study.name} measures {params['workload']}: cells of new_file are wanted"
            )
        mount = params.get("mount")
        return {
            "do": "write",
            "disk": 0,
            "filesystem": self.plan.target.spec["filesystem"],
            "bytes": params["file_size"],
            "request_bytes": params["transfer_size"],
            "direct": params["direct"],
            "warm": params["cache"] == "warm",
            "mount": mount if mount and mount != DEFAULTS else "",
        }
