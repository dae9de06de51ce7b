"""Loop devices on image files, and the tunables of their queues.

Device, inode and size identify an image, and are read from the kernel each time. The tunables are those of a block
queue, /sys/block/<device>/queue (kernel: Documentation/ABI/stable/sysfs-block). They belong to the device: a loop
device is taken away and made again when its target is released.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from fsage.base import Failure, Json, Refusal
from fsage.base.message import below
from fsage.host.system import kernel, mounting
from fsage.layouts.machine import LoopInfo, loop_info, loops_on
from fsage.model.claim import Image, ImageId, Made
from fsage.model.tuning import OF_QUEUE


def queue_of(device: str) -> Path:
    """The folder of a device's block queue in sysfs."""
    return Path("/sys/block", Path(device).name, "queue")


def values(queues: list[Path], name: str) -> list[str]:
    """What a tunable is at every queue that has it."""
    return [value_of(_knob(queue, name)) for queue in queues if (queue / name).exists()]


def tune(queues: list[Path], name: str, value: object, before: Sequence[str], check: bool) -> tuple[Json, bool, str]:
    """Set a tunable of every queue and read it back: the note for it, whether anything changed, and a sentence.

    `before`: what it was before fsage set it first.
    """
    knobs = [_knob(queue, name) for queue in queues if (queue / name).exists()]
    if not knobs:
        why = "no block queue of the target has it"
        return {"asked": value, "unsupported": why}, False, f"unsupported, {why}"
    values = list(map(value_of, knobs))
    changed = False
    for knob, was_set in zip(knobs, values):
        if was_set != str(value) and not check:
            set_knob(knob, value)
            changed = True
    now = list(map(value_of, knobs))
    if not check and any(text != str(value) for text in now):
        raise Failure(f"{knobs[0]}: requested {value}, reads back {now}")
    was = ", ".join(sorted(set(values)))
    sentence = f"{was} (unchanged)" if was == str(value) else f"{was} -> {value}"
    return {"asked": value, "before": before, "now": now}, changed, sentence


def undo(queues: list[Path], name: str, before: Sequence[str], check: bool) -> list[str]:
    """Restore the former value of every queue; a sentence for each that changes."""
    sentences = []
    for queue, value in zip(queues, before):
        knob = _knob(queue, name)
        present = value_of(knob)
        if present != value:
            sentences.append(f"{knob}: {present} -> {value}")
            if not check:
                set_knob(knob, value)
    return sentences


def _knob(queue: Path, name: str) -> Path:
    knob = queue / name
    if name not in OF_QUEUE or not below(queue, knob):
        raise Refusal(f"{knob} is no tunable of a block queue; nothing was touched")
    return knob


def value_of(knob: Path) -> str:
    """What a tunable is set to: `none [bfq] kyber` -> bfq."""
    text = knob.read_text().strip()
    if "[" in text:
        return text.partition("[")[2].partition("]")[0]
    return text


def set_knob(knob: Path, value: object) -> None:
    """Write a tunable. Raises Refusal where the kernel refuses the value."""
    try:
        knob.write_text(str(value))
    except OSError as error:
        raise Refusal(
            f"{knob}: {value!r} was refused ({error.strerror}); it holds {knob.read_text().strip()!r}"
        ) from error


CONTROL = "/dev/loop-control"
LOOP_SET_FD = 0x4C00
LOOP_CLR_FD = 0x4C01
LOOP_SET_STATUS64 = 0x4C04
LOOP_SET_DIRECT_IO = 0x4C08
LOOP_CONFIGURE = 0x4C0A
LOOP_CTL_ADD = 0x4C80
LOOP_CTL_REMOVE = 0x4C81
LOOP_CTL_GET_FREE = 0x4C82
LO_FLAGS_AUTOCLEAR = 4
LO_FLAGS_DIRECT_IO = 16
PATIENCE_S = 2.0  # a new mount namespace, or udev, holds a device for a moment
FASTER_S = 0.2
FASTER = (errno.EBUSY, errno.ENOENT, errno.ENODEV, errno.ENXIO)
"""What a device says that some process took first, or that is just being renewed."""
CLEAR = "ansible-playbook fsage.fsage.local_target -e fsage_local_target_state=absent"


class _LoopConfig(ctypes.Structure):
    """struct loop_config of <linux/loop.h>."""

    _fields_ = [
        ("fd", ctypes.c_uint32),
        ("block_size", ctypes.c_uint32),
        ("info", LoopInfo),
        ("reserved", ctypes.c_uint64 * 8),
    ]


def known_by(image: Image | Made) -> Image:
    """An image with its identity, and nothing else that is noted of it."""
    return {"image": image["image"], "dev": image["dev"], "ino": image["ino"], "bytes": image["bytes"]}


def verify(image: Image) -> None:
    """Raise Refusal unless the image file is the one that `create` wrote."""
    expected = {"dev": image["dev"], "ino": image["ino"], "bytes": image["bytes"]}
    now = identity(image["image"])
    if now != expected:
        was = "is missing" if now is None else f"is another file now ({now}, not {expected})"
        raise Refusal(f"{image['image']} {was}; nothing was touched. To clear the target: {CLEAR}")


def identity(path: str) -> ImageId | None:
    """Device, inode and size of a regular file; None when there is none."""
    try:
        stat = os.lstat(path)
    except FileNotFoundError:
        return None
    return {"dev": stat.st_dev, "ino": stat.st_ino, "bytes": stat.st_size}


