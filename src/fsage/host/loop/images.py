"""The image files of targets of kind loop: how they are made, attached and deleted.

An image has all its blocks; or it is all holes, and lies in an XFS of its own (fsage.host.device.below), whose device
changes. The first write of a block is slower. A modelled disk hides that; without a model each block is written once
before.

`<home>/<target>/images.json` names every image before it exists. Nothing that is not named there is ever written or
removed.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fsage.base import GIB, MIB, Refusal
from fsage.host import claiming, filesystems
from fsage.host.device import below, loops, models
from fsage.host.system import files, kernel, places, space
from fsage.host.targets import claims
from fsage.host.targets.kinds import Result
from fsage.model import declaration
from fsage.model.claim import Image, Images, Made
from fsage.model.filesystems import takes
from fsage.model.target import Spec

STEP_BYTES = 4 * MIB
WRITERS = 8  # half again as fast as four that write 16 MiB at a time


def allocate(path: str, size_bytes: int, sparse: bool = False) -> Made:
    """Make a file that has all its blocks, or one that is all holes."""
    with kernel.closing(places.file(path, os.O_RDWR | os.O_CREAT)) as descriptor:
        nocow = _stop_copying(descriptor)
        if sparse:
            os.ftruncate(descriptor, size_bytes)
        else:
            os.posix_fallocate(descriptor, 0, size_bytes)
        os.fsync(descriptor)
    files.sync_dir(Path(path).parent)
    return {**(loops.identity(path) or {}), "nocow": nocow}


def fill(path: str, size_bytes: int) -> None:
    """Write each block of an image, or of its device, once."""
    with kernel.closing(places.file(path, os.O_WRONLY | os.O_DIRECT)) as descriptor:
        with mmap.mmap(-1, STEP_BYTES) as zeros, memoryview(zeros) as view, ThreadPoolExecutor(WRITERS) as writers:

            def write(begin: int) -> None:
                end = min(begin + STEP_BYTES, size_bytes)
                while begin < end:
                    begin += os.pwrite(descriptor, view[: end - begin], begin)

            for _ in writers.map(write, range(0, size_bytes, STEP_BYTES)):
                pass
        os.fsync(descriptor)


def _stop_copying(descriptor: int) -> bool:
    """Keep the file system below from moving the image's blocks; whether a setting was needed for that."""
    below = filesystems.get(space.fs_type(Path(f"/proc/self/fd/{descriptor}")))
    return bool(below and below.keep_in_place(descriptor))


def why_no_room(spec: Spec, place: Path) -> str | None:
    """Why a sparse target cannot be made in this directory; None where it can."""
    taken = takes(spec)
    free = space.free_bytes(place)
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
    noted = claims.images(home)
    proof = list[str]()
    if not noted or below.number(home) == below.NOWHERE:
        return proof
    for image in located(home, noted)["images"]:
        if image["status"] == "written":
            loops.verify(loops.known_by(image))
            os.truncate(image["image"], 0)
            os.truncate(image["image"], image["bytes"])
            proof.append(f"{image['image']} takes no room")
    return proof + below.forget_kept(home)


def noted_of(spec: Spec) -> Images | None:
    """What is noted of the target's images. Raises Refusal where they were made as something else was declared."""
    noted = claims.images(declaration.home_of(spec))
    wanted = _declared(spec)
    if noted and noted["declared"] != wanted:
        raise Refusal(
            f"target {spec['name']} was created as {noted['declared']}, and {wanted} is declared now; "
            f"remove it first: {loops.CLEAR}"
        )
    return noted


def are_written(noted: Images) -> bool:
    """Whether all images were made."""
    return all(image["status"] == "written" for image in noted["images"])


def verified(home: Path, noted: Images, check: bool) -> Images:
    """The images as they are now, each the very one that was made. Raises Refusal, Failure.

    With `check` nothing is mounted, so sparse images may not be there.
    """
    if check and below_is_away(home, noted):
        return noted
    noted = located(home, noted, put=not check)
    for image in noted["images"]:
        loops.verify(loops.known_by(image))
    return noted


def attach(spec: Spec, noted: Images, check: bool) -> Result:
    """Attach loop devices to the images of a target that is not claimed; idempotent."""
    images = noted["images"]
    if all(loops.device_of(loops.known_by(image)) for image in images):
        return {"changed": False, "msg": f"the images of {spec['name']} are in place", "images": images}
    devices = "the loop devices" if check else ", ".join(_attached(noted))
    return {"changed": True, "msg": f"attached {devices} again", "images": images}


def make(spec: Spec, noted: Images | None, check: bool) -> Result:
    """Make the image files, or the rest of them, and attach loop devices."""
    place, each_bytes, why = _plan(spec, noted)
    claiming.room(spec, spec["stores"] * each_bytes)  # the claim would refuse it after minutes of writing
    total = f"{spec['stores']} x {each_bytes / GIB:g} GiB in {place}"
    if check:
        return {"changed": True, "msg": f"would make {total} ({why})", "image_dir": str(place)}
    there_before = place.exists()
    places.make(place)
    if not noted:
        noted = _noted(spec, place, each_bytes, not there_before)
        files.write_json(_journal(spec), noted)
    if "below" in noted:
        if noted["below"]["status"] != "written":
            _make(spec, noted, noted["below"], sparse=False)
        noted = located(declaration.home_of(spec), noted, put=True)
    for image in noted["images"]:
        if image["status"] == "written":
            loops.verify(loops.known_by(image))
        else:
            _make(spec, noted, image, sparse="below" in noted)
    nocow = " (no copy on write: chattr +C)" if any(image["nocow"] for image in noted["images"]) else ""
    return {
        "changed": True,
        "msg": f"made {total}{nocow}: {why}",
        "images": noted["images"],
        "devices": _attached(noted),
    }


