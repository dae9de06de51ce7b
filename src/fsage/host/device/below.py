"""What sparse images lie in: an XFS that fsage makes, in one file of which the disk below gives all blocks beforehand.

A sparse image may be larger than the disk, and larger than a file may be there (ext4: 16 TiB). All that is ever
written to it is written in this XFS, whose size is what the target takes (fsage.model.filesystems). So the disk below
cannot fill by it, and what others write to that disk cannot take blocks from it. `images.json` names the file before
it exists, with the UUID of the XFS; it is mounted in the target's home while the target is in use.

A layout that was laid on a sparse target is kept as a sparse file beside its image: laid again, it is a copy. The XFS
has room for KEPT_LAYOUTS of them, and they share their blocks with the image while nothing changes there (reflink). A
file has its name only once it is complete. `release` removes all.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from fsage.base import Json, Refusal
from fsage.host import filesystems
from fsage.host.device import copies, loops
from fsage.host.system import files, kernel, mounting, settings, space
from fsage.layouts import machine
from fsage.model.claim import Images
from fsage.model.filesystems import KEPT_LAYOUTS

FILESYSTEM = "xfs"
NOWHERE = -1
"""In place of a device number: images whose XFS is not mounted are no files, and no loop device is on them."""


def point_of(home: Path) -> Path:
    """Where the XFS is mounted."""
    return home / "below"


def number(home: Path) -> int:
    """The device number of the mounted XFS, which another mount may change; NOWHERE while it is not mounted."""
    mount = machine.mounted_at(point_of(home))
    if mount:
        return kernel.as_number(mount.device)
    return NOWHERE


def put(home: Path, noted: Images) -> bool:
    """Have the XFS attached, verified and mounted; whether something had to be done. Raises Refusal, Failure.

    It is made as long as no image is noted as made in it.
    """
    point = point_of(home)
    fs_uuid = noted["below"]["uuid"]
    image = loops.known_by(noted["below"])
    loops.verify(image)
    entry = {"kind": "below", "image": image, "point": str(point)}
    settings.journal_of(home).note(entry)
    device = loops.attach(image)
    if machine.mounted_at(point):
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
    return space.usable_bytes(point_of(home))


def _undo(entry: settings.Entry) -> str:
    """Unmount the XFS and detach it."""
    point = Path(entry["point"])
    mount = machine.mounted_at(point)
    if mount:
        if mount.source not in loops.devices_of(entry["image"]):
            raise Refusal(f"{point}: {mount.source} ({mount.type}) is mounted there, which is not fsage's; unmount it")
        mounting.unmount(point)
    loops.detach(entry["image"])
    with contextlib.suppress(OSError):  # gone, or somebody else's files are in it
        point.rmdir()
    return f"no loop device on {entry['image']['image']}"


UNDO = {"below": _undo}


PREFIX = "layout-"
SUFFIX = ".img"
NOTES = ".json"
PART = ".part"


def kept_path(home: Path, name: str) -> Path:
    """Where the layout of this name, a digest, is kept once it was laid."""
    return point_of(home) / f"{PREFIX}{name}{SUFFIX}"


def keep(home: Path, name: str, image: Path, change: Callable[[str], None]) -> None:
    """Keep a copy of a target's image as `change` makes it, at `kept_path`. Raises Failure, OSError."""
    path = kept_path(home, name)
    part = path.with_suffix(PART)
    kept = sorted(point_of(home).glob(f"{PREFIX}*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for other in kept[: -KEPT_LAYOUTS + 1 or None]:
        files.remove(other)
        files.remove(other.with_suffix(NOTES))
    for killed in point_of(home).glob(f"{PREFIX}*{PART}"):
        files.remove(killed)
    with kernel.opened(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW) as descriptor:
        os.ftruncate(descriptor, image.stat().st_size)
        copies.clone(image, part)
        change(str(part))
        os.fsync(descriptor)
    os.rename(part, path)
    files.sync_dir(path.parent)


def note_kept(home: Path, name: str, notes: Json | None) -> None:
    """Note beside a layout that is kept what is known of it, if it is kept; None: it is removed."""
    if notes is None:
        files.remove(kept_path(home, name))
    elif kept_path(home, name).exists():
        files.write_json(kept_path(home, name).with_suffix(NOTES), notes)


def notes_of_kept(home: Path, name: str) -> Json | None:
    """What was noted of a layout that is kept; None where there is none."""
    path = kept_path(home, name)
    if path.exists():
        return files.read_json(path.with_suffix(NOTES))
    return None


def forget_kept(home: Path) -> list[str]:
    """Remove all that are kept; a sentence for each."""
    proof = []
    for path in point_of(home).glob(f"{PREFIX}*"):
        files.remove(path)
        proof.append(f"{path} is gone")
    return proof
