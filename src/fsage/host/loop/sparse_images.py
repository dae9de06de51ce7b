"""Sparse images: all holes, in an XFS of their own below (fsage.host.device.below), whose device changes."""

from __future__ import annotations

import os
from pathlib import Path

from fsage.host.device import below, kept, loops
from fsage.host.loop.written_images import whole
from fsage.host.system import space
from fsage.host.targets import claims
from fsage.model.claim import Images, Made
from fsage.model.declaration import GIB
from fsage.model.sparse import takes
from fsage.model.target import Spec


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
