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
from pathlib import Path
from typing import Any

from fsage.agent import (
    calibrate,
    claims,
    containers,
    declaration,
    directories,
    files,
    filesystems,
    frozen,
    journal,
    lease,
    places,
    privilege,
    probe,
)
from fsage.agent.blast import blastdb
from fsage.agent.cells import groups
from fsage.agent.declaration import GIB, MIB, tasks_of
from fsage.agent.device import loops, models, seek
from fsage.agent.errors import Failure, Refusal
from fsage.agent.hosts.others import meet
from fsage.agent.lustre import target as lustre
from fsage.agent.lustre import tunables
from fsage.agent.target import Target, open_target
from fsage.agent.undo import left_over, undo

# Directory hashes of ext4 must be alike in every target that is built from the same seed.
HASH_SEED = "f5a6e000-0000-4000-8000-000000000001"
UNKNOWN_MIB_S = 500.0  # the first guess where a device cannot be measured bare
MODEL_SHARE = 0.60  # a model above this share of the backing store would measure the store's own noise


def claim(spec: dict[str, Any], request: dict[str, Any], check: bool) -> dict[str, Any]:
    """Make the created target fsage's: file systems, mounts, device model, calibration. Idempotent."""
    spec = declaration.complete(spec)
    with _holding(spec, request, check):
        return _claim(spec, request, check)


def release(spec: dict[str, Any], request: dict[str, Any], check: bool) -> dict[str, Any]:
    """Remove what is ours from the target, un-claim it, undo what was changed outside, prove it."""
    spec = declaration.complete(spec)
    with _holding(spec, request, check):
        return give_back(spec, check)


def _holding(spec: dict[str, Any], request: dict[str, Any], check: bool) -> contextlib.AbstractContextManager[Any]:
    """The target's lease, if there is anything to hold yet."""
    home = declaration.home_of(spec)
    return contextlib.nullcontext() if check or not home.is_dir() else lease.held(home, request)


def _claim(spec: dict[str, Any], request: dict[str, Any], check: bool) -> dict[str, Any]:
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
    names = [host["name"] for host in (request.get("hosts") or {}).get("clients", [])]
    if spec["kind"] != "loop":
        return _claim_directory(spec, home, check, names)
    return _claim_loop(spec, home, check, names)


def give_back(spec: dict[str, Any], check: bool) -> dict[str, Any]:
    """Release a target that is held already."""
    home = declaration.home_of(spec)
    known = claims.read(home)
    images = [image for image in _images(spec, known) if "ino" in image] + seek.disks(home)
    begun = bool(known)
    if spec["kind"] == "loop":
        begun |= any(loops.devices_of(image) for image in images)
        begun |= bool(journal.entries(journal.path_of(home))) or left_over()
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
        proof: list[str] = []
        groups.end_readers(home)  # of a command that was killed; they have the target's files open
        if spec["kind"] != "loop" and known:
            proof += _clear_directory(known)
            if spec["kind"] == "lustre":
                proof += tunables.put_back(spec["lustre"]["fsname"], home / "tunables.json")
                proof += lustre.unmark(spec, known)
        for image in images:
            for device in loops.devices_of(image):
                filesystems.unmount_all(device)
        for image in images:
            for device in loops.devices_of(image):
                _wipe(device, known)
            loops.detach(image)
            proof.append(f"no loop device on {image['image']}")
        if spec["kind"] == "loop":  # after the loop devices, which hold on to the control group
            proof += undo(home)
        for store in (known or {}).get("stores", []) if spec["kind"] == "loop" else []:
            if filesystems.mounted_at(store["mount"]):
                raise Failure(f"{store['mount']} is still mounted")
            proof.append(f"nothing is mounted at {store['mount']}")
            for directory in (Path(store["mount"]), Path(store["mount"]).parent):
                with contextlib.suppress(OSError):  # not empty: another store's, or somebody else's
                    directory.rmdir()
        if known:
            files.write_json(home / "released" / f"{files.utc_now()}.json", known)
            files.remove(home / "tunables.json")  # the loop devices that had them are as new
            places.remove(home / blastdb.PLACE)
            files.remove(home / "claim.json")
            proof.append(f"{home}/claim.json is gone")
    return {"changed": True, "msg": f"released target {spec['name']}", "proof": proof}


