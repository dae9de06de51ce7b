"""A target on Lustre: a directory on a client's mount, the only target of that file system, emptied by deleting.

Four things identify the claimed target: the file system's name, the NID of its management server, the FID of the
directory, and a mark in the root of the file system. The mark holds the claim. Every client sees it, so a second target
is refused.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fsage.host.lustre import mounts, params, servers, space, stripes
from fsage.host.system import files, places, privilege
from fsage.host.system.files import regular_files
from fsage.host.system.shell import run
from fsage.host.targets import directories
from fsage.host.targets.limits import Ost
from fsage.model import striping
from fsage.model.claim import Claim, LustreClaim
from fsage.model.declaration import GIB, MIB, lustre_of
from fsage.model.errors import Failure, Refusal
from fsage.model.target import LustreSpec, Spec

MARK = ".fsage-target.json"
NOBODYS = {MARK, ".lustre", "lost+found"}  # in the root of an empty file system
TREES = ("filler", "measured")
THREADS = 16
# Logs and indices of an OST grow while it serves: so many bytes more than at the claim are no objects left behind.
SLACK_BYTES, SLACK_SHARE = 64 * MIB, 0.005


class Found(NamedTuple):
    """What a file system that can be claimed offers; `alone`: it holds nothing but the target."""

    mount: Path
    capacity_bytes: int
    alone: bool
    noted: LustreClaim


def inspect(spec: Spec) -> Found:
    """The declared file system before it is claimed. Raises Refusal if it is another one, or cannot be claimed."""
    lustre, place = lustre_of(spec), Path(spec["directory"])
    if why := privilege.unavailable_because():
        raise Refusal(
            f"target {spec['name']} (kind: lustre) needs root on {os.uname().nodename}, for lctl set_param and caches, "
            f"or its helper: {why}"
        )
    mount = mount_of(spec).point
    if not os.access(mount, os.W_OK):
        raise Refusal(
            f"{mount} cannot be written by user {os.geteuid()}, and the mark of a claim lies there; nothing was "
            "touched. Its administrator may allow that with chmod 1777, which protects the files of others"
        )
    refuse_second(mount)
    osts = space.osts(mount)
    usable_bytes = _usable_bytes(lustre, osts)
    servers.reach(lustre, osts)
    others = sorted(set(os.listdir(mount)) - NOBODYS - {place.relative_to(mount).parts[0]})
    declared_gib = lustre["capacity_gib"]
    whole = declared_gib == "all"
    if whole and others:
        raise Refusal(
            f"fsage_target.lustre.capacity_gib is all, and {mount} holds {params.names(others)}: all is for a file "
            "system of its own; declare how many GiB fsage may fill"
        )
    capacity_bytes = usable_bytes if declared_gib == "all" else int(declared_gib * GIB)
    if capacity_bytes > usable_bytes:
        raise Refusal(
            f"fsage_target.lustre.capacity_gib is {lustre['capacity_gib']}, and `lfs df` has "
            f"{usable_bytes / GIB:.1f} GiB available on the OSTs that the declared striping uses; declare less"
        )
    noted: LustreClaim = {
        "declared": _declared(lustre),
        "version": params.version(),
        "osts": space.fullness(osts),
    }
    if whole and (laid := laid_ost(lustre)):
        with contextlib.suppress(Failure):  # of ZFS, or a user's, it is not known
            noted["device_bytes"] = servers.free_space(lustre, laid).found["device_bytes"]
    return Found(mount, capacity_bytes, whole, noted)


def mount_of(spec: Spec) -> mounts.ClientMount:
    """The mount of the declared file system on this client; `Refusal` if it is another, or not mounted.

    Raises Failure where one of its servers does not answer.
    """
    lustre = lustre_of(spec)
    mount = mounts.client_mount(lustre, Path(spec["directory"]))
    mounts.await_servers(lustre["fsname"])
    return mount


def laid_ost(lustre: LustreSpec) -> str | None:
    """The OST that has all of the target's files, where one has and its server is declared; else None."""
    if lustre["stripe_count"] != 1 or lustre["first_ost"] == stripes.ANY or not lustre["oss"]:
        return None
    return space.name_of(lustre["fsname"], lustre["first_ost"])


def identity(place: Path) -> dict[str, str]:
    """The FID of a directory, which the file system never uses again. Raises FileNotFoundError."""
    os.lstat(place)
    return {"fid": run(["lfs", "path2fid", str(place)]).stdout.strip()}


def mark(mount: Path, claim: Claim) -> None:
    """Write the mark, before anything else is written there. Raises Refusal if another claim was first."""
    whole = mount / f"{MARK}.{claim['id']}"
    files.write_json(whole, claim)
    try:
        os.link(whole, mount / MARK)  # unlike a rename it never replaces a mark
    except FileExistsError:
        raise Refusal(f"{mount / MARK} was written by another claim just now; nothing else was touched") from None
    finally:
        files.remove(whole)


def mark_anew(mount: Path, claim: Claim) -> None:
    """Update the claim in the mark."""
    files.write_json(mount / MARK, claim)


def unmark(spec: Spec, claim: Claim) -> list[str]:
    """Remove this claim's mark from the file system, and no other."""
    mount = mount_of(spec).point
    mark = files.read_json(mount / MARK)
    if mark and mark["id"] != claim["id"]:
        return [f"left {mount / MARK}: it is of target {mark['target']}"]
    for name in (MARK, f"{MARK}.{claim['id']}"):  # the latter is left when a claim was killed while it wrote
        files.remove(mount / name)
    return [f"{mount / MARK} is gone"]


