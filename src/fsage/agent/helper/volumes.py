"""Verbs of the helper for a user's own images: loop devices, the file systems on them, and where these are mounted."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fsage.agent.device import loops, queue
from fsage.agent.errors import Refusal
from fsage.agent.helper.caller import MOUNTS, POINT, Caller, Given, is_his, note_of, one_of
from fsage.agent.stores import filesystems
from fsage.agent.stores.filesystem import FileSystem
from fsage.agent.system import caches, files, mounting

KNOB = re.compile(r"/sys/block/(loop\d{1,6})/queue/([a-z_/]{1,64})")


def attach(caller: Caller, given: Given) -> str:
    """A loop device on the user's image, noted as his."""
    image = caller.image(given.get("image"))
    foreign = [device for device in loops.devices_of(image) if not is_his(caller, device)]
    if foreign:
        raise Refusal(f"{foreign[0]} is on {image['image']}, and was not attached for {caller.user.pw_name}")
    device = loops.attach(image, owner=caller.uid)
    note = {"uid": caller.uid, "dev": image["dev"], "ino": image["ino"], "boot_id": files.boot_id()}
    files.write_json(note_of(device), note)
    return device


def detach(caller: Caller, given: Given) -> None:
    """Take the devices from the user's image."""
    image = caller.image(given.get("image"))
    devices = [caller.device(device) for device in loops.devices_of(image)]
    loops.detach(image)
    for device in devices:
        files.remove(note_of(device))


def devices(caller: Caller, given: Given) -> list[str]:
    """The devices on an image."""
    return loops.devices_of(caller.image(given.get("image")))


def device(caller: Caller, given: Given) -> str | None:
    """The device on an image."""
    return loops.device_of(caller.image(given.get("image")))


def mkfs(caller: Caller, given: Given) -> None:
    """Make a file system on the user's device."""
    found, name = _filesystem(given.get("filesystem")), caller.device(given.get("device"))
    filesystems.make(found.name, name, _uuid(given.get("fs_uuid")), _uuid(given.get("hash_seed")))


def mount(caller: Caller, given: Given) -> None:
    """Mount the user's device; what is in it becomes his."""
    found, name = _filesystem(given.get("filesystem")), caller.device(given.get("device"))
    point, more = caller.point(given.get("point")), _options(given.get("more", ""), found)
    for folder in (Path(MOUNTS), point.parent):
        folder.mkdir(parents=True, exist_ok=True)
    filesystems.mount(found.name, name, point, more)
    descriptor = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != caller.uid:  # made just now
            os.fchown(descriptor, caller.uid, caller.user.pw_gid)
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def remount(caller: Caller, given: Given) -> None:
    """Unmount and mount the user's device in its place."""
    name, point = caller.device(given.get("device")), caller.point(given.get("point"))
    there = mounting.mounted_at(point)
    if there is None or there.source != name:
        raise Refusal(f"{name} is not mounted at {point}")
    found = _filesystem(there.type)
    filesystems.remount(found.name, name, point, _options(given.get("more", ""), found))


def unmount(caller: Caller, given: Given) -> None:
    """Unmount what is the user's, and remove the place."""
    point = given.get("point")
    if not isinstance(point, str) or not POINT.fullmatch(point):
        raise Refusal(f"{point!r} is not a place of a target's")
    there = mounting.mounted_at(point)
    if there is None:
        return
    caller.device(there.source)
    mounting.unmount(Path(point))
    _tidy(point)


def unmount_all(caller: Caller, given: Given) -> None:
    """Unmount the user's device wherever it is mounted."""
    name = caller.device(given.get("device"))
    points = [mount.point for mount in mounting.mounts() if mount.source == name]
    mounting.unmount_all(name)
    for point in points:
        _tidy(point)


def uuid_of(caller: Caller, given: Given) -> str | None:
    """The UUID on the user's device."""
    return mounting.uuid_on(caller.device(given.get("device")))


def unused(caller: Caller, given: Given) -> None:
    """Refuse if anybody holds the user's device."""
    mounting.refuse_if_in_use(caller.device(given.get("device")))


def wipe(caller: Caller, given: Given) -> None:
    """Take the file system off the user's device."""
    name = caller.device(given.get("device"))
    mounting.refuse_if_in_use(name)
    mounting.wipe(name)


def drop_caches(caller: Caller, given: Given) -> None:
    """Drop the page cache of the machine, once."""
    caches.drop_all_pages()


def set_tunable(caller: Caller, given: Given) -> None:
    """Write a tunable of the user's device's queue."""
    knob, value = given.get("knob"), given.get("value")
    match = KNOB.fullmatch(str(knob))
    if not match or match[2] not in (*queue.KNOWN, queue.OF_BFQ):
        raise Refusal(f"{knob!r} is not a tunable that is known: {', '.join(queue.KNOWN)} of a loop device's queue")
    caller.device(f"/dev/{match[1]}")
    if not isinstance(value, (int, str)) or not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", str(value)):
        raise Refusal(f"{value!r:.100} is not a tunable's value")
    queue.set_knob(Path(match[0]), value)


VERBS: dict[str, Callable[[Caller, Given], Any]] = {
    "attach": attach,
    "detach": detach,
    "devices": devices,
    "device": device,
    "mkfs": mkfs,
    "mount": mount,
    "remount": remount,
    "unmount": unmount,
    "unmount-all": unmount_all,
    "uuid": uuid_of,
    "unused": unused,
    "wipe": wipe,
    "drop-caches": drop_caches,
    "tune": set_tunable,
}


def _filesystem(given: Any) -> FileSystem:
    return filesystems.of(one_of(given, [name for name in filesystems.names() if filesystems.of(name).for_users]))


def _options(given: Any, filesystem: FileSystem) -> str:
    if not isinstance(given, str) or not re.fullmatch(filesystem.user_options, given):
        raise Refusal(f"{given!r:.100} is not a mount option that a target has")
    return given


def _uuid(given: Any) -> str:
    try:
        return str(uuid.UUID(given))
    except (ValueError, AttributeError, TypeError):
        raise Refusal(f"{given!r:.100} is not a UUID") from None


def _tidy(point: str) -> None:
    """Remove a place for mounts, and its target's folder with the last; only what lies empty in root's own."""
    if POINT.fullmatch(point):
        for folder in (Path(point), Path(point).parent):
            try:
                folder.rmdir()
            except OSError:
                return
