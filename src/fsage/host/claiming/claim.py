"""Writing a claim: it is begun on an empty target, and complete once the target is calibrated."""

from __future__ import annotations

import os
import uuid
from typing import cast

from fsage.host import containers
from fsage.host.claiming import calibrate
from fsage.host.instruments.instrument import Visit, opened
from fsage.host.targets import claims, kinds, site_limits
from fsage.host.targets.target import Target
from fsage.model import frozen
from fsage.model.claim import Claim, ClaimedStore, utc_now
from fsage.model.declaration import MIB, tasks_of
from fsage.model.device import Computed
from fsage.model.hosts import Asker, clients_of
from fsage.model.target import Spec

UNKNOWN_MIB_S = 500.0  # the first guess where the device below cannot be measured


def calibrated(target: Target, request: Asker, raw: dict[str, object], guess_mib_s: float) -> None:
    """Measure how much a task moves and how fast, and mark the target as claimed. `raw`: rates of the bare device."""
    claims.note_doing(target.home, "calibrating")
    with opened(Visit(target, request)) as instruments:
        amount = calibrate.amount(target, guess_mib_s, instruments)
    amount["calibration"] = {
        **raw,
        **amount["calibration"],
        "commands": raw["commands"] + amount["calibration"]["commands"],
    }
    target.claim.update(cast(Claim, amount))
    target.remount()  # XFS frees deleted space in the background; an unmount waits for it
    target.claim["status"] = "claimed"
    target.save()


def no_backing() -> dict[str, object]:
    """The entry for a device whose bare rates were not measured."""
    return {"backing_write_mib_s": None, "backing_read_mib_s": None, "commands": []}


def measure_empty(target: Target) -> list[os.statvfs_result]:
    """Note the free blocks and inodes of the empty target's stores in the claim."""
    stats = [os.statvfs(point) for point in target.mounts]
    target.claim["statfs_empty"] = [
        {key: getattr(stat, key) for key in ("f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree")}
        for stat in stats
    ]
    target.claim["free_inodes_empty"] = sum(stat.f_ffree for stat in stats)
    return stats


def new(spec: Spec, request: Asker, stores: list[ClaimedStore]) -> Claim:
    """A begun claim of these stores, for the clients of the request."""
    uname = os.uname()
    return {
        "schema": 1,
        "target": spec["name"],
        "kind": spec["kind"],
        "id": str(uuid.uuid4()),
        "status": "claiming",
        "created": utc_now(),
        **claims.here(),
        "kernel": uname.release,
        "stores": stores,
        "tools": containers.versions(spec["containers"]),
        "containers": spec["containers"],
        "images": containers.digests(spec["containers"]),
        "tasks": tasks_of(spec),
        "hosts": [host["name"] for host in clients_of(request)],
        "launcher": spec["launcher"],
        "launcher_options": spec["launcher_options"],
        "declared": frozen.declared(spec),
        "limits": site_limits.of_host(),
        "filesystem_state_known": kinds.named(spec["kind"]).own_stores,
    }


def words(target: Target) -> str:
    """A sentence on a claimed target: capacity, device model, amount and rates."""
    ours = target.claim
    pair = ours["calibration"]
    found = f"{target.capacity_bytes / MIB:.0f} MiB, {ours['device_model']['label']}, {ours['amount_mib']} MiB a task"
    if target.model.kind == Computed.kind:
        return found
    return f"{found}, {pair['write_mib_s']} MiB/s written and {pair['read_mib_s']} MiB/s read"
