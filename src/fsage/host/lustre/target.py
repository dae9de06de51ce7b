"""A target on Lustre: a directory on a client's mount, emptied by deleting.

Four things identify the claimed target: the file system's name, the NID of its management server, the FID of the
directory, and a mark. The mark holds the claim, and every client sees it. It lies in the directory. A target that has
the file system for itself (`capacity_gib: all`) marks its root, so that a second target is refused.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fsage.base import GIB, MIB, Failure, Refusal
from fsage.base.shell import run
from fsage.host.lustre import clients, lctl, space, stripes
from fsage.host.system import files, places, privilege
from fsage.host.system import space as space_of
from fsage.host.targets import directories
from fsage.host.targets.budget import least
from fsage.layouts.machine import regular_files
from fsage.layouts.servers import Ost
from fsage.model import structure
from fsage.model.claim import Claim, LustreClaim
from fsage.model.kinds.lustre import LustreSpec, lustre_of
from fsage.model.target import Spec

MARK = ".fsage-target.json"
NOBODYS = {MARK, ".lustre", "lost+found"}  # in the root of an empty file system
TREES = ("filler", "measured")
THREADS = 16
# Logs and indices of an OST grow while it serves: so many bytes more than at the claim are no objects left behind.
SLACK_BYTES = 64 * MIB
SLACK_SHARE = 0.005
OTHERS_SHARE = 0.1


class Found(NamedTuple):
    """What a file system that can be claimed offers; `alone`: it holds nothing but the target."""

    mount: Path
    capacity_bytes: int
    alone: bool
    noted: LustreClaim


def inspect(spec: Spec) -> Found:
    """The declared file system before it is claimed. Raises Refusal if it is another one, or cannot be claimed."""
    lustre = lustre_of(spec)
    place = Path(spec["directory"])
    client = mount_of(spec)
    mount = client.point
    whole = lustre["capacity_gib"] == "all"
    refuse_second(mount)
    if whole:
        _refuse_shared(spec, client)
    declared = declared_osts(lustre)
    osts = space.read_osts(mount, declared)
    usable = _usable(lustre, osts)
    noted: LustreClaim = {
        "declared": _declared(lustre),
        "version": lctl.version(),
        "osts": space.fullness(osts),
        "budget": {},
    }
    if declared is not None:
        noted["usable"] = [ost.number for ost in usable]
    capacity_bytes = _usable_bytes(lustre, usable)
    if not whole:
        budget = {f"{lustre['free_percent']:g}% of what is free": int(capacity_bytes * lustre["free_percent"] / 100)}
        if lustre["capacity_gib"] is not None:
            budget["capacity_gib"] = int(float(lustre["capacity_gib"]) * GIB)
        existing = space_of.existing(place)
        lefts = space.quotas_left(existing, space.project_of(existing))
        capacity_bytes = least(spec["name"], budget, lefts)
        noted["budget"] = budget
    return Found(mount, capacity_bytes, whole, noted)


def _refuse_shared(spec: Spec, client: clients.ClientMount) -> None:
    """Raise Refusal where a file system cannot be a target's alone."""
    place = Path(spec["directory"])
    mount = client.point
    why = privilege.unavailable_because()
    if why:
        raise Refusal(
            f"target {spec['name']} (capacity_gib: all) needs root on {os.uname().nodename}, for lctl set_param and "
            f"caches, or its helper: {why}"
        )
    if client.root != "/":
        raise Refusal(
            f"fsage_target.lustre.capacity_gib is all, and {mount} is the fileset {client.root}: all is for a whole "
            "file system; declare how many GiB fsage may fill"
        )
    if not os.access(mount, os.W_OK):
        raise Refusal(
            f"{mount} cannot be written by user {os.geteuid()}, and the mark of a claim of all of it lies there; "
            "nothing was touched. Declare how many GiB fsage may fill of it, and the mark lies in the directory"
        )
    others = sorted(set(os.listdir(mount)) - NOBODYS - {place.relative_to(mount).parts[0]})
    if others:
        raise Refusal(
            f"fsage_target.lustre.capacity_gib is all, and {mount} holds {lctl.names(others)}: all is for a file "
            "system of its own; declare how many GiB fsage may fill"
        )


def mark_of(spec: Spec, mount: Path) -> Path:
    """Where the mark of a target lies, whose file system is mounted at `mount`."""
    if lustre_of(spec)["capacity_gib"] == "all":
        return mount / MARK
    return Path(spec["directory"]) / ".fsage" / MARK


