"""What sparse images lie in: an XFS that fsage makes, in one file of which the disk below gives all blocks beforehand.

A sparse image may be larger than the disk, and larger than a file may be there (ext4: 16 TiB). All that is ever written
to it is written in this XFS, whose size is what the target takes (fsage.model.sparse). So the disk below cannot fill by
it, and what others write to that disk cannot take blocks from it. `images.json` names the file before it exists, with
the UUID of the XFS; it is mounted in the target's home while the target is in use.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fsage.host.device import loops
from fsage.host.stores import filesystems
from fsage.host.system import journal, mounting
from fsage.model.claim import Image, Images
from fsage.model.errors import Refusal

FILESYSTEM = "xfs"
NOWHERE = -1
"""In place of a device number: images whose XFS is not mounted are no files, and no loop device is on them."""


def point_of(home: Path) -> Path:
    """Where the XFS is mounted."""
    return home / "below"


def number(home: Path) -> int:
    """The device number of the mounted XFS, which another mount may change; NOWHERE while it is not mounted."""
    mount = mounting.mounted_at(point_of(home))
    if mount:
        return os.makedev(*map(int, mount.device.split(":")))
    return NOWHERE


def image(noted: Images) -> Image:
    """The file that the XFS is in."""
    below = noted["below"]
    return {"image": below["image"], "dev": below["dev"], "ino": below["ino"], "bytes": below["bytes"]}


def put(home: Path, noted: Images) -> bool:
    """Have the XFS attached, verified and mounted; whether something had to be done. Raises Refusal, Failure.

    It is made as long as no image is noted as made in it.
    """
    point = point_of(home)
    fs_uuid = noted["below"]["uuid"]
    loops.verify(image(noted))
    entry = {"kind": "below", "image": image(noted), "point": str(point)}
    journal.note(journal.path_of(home), entry)
    device = loops.attach(image(noted))
    if mounting.mounted_at(point):
        filesystems.verify(FILESYSTEM, device, fs_uuid, point)
        return False
    present = mounting.uuid_on(device)
    if present != fs_uuid:
        if any(made["status"] == "written" for made in noted["images"]):
            raise Refusal(
                f"{device} ({noted['below']['image']}) has a file system with UUID {present or 'none'}, not the noted "
                f"{fs_uuid}; nothing was touched. To clear the target: {loops.CLEAR}"
            )
        mounting.refuse_if_in_use(device)
        filesystems.make(FILESYSTEM, device, fs_uuid, fs_uuid)
    filesystems.mount(FILESYSTEM, device, point)
    filesystems.verify(FILESYSTEM, device, fs_uuid, point)
    return True


def room_bytes(home: Path) -> int:
    """Bytes that sparse images may still take."""
    stat = os.statvfs(point_of(home))
    return stat.f_bavail * stat.f_frsize


def _end(entry: journal.Entry) -> str:
    """Unmount the XFS and detach it."""
    point = Path(entry["point"])
    mount = mounting.mounted_at(point)
    if mount:
        if mount.source not in loops.devices_of(entry["image"]):
            raise Refusal(f"{point}: {mount.source} ({mount.type}) is mounted there, which is not fsage's; unmount it")
        mounting.unmount(point)
    loops.detach(entry["image"])
    with contextlib.suppress(OSError):  # gone, or somebody else's files are in it
        point.rmdir()
    return f"no loop device on {entry['image']['image']}"


UNDO = {"below": _end}
