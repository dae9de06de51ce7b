"""Images for others: a file system in a state that PaF names, or with the free space of another one.

A guest makes it, and its fsck checks it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fsage.api.evidence import read_free
from fsage.api.model import Failure, Json, Step, filesystems, format_size
from fsage.layouts import extents
from fsage.studies.paf.recipe import States, expand
from fsage.studies.replica.model import Replica

from .model import images, run
from .model.boot import Kernel, answer_to
from .model.images import Image

GUEST = Path(__file__).parents[2] / "host/guests/work.py"
"""What makes them."""
LEAST_BYTES = 512 << 20


@dataclass(frozen=True)
class Recipe:
    """What makes an image. `file_extents`: a file `pieces` of so many extents is added; 0: none.

    `geometry`: it is made like another file system. `inputs`: what its steps need, by its digest.
    """

    filesystem: str
    size_bytes: int
    state: str
    steps: tuple[Step, ...]
    file_extents: int = 0
    geometry: Json | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)


def recipe(state: str, seed: int, filesystem: str, size_bytes: int, file_size: str, file_extents: int = 0) -> Recipe:
    """The recipe of a PaF state, 80.50 or a whole notation. Raises ValueError."""
    if filesystem not in filesystems.names(guests=True):
        raise ValueError(f"file system {filesystem!r}: allowed are {', '.join(filesystems.names(guests=True))}")
    if size_bytes < LEAST_BYTES:
        raise ValueError(f"size {format_size(size_bytes)}: at least {format_size(LEAST_BYTES)} is wanted")
    if state.upper().startswith("PAF:"):
        notation = state
    else:
        notation = f"PAF:{state}@{file_size}"
    filler = "fallocate"
    if filesystems.named(filesystem).places_when_written:  # a file that is only allocated lies nowhere there
        filler = "write"
    [expanded] = expand(States.read({"recipe": "paf", "notation": [notation], "filler": filler}))
    steps = tuple(expanded.steps(1, seed))
    reasons = [why for step in steps if (why := step.unavailable_because(size_bytes))]
    if reasons:
        raise ValueError(f"state {state} in {format_size(size_bytes)}: {reasons[0]}")
    return Recipe(filesystem, size_bytes, expanded.name, steps, file_extents)


def recipe_of(layout: str, seed: int, file_extents: int = 0) -> Recipe:
    """The recipe of whatever `fsage evidence` reads: the same free space on a device as large. Raises ValueError.

    `seed`: of what a text of sizes does not say.
    """
    found = read_free(layout, (seed, 1))
    head = found.head
    system = filesystems.like(head.filesystem)
    why = head.why_no_copy()
    if system is None:
        why = f"it names {head.filesystem or 'no file system'}, and an image has {', '.join(filesystems.names())}"
    if why or system is None:
        raise ValueError(f"{layout}: no image can be made of it: {why}")
    text = b"".join(extents.written(head, found.pairs()))
    digest = hashlib.sha256(text).hexdigest()
    name = Path(layout).name
    step = Replica(1, name, joined=False, draw=1, window_groups=1, seed=seed, input=digest)
    inputs = {digest: base64.b64encode(zlib.compress(text)).decode()}
    geometry = head.geometry if system.geometry else None
    return Recipe(system.name, head.device_bytes, name, (step,), file_extents, geometry, inputs)


def of(wanted: Recipe, kernel: Kernel) -> Image:
    """The image of a recipe, made by this kernel unless it is kept already. Raises Refusal, Failure."""
    how: Json = {
        "filesystem": wanted.filesystem,
        "size_bytes": wanted.size_bytes,
        "file_extents": wanted.file_extents,
        "steps": [step.to_json() for step in wanted.steps],
        "geometry": wanted.geometry,
        "kernel": kernel.name,
        "mkfs": images.mkfs(wanted.filesystem),
        "guest": hashlib.sha256(GUEST.read_bytes()).hexdigest(),
    }

    def make(part: Path) -> Json:
        try:
            return answer_to(kernel, {"do": "build", "inputs": dict(wanted.inputs), **how}, part)
        except Failure as why:
            raise Failure(f"{wanted.filesystem} {wanted.state} could not be made: {why}") from why

    return images.made(f"{wanted.filesystem}-{wanted.state}", how, wanted.size_bytes, make)


def check_new(to: Path) -> None:
    """Raise ValueError where an image cannot be put there; looked at before one is made."""
    if to.exists():
        raise ValueError(f"{to} exists, and is left as it is: name another file")
    if not os.access(to.absolute().parent, os.W_OK):
        raise ValueError(f"{to}: {to.absolute().parent} is no folder that you may write to: name a file in one")


def put(image: Image, filesystem: str, to: Path) -> None:
    """Copy an image, holes as holes, and have the file system's own check look at it; all or none. Raises Failure."""
    part = to.with_name(f".{to.name}.part")
    try:
        images.copy(image, part)
        check = filesystems.named(filesystem).check_command
        if check:
            run([*check, str(part)])
        part.rename(to)
    finally:
        part.unlink(missing_ok=True)
