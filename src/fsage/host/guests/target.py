"""The target of a kind whose work guests do: in a guest its file system is on the guest's one disk.

On the host it is not opened. There a question to it knows its claim, its lease, and what is kept of its cells.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import cast

from fsage.base import GIB, MIB, Json, Refusal, typed
from fsage.host import claiming
from fsage.host.cells import observed
from fsage.host.cells.measure import unmeasured
from fsage.host.device import loops, models
from fsage.host.instruments import does_itself
from fsage.host.kinds.loop import HASH_SEED, Loop
from fsage.host.system import files, library, mounting
from fsage.host.targets import Target, claims, opening
from fsage.host.targets.kinds import Result
from fsage.host.targets.lease import Watch, held, refuse_if_held
from fsage.model import declaration
from fsage.model.claim import Claim, ClaimedStore
from fsage.model.declaration import device_model
from fsage.model.device import Model
from fsage.model.hosts import Asker
from fsage.model.observation import Observation
from fsage.model.request import Cell, Request
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

    @property
    def lies_below(self) -> bool:
        """No: a guest has no XFS below its disk."""
        return False


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


OF_THE_RUN = ("holder", "gone")
"""Keys of a request that are no guest's business."""


class Question:
    """A question to a target whose work guests do, and the target itself, which is not open here."""

    def __init__(self, kind: type[Target], given: Json, request: Request) -> None:
        self.kind = kind
        self.given = given
        self.request = request
        self.spec: Spec = declaration.complete(given["target"])
        self.home = declaration.home_of(self.spec)

    @property
    def noted(self) -> Claim | None:
        """The claim that is noted here, if there is one. Raises Refusal where its declaration was edited."""
        claim = claims.read(self.home)
        if claim:
            declaration.refuse_edits(claim, self.spec)
        return claim

    @cached_property
    def claim(self) -> Claim:
        """The claim. Raises Refusal where there is none, or another one."""
        refuse_if_held(self.home, self.request)
        claim = opening.claim_of(self.spec)
        declaration.refuse_edits(claim, self.spec)
        opening.refuse_other_claim(self.request, claim)
        return claim

    @cached_property
    def target(self) -> Target:
        """The target as its claim has it."""
        return self.kind(self.spec, self.claim)

    @property
    def wanted(self) -> Json:
        """The state that is wanted and its steps, as plain JSON."""
        return {"state": self.request["state"], "steps": typed.to_json(self.request["steps"])}

    @property
    def code(self) -> str:
        """A digest of fsage on this host."""
        return library.digest()

    @contextlib.contextmanager
    def held(self) -> Iterator[Watch]:
        """Hold the target, perhaps beside other commands of the same run. Raises Refusal.

        The watch says whether the run is still there.
        """
        with held(self.home, self.request, shared=True) as lease:
            yield Watch(self.home, self.request, lease)

    def doing(self, what: str, measured: int = 0) -> None:
        """Note what is being done, for those who wait."""
        claims.note_doing(self.home, what, measured)

    def save(self, claim: Json) -> None:
        """Write the claim durably."""
        files.write_json(self.home / "claim.json", claim)

    def job(self, home: str, verbs: Sequence[str], disk: int = 0, **request: object) -> Json:
        """What a guest is to do: verbs to its own target, on one of its disks. It knows nothing of runs and leases."""
        own = {key: value for key, value in self.given.get("request", {}).items() if key not in OF_THE_RUN}
        return {
            "do": "verbs",
            "disk": disk,
            "filesystem": self.spec["filesystem"],
            "verbs": list(verbs),
            "given": {**self.given, "target": {**self.given["target"], "home": home}, "request": {**own, **request}},
            "host": os.uname().nodename,
            "claim": self.noted,
            "code": self.code,
        }

    def unmeasured(self) -> list[Cell]:
        """The cells of the request of which no observation is kept."""
        return unmeasured(self.target, self.request)

    def keep(self, cell: Cell, observation: Json) -> None:
        """Keep an observation until the launcher has it."""
        observed.keep(observed.place(self.target, self.request, cell), cast(Observation, observation))

    def measured(self, measured: int, wanted: int) -> Json:
        """The answer to `measure`: so many of the wanted cells are measured."""
        return {
            "changed": measured > 0,
            "msg": f"measured {measured} of {wanted} cells",
            "undone": None,
            "measured": measured,
            "remaining": wanted - measured,
            "lost": None,
            "stopped": None,
            "kinds": [],
        }

    @staticmethod
    def are_quick(cells: Sequence[Cell]) -> bool:
        """Whether no cell runs a command: the guest's own process does all."""
        return all(all(map(does_itself, cell["phases"])) for cell in cells)

    @staticmethod
    def noting(cell: Cell, **more: object) -> Cell:
        """A cell with what its guest is to note of it: why it is `unsupported`, or `failed`."""
        return cast(Cell, {**cell, **more})
