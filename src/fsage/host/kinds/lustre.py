"""Kind `lustre`: a directory on a client's mount, the only target of that file system (fsage.host.lustre)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fsage.host.kinds.directory import Directory, Offer
from fsage.host.lustre import limits, osts, servers, space, stripes, tunables
from fsage.host.lustre import target as lustre
from fsage.host.system import privilege
from fsage.host.targets.free import Free, Wrong, nothing
from fsage.host.targets.kinds import Lacking
from fsage.host.targets.limits import Limits
from fsage.model import striping
from fsage.model.claim import Claim
from fsage.model.errors import Failure, Refusal
from fsage.model.evidence.counting import ONCE, Counting
from fsage.model.evidence.store import Store
from fsage.model.kinds import lustre as facts
from fsage.model.target import LustreSpec, Spec

PROGRAMS = ("lfs", "lctl", "findmnt")


class Lustre(Directory, facts.Lustre):
    """A directory on Lustre, emptied by deleting."""

    below = "lustre"
    threads = lustre.THREADS
    why_no_free_space = "the free space of Lustre is on its OSTs, the stores before this one"

    @property
    def lustre(self) -> LustreSpec:
        """What it is on."""
        assert self.spec["lustre"] is not None
        return self.spec["lustre"]

    @classmethod
    def lacking(cls, spec: Spec) -> Lacking:
        """As Target.lacking."""
        room_bytes: dict[str, int] = {}
        lacking = [f"{tool}: install the Lustre client" for tool in PROGRAMS if not shutil.which(tool)]
        missing = list(lacking)
        if why := privilege.unavailable_because():
            missing.append(f"root, or its helper, for lctl set_param and caches: {why}")
        if not lacking:
            try:
                mount = lustre.mount_of(spec).point
                room_bytes = {str(mount): sum(ost.available_bytes for ost in space.osts(mount))}
            except (Refusal, Failure) as error:
                missing.append(str(error))
        return Lacking(missing, room_bytes)

    @classmethod
    def refuse_to_create(cls, spec: Spec, claimed: bool) -> None:
        """As Target.refuse_to_create."""
        mount = lustre.mount_of(spec).point  # refuses where another file system would get it
        if not claimed:
            lustre.refuse_second(mount)

    @classmethod
    def offer(cls, spec: Spec) -> Offer:
        """As Directory.offer."""
        client = lustre.inspect(spec)
        return Offer(client.capacity_bytes, client.mount, client.alone, client.noted)

    @staticmethod
    def identity(place: Path) -> dict[str, object]:
        """As Directory.identity: its FID."""
        return dict(lustre.identity(place))

    def begin(self, mount: Path) -> None:
        """As Directory.begin."""
        lustre.mark(mount, self.claim)
        lustre.prepare(self.mounts[0], self.lustre)
        self.stamp(0)

    def confirm(self, mount: Path) -> None:
        """As Directory.confirm."""
        lustre.mark_anew(mount, self.claim)

    @classmethod
    def claimed_elsewhere(cls, spec: Spec) -> Claim | None:
        """As Target.claimed_elsewhere: by the mark in the root of the file system."""
        return lustre.claim_of(spec)

    @classmethod
    def take_back(cls, spec: Spec, claim: Claim | None) -> list[str]:
        """As Target.take_back."""
        proof = super().take_back(spec, claim)
        if claim and spec["lustre"]:
            home = Path(spec["home"]) / spec["name"]
            proof += tunables.put_back(spec["lustre"]["fsname"], home / "tunables.json")
            proof += lustre.unmark(spec, claim)
        return proof

    def mount_options(self) -> list[str]:
        """As Target.mount_options: of the client's mount."""
        return [lustre.mount_of(self.spec).options]

    def verify(self) -> None:
        """As Directory.verify, and that the file system is as it was claimed."""
        lustre.verify(self.spec, self.claim)

    def empty(self) -> None:
        """As Directory.empty, with proof that the objects are gone too."""
        lustre.empty(self.mounts[0], self.spec, self.claim, self.state_known, self.sync_servers)

    @property
    def why_unwatched(self) -> str | None:
        """As Target.why_unwatched."""
        return "a client of Lustre does not see what others do"

    def settle(self, wrong: Wrong = nothing) -> None:
        """As Target.settle."""
        for mount in self.mounts:
            space.await_frees(mount, self.sync_servers, wrong)

    def limits(self) -> Limits:
        """As Target.limits: of each OST."""
        return limits.Osts(self.mounts[0], self.lustre, self.state_known, self.sync_servers)

    def free(self, mount: Path) -> Free:
        """As Target.free: without what servers keep for themselves, which the capacity of a claim leaves out too."""
        osts = space.osts(mount)
        return Free(sum(ost.available_bytes for ost in osts), None, space.used(osts))

    @property
    def tolerance_bytes(self) -> int:
        """As Target.tolerance_bytes, as declared."""
        return self.lustre["tolerance_mib"] << 20

    def sync_servers(self) -> int | None:
        """As Target.sync_servers."""
        return servers.sync(self.lustre["fsname"], self.servers)

    def why_no_extents(self, error: OSError) -> str:
        """As Target.why_no_extents."""
        return f"{super().why_no_extents(error)}; Lustre gives it for files of one stripe only"

    def osts(self, answers: Sequence[Any]) -> list[dict[str, object]]:
        """As Target.osts."""
        return osts.every(self, list(answers))

    @property
    def layout_unavailable_because(self) -> str | None:
        """As Target.layout_unavailable_because."""
        if not lustre.laid_ost(self.lustre):
            return (
                f"target {self.name}: a layout is copied onto one OST, and its server is asked what is free there: "
                "declare lustre.stripe_count 1, lustre.first_ost and lustre.oss"
            )
        if not self.state_known:
            return f"target {self.name}: a layout is copied where nobody else writes: declare lustre.capacity_gib all"
        return None

    def laid_space(self, counting: Counting = ONCE) -> Store:
        """As Target.laid_space: of the OST on which all of its files lie, by its server."""
        if not (ost := lustre.laid_ost(self.lustre)):
            raise Failure(str(self.layout_unavailable_because))
        return servers.free_space(self.lustre, ost, counting)

    def fullness(self) -> dict[str, object]:
        """As Target.fullness."""
        return {"osts": osts.fullness(self)}

    def tune(self, wanted: Mapping[str, object], noted: dict[str, object], check: bool) -> tuple[bool, list[str]]:
        """As Target.tune: the client's parameters."""
        return tunables.tune(self.lustre["fsname"], wanted, noted, check)

    def untune(self, path: Path, kept: str, check: bool) -> list[str]:
        """As Target.untune."""
        return tunables.put_back(self.lustre["fsname"], path, check)

    def spread(self, folder: Path) -> None:
        """As Target.spread."""
        stripes.set_on(folder, {"stripe_count": striping.ALL, "stripe_size_mib": 1, "first_ost": stripes.ANY})

    def make_folders(self, notes: Mapping[str, dict[str, object]]) -> None:
        """As Target.make_folders."""
        stripes.make_folders(self, notes)

    def placement(self, files: list[Path], notes: Mapping[str, dict[str, object]]) -> dict[str, object]:
        """As Target.placement."""
        return stripes.of_striped(self, files, notes)

    def verify_fillers(self) -> None:
        """As Target.verify_fillers."""
        stripes.verify_fillers(self)


TARGET = Lustre