def forget(spec: dict[str, Any]) -> None:
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


def _claim_loop(spec: dict[str, Any], home: Path, check: bool, hosts: list[str]) -> dict[str, Any]:
    privilege.need(spec["name"])
    images = _images(spec, None)
    if not images or any(image["status"] != "written" for image in images):
        raise Refusal(
            f"target {spec['name']} has not been created on {os.uname().nodename}; create it first: "
            "ansible-playbook local_target.yml"
        )
    if len(images) != spec["stores"]:
        raise Refusal(
            f"target {spec['name']} was created with {len(images)} stores, and {spec['stores']} are declared "
            f"now; remove it first: {loops.CLEAR}"
        )
    for image in images:
        loops.verify(image)
    calibrate.room(spec, sum(image["bytes"] for image in images))  # refuses what cannot be before it begins
    if why := models.why_refused(spec["device_model"]):
        raise Refusal(f"target {spec['name']} is not claimed: {why}")
    if check:
        return {
            "changed": True,
            "msg": f"would make {spec['filesystem']} on {len(images)} images and claim {spec['name']}",
        }
    ours = _new(
        spec,
        hosts,
        [
            {
                "image": image["image"],
                "image_id": {key: image[key] for key in ("dev", "ino", "bytes")},
                "uuids": [str(uuid.uuid4())],
                "filesystem": spec["filesystem"],
                "hash_seed": HASH_SEED,
                "mount": str(Path(spec["mount_dir"]) / spec["name"] / str(index)),
            }
            for index, image in enumerate(images)
        ],
    )
    target = Target(spec, ours)
    ours["uid"] = target.uid
    with files.locked(home / "open.lock"):
        target.attach()
        for _, device, point in target.stores():
            filesystems.refuse_occupied(point, device)
            filesystems.refuse_if_in_use(device)
        target.save()
        _set_up(target)
    return {"changed": True, "msg": f"claimed {spec['name']}: {_words(target)}", "claim": target.claim}


def _set_up(target: Target) -> None:
    """From a claim in phase `claiming` to one in phase `claimed`."""
    spec, ours = target.spec, target.claim
    declared, stores = spec["device_model"], len(target.devices)
    raw: dict[str, Any] = {"backing_write_mib_s": None, "backing_read_mib_s": None, "commands": []}
    if declared or spec["amount_mib"] is None:
        first = ours["stores"][0]  # whose device a user cannot open, but its image he can
        below = target.devices[0] if os.geteuid() == 0 else first["image"]
        raw = calibrate.backing(below, first["image_id"]["bytes"], spec["containers"])
    lower_mib_s = min(raw["backing_write_mib_s"] or 0, raw["backing_read_mib_s"] or 0)
    ours["device_model"] = models.choose(declared, int(MODEL_SHARE * lower_mib_s * MIB / stores))
    target.save()
    target.attach()  # the model may offer another disk than the one that was calibrated
    target.make()
    try:
        target.model_in_place()
    except Refusal as why:  # found out only after a controller was moved
        undo(target.home)
        ours["device_model"] = models.none(str(why))
    _measure_empty(target)
    if ours["device_model"]["kind"] == "none":
        guess_mib_s = lower_mib_s or UNKNOWN_MIB_S
    else:
        guess_mib_s = ours["device_model"]["bytes_per_s"] * stores / MIB
    _calibrate(target, raw, guess_mib_s)


def _calibrate(target: Target, raw: dict[str, Any], guess_mib_s: float) -> None:
    found = calibrate.amount(target, guess_mib_s)
    found["calibration"] = {
        **raw,
        **found["calibration"],
        "commands": raw["commands"] + found["calibration"]["commands"],
    }
    target.claim.update(found)
    target.remount()  # XFS frees deleted space in the background; an unmount waits for it
    target.claim["status"] = "claimed"
    target.save()


