"""Kind `directory`: a plain directory, for where there is no root. It has a budget in place of a capacity."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple, cast

from fsage.base import GIB, Json, JsonView, Refusal
from fsage.host import claiming
from fsage.host.device import models
from fsage.host.system import files, privilege, space
from fsage.host.targets import Target, directories, kinds
from fsage.host.targets.budget import Free, Limits, Pace, Shared, least, quotas_left
from fsage.host.targets.kinds import Lacking, Result
from fsage.layouts import machine
from fsage.layouts.freespace import ONCE, Counting
from fsage.layouts.store import OF_DEVICE, Store, without
from fsage.model import declaration
from fsage.model import kinds as facts
from fsage.model.claim import Claim, ClaimedStore
from fsage.model.hosts import Asker, clients_of, servers_of
from fsage.model.target import Spec

SHARE_OF_FREE = 0.10


class Offer(NamedTuple):
    """What a directory offers; `state_known`: nothing else is on its file system. `noted`: what else a claim keeps."""

    capacity_bytes: int
    mount: Path
    state_known: bool = False
    noted: Json | None = None


class Directory(Target, facts.Directory):
    """A directory on a shared file system, of which nothing is known."""

    below: str | None = None
    """The type of the file system below, where it is known."""
    threads = 1
    """Threads that delete files."""
    why_no_free_space = "the target is a directory: its file system is not its own"

    @classmethod
    def lacking(cls, spec: Spec) -> Lacking:
        why = directories.why_no_place(Path(spec["directory"]))
        return Lacking([why] if why else [], {})

    @classmethod
    def create(cls, spec: Spec, request: Asker, check: bool) -> Result:
        claim = files.read_json(declaration.home_of(spec) / "claim.json")
        declaration.refuse_edits(claim or {}, spec)
        if claim is None:
            claiming.room(spec, cls.offer(spec).capacity_bytes, len(clients_of(request)))  # refused at once
        return directories.create(spec, check)

    @classmethod
    def remove(cls, spec: Spec, check: bool, released: Result) -> Result:
        place = Path(spec["directory"])  # which the release has removed if fsage had made it
        if check and directories.made(spec):
            return {**released, "changed": True, "msg": f"would remove {place}"}
        if not place.is_dir():
            return {**released, "msg": f"{place} is gone"}
        why = f"left {place}: fsage did not make it, or others have files in it"
        return {**released, "msg": why, "left": [str(place)]}

    @classmethod
    def offer(cls, spec: Spec) -> Offer:
        """What can be claimed: the declared budget, a tenth of the free space, or what quotas leave. Raises Refusal."""
        place = space.existing(spec["directory"])
        allowed = {
            "budget_gib": int(spec["budget_gib"] * GIB),
            f"{SHARE_OF_FREE:.0%} of the free space": int(SHARE_OF_FREE * space.free_bytes(place)),
        }
        return Offer(least(spec["name"], allowed, quotas_left(place)), Path(spec["directory"]))

    @staticmethod
    def identity(place: Path) -> Json:
        """What identifies the directory. Raises FileNotFoundError."""
        return directories.identity(place)

    @classmethod
    def claim_new(cls, spec: Spec, request: Asker, check: bool) -> Result:
        place = Path(spec["directory"])
        directories.create(spec, check=True)  # refuses a directory that holds anything else
        if not place.is_dir():
            raise Refusal(
                f"{place} does not exist; create the target first: "
                f"ansible-playbook -i inventories/{spec['name']} playbooks/local_target.yml"
            )
        offer = cls.offer(spec)
        claiming.room(spec, offer.capacity_bytes, len(clients_of(request)))
        if check:
            return {"changed": True, "msg": f"would claim {place} ({offer.capacity_bytes / GIB:.1f} GiB)"}
        store = _store(place, cls.identity(place), cls.below)
        ours = cast(Claim, {**claiming.new(spec, request, [store]), **(offer.noted or {})})
        ours["capacity_bytes"] = offer.capacity_bytes
        ours["filesystem_state_known"] = offer.state_known
        ours["device_model"] = models.none(f"kind {spec['kind']}: no device of its own")
        target = cls(spec, ours)
        target.osts.servers = servers_of(request)
        ours["uid"] = target.uid
        with files.locked(target.home / "open.lock"):
            target.save()
            target.begin(offer.mount)
            claiming.measure_empty(target)
            claiming.calibrated(target, request, claiming.no_backing(), claiming.UNKNOWN_MIB_S)
            target.confirm(offer.mount)
        return {"changed": True, "msg": f"claimed {spec['name']}: {claiming.words_of(target)}", "claim": ours}

    def begin(self, mount: Path) -> None:
        """Note on the target, on this mount, that it is being claimed. Raises Refusal where another came first."""
        self.stamp(0)

    def confirm(self, mount: Path) -> None:
        """Note on the target that it is claimed."""

    def astray(self, tuning: JsonView) -> list[str]:
        of_mount = kinds.get(machine.mount_of(self.mounts[0]).type)
        sentences = of_mount.astray_on(self.spec, self.mounts[0], tuning) if of_mount else None
        return super().astray(tuning) if sentences is None else sentences

    @classmethod
    def check_claimed(cls, spec: Spec, claim: Claim) -> None:
        cls(spec, claim).verify()

    def more_of_mark(self) -> Json:
        mark: Json = {"host": self.claim["host"], "created": self.claim["created"]}
        if directories.made(self.spec):
            mark["made"] = files.read_json(self.home / directories.MADE)
        return mark

    @classmethod
    def left_behind(cls, spec: Spec) -> Claim | None:
        """The claim that the mark in the directory names, as far as a release needs it."""
        place = Path(spec["directory"])
        mark = None
        with contextlib.suppress(Refusal):  # others could have written it
            mark = files.read_json(place / ".fsage/claim.json")
        if not mark or mark["target"] != spec["name"]:
            return None
        known = {key: mark[key] for key in ("target", "id", "host", "created", "made") if key in mark}
        store = _store(place, directories.identity(place))
        return cast(Claim, {**known, "kind": spec["kind"], "stores": [store]})

    @classmethod
    def begun(cls, spec: Spec) -> bool:
        return (declaration.home_of(spec) / directories.MADE).exists()

    @classmethod
    def undo_claim(cls, spec: Spec, claim: Claim | None) -> list[str]:
        return [*cls._emptied(spec, claim), *cls.unmark(spec, claim), *directories.undo_create(spec)]

    @classmethod
    def unmark(cls, spec: Spec, claim: Claim | None) -> list[str]:
        """Remove what names the claim elsewhere than in the directory, once nothing of fsage's is in this."""
        return []

    @classmethod
    def _emptied(cls, spec: Spec, claim: Claim | None) -> list[str]:
        """Remove what is fsage's from the claimed directory; a sentence about it."""
        if not claim:
            return []
        place = Path(claim["stores"][0]["directory"])
        if not place.is_dir():
            return [f"{place} is gone"]
        if not directories.anything_ours(place):
            return [f"nothing of fsage's is in {place}"]
        try:
            directories.verify(place, claim, cls.identity)
        except Refusal as why:
            return [f"left {place} as it is: {why}"]
        if os.geteuid() == 0 and claim.get("uid"):  # run_as
            directories.take(place / "measured")
        others = directories.clear(place, keep_mark=False, threads=cls.threads, spend=Pace(spec["limits"]).spend)
        return [f"nothing of fsage's is in {place}" + (f"; left what is not: {', '.join(others)}" if others else "")]

    def open(self) -> None:
        self.verify()
        privilege.unavailable_because()  # a helper of another version is refused before anything is measured

    def verify(self) -> None:
        """`Refusal` unless the directory is the very one that was claimed."""
        directories.verify(self.mounts[0], self.claim, self.identity)

    def format(self, mkfs_options: str = "") -> None:
        """Empty the directory: its file system stays. Raises Refusal, Failure."""
        if mkfs_options:
            raise Refusal(f"target {self.name} is of kind {self.kind}: fsage does not make its file system")
        self.verify()
        self.take(self.mounts[0] / "measured")
        self.empty()

    def empty(self) -> None:
        """Delete what fsage made. Raises Failure."""
        directories.clear(self.mounts[0], keep_mark=True, threads=self.threads, spend=self.pace.spend)

    def limits(self) -> Limits:
        return Shared(self.mounts[0], self.capacity_bytes)

    def free(self, mount: Path) -> Free:
        return Free(space.unused_bytes(mount))  # others write here too, so no count repeats exactly

    def free_space(self, number: int, counting: Counting = ONCE) -> Store:
        return Store(self.filesystem, {}, {}, without(OF_DEVICE, self.why_no_free_space))


def _store(place: Path, identity: Json, filesystem: str | None = None) -> ClaimedStore:
    return {
        "directory": str(place),
        "directory_id": identity,
        "mount": str(place),
        "filesystem": filesystem,
        "uuids": [],
    }


TARGET = Directory
