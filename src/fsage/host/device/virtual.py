"""The device model `virtual`: a disk with seeks inside a guest, whose clock jumps over each of its waits.

The disk is a child of the guest's first process, not a program of its own: to start Python takes a guest a second.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fsage.base import Failure, in_words
from fsage.host.device import loops, seekdisk
from fsage.host.device.model import Model
from fsage.host.device.seek import point_of
from fsage.host.system import mounting, places
from fsage.layouts import machine
from fsage.model import device as facts
from fsage.model.claim import ClaimedStore, Image

QUEUE = {"max_sectors_kb": 512, "scheduler": "mq-deadline"}
"""Requests of a loop device have at most 128 pieces of memory: longer ones are cut by which pages are neighbours.
Without a scheduler Linux 6.1 hands on the requests of one batch in reverse order."""


class Virtual(Model, facts.Virtual):
    """A disk for the one store of a target in a guest."""

    @staticmethod
    def unavailable_because(declared: dict[str, object]) -> str | None:
        """Why this machine itself has none."""
        return "device_model virtual is a disk inside a kernel that is a program: declare kind: uml, or kind: seek here"

    def disk(self, store: ClaimedStore) -> Image:
        """The file of the disk on the store's image, which is served from now on. Raises Failure."""
        point = point_of(store)
        if machine.mounted_at(point) is None:
            places.make(point)
            _start(store["image"], point, seekdisk.Costs(**{key: self.claimed[key] for key in self.defaults}))
        return _offered(point)

    def put(self, devices: list[str]) -> dict[str, object] | None:
        """Have requests cut and ordered in the same way each time."""
        for device in devices:
            for name, value in QUEUE.items():
                loops.set_knob(Path("/sys/block", Path(device).name, "queue", name), value)
        return self.claimed


def end_all() -> None:
    """End every disk of this guest, whose file systems are unmounted."""
    for mount in machine.mounts():
        if mount.source.startswith(seekdisk.SOURCE):
            loops.detach(_offered(Path(mount.point)))
            mounting.unmount(Path(mount.point))
            os.waitpid(int(mount.source[len(seekdisk.SOURCE) :]), 0)


def _start(image: str, point: Path, costs: seekdisk.Costs) -> None:
    """Leave a child that serves an image at `point`. Raises Failure."""
    ready, tell = os.pipe()

    def mounted() -> None:
        os.write(tell, b"!")
        os.close(tell)

    if os.fork() == 0:
        try:
            seekdisk.serve(image, str(point), costs, mounted)
        except OSError as why:
            sys.stderr.write(f"{image}: {in_words(why)}\n")
        finally:
            os._exit(0)
    os.close(tell)
    said = os.read(ready, 1)
    os.close(ready)
    if not said:
        raise Failure(f"{image}: no modelled disk was mounted at {point}; the guest's console says why")


def _offered(point: Path) -> Image:
    path = str(point / seekdisk.NAME.decode())
    return {"image": path, **(loops.identity(path) or {"dev": 0, "ino": 0, "bytes": 0})}