def devices_of(image: Image) -> list[str]:
    """The loop devices on this image."""
    return loops_on(image["dev"], image["ino"])


def device_of(image: Image) -> str | None:
    """The loop device on this image, verified to serve direct I/O; None when it has none."""
    devices = devices_of(image)
    if len(devices) > 1:
        raise Refusal(f"{image['image']} has several loop devices: {', '.join(devices)}; detach them (losetup -d)")
    if not devices:
        return None
    info = loop_info(devices[0])
    if info is None or info.offset or info.sizelimit or not info.flags & LO_FLAGS_DIRECT_IO:
        raise Refusal(
            f"{devices[0]} on {image['image']} was not attached by fsage (offset, limit or no direct I/O); "
            f"detach it: losetup -d {devices[0]}"
        )
    return devices[0]


def attach(image: Image) -> str:
    """The loop device on this image, attached with direct I/O to the file if it was not."""
    verify(image)
    with kernel.closing(_opened(image)) as descriptor:
        present = device_of(image)
        if present:
            return present
        device, attached = _attached(descriptor, LO_FLAGS_DIRECT_IO, image["image"])
        os.close(attached)
    info = loop_info(device)
    if info is None or not info.flags & LO_FLAGS_DIRECT_IO:
        _release(device)
        raise Refusal(f"{image['image']}: the loop device on it does not get direct I/O; declare another image_dir")
    if device_of(image) != device:
        raise Failure(f"{device} was attached to {image['image']}, but the kernel has {device_of(image)} on it")
    return device


def _opened(image: Image) -> int:
    """A descriptor of the image, for reading and writing; another file of its name is not opened."""
    with kernel.opened(image["image"], os.O_PATH | os.O_NOFOLLOW) as descriptor:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) != (image["dev"], image["ino"]):
            raise Refusal(f"{image['image']} became another file just now; nothing was touched")
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)


def attach_briefly(image: int, name: str) -> tuple[str, int]:
    """Attach an open file to a device that the kernel detaches with its last user; the device, and a descriptor of it.

    So a process that is killed leaves nothing attached. Raises Failure.
    """
    return _attached(image, LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO, name)


def _attached(image: int, flags: int, name: str) -> tuple[str, int]:
    try:
        return configure(image, flags)
    except OSError as error:
        raise Failure(f"no loop device can be had for {name}: {error.strerror}") from error


def configure(image: int, flags: int) -> tuple[str, int]:
    """Attach an open file to a free device with all flags at once; the device, and a descriptor of it.

    So a process that is killed leaves no device without them. Another device is tried where some process was faster.
    Raises OSError that names the device.
    """
    for last in kernel.attempts(FASTER_S, 0.05):
        try:
            device, descriptor = _configured(image, flags)
            break
        except OSError as error:
            if last or error.errno not in FASTER:
                raise
    return device, descriptor


def _configured(image: int, flags: int) -> tuple[str, int]:
    with kernel.opened(CONTROL, os.O_RDWR) as control:
        device = f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}"
    descriptor = os.open(device, os.O_RDWR)
    try:
        _configure(descriptor, image, flags)
    except OSError as error:
        os.close(descriptor)
        raise OSError(error.errno, error.strerror, device) from error
    return device, descriptor


def _configure(device: int, image: int, flags: int) -> None:
    try:
        fcntl.ioctl(device, LOOP_CONFIGURE, _LoopConfig(fd=image, info=LoopInfo(flags=flags)))
        return
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    fcntl.ioctl(device, LOOP_SET_FD, image)  # Linux before 5.8 takes steps
    fcntl.ioctl(device, LOOP_SET_STATUS64, LoopInfo(flags=flags & LO_FLAGS_AUTOCLEAR))
    with contextlib.suppress(OSError):  # the file may not serve direct I/O, which the caller then finds off
        fcntl.ioctl(device, LOOP_SET_DIRECT_IO, int(bool(flags & LO_FLAGS_DIRECT_IO)))


def take_away(image: Image) -> None:
    """Unmount what is mounted of an image, and detach its loop devices. Raises Failure."""
    for device in devices_of(image):
        mounting.unmount_all(device)
    detach(image)


def detach(image: Image) -> None:
    """Detach every loop device from this image, renew it, and verify that it is detached."""
    for device in devices_of(image):
        _release(device)
        for last in kernel.attempts(PATIENCE_S, 0.02):  # the kernel detaches it with its last user
            if last or device not in devices_of(image):
                break
        renew(device)
    if devices_of(image):
        raise Failure(
            f"{', '.join(devices_of(image))} still holds {image['image']} after it was detached: another "
            "mount namespace has it mounted"
        )


def _release(device: str) -> None:
    """Have the kernel detach a device when its last user is gone, as `losetup --detach` does."""
    with kernel.opened(device) as descriptor:
        try:
            fcntl.ioctl(descriptor, LOOP_CLR_FD)
        except OSError as error:
            raise Failure(f"{device} cannot be detached: {error.strerror}") from error


def renew(device: str) -> None:
    """Take a free loop device away and make it again: nothing of its use (tunables, cost model) outlives it.

    Its idle workers would otherwise hold on to the control group that they served for up to two minutes more.
    A device that somebody else has taken meanwhile is left alone.
    """
    number = int(Path(device).name[len("loop") :])
    with kernel.opened(CONTROL, os.O_RDWR) as control, contextlib.suppress(OSError):
        fcntl.ioctl(control, LOOP_CTL_REMOVE, number)
        fcntl.ioctl(control, LOOP_CTL_ADD, number)
