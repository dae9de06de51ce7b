"""A target on Lustre: a directory on a client's mount, the only target of that file system, emptied by deleting.

The claim is told by the file system's name, the NID of its management server, the FID of the directory, and a mark in
the root of the file system, which every client sees: it holds the claim, and refuses a second target.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fsage.host.lustre import connections, mounts, params, servers, space, stripes
from fsage.host.system import files, places, privilege
from fsage.host.system.files import regular_files
from fsage.host.system.shell import run
from fsage.host.targets import directories
from fsage.host.targets.free import Ost
from fsage.model import striping
from fsage.model.claim import Claim, LustreClaim
from fsage.model.declaration import GIB, MIB, lustre_of
from fsage.model.errors import Failure, Refusal
from fsage.model.target import LustreSpec, Spec

MARK = ".fsage-target.json"
NOBODYS = {MARK, ".lustre", "lost+found"}  # in the root of an empty file system
TREES = ("filler", "measured")
THREADS = 16
# Logs and indices of an OST grow while it serves: so much more than when it was claimed does not count as left behind.
SLACK_BYTES, SLACK_SHARE = 64 * MIB, 0.005


class Found(NamedTuple):
    """What a file system that can be claimed offers; `alone`: it holds nothing but the target."""

    mount: Path
    capacity_bytes: int
    alone: bool
    noted: LustreClaim


def inspect(spec: Spec) -> Found:
    """The declared file system, as it is before it is claimed. `Refusal` if it is another, or not to be had."""
    lustre, place = lustre_of(spec), Path(spec["directory"])
    if why := privilege.unavailable_because():
        raise Refusal(
            f"target {spec['name']} (kind: lustre) needs root on {os.uname().nodename}, for lctl set_param and caches, "
            f"or its helper: {why}"
        )
    mount = mount_of(spec).point
    if not os.access(mount, os.W_OK):
        raise Refusal(
            f"{mount} cannot be written by user {os.geteuid()}, and there the mark of a claim lies; nothing was "
            "touched. Its administrator may let all write there who remove nobody else's (chmod 1777)"
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
    connections.await_servers(lustre["fsname"])
    return mount


def laid_ost(lustre: LustreSpec) -> str | None:
    """The one OST on which all files lie whose server can be asked; None where they lie on several."""
    if lustre["stripe_count"] != 1 or lustre["first_ost"] == stripes.ANY or not lustre["oss"]:
        return None
    return space.name_of(lustre["fsname"], lustre["first_ost"])


def identity(place: Path) -> dict[str, str]:
    """What tells a directory from every other that the file system ever had: its FID. Raises FileNotFoundError."""
    os.lstat(place)
    return {"fid": run(["lfs", "path2fid", str(place)]).stdout.strip()}


def mark(mount: Path, claim: Claim) -> None:
    """Note the claim on the file system, before anything else is written there. `Refusal` if another came first."""
    whole = mount / f"{MARK}.{claim['id']}"
    files.write_json(whole, claim)
    try:
        os.link(whole, mount / MARK)  # unlike a rename it never replaces what is there
    except FileExistsError:
        raise Refusal(f"{mount / MARK} was written by another claim just now; nothing else was touched") from None
    finally:
        files.remove(whole)


def mark_anew(mount: Path, claim: Claim) -> None:
    """Bring the claim on the file system up to date."""
    files.write_json(mount / MARK, claim)


def unmark(spec: Spec, claim: Claim) -> list[str]:
    """Take our mark, and only ours, off the file system."""
    mount = mount_of(spec).point
    mark = files.read_json(mount / MARK)
    if mark and mark["id"] != claim["id"]:
        return [f"left {mount / MARK}: it is of target {mark['target']}"]
    for name in (MARK, f"{MARK}.{claim['id']}"):  # the latter is left when a claim was killed while it wrote
        files.remove(mount / name)
    return [f"{mount / MARK} is gone"]


def claim_of(spec: Spec) -> Claim | None:
    """The claim as the file system has it: for the clients on which `claim` was not run."""
    mark: Claim | None = files.read_json(mount_of(spec).point / MARK)
    return mark if mark and mark["target"] == spec["name"] else None


def verify(spec: Spec, claim: Claim) -> None:
    """`Refusal` unless the file system mounted here is the one that was claimed, by us, as declared now."""
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
    """Delete what fsage made, by many threads, and prove that it is gone and that its objects are. Raises Failure.

    The proof by OST is to be had only where nobody else writes: `alone`. Elsewhere as much must come free as was ours,
    within what others may change.
    """
    ours = sum(_held_bytes(place / name) for name in TREES)
    used_bytes = sum(space.used(space.osts(place)).values())
    directories.clear(place, keep_mark=True, threads=THREADS)
    left = [name for name in TREES if os.path.lexists(place / name)]
    if left:
        raise Failure(f"{place}: {', '.join(left)} is still there after it was deleted")
    tolerance = lustre_of(spec)["tolerance_mib"] * MIB
    # What was deleted before, and was still there, may come free as well: only more than that is wrong.
    most = used_bytes - ours + (space.OWN_BYTES + tolerance) * len(claim["lustre"]["osts"])

    def wrong(osts: Sequence[Ost]) -> list[str]:
        if alone:
            return _above_claim(osts, claim)
        held = sum(ost.used_bytes for ost in osts)
        return [f"the OSTs hold {(held - most) / MIB:.0f} MiB more than they should"] if held > most else []

    space.await_frees(place, sync, wrong)
    prepare(place, lustre_of(spec))


def _held_bytes(tree: Path) -> int:
    """Bytes of the blocks of all files below a directory, which are on OSTs; those of directories are not."""
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
    """What must stay as it was when the target was claimed."""
    return {key: value for key, value in lustre.items() if key not in ("oss", "tolerance_mib")}


def _usable_bytes(lustre: LustreSpec, osts: list[Ost]) -> int:
    """What files striped as declared can fill; `Refusal` where the OSTs for it are not there."""
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
            f"target {mark['target']} has claimed {mount} (from {mark['host']}, {mark['created']}), and two targets "
            f"on one file system would change each other's state: release that one first. If it is lost for good, "
            f"delete {mount / MARK}"
        )
