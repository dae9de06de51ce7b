"""Claim a target and give it back.

The claim is written to `<home>/<target>/claim.json` with the identity of the images and the UUIDs to come
*before* the first mkfs, so that a kill at any moment leaves something that the next `claim` finishes or
`remove` clears.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Mapping
from typing import Any, cast

from fsage.agent import calibrate, claims, containers, declaration, files, frozen, kinds, lease, places, probe
from fsage.agent.blast import blastdb
from fsage.agent.cells import groups
from fsage.agent.claims import Claim
from fsage.agent.declaration import MIB, Spec, tasks_of
from fsage.agent.errors import Refusal
from fsage.agent.hosts.others import meet
from fsage.agent.request import Request, clients_of
from fsage.agent.target import Result, Target, open_target

UNKNOWN_MIB_S = 500.0  # the first guess where a device cannot be measured bare


def claim(declared: Mapping[str, Any], request: Request, check: bool) -> Result:
    """Make the created target fsage's: file systems, mounts, device model, calibration. Idempotent."""
    spec = declaration.complete(declared)
    with _holding(spec, request, check):
        return _claim(spec, request, check)


def release(declared: Mapping[str, Any], request: Request, check: bool) -> Result:
    """Remove what is ours from the target, un-claim it, undo what was changed outside, prove it."""
    spec = declaration.complete(declared)
    with _holding(spec, request, check):
        return give_back(spec, check)


def _holding(spec: Spec, request: Request, check: bool) -> contextlib.AbstractContextManager[Any]:
    """The target's lease, if there is anything to hold yet."""
    home = declaration.home_of(spec)
    return contextlib.nullcontext() if check or not home.is_dir() else lease.held(home, request)


def _claim(spec: Spec, request: Request, check: bool) -> Result:
    home = declaration.home_of(spec)
    known = claims.read(home)
    if known and known["status"] == "claimed":
        if check:
            frozen.refuse(known, spec)
            return {"changed": False, "msg": f"target {spec['name']} is claimed", "claim": known}
        target = open_target(spec)
        return {
            "changed": bool(target.notes),
            "msg": "; ".join(target.notes) or f"target {spec['name']} is claimed and intact",
            "claim": target.claim,
        }
    if known and not check:  # interrupted halfway, either way: begin with a clean slate
        give_back(spec, check)
    containers.check(spec["containers"])
    if spec["amount_mib"] is None and not spec["containers"] and not shutil.which("fio"):
        raise Refusal(
            f"fio is not installed on {os.uname().nodename}: nothing can be calibrated or measured without it"
        )
    meet(spec, request)
    names = [host["name"] for host in clients_of(request)]
    return kinds.of(spec["kind"]).claim_new(spec, names, check)


def give_back(spec: Spec, check: bool) -> Result:
    """Release a target that is held already."""
    home = declaration.home_of(spec)
    known = claims.read(home)
    kind = kinds.of(known["kind"] if known else spec["kind"])
    begun = bool(known) or kind.begun(spec)
    if check or not begun:
        return {
            "changed": begun,
            "msg": f"{'would release' if begun else 'there is no claim of'} target {spec['name']}",
            "proof": [],
        }
    with files.locked(home / "open.lock"):
        if known:
            known["status"] = "releasing"
            files.write_json(home / "claim.json", known)
        groups.end_readers(home)  # of a command that was killed; they have the target's files open
        proof = kind.take_back(spec, known)
        if known:
            files.write_json(home / "released" / f"{files.utc_now()}.json", known)
            files.remove(home / "tunables.json")  # the loop devices that had them are as new
            places.remove(home / blastdb.PLACE)
            files.remove(home / "claim.json")
            proof.append(f"{home}/claim.json is gone")
    return {"changed": True, "msg": f"released target {spec['name']}", "proof": proof}


def forget(spec: Spec) -> None:
    """Remove what the host keeps of a target that is released; what other commands have put there stays."""
    home = declaration.home_of(spec)
    for name in ("released", "status"):
        places.remove(home / name)
    for folder in sorted(home.glob("outbox/**/"), reverse=True):
        with contextlib.suppress(OSError):  # not empty: what was measured and is not home yet
            folder.rmdir()
    for name in ("journal.json", "lease.json", "lease.lock", "open.lock", "lock"):
        files.remove(home / name)
    with contextlib.suppress(OSError):
        home.rmdir()


def calibrated(target: Target, raw: dict[str, Any], guess_mib_s: float) -> None:
    """Find what a task moves and how fast, and declare the target claimed; `raw`: of the device without all else."""
    found = calibrate.amount(target, guess_mib_s)
    found["calibration"] = {
        **raw,
        **found["calibration"],
        "commands": raw["commands"] + found["calibration"]["commands"],
    }
    target.claim.update(cast(Claim, found))
    target.remount()  # XFS frees deleted space in the background; an unmount waits for it
    target.claim["status"] = "claimed"
    target.save()


def no_backing() -> dict[str, Any]:
    """What is known of a device that was not measured bare."""
    return {"backing_write_mib_s": None, "backing_read_mib_s": None, "commands": []}


def measure_empty(target: Target) -> list[os.statvfs_result]:
    """Note what the stores of the empty target have free."""
    stats = [os.statvfs(point) for point in target.mounts]
    target.claim["statfs_empty"] = [
        {key: getattr(stat, key) for key in ("f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree")}
        for stat in stats
    ]
    target.claim["free_inodes_empty"] = sum(stat.f_ffree for stat in stats)
    return stats


def new(spec: Spec, hosts: list[str], stores: list[claims.Store]) -> Claim:
    """A claim that is begun, of these stores and for these clients."""
    uname = os.uname()
    return {
        "schema": 1,
        "target": spec["name"],
        "kind": spec["kind"],
        "id": str(uuid.uuid4()),
        "status": "claiming",
        "created": files.utc_now(),
        **claims.here(),
        "kernel": uname.release,
        "stores": stores,
        "tools": probe.versions(spec["containers"]),
        "containers": spec["containers"],
        "images": containers.digests(spec["containers"]),
        "tasks": tasks_of(spec),
        "hosts": hosts,
        "launcher": spec["launcher"],
        "launcher_options": spec["launcher_options"],
        "declared": frozen.declared(spec),
        "filesystem_state_known": kinds.of(spec["kind"]).own_stores,
    }


def words(target: Target) -> str:
    """A claimed target in words."""
    ours = target.claim
    pair = ours["calibration"]
    return (
        f"{target.capacity_bytes / MIB:.0f} MiB, {ours['device_model']['label']}, {ours['amount_mib']} MiB a "
        f"task, {pair['write_mib_s']} MiB/s written and {pair['read_mib_s']} MiB/s read"
    )