def _measure_empty(target: Target) -> None:
    """Capacity is the free bytes of the empty target: f_bfree x f_frsize, all stores together."""
    stats = [os.statvfs(point) for point in target.mounts]
    target.claim["statfs_empty"] = [
        {key: getattr(stat, key) for key in ("f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree")}
        for stat in stats
    ]
    target.claim["free_inodes_empty"] = sum(stat.f_ffree for stat in stats)
    if target.kind == "loop":
        target.claim["capacity_bytes"] = sum(stat.f_bfree * stat.f_frsize for stat in stats)


def _claim_directory(spec: dict[str, Any], home: Path, check: bool, hosts: list[str]) -> dict[str, Any]:
    place = Path(spec["directory"])
    directories.create(spec, check=True)  # refuses what is not ours to take
    if not place.is_dir():
        raise Refusal(f"{place} does not exist; create the target first: ansible-playbook local_target.yml")
    found = lustre.inspect(spec) if spec["kind"] == "lustre" else None
    capacity_bytes = found.capacity_bytes if found else directories.budget_bytes(spec)
    calibrate.room(spec, capacity_bytes, len(hosts))
    if check:
        return {"changed": True, "msg": f"would claim {place} ({capacity_bytes / GIB:.1f} GiB)"}
    ours = _new(
        spec,
        hosts,
        [
            {
                "directory": str(place),
                "directory_id": lustre.identity(place) if found else directories.identity(place),
                "mount": str(place),
                "filesystem": "lustre" if found else None,
                "uuids": [],
            }
        ],
    )
    ours["capacity_bytes"] = capacity_bytes
    ours["device_model"] = models.none(f"kind {spec['kind']}: no device of its own")
    if found:
        ours.update(lustre=found.noted, filesystem_state_known=found.alone)
    target = Target(spec, ours)
    ours["uid"] = target.uid
    with files.locked(home / "open.lock"):
        target.save()
        if found:
            lustre.mark(found.mount, ours)
            lustre.prepare(place, spec["lustre"])
        target.stamp(0)
        _measure_empty(target)
        _calibrate(target, {"backing_write_mib_s": None, "backing_read_mib_s": None, "commands": []}, UNKNOWN_MIB_S)
        if found:
            lustre.mark_anew(found.mount, ours)
    return {"changed": True, "msg": f"claimed {spec['name']}: {_words(target)}", "claim": ours}


def _new(spec: dict[str, Any], hosts: list[str], stores: list[dict[str, Any]]) -> dict[str, Any]:
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
        "filesystem_state_known": spec["kind"] == "loop",
    }


def _images(spec: dict[str, Any], known: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Every image of this target with an identity: those `create` noted, and those the claim names."""
    created = claims.images(declaration.home_of(spec)) or {"images": []}
    images = {image["image"]: image for image in created["images"]}
    for store in (known or {}).get("stores", []):
        if "image" in store:
            images.setdefault(store["image"], {**store["image_id"], "image": store["image"], "status": "written"})
    return list(images.values())


def _wipe(device: str, known: dict[str, Any] | None) -> None:
    """Take the file system that fsage made, with everything in it, off the device."""
    if known and filesystems.uuid_on(device) in {u for store in known["stores"] for u in store["uuids"]}:
        filesystems.refuse_if_in_use(device)
        filesystems.wipe(device)


def _clear_directory(known: dict[str, Any]) -> list[str]:
    place = Path(known["stores"][0]["directory"])
    if not place.is_dir():
        return [f"{place} is gone"]
    if not directories.anything_ours(place):
        return [f"nothing of fsage's is in {place}"]
    try:
        directories.verify(place, known, lustre.identity if known["kind"] == "lustre" else directories.identity)
    except Refusal as why:
        return [f"left {place} as it is: {why}"]
    if os.geteuid() == 0 and known.get("uid"):  # run_as
        directories.take(place / "measured")
    others = directories.clear(place, keep_mark=False, threads=lustre.THREADS if known["kind"] == "lustre" else 1)
    return [f"nothing of fsage's is in {place}" + (f"; left what is not: {', '.join(others)}" if others else "")]


def _words(target: Target) -> str:
    ours = target.claim
    pair = ours["calibration"]
    return (
        f"{target.capacity_bytes / MIB:.0f} MiB, {ours['device_model']['label']}, {ours['amount_mib']} MiB a "
        f"task, {pair['write_mib_s']} MiB/s written and {pair['read_mib_s']} MiB/s read"
    )