def mount_of(spec: Spec) -> clients.ClientMount:
    """The mount of the declared file system on this client; `Refusal` if it is another, or not mounted.

    Raises Failure where one of its servers does not answer.
    """
    lustre = lustre_of(spec)
    mount = clients.client_mount(lustre, Path(spec["directory"]))
    clients.await_servers(mount.point, lustre["fsname"], lambda: declared_osts(lustre))
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


def mark(path: Path, claim: Claim) -> None:
    """Write the mark, before anything else is written there. Raises Refusal if another claim was first."""
    whole = path.with_name(f"{MARK}.{claim['id']}")
    files.write_json(whole, claim)
    try:
        os.link(whole, path)  # unlike a rename it never replaces a mark
    except FileExistsError:
        raise Refusal(f"{path} was written by another claim just now; nothing else was touched") from None
    finally:
        files.remove(whole)


def unmark(spec: Spec, claim: Claim) -> list[str]:
    """Remove this claim's mark, and no other. A mark in the directory was removed with all that is there."""
    path = mark_of(spec, mount_of(spec).point)
    if not path.parent.is_dir():
        return [f"{path} is gone"]
    mark = files.read_json(path)
    if mark and mark["id"] != claim["id"]:
        return [f"left {path}: it is of target {mark['target']}"]
    for name in (MARK, f"{MARK}.{claim['id']}"):  # the latter is left when a claim was killed while it wrote
        files.remove(path.with_name(name))
    if path.parent.name == ".fsage":  # a claim was killed before it wrote anything else there
        with contextlib.suppress(OSError):
            path.parent.rmdir()
    return [f"{path} is gone"]


def claim_of(spec: Spec) -> Claim | None:
    """The claim in the mark, for clients on which `claim` was not run; None where the mark is another target's."""
    mark: Claim | None = files.read_json(mark_of(spec, mount_of(spec).point))
    if mark and mark["target"] == spec["name"]:
        return mark
    return None


def verify(spec: Spec, claim: Claim) -> None:
    """Raise Refusal unless the file system that is mounted here has this claim, and is declared as it was then."""
    path = mark_of(spec, mount_of(spec).point)
    declared = _declared(lustre_of(spec))
    claimed = claim["lustre"]["declared"]
    for key, value in declared.items():
        if value != claimed[key]:
            raise Refusal(
                f"target {spec['name']} was claimed with lustre.{key} {claimed[key]}, and {value} is declared now; "
                "release it and claim it again"
            )
    mark = files.read_json(path)
    if not mark or mark["id"] != claim["id"]:
        raise Refusal(
            f"{path} names {'target ' + mark['target'] if mark else 'no target'}, not claim {claim['id']}: "
            "nothing was touched"
        )
    directories.verify(Path(spec["directory"]), claim, identity)


def why_without_osts(osts: Sequence[Ost], spec: Spec, claim: Claim) -> str | None:
    """Which OSTs that files may lie on are not among `osts`, in words; a deactivated one `lfs df` leaves out."""
    noted = claim["lustre"]
    present = {ost.name for ost in osts}
    usable = {space.name_of(lustre_of(spec)["fsname"], number) for number in noted.get("usable", ())} or noted["osts"]
    gone = sorted(set(usable) - present)
    if not gone:
        return None
    return f"target {spec['name']} was claimed with {', '.join(gone)}, which `lfs df` does not name any more"


def refuse_without_osts(osts: Sequence[Ost], spec: Spec, claim: Claim) -> None:
    """Raise Refusal where an OST that files may lie on is not among `osts`."""
    why = why_without_osts(osts, spec, claim)
    if why:
        raise Refusal(
            f"{why}: nothing was touched. If they are deactivated (`lctl get_param osc.*.active`) and come back, run "
            "this command again. If they are lost for good, release the target and claim it again; records that exist "
            "stay"
        )


def prepare(place: Path, lustre: LustreSpec) -> None:
    """Make the directories that fsage fills, striped as declared. Raises Failure."""
    with places.opened(place) as above:
        for name in TREES:
            _make_tree(above, place / name, lustre)
            stripes.set_on(place / name, lustre, lustre)


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


def tolerance_bytes(lustre: LustreSpec, claim: Claim) -> int:
    """By how much others may change the used space of each OST: as declared, else a share of what fsage may take there.

    Nothing where the file system is fsage's alone.
    """
    if claim["filesystem_state_known"]:
        return 0
    declared_mib = lustre["tolerance_mib"]
    if declared_mib is not None:
        return declared_mib * MIB
    return int(OTHERS_SHARE * claim["capacity_bytes"] / len(claim["lustre"].get("usable") or claim["lustre"]["osts"]))


