"""The device model `seek`: each store's image is a file of a disk that charges for seeks (`seekdisk`).

The disk is a process of its own with a mount of its own, beside the store's; the loop device is attached to the file
there. It runs from the claim to the release, over all commands between. Each time the kernel shows which process serves
which image: the loop device's file is on a mount, and the source of that mount names the process. Its command line and
its lock on the image are checked too (fcntl(2), F_GETLK); the lock ends with the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
import sys
from dataclasses import asdict
from pathlib import Path

from fsage.api.host import DeviceModel, capabilities, journal_of, kernel, loops, make_folder, mounting, run
from fsage.api.model import ClaimedStore, Failure, Image, Json, Refusal
from fsage.layouts import machine

from .. import model as facts
from . import seekdisk

MODULE = seekdisk.__name__
NOTED = "seekdisk"
"""The kind of entry in a target's journal."""
END_PATIENCE_S = 10.0
FLOCK = struct.Struct("hhqqi4x")  # struct flock: l_type l_whence l_start l_len l_pid


def _mount_fuse() -> None:
    """Try to mount a FUSE file system without its descriptor: the kernel checks rights first."""
    os.close(os.open(seekdisk.FUSE, os.O_RDWR))
    capabilities.mount_in_vain("fsage-attempt", "fuse")


FUSE = capabilities.Capability(
    "FUSE",
    "device model seek",
    _mount_fuse,
    "modprobe fuse; run it as root; in a container, start that with --privileged",
)


class Seek(DeviceModel, facts.Seek):
    """A simulated disk with one arm for each store."""

    needs = FUSE

    @staticmethod
    def unavailable_because(declared: Json) -> str | None:
        """Why this machine has no FUSE; None when it has."""
        why = capabilities.obstacle(FUSE)
        if why:
            return f"device_model seek needs FUSE on {os.uname().nodename}: {why}; or declare another"
        return None

    def disk(self, store: ClaimedStore) -> Image:
        """The file of the disk on the store's image. A disk whose process ended is started again."""
        image = super().disk(store)
        point = point_of(store)
        pid = server_of(image["image"])
        mount = _mount(point)
        if pid is None:
            if mount is not None:
                loops.take_away(_offered(mount, image["bytes"]))
                mounting.unmount(point)
            loops.detach(image)
            self._start(image["image"], point)
            mount = _mount(point)
        elif mount is None or (_served_by(mount), _parameters(pid)) != (pid, self._arguments(image["image"], point)):
            raise Refusal(
                f"process {pid} ({' '.join(_command(pid))}) holds {image['image']}, but is not the disk that the claim "
                f"of {self.name} names at {point}; nothing was touched. End it, or clear the target: {loops.CLEAR}"
            )
        if mount is None:
            raise Failure(f"the disk on {image['image']} ended well, but nothing is mounted at {point}")
        return _offered(mount, image["bytes"])

    def put(self, devices: list[str]) -> Json:
        """The costs of the disk below each device, read from the process that serves it."""
        read_back = {device: read(device) for device in devices}
        claimed = self._costs()
        for device, costs in read_back.items():
            if costs != claimed:
                raise Failure(
                    f"{device} is on a disk with costs {costs}, and the claim has {claimed}; give the same "
                    "command again, which starts the disk anew when it has ended"
                )
        return {**self.parameters, "read_back": read_back}

    @staticmethod
    def disks(home: Path) -> list[Image]:
        mounts = [_mount(Path(entry["point"])) for entry in journal_of(home).entries(NOTED)]
        return [_offered(mount, 0) for mount in mounts if mount is not None]

    @staticmethod
    def end_disks(home: Path) -> list[str]:
        return journal_of(home).undo({NOTED: _undo})

    def _arguments(self, image: str, point: Path) -> list[str]:
        return [image, str(point), json.dumps(self._costs(), sort_keys=True)]

    def _costs(self) -> dict[str, float]:
        return asdict(seekdisk.Costs.of(self.parameters))

    def _start(self, image: str, point: Path) -> None:
        journal_of(self.home).note({"kind": NOTED, "image": image, "point": str(point)})
        mounting.refuse_occupied(point, f"the disk on {image}")
        make_folder(point)
        package = str(Path(seekdisk.__file__).parents[4])  # a folder, or the zip that the agent was brought in
        environment = {**os.environ, "LC_ALL": "C", "PYTHONPATH": package}
        run([sys.executable, "-S", "-m", MODULE, *self._arguments(image, point)], env=environment, cwd="/")


def point_of(store: ClaimedStore) -> Path:
    """The mount point of a store's disk."""
    return Path(store["mount"] + ".disk")


def read(device: str) -> dict[str, float] | None:
    """The costs (`seekdisk.Costs`) of the disk below a loop device; None where it is on no running disk."""
    info = machine.loop_info(device)
    if info is None:
        return None
    for mount in machine.mounts():
        if mount.source.startswith(seekdisk.SOURCE) and kernel.as_number(mount.device) == info.device:
            pid = _served_by(mount)
            words = _parameters(pid)
            if words and server_of(words[0]) == pid:
                return dict(json.loads(words[2]))
    return None


def server_of(image: str) -> int | None:
    """The process that serves an image, which has locked it; None where none does."""
    try:
        with kernel.opened(image, os.O_RDWR) as descriptor:
            answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except FileNotFoundError:
        return None
    kind, _, _, _, pid = FLOCK.unpack(answer)
    if kind == fcntl.F_UNLCK:
        return None
    return pid


def _mount(point: Path) -> machine.Mount | None:
    """The disk that is mounted at `point`, running or not. Raises Refusal where something else is mounted there."""
    mount = machine.mounted_at(point)
    if mount is not None and not mount.source.startswith(seekdisk.SOURCE):
        raise Refusal(f"{point}: {mount.source} ({mount.type}) is mounted there, which is not fsage's; unmount it")
    return mount


def _offered(mount: machine.Mount, size_bytes: int) -> Image:
    path = f"{mount.point}/{seekdisk.NAME.decode()}"
    return {"image": path, "dev": kernel.as_number(mount.device), "ino": seekdisk.DISK, "bytes": size_bytes}


def _served_by(mount: machine.Mount) -> int:
    return int(mount.source[len(seekdisk.SOURCE) :])


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="surrogateescape").split("\0")[:-1]
    except OSError:
        return []


def _parameters(pid: int) -> list[str] | None:
    """The arguments on a disk's command line, after the module's name."""
    words = _command(pid)
    if MODULE in words:
        return words[words.index(MODULE) + 1 :]
    return None


def _undo(entry: Json) -> str:
    """Unmount a disk, and wait until its process has ended."""
    image = entry["image"]
    point = Path(entry["point"])
    for last in kernel.attempts(END_PATIENCE_S, 0.02):  # killed while it was being started, it mounts yet
        if _mount(point):
            mounting.unmount(point)
        pid = server_of(image)
        if pid is None and not _mount(point):
            break
        if last:
            raise Failure(
                f"the disk on {image} (process {pid}) lives on although {point} is unmounted: another mount namespace "
                f"or a loop device holds it; end that, or the process: kill {pid}"
            )
    with contextlib.suppress(OSError):  # gone, or somebody else's files are in it
        point.rmdir()
    return f"no disk is offered at {point}, and no process serves {image}"


MODEL = Seek