def _make(spec: Spec, noted: Images, image: Made, sparse: bool) -> None:
    """Make a file that is noted as planned. One that a killed command left has a name that only this journal has."""
    path = image["image"]
    files.remove(path)
    image.update(allocate(path, image["bytes"], sparse))
    if not spec["sparse"] and not spec["device_model"]:
        fill(path, image["bytes"])
    image["status"] = "written"
    files.write_json(_journal(spec), noted)


def _attached(noted: Images) -> list[str]:
    return [loops.attach(loops.known_by(image)) for image in noted["images"]]


def _noted(spec: Spec, place: Path, each_bytes: int, made_directory: bool) -> Images:
    """What is noted before anything is made."""
    mark = uuid.uuid4().hex[:8]
    name = spec["name"]
    home = declaration.home_of(spec)
    inside = below.point_of(home) if spec["sparse"] else place
    noted: Images = {
        "schema": 1,
        "target": name,
        **claims.here(),
        "declared": _declared(spec),
        "made_directory": made_directory,
        "images": [
            {"image": str(inside / f"fsage-{name}-{store}.{mark}.img"), "status": "planned", "bytes": each_bytes}
            for store in range(spec["stores"])
        ],
    }
    if spec["sparse"]:
        noted["below"] = {
            "image": str(place / f"fsage-{name}-below.{mark}.img"),
            "status": "planned",
            "bytes": takes(spec).total_bytes,
            "uuid": str(uuid.uuid4()),
        }
    return noted


def _declared(spec: Spec) -> dict[str, float]:
    """As what images are made."""
    return {key: spec[key] for key in ("stores", "size_gib", "sparse")}


def delete(spec: Spec, check: bool, released: Result) -> Result:
    """Delete the images of a target. `released`: the answer of its release."""
    noted = claims.images(declaration.home_of(spec))
    if noted is None:
        return {**released, "msg": f"{spec['name']} has no images here"}
    if check:
        return {
            "changed": True,
            "msg": "would delete " + ", ".join(i["image"] for i in noted["images"]),
            "proof": [],
        }
    proof = list(released["proof"])
    left = []
    on_disk = [noted["below"]] if "below" in noted else noted["images"]
    for image in on_disk:
        path = image["image"]
        if not os.path.lexists(path):
            continue
        if image["status"] == "written" and {"image": path, **(loops.identity(path) or {})} != loops.known_by(image):
            left.append(path)
            continue
        files.remove(path)
        proof.append(f"{path} is gone")
    files.remove(_journal(spec))
    if noted.get("made_directory"):
        with contextlib.suppress(OSError):  # not empty: others use it too
            os.rmdir(Path(on_disk[0]["image"]).parent)
    msg = f"removed the images of {spec['name']}"
    if left:
        msg += f"; left {', '.join(left)}: it is another file than fsage made"
    return {"changed": True, "msg": msg, "proof": proof, "left": left}


def _plan(spec: Spec, noted: Images | None) -> tuple[Path, int, str]:
    """The directory of the images, the bytes of each, and the reason for that size."""
    if noted:
        first = noted["images"][0]
        return Path(noted.get("below", first)["image"]).parent, first["bytes"], "as begun before"
    good, bad = space.places(spec["image_dir"])
    if not good:
        raise Refusal(
            "no place for images that serves O_DIRECT: " + "; ".join(bad) + ". Name one: fsage_target.image_dir"
        )
    place = good[0]
    free = space.free_bytes(place)
    total_gib = spec["size_gib"]
    least_gib = spec["minimum_gib"]
    why = "as declared"
    if spec["sparse"]:
        no_room = why_no_room(spec, place)
        if no_room:
            raise Refusal(f"{no_room}; nothing was made")
        why = f"sparse: it takes {takes(spec).words()}"
    elif total_gib < least_gib:
        raise Refusal(
            f"fsage_target.size_gib, {total_gib}, is less than fsage_target.minimum_gib, {least_gib}: declare a larger "
            "size, or a smaller minimum; nothing was made"
        )
    elif total_gib * GIB > free / 2:
        why = f"half of the {free / GIB:.1f} GiB free, {total_gib} declared"
        total_gib = free // 2 // GIB
        if total_gib < least_gib:
            raise Refusal(
                f"{place} has {free / GIB:.1f} GiB free, and half of it, {free / 2 / GIB:.1f} GiB, is less than "
                f"fsage_target.minimum_gib, {least_gib}; free some, or name another fsage_target.image_dir"
            )
    return place, int(total_gib * GIB) // spec["stores"] // MIB * MIB, why


def _journal(spec: Spec) -> Path:
    return declaration.home_of(spec) / "images.json"


def all_of(home: Path) -> list[Image]:
    """All written images of the target, and the disks that the device model offers in their place."""
    noted = claims.images(home)
    made = located(home, noted)["images"] if noted else []
    return [*(loops.known_by(image) for image in made if "ino" in image), *models.disks(home)]
