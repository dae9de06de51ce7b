"""Kind `lustre`: a directory on a client's mount (fsage.host.lustre)."""

from __future__ import annotations

import contextlib
import re
import shutil
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from fsage.base import MIB, Failure, Json, JsonView, Refusal, in_words
from fsage.host.instruments.lustre import others, server_cache
from fsage.host.kinds.directory import Directory, Offer
from fsage.host.lustre import clients, connections, lctl, preallocation, servers, space, stripes
from fsage.host.lustre import target as lustre
from fsage.host.lustre.format import format_osts
from fsage.host.remote import connection
from fsage.host.system import files, privilege, settings
from fsage.host.system.settings import Holder
from fsage.host.targets import claims, directories, lease
from fsage.host.targets.budget import Free, Limits, Wrong, nothing
from fsage.host.targets.kinds import Lacking, NoOsts, Servers
from fsage.layouts import machine
from fsage.layouts.freespace import ONCE, Counting
from fsage.layouts.machine import Mount
from fsage.layouts.store import Store
from fsage.model import structure
from fsage.model.answers import Dropped
from fsage.model.claim import Claim
from fsage.model.kinds import lustre as facts
from fsage.model.kinds.lustre import LustreSpec, Striping, lustre_of
from fsage.model.request import Request
from fsage.model.structure import Segment, Step
from fsage.model.target import Spec

PROGRAMS = ("lfs", "lctl", "findmnt")
ON_CLIENTS = ("lustre-locks", "lustre-tune", "lustre-imports")
ON_SERVERS = ("lustre-sync", "lustre-counters", lctl.FREE_SPACE)
"""Verbs of root's helper (fsage.host.helper) that a user needs."""