def empty(place: Path, spec: Spec, claim: Claim, alone: bool, sync: space.Sync, spend: Callable[[], None]) -> None:
    """Delete what fsage made, by many threads, and verify that the OSTs destroyed its objects. Raises Failure.

    Where nobody else writes (`alone`), each OST must hold what it held at the claim. Elsewhere the OSTs together must
    free as much as fsage held, within the tolerance.
    """
    ours = sum(_held_bytes(place / name) for name in TREES)
    usable = claim["lustre"].get("usable")
    now = [ost for ost in space.read_osts(place, usable) if usable is None or ost.number in usable]
    used_bytes = sum(space.used(now).values())
    directories.clear(place, keep_mark=True, threads=THREADS, spend=spend)
    left = [name for name in TREES if os.path.lexists(place / name)]
    if left:
        raise Failure(f"{place}: {', '.join(left)} is still there after it was deleted")
    # What others deleted before may come free now as well, so only more used space is wrong, not less.
    more_bytes = space.OWN_BYTES + tolerance_bytes(lustre_of(spec), claim)
    most = used_bytes - ours + more_bytes * len(now)

    def wrong(osts: Sequence[Ost]) -> list[str]:
        if alone:
            return _above_claim(osts, claim)
        in_use_bytes = sum(ost.used_bytes for ost in osts)
        if in_use_bytes > most:
            return [f"the OSTs hold {(in_use_bytes - most) / MIB:.0f} MiB more than they should"]
        return []

    space.await_frees(place, sync, wrong, alone, usable)
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


def declared_osts(lustre: LustreSpec) -> list[int] | None:
    """The numbers of the OSTs of the declared pool or list; None where neither is declared: then it may be any."""
    if not lustre["pool"]:
        if lustre["osts"]:
            return list(lustre["osts"])
        return None
    ran = run(["lfs", "pool_list", f"{lustre['fsname']}.{lustre['pool']}"], ok=range(256))
    return [int(match[1], 16) for match in re.finditer(r"-OST([0-9a-f]{4})(?:_UUID)?\s*$", ran.stdout, re.MULTILINE)]


def _usable(lustre: LustreSpec, osts: list[Ost]) -> list[Ost]:
    """The OSTs of the declared pool or list; else all. Raises Refusal where there are no such."""
    if lustre["pool"]:
        of_pool = declared_osts(lustre) or []
        usable = [ost for ost in osts if ost.number in of_pool]
        if not usable:
            pool = f"{lustre['fsname']}.{lustre['pool']}"
            raise Refusal(
                f"fsage_target.lustre.pool is {lustre['pool']}, and `lfs pool_list {pool}` names no OST of it"
            )
        return usable
    numbers = [ost.number for ost in osts]
    missing = sorted(set(lustre["osts"] or ()) - set(numbers))
    if missing:
        raise Refusal(f"fsage_target.lustre.osts has {missing}, and {lustre['fsname']} has {numbers}")
    if lustre["osts"]:
        return [ost for ost in osts if ost.number in lustre["osts"]]
    return osts


def _usable_bytes(lustre: LustreSpec, osts: list[Ost]) -> int:
    """Bytes that files with the declared striping can take. Raises Refusal where the declared OSTs do not exist."""
    if lustre["osts"]:
        return min(ost.available_bytes for ost in osts) * len(osts)
    count = lustre["stripe_count"]
    first = lustre["first_ost"]
    numbers = [ost.number for ost in osts]
    if count > len(osts):
        raise Refusal(
            f"fsage_target.lustre.stripe_count is {count}, and {lustre['fsname']} has {len(osts)} OSTs: "
            "`lfs setstripe` would take it and give fewer"
        )
    if first != stripes.ANY and first not in numbers:
        raise Refusal(f"fsage_target.lustre.first_ost is {first}, and {lustre['fsname']} has {numbers}")
    if first == stripes.ANY or count == structure.ALL_OSTS:
        return sum(ost.available_bytes for ost in osts)
    start = numbers.index(first)
    used = [osts[(start + step) % len(osts)] for step in range(count)]
    return min(ost.available_bytes for ost in used) * count


def refuse_second(mount: Path) -> None:
    """`Refusal` where a target has claimed the file system mounted at `mount`."""
    mark = files.read_json(mount / MARK)
    if mark:
        raise Refusal(
            f"target {mark['target']} has claimed {mount} (from {mark['host']}, {mark['created']}): release it first, "
            f"because two targets on one file system change each other's state. If that target is lost for good, "
            f"delete {mount / MARK}"
        )
