"""What a new file gets on each kernel from the same images: extents, jumps and requests, counted.

A cell is a kernel, its mount options and an image; it has a copy of its own, so that none changes what another finds.
Cells are kept in a file line by line: the same command measures what is missing.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fsage.model.counting import jumps, requests
from fsage.model.device import REQUEST_BYTES
from fsage.model.message import say
from fsage.model.typed import Json
from fsage.studies.kernels import images
from fsage.studies.kernels.images import Recipe
from fsage.studies.kernels.model.boot import Kernel, boot, folder, roomy

GUESTS, CELLS = 2, 8
"""Guests at a time, and cells of one: each has a disk of its own there."""


@dataclass(frozen=True)
class Cell:
    """One count. `warm`: ext4 has read every bitmap before; `repeat`: of the same twice, the first is 1."""

    recipe: Recipe
    seed: int
    kernel: Kernel
    mount: str
    warm: bool
    repeat: int

    def key(self) -> Json:
        """What tells it from others, as it stands in the file."""
        return {
            "filesystem": self.recipe.filesystem,
            "state": self.recipe.state,
            "seed": self.seed,
            "size_bytes": self.recipe.size_bytes,
            "kernel": self.kernel.name,
            "mount": self.mount,
            "warm": self.warm,
            "repeat": self.repeat,
        }


@dataclass(frozen=True)
class Written:
    """The file that is written: past the cache, in requests of so many bytes."""

    file_bytes: int
    request_bytes: int


def count(cells: Sequence[Cell], builder: Kernel, written: Written, to: Path) -> list[Json]:
    """Count what is missing of the cells, and return all. Raises Refusal, Failure."""
    to.parent.mkdir(parents=True, exist_ok=True)
    kept = {_text(row): row for row in _read(to) if row["status"] != "failed"}
    missing = [cell for cell in cells if _text({**cell.key(), **vars(written)}) not in kept]
    say(f"{len(cells)} cells, {len(missing)} of them to count")
    _cut_off(to)
    with open(to, "a", encoding="utf-8") as file, ThreadPoolExecutor(GUESTS) as pool:
        try:
            list(pool.map(lambda recipe: images.of(recipe, builder), dict.fromkeys(cell.recipe for cell in missing)))
            for number, rows in enumerate(pool.map(lambda some: _in_guest(some, builder, written), _batches(missing))):
                for row in rows:
                    file.write(json.dumps(row, sort_keys=True) + "\n")
                    kept[_text(row)] = row
                file.flush()
                if number % 10 == 9:
                    say(f"{len(kept)} cells counted")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [kept[_text({**cell.key(), **vars(written)})] for cell in cells]


KEY = ("filesystem", "state", "seed", "size_bytes", "kernel", "mount", "warm", "repeat", "file_bytes", "request_bytes")


def _text(row: Json) -> str:
    return json.dumps([row.get(name) for name in KEY])


def _read(path: Path) -> Iterator[Json]:
    """The rows of a file; a last line that a kill cut off is none."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)


def _cut_off(path: Path) -> None:
    """Cut off a last line that a kill left unfinished."""
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def _batches(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells of one kernel that share a guest."""
    of_kernel = defaultdict[Kernel, list[Cell]](list)
    for cell in cells:
        of_kernel[cell.kernel].append(cell)
    return [some[at : at + CELLS] for some in of_kernel.values() for at in range(0, len(some), CELLS)]


def _in_guest(cells: Sequence[Cell], builder: Kernel, written: Written) -> list[Json]:
    """Count some cells in one guest; those that it dies of are tried alone, and then they are failed."""
    made = [images.of(cell.recipe, builder) for cell in cells]
    size = {"file_bytes": written.file_bytes, "request_bytes": written.request_bytes}
    work = [
        {
            "do": "count",
            "disk": number,
            "filesystem": cell.recipe.filesystem,
            "options": cell.mount,
            "warm": cell.warm,
            **size,
        }
        for number, cell in enumerate(cells)
    ]
    with folder(roomy(len(cells) * written.file_bytes * 2)) as place:
        disks = [f"{place}/{number},{image.path}" for number, image in enumerate(made)]
        ended = boot(cells[0].kernel, work, disks)
    rows = [
        {**cell.key(), **size, "image": image.facts["digest"], "built_by": builder.name, **_judged(answer)}
        for cell, image, answer in zip(cells, made, ended.answers, strict=False)
    ]
    left = cells[len(rows) :]
    if len(left) == 1 == len(cells):
        return [{**left[0].key(), **size, "status": "failed", "why": ended.why}]
    return rows + [row for cell in left for row in _in_guest([cell], builder, written)]


def _judged(answer: Json) -> Json:
    """Counts of an answer: what lies where, in how many pieces, and what reading it asks of a device."""
    if why := answer.get("unsupported"):
        return {"status": "unsupported", "why": why, "release": answer["kernel"]}
    if why := answer.get("error"):
        return {"status": "failed", "why": why, "release": answer["kernel"]}
    extents = answer["extents"]
    distances = jumps(extents)
    return {
        "status": "valid",
        "release": answer["kernel"],
        "extents": len(extents),
        "jumps": len(distances),
        "jumped_bytes": sum(distances),
        "requests": requests(extents, REQUEST_BYTES),
        "largest_extent_bytes": max((length for *_, length in extents), default=0),
        "written_bytes": answer["file_bytes"],
        "free_bytes": answer["free_bytes"],
        "errno": answer["errno"],
        "layout": extents,
    }