class LustreOsts(NoOsts):
    """The OSTs of a target on Lustre, and its servers."""

    def __init__(self, target: Lustre) -> None:
        super().__init__()
        self.target = target
        self.listed = bool(target.lustre["osts"])
        self.agents: list[connection.Host] | None = None

    def ask_servers(self, **what: object) -> dict[str, Json]:
        """Over a session's connections, or over one of its own, which ends with the target."""
        if self.session:
            return self.session.ask_servers(**what)
        if self.agents is None:
            agents = [connection.Host(host, "server") for host in self.servers]
            connection.start(agents, self.target.spec, None)
            self.agents = agents
            weakref.finalize(self, connection.end, agents)
        return connection.ask_all(self.agents, lambda _: what)

    def sync(self) -> int | None:
        """Have the servers commit; how many objects they still have to destroy, None where no MDT answers."""
        return servers.sync(self)

    @property
    def tolerance_bytes(self) -> int:  # type: ignore[override]  # declared here, a constant elsewhere
        return lustre.tolerance_bytes(self.target.lustre, self.target.claim)

    def layouts(self, answers: Sequence[Json]) -> list[dict[str, object]]:
        return servers.every(self.target, list(answers))

    def fullness(self) -> dict[str, object]:
        return {"osts": servers.fullness(self.target)}

    def spread(self, folder: Path) -> None:
        everywhere: Striping = {"stripe_count": structure.ALL_OSTS, "stripe_size_mib": 1, "first_ost": stripes.ANY}
        stripes.set_on(folder, everywhere, self.target.lustre)

    def spread_files(self, folder: Path) -> dict[str, Path]:
        lustre = self.target.lustre
        claimed = self.target.claim["lustre"]
        numbers = sorted(claimed.get("usable") or (int(name[-4:], 16) for name in claimed["osts"]))
        count = lustre["stripe_count"]
        first = lustre["first_ost"]
        if first != stripes.ANY and count != structure.ALL_OSTS and not lustre["osts"]:
            start = numbers.index(first)
            numbers = [numbers[(start + step) % len(numbers)] for step in range(count)]
        return stripes.one_on_each(folder, numbers)

    def stripe(self, folder: Path, count: int, stripe_bytes: int) -> None:
        stripes.set_on(folder, _striping(count, stripe_bytes), self.target.lustre)

    def astray(self, paths: Sequence[Path], count: int, stripe_bytes: int) -> list[str]:
        claimed = self.target.claim["lustre"]
        usable = claimed.get("usable", ())
        osts = len(usable or claimed["osts"])
        elsewhere: list[str] = stripes.of_files(paths, _striping(count, stripe_bytes), osts, allowed=usable)["astray"]
        return elsewhere

    def lay_out(self, folder: Path, segments: Sequence[Segment], composite: bool) -> None:
        if composite:
            stripes.compose(folder, segments, self.target.lustre)
            return
        # Tried once, so that a layout which comes otherwise fails here and not in each cell.
        for place in stripes.cut(folder, segments, self.target.lustre):
            place.rmdir()

    def moved(self, then: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
        return space.moved(then, now, self.tolerance_bytes)

    def as_left(self, then: Mapping[str, int] | None) -> Wrong:
        return nothing if then is None else space.as_left(then, self.tolerance_bytes)

    def in_all(self, then: Mapping[str, int], more_bytes: int) -> Wrong:
        return space.in_all(then, more_bytes, self.tolerance_bytes)

    def preallocated(self, request: Request, earlier: Json) -> Json:
        return preallocation.of_servers(self.target, request, earlier)

    def verify_preallocation(self, step: Step) -> None:
        preallocation.verify_step(self.target, step)

    def untuned(self, servers: Servers, noted: JsonView | None) -> str | None:
        return preallocation.unavailable_because(servers, noted)

    def verify_fillers(self) -> None:
        stripes.verify_fillers(self.target)

    def is_used(self, name: str) -> bool:
        match = re.fullmatch(rf"{re.escape(self.target.lustre['fsname'])}-OST([0-9a-f]{{4}})", name)
        if not match:
            return True
        number = int(match[1], 16)
        usable = self.target.usable
        if usable is not None and number not in usable:
            return False
        return stripes.any_on(self.target.mounts[0], number)


def _striping(count: int, stripe_bytes: int) -> Striping:
    """The striping of files with so many stripes, as a declaration has it."""
    return {"stripe_count": count, "stripe_size_mib": stripe_bytes // MIB, "first_ost": stripes.ANY}


class Lustre(Directory, facts.Lustre):
    """A directory on Lustre, emptied by deleting."""

    below = "lustre"
    threads = lustre.THREADS
    remote = servers.REMOTE
    verbs: ClassVar = {
        "prealloc_osts": preallocation.prealloc_osts,
        "osts": servers.inspect,
        "format_osts": format_osts,
        "server_cache_back": server_cache.server_cache_back,
    }
    why_no_free_space = "the free space of Lustre is on its OSTs, the stores before this one"

    def __init__(self, spec: Spec, claim: Claim) -> None:
        super().__init__(spec, claim)
        self.osts: LustreOsts = LustreOsts(self)

    @property
    def lustre(self) -> LustreSpec:
        """The block `lustre` of its declaration."""
        return lustre_of(self.spec)

    @property
    def usable(self) -> list[int] | None:
        """The numbers of the OSTs that files of the target may lie on, where a pool or a list says so; None: all."""
        return self.claim["lustre"].get("usable")

    @classmethod
    def lacking(cls, spec: Spec) -> Lacking:
        room_bytes: dict[str, int] = {}
        lacking = [f"{tool}: install the Lustre client" for tool in PROGRAMS if not shutil.which(tool)]
        missing = list(lacking)
        whole = lustre_of(spec)["capacity_gib"] == "all"
        if whole and (why := privilege.unavailable_because()):
            missing.append(f"root, or its helper, for lctl set_param and caches: {why}")
        if not lacking:
            try:
                mount = lustre.mount_of(spec).point
                room_bytes = {str(mount): sum(ost.available_bytes for ost in space.read_osts(mount, ()))}
                if not whole:
                    room_bytes = {spec["directory"]: lustre.inspect(spec).capacity_bytes}
            except (Refusal, Failure) as error:
                missing.append(str(error))
        return Lacking(missing, room_bytes)

    @classmethod
    def refuse_to_create(cls, spec: Spec, claimed: bool) -> None:
        mount = lustre.mount_of(spec).point  # refuses where another file system would get it
        if not claimed:
            lustre.refuse_second(mount)

    @classmethod
    def offer(cls, spec: Spec) -> Offer:
        client = lustre.inspect(spec)
        return Offer(client.capacity_bytes, client.mount, client.alone, {"lustre": client.noted})

    @staticmethod
    def identity(place: Path) -> dict[str, object]:
        """The directory's FID, which is the same on every client."""
        return dict(lustre.identity(place))

    @classmethod
    def reach(cls, spec: Spec, hosts: Servers) -> None:
        if lustre_of(spec)["oss"]:
            servers.reach(hosts, lustre_of(spec), space.read_osts(lustre.mount_of(spec).point, ()))

    def begin(self, mount: Path) -> None:
        if self.state_known and lustre.laid_ost(self.lustre):
            with contextlib.suppress(Failure):  # of ZFS, or a user's, it is not known
                self.claim["lustre"]["device_bytes"] = self.laid_space().found["device_bytes"]
        lustre.mark(lustre.mark_of(self.spec, mount), self.claim)
        self.stamp(0)  # so that what follows can be taken back
        lustre.prepare(self.mounts[0], self.lustre)

    def confirm(self, mount: Path) -> None:
        files.write_json(lustre.mark_of(self.spec, mount), self.claim)

    @classmethod
    def claimed_elsewhere(cls, spec: Spec) -> Claim | None:
        """The claim that the mark in the root of the file system holds."""
        return lustre.claim_of(spec)

    @classmethod
    def left_behind(cls, spec: Spec) -> Claim | None:
        return lustre.claim_of(spec)

    @classmethod
    def take_back(cls, spec: Spec, claim: Claim | None) -> list[str]:
        if not claim:
            return super().take_back(spec, claim)
        proof = clients.put_tunables_back(lease.holder_of(spec))
        try:
            proof += cls._emptied(spec, claim)
            proof += lustre.unmark(spec, claim)
            return [*proof, *directories.unmake(spec)]
        except (
            OSError
        ) as error:  # a mark lies on an OST that was lost for good: then nothing shows whose files these are
            why = lustre.why_without_osts(space.read_osts(lustre.mount_of(spec).point, ()), spec, claim)
            if not why:
                raise
            left = f"left {spec['directory']} as it is: {in_words(error)}. {why[0].upper()}{why[1:]}; delete it by hand"
            return [*proof, left]

    @classmethod
    def requests_here(cls, spec: Spec) -> dict[str, list[int]]:
        return servers.requests_here(spec)

    @classmethod
    def look(cls, spec: Spec, below: Sequence[Mount]) -> Json:
        return dict(connections.look(spec, below))

    def astray(self, tuning: JsonView) -> list[str]:
        return others.of_client(self.spec, self.mounts[0], self.lustre["fsname"], tuning)

    @classmethod
    def astray_on(cls, spec: Spec, place: Path, tuning: JsonView) -> list[str] | None:
        fsname = clients.fsname_of(machine.mount_of(place))
        return others.of_client(spec, place, fsname, tuning) if fsname else None

    @classmethod
    def astray_here(cls, spec: Spec) -> list[str]:
        return others.of_server(spec)

    @classmethod
    def version(cls) -> str | None:
        return lctl.version() if shutil.which("lctl") else None

    @classmethod
    def tunables(cls, spec: Spec) -> Json:
        mount = clients.client_mount(lustre_of(spec), Path(spec["directory"])).point
        return dict(clients.known_tunables(mount, lustre_of(spec)["fsname"]))

    @classmethod
    def granted(cls, spec: Spec, server: bool) -> list[list[str]]:
        return [[verb, lustre_of(spec)["fsname"]] for verb in (ON_SERVERS if server else ON_CLIENTS)]

    @classmethod
    def holders(cls) -> list[Holder]:
        return settings.holders(lctl.TUNABLES.name)

    @classmethod
    def put_back(cls, holder: Holder) -> list[str]:
        return clients.put_tunables_back(holder)

    def drop_caches(self, files: list[Path]) -> Dropped:
        return clients.drop_caches(self.mounts[0], self.lustre["fsname"], files)

    def mount_options(self) -> list[str]:
        return [lustre.mount_of(self.spec).options]

    @classmethod
    def behind(cls, spec: Spec) -> str:
        return space.lost(Path(spec["directory"]).parent)

    def verify(self) -> None:
        """`Refusal` unless directory and file system are those that were claimed."""
        try:
            lustre.verify(self.spec, self.claim)
        except OSError:  # a mark may lie on an OST that is gone
            self._refuse_without_osts()
            raise
        self._refuse_without_osts()

    def _refuse_without_osts(self) -> None:
        lustre.refuse_without_osts(space.read_osts(self.mounts[0], self.usable), self.spec, self.claim)

    def empty(self) -> None:
        """Delete what fsage made, and wait until the OSTs have freed its objects. Raises Failure."""
        lustre.empty(self.mounts[0], self.spec, self.claim, self.state_known, self.osts.sync, self.pace.spend)

    @property
    def why_unwatched(self) -> str | None:
        return "a client of Lustre does not see what others do"

    def settle(self, wrong: Wrong = nothing) -> None:
        for mount in self.mounts:
            space.await_frees(mount, self.osts.sync, wrong, self.state_known, self.usable)

    def limits(self) -> Limits:
        return space.Osts(self.mounts[0], self.lustre, self.state_known, self.osts.sync, self.usable)

    def free(self, mount: Path) -> Free:
        usable = self.usable
        osts = [ost for ost in space.read_osts(mount, usable) if usable is None or ost.number in usable]
        # `available`: without the servers' reserve, as the capacity of the claim
        return Free(sum(ost.available_bytes for ost in osts), None, space.used(osts))

    def why_no_extents(self, error: OSError) -> str:
        return f"{super().why_no_extents(error)}; Lustre gives it for files of one stripe only"

    @property
    def layout_unavailable_because(self) -> str | None:
        if not lustre.laid_ost(self.lustre):
            return (
                f"target {self.name}: a layout is copied onto one OST, and its server tells what is free there: "
                "declare lustre.stripe_count 1, lustre.first_ost and lustre.oss"
            )
        if not self.state_known:
            return f"target {self.name}: a layout is copied where nobody else writes: declare lustre.capacity_gib all"
        return None

    def laid_space(self, counting: Counting = ONCE) -> Store:
        """The free space of the OST that has all of the target's files, as its server reads it."""
        ost = lustre.laid_ost(self.lustre)
        if not ost:
            raise Failure(str(self.layout_unavailable_because))
        return servers.free_space(self.osts, ost, counting)

    def tune(
        self, wanted: Mapping[str, object], holder: Holder, check: bool
    ) -> tuple[bool, list[str], dict[str, object]]:
        changed, proof, noted = clients.tune(self.mounts[0], wanted, holder, check)
        changed |= noted != claims.read_tunables(self.home)
        if not check:
            claims.note_tunables(self.home, noted)
        return changed, proof, noted

    def untune(self, holder: Holder, check: bool) -> list[str]:
        proof = clients.put_tunables_back(holder, check)
        if not check:
            claims.note_tunables(self.home, {})
        return proof


TARGET = Lustre
