"""Whether a target is still in the state that its token names; what a killed command left is cleared away."""

from __future__ import annotations

from fsage.host import token
from fsage.host.instruments import cleanup
from fsage.host.lustre import space
from fsage.host.states.fingerprint import digest, fingerprint
from fsage.host.system import caches, places
from fsage.host.targets.limits import Wrong, nothing
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.observation import Layout
from fsage.model.token import BUILDING, MEASURING, READY, Token
from fsage.model.typed import JsonView


def inspect(target: Target, whole: bool = False) -> tuple[Token | None, str | None]:
    """The target's token, or None, and why its state cannot be trusted, or None; never both None.

    A measurement that was killed leaves measured files behind: they are removed, and the layout is compared in full.
    `whole` compares in full in any case. Settings that a killed cell left on the device are restored.
    """
    mount = target.mounts[0]
    now = token.read(mount)
    if now is None:
        return None, "the target carries no readable state token"
    if now.claim != target.claim["id"]:
        return None, f"the token belongs to another claim ({now.claim})"
    if now.status == BUILDING:
        return now, f"building its state was interrupted at epoch {now.epoch}"
    interrupted = now.status == MEASURING
    cleanup.put_back(target)
    if interrupted:
        try:
            remove_measured(target, now)
        except Failure as failure:
            return now, str(failure)
    print_now = fingerprint(target)
    why = differs(target, now, print_now)
    if why:
        return now, f"the target was changed since epoch {now.epoch}: {why}"
    if (whole or interrupted) and digest(target.mounts)["hash"] != now.digest:
        return now, f"the extents of the files are not those of epoch {now.epoch} (extent digest)"
    if interrupted:
        now = token.changed(mount, now, status=READY)
    return now, None


def differs(target: Target, now: Token, seen: JsonView) -> str | None:
    """How a fingerprint (`seen`) differs from that in the token `now`; None when it does not."""
    if seen["hash"] != now.fingerprint:
        return (
            f"{seen['files']} files with {seen['free_bytes']} bytes free, where {now.files} and {now.free_bytes} "
            "were left"
        )
    if "osts" not in seen:
        return None
    return "; ".join(space.moved(now.osts or {}, seen["osts"], target.osts.tolerance_bytes)) or None


def remove_measured(target: Target, now: Token | None = None) -> None:
    """Delete a cell's files and wait until their blocks are free, on Lustre by what the token says. Raises Failure."""
    target.refuse_unmounted()
    for mount in target.mounts:
        path = mount / "measured"  # the directory itself stays: a new one could get another place on the device
        target.take(path)
        with places.opened(mount) as store, places.inside(store, path.name, path, places.PRIVATE) as measured:
            places.empty(measured, path, spend=target.pace.spend)
        target.give(path)
    osts = now.osts if now else None
    settle(target, nothing if osts is None else space.as_left(osts, target.osts.tolerance_bytes))


def settle(target: Target, wrong: Wrong = nothing) -> None:
    """Complete the accounting of the target's file systems: flush data, metadata and deferred frees.

    On Lustre wait until `wrong` finds nothing wrong with the OSTs. Raises Failure.
    """
    for mount in target.mounts:
        caches.flush(mount)
    target.settle(wrong)


def layout_record(target: Target, now: Token) -> Layout:
    """The part of an observation that describes the layout."""
    return {
        "digest": now.digest,
        "filler_files": now.files,
        "filler_bytes": now.bytes,
        "filler_extents": now.extents,
        "capacity_bytes": target.capacity_bytes,
        "used_bytes": target.capacity_bytes - now.free_bytes if target.state_known else now.held_bytes,
        "free_bytes": now.free_bytes if target.state_known else target.capacity_bytes - now.held_bytes,
        "state_known": target.state_known,
        "generations": list(now.achieved),
        "steps": [step.to_json() for step in now.done],
        "notes": now.notes,
    }
