"""Images of file systems, each made once and never changed, and kept in a cache.

An image is named by what made it. The cache keeps to a limit, FSAGE_IMAGES_GIB: the images that were not used for
longest go first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fsage.api.model import Failure, Json, Refusal, filesystems

from . import run
from .boot import disk, kept

GIB = 1 << 30
USUAL_GIB = "8"
ABANDONED_S = 3600.0
"""An image that was begun so long ago is of a command that was killed."""
IN_USE_S = 60.0
"""An image that was used so lately may be needed at this moment."""
FULL_BYTES = 1 << 20
"""Where no more is free, a guest's disk is refused its blocks: the guest sees an input/output error."""


@dataclass(frozen=True)
class Image:
    """An image, and what is known of it: all that made it, and what the guest that made it says."""

    path: Path
    facts: Json
    is_new: bool = False

    @property
    def taken_bytes(self) -> int:
        """What it takes, without its holes."""
        return self.path.stat().st_blocks * 512


def place() -> Path:
    """Where images are kept."""
    return kept() / "images"


def made(name: str, how: Json, size_bytes: int, make: Callable[[Path], Json]) -> Image:
    """The image that `how` leads to, made by `make` in an empty file unless it is kept. Raises what `make` does."""
    digest = hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()[:12]
    path = place() / f"{name}-{digest}.img"
    noted = path.with_suffix(".json")
    with contextlib.suppress(FileNotFoundError):  # it is not kept, or another command removes it just now
        os.utime(noted)  # it was used just now
        path.stat()
        return Image(path, json.loads(noted.read_bytes()))
    limit_gib()  # what is wrong with it is said before the work
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{uuid.uuid4().hex[:8]}.part")
    try:
        disk(part, size_bytes)
        facts = {**how, **make(part)}
        with contextlib.suppress(Failure):  # it is larger then, and not wrong
            run(["fallocate", "--dig-holes", str(part)])
        part.chmod(0o444)
        about = part.with_suffix(".about.part")
        about.write_text(json.dumps(facts), encoding="utf-8")
        about.rename(noted)  # another command may have made the same image, and a third read what is noted of it
        part.rename(path)
    except Failure as why:
        if shutil.disk_usage(path.parent).free > FULL_BYTES:
            raise
        raise Failure(f"{why}. {path.parent} is full: free some, or name another folder as XDG_CACHE_HOME") from None
    finally:
        part.unlink(missing_ok=True)
    _keep_to_limit()
    return Image(path, facts, is_new=True)


def copy(image: Image, to: Path) -> Path:
    """A copy of an image that may be written to, holes as holes. Raises Failure.

    A guest's own copy-on-write disk (`ubda=COPY,BACKING`) gave blocks back as they were before it wrote them: an XFS
    found its log two records behind its metadata (Linux 6.1.176).
    """
    run(["cp", "--sparse=always", "--reflink=auto", str(image.path), str(to)])
    to.chmod(0o644)
    return to


@cache
def mkfs(filesystem: str) -> str:
    """What mkfs says of its version. Raises Refusal."""
    command = f"mkfs.{filesystem}"
    try:
        done = subprocess.run([command, "-V"], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        package = filesystems.named(filesystem).package
        how = f". Install {package}, or have `fsage kernels --fetch bookworm` unpack it" if package else ""
        raise Refusal(f"{command} is not here: it makes the image{how}") from error
    return (done.stdout + done.stderr).partition("\n")[0].strip()


def limit_gib() -> float:
    """What the cache may hold. Raises Refusal."""
    given = os.environ.get("FSAGE_IMAGES_GIB", USUAL_GIB)
    with contextlib.suppress(ValueError):
        if float(given) > 0:
            return float(given)
    raise Refusal(f"FSAGE_IMAGES_GIB is {given!r}: a number above 0 is wanted, the GiB that images may take")


def _keep_to_limit() -> None:
    """Remove the images that were not used for longest, until the others are within the limit; leftovers too.

    What was used just now stays, for it may be about to be copied.
    """
    for left in place().glob("*.part"):
        if _unused_s(left) > ABANDONED_S:
            left.unlink(missing_ok=True)
    taken = 0.0
    unused_s = {path: _unused_s(path.with_suffix(".json")) for path in place().glob("*.img")}
    for path in sorted(unused_s, key=unused_s.__getitem__):
        with contextlib.suppress(FileNotFoundError):  # another command removed it meanwhile
            taken += Image(path, {}).taken_bytes
        if taken > limit_gib() * GIB and unused_s[path] > IN_USE_S:
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)


def _unused_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return math.inf