def claim_of(spec: Spec) -> Claim | None:
    """The claim in the mark, for clients on which `claim` was not run; None where the mark is another target's."""
    mark: Claim | None = files.read_json(mount_of(spec).point / MARK)
    return mark if mark and mark["target"] == spec["name"] else None


def verify(spec: Spec, claim: Claim) -> None:
    """Raise Refusal unless the file system that is mounted here has this claim, and is declared as it was then."""
    mount = mount_of(spec).point
    declared, claimed = _declared(lustre_of(spec)), claim["lustre"]["declared"]
    for key, value in declared.items():
        if value != claimed[key]:
            raise Refusal(
                f"target {spec['name']} was claimed with lustre.{key} {claimed[key]}, and {value} is declared now; "
                "release it and claim it again"
            )
    mark = files.read_json(mount / MARK)
    if not mark or mark["id"] != claim["id"]:
        raise Refusal(
            f"{mount / MARK} names {'target ' + mark['target'] if mark else 'no target'}, not claim {claim['id']}: "
            "nothing was touched"
        )
    directories.verify(Path(spec["directory"]), claim, identity)


def prepare(place: Path, lustre: LustreSpec) -> None:
    """Make the directories that fsage fills, striped as declared. Raises Failure."""
    with places.opened(place) as above:
        for name in TREES:
            places.make_in(above, place / name)
            stripes.set_on(place / name, lustre)


def empty(place: Path, spec: Spec, claim: Claim, alone: bool, sync: space.Sync) -> None:
    """Delete what fsage made, by many threads, and verify that the OSTs destroyed its objects. Raises Failure.

    Where nobody else writes (`alone`), each OST must hold what it held at the claim. Elsewhere the OSTs together must
    free as much as fsage held, within the declared tolerance.
    """
    ours = sum(_held_bytes(place / name) for name in TREES)
    used_bytes = sum(space.used(space.osts(place)).values())
    directories.clear(place, keep_mark=True, threads=THREADS)
    left = [name for name in TREES if os.path.lexists(place / name)]
    if left:
        raise Failure(f"{place}: {', '.join(left)} is still there after it was deleted")
    tolerance = lustre_of(spec)["tolerance_mib"] * MIB
    # What others deleted before may come free now as well, so only more used space is wrong, not less.
    most = used_bytes - ours + (space.OWN_BYTES + tolerance) * len(claim["lustre"]["osts"])

    def wrong(osts: Sequence[Ost]) -> list[str]:
        if alone:
            return _above_claim(osts, claim)
        held = sum(ost.used_bytes for ost in osts)
        return [f"the OSTs hold {(held - most) / MIB:.0f} MiB more than they should"] if held > most else []

    space.await_frees(place, sync, wrong)
    prepare(place, lustre_of(spec))


def _held_bytes(tree: Path) -> int:
    """Bytes of all files' blocks below a directory. Directories do not count: they are on the MDT."""
    if tree.is_symlink() or not tree.is_dir():
        return 0
    return sum(path.lstat().st_blocks * 512 for path in regular_files(tree))


def _above_claim(osts: Sequence[Ost], claim: Claim) -> list[str]:
    sentences = []
    for ost in osts:
        then = claim["lustre"]["osts"][ost.name]["used_bytes"]
        if ost.used_bytes > then + max(SLACK_BYTES, SLACK_SHARE * ost.total_bytes):
            sentences.append(
                f"{ost.name} holds {ost.used_bytes / MIB:.0f} MiB after all of fsage's was deleted, and held "
                f"{then / MIB:.0f} MiB when it was claimed"
            )
    return sentences


def _declared(lustre: LustreSpec) -> dict[str, object]:
    """The declared keys that must not change after the claim."""
    return {key: value for key, value in lustre.items() if key not in ("oss", "tolerance_mib")}


def _usable_bytes(lustre: LustreSpec, osts: list[Ost]) -> int:
    """Bytes that files with the declared striping can take. Raises Refusal where the declared OSTs do not exist."""
    count, first = lustre["stripe_count"], lustre["first_ost"]
    numbers = [ost.number for ost in osts]
    if count > len(osts):
        raise Refusal(
            f"fsage_target.lustre.stripe_count is {count}, and {lustre['fsname']} has {len(osts)} OSTs: "
            "`lfs setstripe` would take it and give fewer"
        )
    if first != stripes.ANY and first not in numbers:
        raise Refusal(f"fsage_target.lustre.first_ost is {first}, and {lustre['fsname']} has {numbers}")
    if first == stripes.ANY or count == striping.ALL:
        return sum(ost.available_bytes for ost in osts)
    start = numbers.index(first)
    used = [osts[(start + step) % len(osts)] for step in range(count)]
    return min(ost.available_bytes for ost in used) * count


def refuse_second(mount: Path) -> None:
    """`Refusal` where a target has claimed the file system mounted at `mount`."""
    if mark := files.read_json(mount / MARK):
        raise Refusal(
            f"target {mark['target']} has claimed {mount} (from {mark['host']}, {mark['created']}): release it first, "
            f"because two targets on one file system change each other's state. If that target is lost for good, "
            f"delete {mount / MARK}"
        )
