"""The mark of a claim on Lustre, and the mount on which it lies.

The mark holds the claim, and every client sees it. It lies in the target's directory. A target that has the file system
for itself (`capacity_gib: all`) marks its root, so that a second target is refused.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fsage.api.model import Claim, Refusal, Spec
from fsage.api.target import files, why_not_root

from ..helper import lctl
from ..model import lustre_of
from . import clients
from .osts import declared_numbers

MARK = ".fsage-target.json"
NOBODYS = {MARK, ".lustre", "lost+found"}  # in the root of an empty file system


def path_of(spec: Spec, mount: Path) -> Path:
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
    clients.await_servers(mount.point, lustre["fsname"], lambda: declared_numbers(lustre))
    return mount


def refuse_shared(spec: Spec, client: clients.ClientMount) -> None:
    """Raise Refusal where a file system cannot be a target's alone."""
    place = Path(spec["directory"])
    mount = client.point
    why = why_not_root()
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


def refuse_second(mount: Path) -> None:
    """`Refusal` where a target has claimed the file system mounted at `mount`."""
    mark = files.read_json(mount / MARK)
    if mark:
        raise Refusal(
            f"target {mark['target']} has claimed {mount} (from {mark['host']}, {mark['created']}): release it first, "
            f"because two targets on one file system change each other's state. If that target is lost for good, "
            f"delete {mount / MARK}"
        )


def remove(spec: Spec, claim: Claim) -> list[str]:
    """Remove this claim's mark, and no other. A mark in the directory was removed with all that is there."""
    path = path_of(spec, mount_of(spec).point)
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
