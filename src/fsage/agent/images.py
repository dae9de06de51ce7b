"""Make and remove a local target: its image files (kind loop) or its directory (kinds directory and lustre).

`<home>/<target>/images.json` names every image before it exists: nothing that is not named there is ever
written or removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import uuid
from pathlib import Path
from typing import Any

from fsage.agent import (
    claim,
    claims,
    containers,
    declaration,
    directories,
    files,
    frozen,
    lease,
    places,
    privilege,
    space,
)
from fsage.agent.declaration import GIB, MIB
from fsage.agent.device import loops, seek
from fsage.agent.device.loops import CLEAR
from fsage.agent.errors import Refusal
from fsage.agent.hosts.others import meet
from fsage.agent.lustre import target as lustre
from fsage.agent.target import Target

STEP_BYTES = 64 * MIB
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_NOCOW_FL = 0x80086601, 0x40086602, 0x00800000


def create(spec: dict[str, Any], request: dict[str, Any], check: bool) -> dict[str, Any]:
    """Make the image files of a loop target (each written once) and attach loop devices; idempotent."""
    spec = declaration.complete(spec)
    containers.check(spec["containers"])
    known = files.read_json(declaration.home_of(spec) / "claim.json")
    if spec["kind"] == "lustre":
        mount = lustre.mount_of(spec).point  # refuses where another file system would get it
        if known is None:
            lustre.refuse_second(mount)
    if known is None:
        meet(spec, request)
    if spec["kind"] != "loop":
        frozen.refuse(known or {}, spec)
        return directories.create(spec, check)
    privilege.need(spec["name"])
    if check:
        return _create(spec, check)
    with lease.held(declaration.home_of(spec), request):
        return _create(spec, check)


def _create(spec: dict[str, Any], check: bool) -> dict[str, Any]:
    known = claims.images(declaration.home_of(spec))
    wanted = {key: spec[key] for key in ("stores", "size_gib")}
    if known and known["declared"] != wanted:
        raise Refusal(
            f"target {spec['name']} was created as {known['declared']}, and {wanted} is declared now; "
            f"remove it first: {CLEAR}"
        )
    if known and all(image["status"] == "written" for image in known["images"]):
        for image in known["images"]:
            loops.verify(image)
        if claims.read(declaration.home_of(spec)):
            return _of_a_claim(spec, known, check)
        if all(loops.device_of(image) for image in known["images"]):
            return {
                "changed": False,
                "msg": f"the images of {spec['name']} are in place",
                "images": known["images"],
            }
        devices = [] if check else [loops.attach(image) for image in known["images"]]
        return {
            "changed": True,
            "msg": f"attached {', '.join(devices) or 'the loop devices'} again",
            "images": known["images"],
        }
    place, each_bytes, why = _plan(spec, known)
    total = f"{spec['stores']} x {each_bytes / GIB:g} GiB in {place}"
    if check:
        return {"changed": True, "msg": f"would write {total} ({why})", "image_dir": str(place)}
    places.make(place)
    if not known:
        known = {
            "schema": 1,
            "target": spec["name"],
            **claims.here(),
            "declared": wanted,
            "images": [
                {
                    "image": str(place / f"fsage-{spec['name']}-{store}.{uuid.uuid4().hex[:8]}.img"),
                    "status": "planned",
                    "bytes": each_bytes,
                }
                for store in range(spec["stores"])
            ],
        }
        files.write_json(_journal(spec), known)
    for image in known["images"]:
        if image["status"] == "written":
            loops.verify(image)
            continue
        # A kill while writing leaves a file under a name that only this journal knows: it is made anew.
        files.remove(image["image"])
        image.update(_write(image["image"], image["bytes"]), status="written")
        files.write_json(_journal(spec), known)
    devices = [loops.attach(image) for image in known["images"]]
    nocow = " (no copy on write: chattr +C)" if any(image["nocow"] for image in known["images"]) else ""
    return {
        "changed": True,
        "msg": f"wrote {total}{nocow}: {why}",
        "images": known["images"],
        "devices": devices,
    }


def _of_a_claim(spec: dict[str, Any], known: dict[str, Any], check: bool) -> dict[str, Any]:
    """The images of a claimed target, attached again if need be as its device model has it."""
    home = declaration.home_of(spec)
    target = Target(spec, claims.read(home) or {})
    frozen.refuse(target.claim, spec)
    attached = sum(len(loops.devices_of(disk)) for disk in [*known["images"], *seek.disks(home)])
    if target.claim["status"] != "claimed" or attached == spec["stores"]:  # what is in between, `claim` finishes
        return {"changed": False, "msg": f"the images of {spec['name']} are in place", "images": known["images"]}
    if not check:
        target.attach()
    msg = "; ".join(target.notes) or f"would attach the images of {spec['name']} again"
    return {"changed": True, "msg": msg, "images": known["images"]}


def remove(spec: dict[str, Any], request: dict[str, Any], check: bool) -> dict[str, Any]:
    """Release the target and delete what `create` made, and only that."""
    spec = declaration.complete(spec)
    home = declaration.home_of(spec)
    if check or not home.is_dir():
        return _remove(spec, check)
    with lease.held(home, request):
        return _remove(spec, check)


def _remove(spec: dict[str, Any], check: bool) -> dict[str, Any]:
    released = claim.give_back(spec, check)
    if spec["kind"] != "loop":
        removed = directories.remove(spec, check, released)
        if not check:
            claim.forget(spec)
        return removed
    known = claims.images(declaration.home_of(spec))
    if known is None:
        if not check:
            claim.forget(spec)
        return {
            "changed": released["changed"],
            "msg": f"{spec['name']} has no images here",
            "proof": released["proof"],
        }
    if check:
        return {
            "changed": True,
            "msg": "would delete " + ", ".join(i["image"] for i in known["images"]),
            "proof": [],
        }
    proof, left = list(released["proof"]), []
    for image in known["images"]:
        path = image["image"]
        if not os.path.lexists(path):
            continue
        if image["status"] == "written" and loops.identity(path) != {k: image[k] for k in ("dev", "ino", "bytes")}:
            left.append(path)
            continue
        files.remove(path)
        proof.append(f"{path} is gone")
    files.remove(_journal(spec))
    with contextlib.suppress(OSError):  # made by us unless something else is in it by now
        os.rmdir(Path(known["images"][0]["image"]).parent)
    claim.forget(spec)
    msg = f"removed the images of {spec['name']}"
    if left:
        msg += f"; left {', '.join(left)}: another file than the one that was made here"
    return {"changed": True, "msg": msg, "proof": proof, "left": left}


def _plan(spec: dict[str, Any], known: dict[str, Any] | None) -> tuple[Path, int, str]:
    """Where the images go, bytes of each, and why so many."""
    if known:
        first = known["images"][0]
        return Path(first["image"]).parent, first["bytes"], "as begun before"
    good, bad = space.places(spec["image_dir"])
    if not good:
        raise Refusal(
            "no place for images that serves O_DIRECT: " + "; ".join(bad) + ". Name one: fsage_target.image_dir"
        )
    free = space.free_bytes(good[0])
    total_gib = int(min(spec["size_gib"], free / 2 / GIB))
    if total_gib < spec["minimum_gib"]:
        raise Refusal(
            f"{good[0]} has {free / GIB:.1f} GiB free, and half of it, {free / 2 / GIB:.1f} GiB, is less "
            f"than fsage_target.minimum_gib, {spec['minimum_gib']}; free some, or name another "
            "fsage_target.image_dir"
        )
    why = (
        "as declared"
        if total_gib == spec["size_gib"]
        else f"half of the {free / GIB:.1f} GiB free, {spec['size_gib']} declared"
    )
    return good[0], total_gib * GIB // spec["stores"] // MIB * MIB, why


def _write(path: str, size_bytes: int) -> dict[str, Any]:
    """Make the image: allocated whole, then written once. First writes into holes are slower."""
    descriptor = places.file(path, os.O_RDWR | os.O_CREAT)
    try:
        nocow = _stop_copying(descriptor)
        os.posix_fallocate(descriptor, 0, size_bytes)
    finally:
        os.close(descriptor)
    descriptor = places.file(path, os.O_WRONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, STEP_BYTES) as zeros, memoryview(zeros) as view:
            written = 0
            while written < size_bytes:
                written += os.pwrite(descriptor, view[: min(STEP_BYTES, size_bytes - written)], written)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    files.sync_dir(Path(path).parent)
    return {**(loops.identity(path) or {}), "nocow": nocow}


def _stop_copying(descriptor: int) -> bool:
    """chattr +C on an empty file of btrfs, which would move an image about. True when it was done."""
    if space.fs_type(Path(f"/proc/self/fd/{descriptor}")) != "btrfs":
        return False
    flags = int.from_bytes(fcntl.ioctl(descriptor, FS_IOC_GETFLAGS, bytes(8)), "little")
    fcntl.ioctl(descriptor, FS_IOC_SETFLAGS, (flags | FS_NOCOW_FL).to_bytes(8, "little"))
    return True


def _journal(spec: dict[str, Any]) -> Path:
    return declaration.home_of(spec) / "images.json"
