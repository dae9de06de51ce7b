"""Kind `lustre`: a directory on a client's mount, emptied by deleting.

Four things identify the claimed target: the file system's name, the NID of its management server, the FID of the
directory, and a mark (fsage.studies.lustre.host.marks).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from fsage.api.helper import CLIENTS, SERVERS, settings
from fsage.api.host import Lacking, run
from fsage.api.model import GIB, MIB, Claim, Failure, Json, JsonView, Refusal, Spec, in_words
from fsage.api.target import (
    Directory,
    Dropped,
    Offer,
    Servers,
    budget,
    existing,
    files,
    holder_of,
    places,
    why_not_root,
)
from fsage.layouts import machine
from fsage.layouts.freespace import ONCE, Counting
from fsage.layouts.servers import Ost
from fsage.layouts.store import Store

from .. import helper
from .. import model as facts
from ..helper import lctl
from ..instruments import others, server_cache
from ..model import LustreSpec, lustre_of
from . import clients, connections, ldiskfs, marks, servers, space, stripes
from .format import format_osts
from .osts import LustreOsts, above_claim, declared_numbers, usable_bytes, usable_osts, why_without

PROGRAMS = ("lfs", "lctl", "findmnt")
TREES = ("filler", "measured")


class Lustre(facts.Lustre, Directory):
    """A directory on Lustre, emptied by deleting."""

    below = "lustre"
    how_shared = ""  # each client sees the mark
    threads = 16
    remote: ClassVar = {
        "commit": lambda host: {"to_destroy": servers.commit(host.spec)},
        "free_space": servers.free_space_there,
        "free_extents": servers.free_extents,
    }
    verbs: ClassVar = {
        "prealloc_osts": ldiskfs.prealloc_osts,
        "osts": servers.inspect,
        "format_osts": format_osts,
        "server_cache_back": server_cache.server_cache_back,
    }
    requests_here = staticmethod(servers.requests_here)
    look = staticmethod(connections.look)
    astray_here = staticmethod(others.of_server)
    undo_tunables = staticmethod(clients.put_tunables_back)
    why_no_free_space = "the free space of Lustre is on its OSTs, the stores before this one"

    def __init__(self, spec: Spec, claim: Claim) -> None:
        super().__init__(spec, claim)
        self.osts: LustreOsts = LustreOsts(self)

    @property
    def lustre(self) -> LustreSpec:
        """The block `lustre` of its declaration."""
        return lustre_of(self.spec)

    @property
    def laid_ost(self) -> str | None:
        """The OST that has all of the target's files, where one has and its server is declared; else None."""
        declared = self.lustre
        if declared["stripe_count"] != 1 or declared["first_ost"] == stripes.ANY or not declared["oss"]:
            return None
        return space.name_of(declared["fsname"], declared["first_ost"])

    @classmethod
    def lacking(cls, spec: Spec) -> Lacking:
        room_bytes: dict[str, int] = {}
        lacking = [f"{tool}: install the Lustre client" for tool in PROGRAMS if not shutil.which(tool)]
        missing = list(lacking)
        whole = lustre_of(spec)["capacity_gib"] == "all"
        if whole and (why := why_not_root()):
            missing.append(f"root, or its helper, for lctl set_param and caches: {why}")
        if not lacking:
            try:
                mount = marks.mount_of(spec).point
                room_bytes = {str(mount): sum(ost.available_bytes for ost in space.read_osts(mount, ()))}
                if not whole:
                    room_bytes = {spec["directory"]: cls.offer(spec).capacity_bytes}
            except (Refusal, Failure) as error:
                missing.append(str(error))
        return Lacking(missing, room_bytes)

    @classmethod
    def refuse_to_create(cls, spec: Spec, claimed: bool) -> None:
        mount = marks.mount_of(spec).point  # refuses where another file system would get it
        if not claimed:
            marks.refuse_second(mount)

    @classmethod
    def offer(cls, spec: Spec) -> Offer:
        lustre = lustre_of(spec)
        place = Path(spec["directory"])
        client = marks.mount_of(spec)
        mount = client.point
        whole = lustre["capacity_gib"] == "all"
        marks.refuse_second(mount)
        if whole:
            marks.refuse_shared(spec, client)
        declared = declared_numbers(lustre)
        osts = space.read_osts(mount, declared)
        usable = usable_osts(lustre, osts)
        noted: Json = {
            "declared": _declared(lustre),
            "version": lctl.version(),
            "osts": space.fullness(osts),
            "budget": {},
        }
        if declared is not None:
            noted["usable"] = [ost.number for ost in usable]
        capacity_bytes = usable_bytes(lustre, usable)
        if not whole:
            percent = lustre["free_percent"]
            limits = {f"{percent:g}% of what is free": int(capacity_bytes * percent / 100)}
            if lustre["capacity_gib"] is not None:
                limits["capacity_gib"] = int(float(lustre["capacity_gib"]) * GIB)
            above = existing(place)
            lefts = space.quotas_left(above, space.project_of(above))
            capacity_bytes = budget.least(spec["name"], limits, lefts)
            noted["budget"] = limits
        return Offer(capacity_bytes, mount, whole, {"lustre": noted})

    @staticmethod
    def identity(place: Path) -> dict[str, object]:
        """The FID of the directory, the same on every client, which the file system never uses again."""
        os.lstat(place)
        return {"fid": run(["lfs", "path2fid", str(place)]).stdout.strip()}

    @classmethod
    def reach(cls, spec: Spec, hosts: Servers) -> None:
        if lustre_of(spec)["oss"]:
            servers.reach(hosts, lustre_of(spec), space.read_osts(marks.mount_of(spec).point, ()))

    def begin(self, mount: Path) -> None:
        if self.state_known and self.laid_ost:
            with contextlib.suppress(Failure):  # of ZFS, or a user's, it is not known
                self.claim["lustre"]["device_bytes"] = self.laid_space().found["device_bytes"]
        path = marks.path_of(self.spec, mount)
        whole = path.with_name(f"{marks.MARK}.{self.claim['id']}")
        files.write_json(whole, self.claim)
        try:
            os.link(whole, path)  # unlike a rename it never replaces a mark
        except FileExistsError:
            raise Refusal(f"{path} was written by another claim just now; nothing else was touched") from None
        finally:
            files.remove(whole)
        self.stamp(0)  # so that what follows can be taken back
        self._prepare()

    def confirm(self, mount: Path) -> None:
        files.write_json(marks.path_of(self.spec, mount), self.claim)

    @classmethod
    def claimed_elsewhere(cls, spec: Spec) -> Claim | None:
        """The claim in the mark; None where the mark is another target's."""
        mark: Claim | None = files.read_json(marks.path_of(spec, marks.mount_of(spec).point))
        if mark and mark["target"] == spec["name"]:
            return mark
        return None

    @classmethod
    def left_behind(cls, spec: Spec) -> Claim | None:
        return cls.claimed_elsewhere(spec)

    @classmethod
    def undo_claim(cls, spec: Spec, claim: Claim | None) -> list[str]:
        if not claim:
            return super().undo_claim(spec, claim)
        proof = clients.put_tunables_back(holder_of(spec))
        try:
            return proof + super().undo_claim(spec, claim)
        except OSError as error:
            # A mark lies on an OST that was lost for good: then nothing shows whose files these are.
            why = why_without(space.read_osts(marks.mount_of(spec).point, ()), spec, claim)
            if not why:
                raise
            left = f"left {spec['directory']} as it is: {in_words(error)}. {why[0].upper()}{why[1:]}; delete it by hand"
            return [*proof, left]

    @classmethod
    def unmark(cls, spec: Spec, claim: Claim | None) -> list[str]:
        return marks.remove(spec, claim) if claim else []

    def astray(self, tuning: JsonView) -> list[str]:
        return others.of_client(self.spec, self.mounts[0], self.lustre["fsname"], tuning)

    @classmethod
    def astray_on(cls, spec: Spec, place: Path, tuning: JsonView) -> list[str] | None:
        fsname = clients.fsname_of(machine.mount_of(place))
        return others.of_client(spec, place, fsname, tuning) if fsname else None

    @classmethod
    def version(cls) -> str | None:
        return lctl.version() if shutil.which("lctl") else None

    @classmethod
    def tunables(cls, spec: Spec) -> Json:
        mount = clients.client_mount(lustre_of(spec), Path(spec["directory"])).point
        return {**clients.known_tunables(mount, lustre_of(spec)["fsname"])}

    @classmethod
    def granted(cls, spec: Spec, server: bool) -> list[list[str]]:
        verbs = helper.VERBS[SERVERS if server else CLIENTS]
        return [[verb, lustre_of(spec)["fsname"]] for verb in verbs]

    @classmethod
    def holders(cls) -> list[settings.Holder]:
        return settings.holders(lctl.TUNABLES.name)

    def drop_caches(self, files: list[Path]) -> Dropped:
        return clients.drop_caches(self.mounts[0], self.lustre["fsname"], files)

    def mount_options(self) -> list[str]:
        return [marks.mount_of(self.spec).options]

    @classmethod
    def behind(cls, spec: Spec) -> str:
        return space.lost(Path(spec["directory"]).parent)

    def verify(self) -> None:
        """`Refusal` unless directory and file system are those that were claimed."""
        try:
            self._verify_mark()
        except OSError:  # a mark may lie on an OST that is gone
            self._refuse_without_osts()
            raise
        self._refuse_without_osts()

    def _refuse_without_osts(self) -> None:
        why = why_without(space.read_osts(self.mounts[0], self.osts.usable), self.spec, self.claim)
        if why:
            raise Refusal(
                f"{why}: nothing was touched. If they are deactivated (`lctl get_param osc.*.active`) and come back, "
                "run this command again. If they are lost for good, release the target and claim it again; records "
                "that exist stay"
            )

    def _verify_mark(self) -> None:
        """Raise Refusal unless the file system that is mounted here has this claim, and is declared as it was then."""
        path = marks.path_of(self.spec, marks.mount_of(self.spec).point)
        claimed = self.claim["lustre"]["declared"]
        for key, value in _declared(self.lustre).items():
            if value != claimed[key]:
                raise Refusal(
                    f"target {self.name} was claimed with lustre.{key} {claimed[key]}, and {value} is declared now; "
                    "release it and claim it again"
                )
        mark = files.read_json(path)
        if not mark or mark["id"] != self.claim["id"]:
            raise Refusal(
                f"{path} names {'target ' + mark['target'] if mark else 'no target'}, not claim {self.claim['id']}: "
                "nothing was touched"
            )
        super().verify()

    def empty(self) -> None:
        """Delete what fsage made, by many threads, and verify that the OSTs destroyed its objects. Raises Failure.

        Where nobody else writes each OST must hold what it held at the claim. Elsewhere the OSTs together must free as
        much as fsage held, within the tolerance.
        """
        place = self.mounts[0]
        usable = self.osts.usable
        ours = sum(_held_bytes(place / name) for name in TREES)
        now = space.needed_osts(place, usable)
        used_bytes = sum(budget.used(now).values())
        super().empty()
        left = [name for name in TREES if os.path.lexists(place / name)]
        if left:
            raise Failure(f"{place}: {', '.join(left)} is still there after it was deleted")
        # What others deleted before may come free now as well, so only more used space is wrong, not less.
        most = used_bytes - ours + (budget.OWN_BYTES + self.osts.tolerance_bytes) * len(now)

        def wrong(osts: Sequence[Ost]) -> list[str]:
            if self.state_known:
                return above_claim(osts, self.claim)
            in_use_bytes = sum(ost.used_bytes for ost in osts)
            if in_use_bytes > most:
                return [f"the OSTs hold {(in_use_bytes - most) / MIB:.0f} MiB more than they should"]
            return []

        space.await_frees(place, self.osts.sync, wrong, self.state_known, usable)
        self._prepare()

    def _prepare(self) -> None:
        """Make the directories that fsage fills, striped as declared. Raises Failure."""
        with places.opened(self.mounts[0]) as above:
            for name in TREES:
                _make_tree(above, self.mounts[0] / name, self.lustre)
                stripes.set_on(self.mounts[0] / name, self.lustre, self.lustre)

    @property
    def why_unwatched(self) -> str | None:
        return "a client of Lustre does not see what others do"

    def settle(self, wrong: budget.Wrong = budget.nothing) -> None:
        for mount in self.mounts:
            space.await_frees(mount, self.osts.sync, wrong, self.state_known, self.osts.usable)

    def limits(self) -> budget.Limits:
        return space.Osts(self.mounts[0], self.lustre, self.state_known, self.osts.sync, self.osts.usable)

    def free(self, mount: Path) -> budget.Free:
        osts = space.needed_osts(mount, self.osts.usable)
        # `available`: without the servers' reserve, as the capacity of the claim
        return budget.Free(sum(ost.available_bytes for ost in osts), None, budget.used(osts))

    def why_no_extents(self, error: OSError) -> str:
        return f"{super().why_no_extents(error)}; Lustre gives it for files of one stripe only"

    @property
    def layout_unavailable_because(self) -> str | None:
        if not self.laid_ost:
            return (
                f"target {self.name}: a layout is copied onto one OST, and its server tells what is free there: "
                "declare lustre.stripe_count 1, lustre.first_ost and lustre.oss"
            )
        if not self.state_known:
            return f"target {self.name}: a layout is copied where nobody else writes: declare lustre.capacity_gib all"
        return None

    def laid_space(self, counting: Counting = ONCE) -> Store:
        """The free space of the OST that has all of the target's files, as its server reads it."""
        ost = self.laid_ost
        if not ost:
            raise Failure(str(self.layout_unavailable_because))
        return servers.free_space(self.osts, ost, counting)

    def tune(
        self, wanted: Mapping[str, object], holder: settings.Holder, check: bool
    ) -> tuple[bool, list[str], dict[str, object]]:
        return clients.tune(self.mounts[0], wanted, holder, check)

    def untune(self, holder: settings.Holder, check: bool) -> list[str]:
        return clients.put_tunables_back(holder, check)


