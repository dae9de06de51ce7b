"""Image files: with all their blocks; or all holes, in an XFS of their own below.

The first write of a block is slower. A modelled disk hides that; without a model each block is written once before.
The device of that XFS (fsage.host.device.below) changes.
"""

from __future__ import annotations

import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fsage.host.device import below, kept, loops
from fsage.host.stores import filesystems
from fsage.host.system import files, places, space
from fsage.host.targets import claims
from fsage.model.claim import Image, Images, Made
from fsage.model.declaration import GIB, MIB
from fsage.model.sparse import takes
from fsage.model.target import Spec

STEP_BYTES, WRITERS = 4 * MIB, 8  # half again as fast as four that write 16 MiB at a time


def allocate(path: str, size_bytes: int, sparse: bool = False) -> Made:
    """Make a file that has all its blocks, or one that is all holes."""
    descriptor = places.file(path, os.O_RDWR | os.O_CREAT)
    try:
        nocow = _stop_copying(descriptor)
        if sparse:
            os.ftruncate(descriptor, size_bytes)
        else:
            os.posix_fallocate(descriptor, 0, size_bytes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    files.sync_dir(Path(path).parent)
    return {**(loops.identity(path) or {}), "nocow": nocow}


def fill(path: str, size_bytes: int) -> None:
    """Write each block of an image, or of its device, once."""
    descriptor = places.file(path, os.O_WRONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, STEP_BYTES) as zeros, memoryview(zeros) as view, ThreadPoolExecutor(WRITERS) as writers:

            def write(begin: int) -> None:
                end = min(begin + STEP_BYTES, size_bytes)
                while begin < end:
                    begin += os.pwrite(descriptor, view[: end - begin], begin)

            for _ in writers.map(write, range(0, size_bytes, STEP_BYTES)):
                pass
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stop_copying(descriptor: int) -> bool:
    """Keep the file system below from moving the image's blocks; whether a setting was needed for that."""
    below = filesystems.get(space.fs_type(Path(f"/proc/self/fd/{descriptor}")))
    return bool(below and below.keep_in_place(descriptor))


def whole(image: Made) -> Image:
    """The identity of a written image."""
    return {"image": image["image"], "dev": image["dev"], "ino": image["ino"], "bytes": image["bytes"]}


def why_no_room(spec: Spec, place: Path) -> str | None:
    """Why a sparse target cannot be made in this directory; None where it can."""
    taken, free = takes(spec), space.free_bytes(place)
    if taken.total_bytes <= free / 2:
        return None
    return (
        f"target {spec['name']}, sparse, takes {taken.words()}. {place} has {free / GIB:.2f} GiB free, and half of it, "
        f"{free / 2 / GIB:.2f} GiB, is less: declare a smaller size_gib or amount_mib, free some, or name another "
        "fsage_target.image_dir"
    )


def below_is_away(home: Path, noted: Images) -> bool:
    """Whether the images are sparse, and what they lie in is not mounted."""
    return "below" in noted and below.number(home) == below.NOWHERE


def located(home: Path, noted: Images, put: bool = False) -> Images:
    """The images as they are now: sparse ones are on the device that the XFS below has, which changes.

    `put`: have that mounted. Raises Refusal, Failure.
    """
    if "below" not in noted:
        return noted
    if put:
        below.put(home, noted)
    device = below.number(home)
    images: list[Made] = [{**image, "dev": device} if "dev" in image else image for image in noted["images"]]
    return {**noted, "images": images}


def give_back(home: Path) -> list[str]:
    """Make sparse images, which no loop device and no disk is on, all holes again; a sentence for each."""
    noted, proof = claims.images(home), list[str]()
    if not noted or below.number(home) == below.NOWHERE:
        return proof
    for image in located(home, noted)["images"]:
        if image["status"] == "written":
            loops.verify(whole(image))
            os.truncate(image["image"], 0)
            os.truncate(image["image"], image["bytes"])
            proof.append(f"{image['image']} takes no room")
    return proof + kept.forget(home)
