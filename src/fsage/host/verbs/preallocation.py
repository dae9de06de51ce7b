"""The verb of tune_prealloc.yml on the launcher: how much a file of a target gets at a time.

Where servers have it they are tuned before, and what they have is noted for all that is measured later. Where the file
system itself has it (XFS) it is set here, and whoever mounts the target has it again. Elsewhere there is nothing to
set, and that is noted.
"""

from __future__ import annotations

import contextlib

from fsage.base import Failure, Json, Refusal
from fsage.host import filesystems
from fsage.host.filesystems.xfs import ExtentSize
from fsage.host.targets import Target, claims, lease, preallocation
from fsage.host.targets.opening import opened
from fsage.host.targets.preallocation import NOTHING, read, step_words, wanted
from fsage.model.request import Request
from fsage.model.tuning import PREALLOCATION

OF_A_DIRECTORY = "nothing is known of the file system below a directory"


def prealloc(spec: Json, request: Request, check: bool) -> Json:
    """Set `request["prealloc"]` where the launcher can, and note it; the servers' answers are under `osts`."""
    target = opened(spec, request)
    with contextlib.nullcontext() if check else lease.held(target.home, request):
        return _tune(target, request, check)


def _tune(target: Target, request: Request, check: bool) -> Json:
    requested = request["prealloc"]
    earlier = preallocation.of(target) or {}
    restore = requested["state"] == "restored"
    asked = wanted(requested, earlier)
    if not asked and not restore:
        raise Refusal(f"target {target.name}: {NOTHING}")
    entry: Json = {"asked": asked}
    size_bytes = read(asked).size_bytes or 0
    filesystem = filesystems.get(target.filesystem)
    if target.has_osts:
        entry |= {} if restore else target.osts.preallocated(request, earlier)
    elif filesystem and filesystem.preallocation:
        if not size_bytes and not restore:
            raise Refusal(
                f"target {target.name}: {filesystem.title} has one size and no table or pointer: give "
                "tune_prealloc_size"
            )
        size_bytes = 0 if restore else size_bytes
        words = filesystem.preallocation.words
        entry |= {"bytes": size_bytes, "now": words(size_bytes)}
        entry["before"] = earlier.get("before") or words(filesystem.preallocation.size_at(target.mounts[0]))
    else:
        entry |= {"now": None, "unsupported": filesystem.no_preallocation if filesystem else OF_A_DIRECTORY}
    now = {} if restore else entry
    changed = now != earlier
    if filesystem and filesystem.preallocation:
        changed |= not filesystem.preallocation.in_place(target.mounts, target.mount_options(), size_bytes)
        if changed and not check:
            _put(target, filesystem.preallocation, size_bytes, now)
    elif changed and not check:
        claims.note_preallocation(target.home, now)
    return {
        "changed": changed,
        "msg": f"preallocation of target {target.name}: {step_words(_words(earlier), _words(now))}",
        PREALLOCATION: now or None,
    }


def _put(target: Target, settable: ExtentSize, size_bytes: int, now: Json) -> None:
    """Set the preallocation of every directory, and mount with the option that belongs to it."""
    earlier = preallocation.of(target) or {}
    claims.note_preallocation(target.home, now)
    try:
        settable.give(target.mounts[0], size_bytes)
    except Failure as why:  # larger than half an allocation group, say
        claims.note_preallocation(target.home, earlier)
        raise Refusal(f"{why}; nothing was changed") from why
    for mount in target.mounts:
        for directory in settable.directories(mount):
            settable.give(directory, size_bytes)
    target.remount()  # with the mount option
    if not settable.in_place(target.mounts, options := target.mount_options(), size_bytes):
        raise Failure(f"target {target.name}: requested {settable.words(size_bytes)}, mounted with {options}")


def _words(entry: Json) -> str:
    if not entry:
        return "as it is by itself"
    requested = ", ".join(f"{key} {value}" for key, value in entry["asked"].items())
    if "unsupported" in entry:
        return f"{requested} ({entry['unsupported']})"
    return requested