def _make_tree(above: int, path: Path, lustre: LustreSpec) -> None:
    """Make a directory on the declared MDTs, where any is declared; those in it are like it. Raises Failure."""
    words = [
        f"--{key.replace('_', '-')}={value}" for key in ("mdt_index", "mdt_count") if (value := lustre[key]) is not None
    ]
    if words and not os.path.lexists(path):
        for verb in (["mkdir", "--mode=0700"], ["setdirstripe", "--default"]):
            ran = run(["lfs", *verb, *words, str(path)], ok=range(256))
            if ran.returncode:
                raise Failure(
                    f"`lfs {verb[0]} {' '.join(words)} {path}`: {' '.join(ran.stderr.split())}. The MDTs allow that to "
                    "root, and to the group in their parameter enable_remote_dir_gid. Declare neither mdt_index nor "
                    "mdt_count, and have the directory above made as wanted"
                )
    places.make_in(above, path)


def _held_bytes(tree: Path) -> int:
    """Bytes of all files' blocks below a directory. Directories do not count: they are on the MDT."""
    if tree.is_symlink() or not tree.is_dir():
        return 0
    return sum(path.lstat().st_blocks * 512 for path in machine.regular_files(tree))


def _declared(lustre: LustreSpec) -> dict[str, object]:
    """The declared keys that must not change after the claim."""
    return {key: value for key, value in lustre.items() if key not in ("oss", "tolerance_mib")}


TARGET = Lustre
