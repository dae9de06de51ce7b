"""The layout of OSTs, read on their servers: free space by dumpe2fs on the device that Lustre names.

`mb_groups` in /proc/fs/ldiskfs is never read: in several series a read past the last group turns the OST read-only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from fsage.host.lustre import params, servers, space
from fsage.host.targets.target import Target
from fsage.model.declaration import complete, lustre_of
from fsage.model.errors import Failure, Refusal
from fsage.model.evidence.store import OF_DEVICE, Store, without
from fsage.model.message import shown
from fsage.model.request import Request
from fsage.model.typed import Json

NO_FILES = "files are read through a client: see the last store"
NOT_SEEN = "no host of the inventory's group `servers` serves it"


def inspect(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """The verb `osts`: Store.summary, with `ost` and `host`, of each OST of the target that this host serves."""
    spec = complete(declared)
    if not (lustre := spec["lustre"]):
        return {"changed": False, "msg": f"target {spec['name']} has no OSTs", "osts": []}
    fsname = lustre["fsname"]
    values = params.get(f"osd-*.{fsname}-OST*.fstype", f"osd-*.{fsname}-OST*.mntdev")
    seen = []
    for name, fstype in sorted(values.items()):
        osd, ost, parameter = name.split(".")
        if parameter == "fstype":
            store = _of(ost, fstype, values.get(f"{osd}.{ost}.mntdev"))
            seen.append({**store.summary(_number(ost)), "ost": ost, "host": os.uname().nodename})
    return {"changed": False, "msg": f"{len(seen)} OSTs of {fsname}", "osts": seen}


def every(target: Target, seen: list[dict[str, object]]) -> list[Json]:
    """The layout of every OST of the claim, by number; all is absent of an OST that no server answered for.

    Raises Refusal for an answer that is of no OST of this file system.
    """
    fsname = lustre_of(target.spec)["fsname"]
    stores = {}
    for store in seen:
        ost = store.get("ost") if isinstance(store, dict) else None
        if not is_one(fsname, ost) or store.get("store") != _number(str(ost)):
            raise Refusal(f"a server answered for {shown(ost)}, which is no OST of {fsname}, or not with its number")
        stores[str(ost)] = store
    for ost in target.claim["lustre"]["osts"]:
        if ost not in stores:
            nothing = Store("lustre", {}, {}, {**without(OF_DEVICE, NOT_SEEN), "files": NO_FILES})
            stores[ost] = {**nothing.summary(_number(ost)), "ost": ost, "host": None}
    return sorted(stores.values(), key=lambda store: store["store"])


def is_one(fsname: str, name: object) -> bool:
    """Whether a name is that of an OST of a file system."""
    return isinstance(name, str) and re.fullmatch(re.escape(fsname) + "-OST[0-9a-f]{4}", name) is not None


def fullness(target: Target) -> dict[str, dict[str, float]]:
    """How full each OST is, read through the client."""
    return space.fullness(space.osts(target.mounts[0], ()))


def _of(ost: str, fstype: str, device: str | None) -> Store:
    if fstype != "ldiskfs":
        reason = f"unsupported: the layout of {fstype} OSTs is not read, only of ldiskfs"
    elif not device:
        reason = "its server has no parameter mntdev"
    else:
        try:
            store = servers.of_ost(ost, device)
            store.absent["files"] = NO_FILES
            return Store("ldiskfs", store.source, store.found, store.absent)
        except Failure as why:
            reason = str(why)
    return Store(fstype, {}, {}, {**without(OF_DEVICE, reason), "files": NO_FILES})


def _number(ost: str) -> int:
    """The number in lustre-OST000a."""
    return int(ost[-4:], 16)
