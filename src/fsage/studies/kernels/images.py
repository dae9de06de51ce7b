"""States as files: each made once in a guest, never changed, and copied for each cell.

An image is named by what made it: steps with their seeds, size, mkfs and its version, the kernel. It lies in a cache
that keeps to a limit, FSAGE_IMAGES_GIB; the images that were not used for longest go first.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from fsage.model import filesystems
from fsage.model.errors import Failure, Refusal
from fsage.model.structure import Step
from fsage.model.typed import Json
from fsage.recipes import State
from fsage.studies.kernels.boot import Kernel, boot
from fsage.studies.paf.recipe import States, expand
from fsage.text.sizes import format_size
from fsage.text.strict import problems_of

GIB = 1 << 30
GUEST = Path(__file__).parent / "host/guest.py"
LEAST_BYTES = 512 << 20
ABANDONED_S = 3600.0
"""An image that was begun so long ago is of a command that was killed."""


@dataclass(frozen=True)
class Recipe:
    """What makes an image. `file_extents`: a file `pieces` of so many extents is added; 0: none."""

    filesystem: str
    size_bytes: int
    state: str
    steps: tuple[Step, ...]
    file_extents: int = 0


@dataclass(frozen=True)
class Image:
    """An image, and what the guest that made it says: `capacity_bytes`, `free_bytes`, `digest` of its layout."""

    path: Path
    facts: Json


def recipe(state: str, seed: int, filesystem: str, size_bytes: int, file_size: str, file_extents: int = 0) -> Recipe:
    """The recipe of a PaF state, 80.50 or a whole notation. Raises ValueError."""
    if filesystem not in filesystems.names():
        raise ValueError(f"file system {filesystem!r}: allowed are {', '.join(filesystems.names())}")
    if size_bytes < LEAST_BYTES:
        raise ValueError(f"size {format_size(size_bytes)}: at least {format_size(LEAST_BYTES)} is wanted")
    notation = state if state.upper().startswith("PAF:") else f"PAF:{state}@{file_size}"
    try:
        states = States.model_validate({"recipe": "paf", "notation": [notation]})
    except ValidationError as error:
        raise ValueError("\n".join(problem.text for problem in problems_of(error, States))) from None
    [expanded] = expand(states)
    return Recipe(filesystem, size_bytes, _name(expanded, state), tuple(expanded.steps(1, seed)), file_extents)


def _name(expanded: State, state: str) -> str:
    return state if re.fullmatch(r"[\d.,]+", state) else expanded.name


def place() -> Path:
    """Where images are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fsage/images"


def of(wanted: Recipe, kernel: Kernel) -> Image:
    """The image of a recipe, made by this kernel unless it is kept already. Raises Refusal, Failure."""
    how: Json = {
        **{"filesystem": wanted.filesystem, "size_bytes": wanted.size_bytes, "file_extents": wanted.file_extents},
        **{"steps": [step.to_json() for step in wanted.steps], "kernel": kernel.name},
        **{"mkfs": _version(wanted.filesystem), "guest": hashlib.sha256(GUEST.read_bytes()).hexdigest()},
    }
    digest = hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()[:12]
    path = place() / f"{wanted.filesystem}-{wanted.state}-{digest}.img"
    noted = path.with_suffix(".json")
    if path.exists() and noted.exists():
        os.utime(noted)  # it was used just now
        return Image(path, json.loads(noted.read_text(encoding="utf-8")))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{uuid.uuid4().hex[:8]}.part")
    try:
        with open(part, "xb") as file:
            file.truncate(wanted.size_bytes)
        job = {"do": "build", "disk": 0, **{key: how[key] for key in ("filesystem", "steps", "file_extents")}}
        ended = boot(kernel, [job], [str(part)])
        if ended.why:
            raise Failure(f"{wanted.filesystem} {wanted.state}: {ended.why}")
        if error := ended.answers[0].get("error"):
            raise Failure(f"{wanted.filesystem} {wanted.state} could not be made: {error}")
        facts = {**how, **ended.answers[0]}
        part.chmod(0o444)
        noted.write_text(json.dumps(facts), encoding="utf-8")
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    _keep_to_limit(path)
    return Image(path, facts)


@cache
def _version(filesystem: str) -> str:
    """What mkfs says of its version."""
    command = f"mkfs.{filesystem}"
    try:
        done = subprocess.run([command, "-V"], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Refusal(f"{command} is not here: it makes the image") from error
    return (done.stdout + done.stderr).partition("\n")[0].strip()


def _keep_to_limit(newest: Path) -> None:
    """Remove the images that were not used for longest, until the others are within the limit; leftovers too."""
    for left in place().glob("*.part"):
        if time.time() - left.stat().st_mtime > ABANDONED_S:
            left.unlink(missing_ok=True)
    limit = float(os.environ.get("FSAGE_IMAGES_GIB", "8")) * GIB
    held = 0.0
    used = {path: path.with_suffix(".json") for path in place().glob("*.img")}
    for path, noted in sorted(used.items(), key=lambda pair: -_time(pair[1])):
        held += path.stat().st_blocks * 512
        if held > limit and path != newest:
            path.unlink(missing_ok=True)
            noted.unlink(missing_ok=True)


def _time(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0


def put(image: Image, filesystem: str, to: Path) -> None:
    """Copy an image, holes as holes, and have the file system's own check look at it. Raises Failure."""
    _run(["cp", "--sparse=always", "--reflink=auto", str(image.path), str(to)])
    to.chmod(0o644)
    if check := filesystems.named(filesystem).check_command:
        _run([*check, str(to)])


def _run(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise Failure(f"`{' '.join(words)}` ended with status {done.returncode}: {(done.stdout + done.stderr).strip()}")
