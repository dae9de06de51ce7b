"""The target of a kind whose work guests do: in a guest its file system is on the guest's one disk."""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from fsage.base import GIB, MIB, Json, Refusal
from fsage.host import claiming
from fsage.host.device import loops, models
from fsage.host.kinds.loop import HASH_SEED, Loop
from fsage.host.stores import filesystems
from fsage.host.stores.filesystem import Range
from fsage.host.system import mounting
from fsage.host.targets.kinds import Result
from fsage.host.targets.target import Target
from fsage.model.claim import ClaimedStore
from fsage.model.declaration import device_model
from fsage.model.device import Model
from fsage.model.hosts import Asker
from fsage.model.target import Spec

CELL_S = 1.0
"""What a cell takes beside moving its file: its guest's start, its checks and its end."""
UUID = "f5a6e000-0000-4000-8000-000000000044"
"""UUID and hash seed of every file system: Orlov's places for directories depend on them."""


class GuestTarget(Loop):
    """In a guest its file system is on one of the guest's disks, `device`. On the host there are only images.

    A kind is a subclass, which says what it lacks, what becomes of its images, and what guests answer. All that stands
    here is done in a guest.
    """

    device = ""

    @classmethod
    def create(cls, spec: Spec, request: Asker, check: bool) -> Result:
        missing = cls.lacking(spec).missing
        if missing:
            raise Refusal("; ".join(missing))
        return {"changed": False, "msg": f"target {spec['name']} needs nothing: its images are made when they are used"}

    @classmethod
    def remove(cls, spec: Spec, check: bool, released: Result) -> Result:
        return released

    @classmethod
    def begun(cls, spec: Spec) -> bool:
        return False

    @classmethod
    def claim_new(cls, spec: Spec, request: Asker, check: bool) -> Result:
        store: ClaimedStore = {
            "image": cls.device,
            "image_id": {"dev": 0, "ino": 0, "bytes": int(spec["size_gib"] * GIB)},
            "uuids": [UUID],
            "filesystem": spec["filesystem"],
            "hash_seed": HASH_SEED,
            "mount": str(Path(spec["mount_dir"]) / spec["name"] / "0"),
        }
        target = cls(spec, claiming.new(spec, request, [store]))
        target.claim["id"] = _id(spec)
        target.claim["uid"] = target.uid
        declared = spec["device_model"] or device_model({})
        target.claim["device_model"] = (
            models.virtual(declared) if Model.of(declared).is_virtual else models.computed(declared)
        )
        target.save()
        target.open()
        [empty] = claiming.measure_empty(target)
        target.claim["capacity_bytes"] = empty.f_bfree * empty.f_frsize
        claiming.ended(target, claiming.amount_for(target, claiming.UNKNOWN_MIB_S, partial(_as_declared, target)))
        return {"changed": True, "msg": f"claimed {spec['name']}: {claiming.words_of(target)}", "claim": target.claim}

    def open(self) -> None:
        self.attach()
        if mounting.uuid_on(self.devices[0]) is None:
            self.make(mount=False)
        self.mount()

    def attach(self) -> None:
        """Its disk; a modelled one where the guest has the image as a file, for then its time is virtual."""
        self.devices = [self.device]
        if Path(self.device).is_file():
            [store] = self.claim["stores"]
            self.devices = [loops.attach(self.model.disk({**store, "image": self.device}))]
            self.model_in_place()

    def format(self, mkfs_options: str = "") -> None:
        """Make the file system anew, with the same UUID."""
        self.mkfs_options = mkfs_options
        mounting.unmount(self.mounts[0])
        self.make()

    def make(self, mount: bool = True) -> None:
        how = UUID, HASH_SEED, True, self.spec["geometry"]
        filesystems.make(self.spec["filesystem"], self.devices[0], *how, self.mkfs_options)
        if mount:
            self.mount()

    def room_below(self) -> int | None:
        return None

    def taken_below(self) -> int:
        return 0

    def give_back_below(self, ranges: Mapping[Path, Collection[Range]] | None) -> None:
        return


def _as_declared(target: Target, each_mib: int, passes: int) -> Json:
    """What the declared device says of a write and a read: a guest's own seconds are not a disk's."""
    rate_mib_s = target.claim["device_model"]["bytes_per_s"] / MIB
    seconds = each_mib * passes / rate_mib_s
    return {
        **claiming.no_backing(),
        "write_mib_s": round(rate_mib_s, 1),
        "read_mib_s": round(rate_mib_s, 1),
        "write_s": seconds,
        "read_s": seconds,
        "cell_overhead_s": CELL_S,
    }


def _id(spec: Spec) -> str:
    """The same for each claim of the same target: its images stay its own."""
    same = f"{spec['name']} {spec['filesystem']} {spec['size_gib']} {spec['geometry']} {os.uname().release}"
    return str(uuid.uuid5(uuid.UUID(UUID), same))
