"""Formatting OSTs, for the playbook of that name only: no step of a study does it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from fsage.agent import declaration, filesystems
from fsage.agent.declaration import complete
from fsage.agent.errors import Failure, Refusal
from fsage.agent.lustre import mounts
from fsage.agent.shell import run

TUNEFS = re.compile(r"^(Target|Index|Lustre FS|Mount type|Parameters): *(.*?) *$", re.MULTILINE)
LUSTRE_PATIENCE_S = 600


def parse(text: str) -> dict[str, str]:
    """Target, Index, Lustre FS, Mount type and Parameters, as `tunefs.lustre --dryrun` first prints them."""
    found: dict[str, str] = {}
    for key, value in TUNEFS.findall(text):
        found.setdefault(key, value)
    return found


def look(device: str) -> dict[str, str]:
    """What is on a device. `Refusal` if it holds no Lustre target: then nobody knows whose it is."""
    try:
        found = parse(run(["tunefs.lustre", "--dryrun", device]).stdout)
    except Failure as why:
        raise Refusal(f"{device}: {why}; nothing was formatted") from why
    if not {"Target", "Index", "Lustre FS"} <= set(found):
        raise Refusal(f"{device} holds no Lustre target that `tunefs.lustre --dryrun` knows; nothing was formatted")
    return found


def format_osts(spec: dict[str, Any], request: dict[str, Any], check: bool) -> dict[str, Any]:
    """Format `request["osts"]`, [{"device", "mount"}], if `request["destroy"]` is the file system's name.

    Each keeps its number and stays mounted where it was. All devices are looked at before the first is touched.
    """
    spec = complete(spec)
    lustre, asked = spec["lustre"] or {}, request.get("osts", [])
    if spec["kind"] != "lustre" or request.get("destroy") != lustre["fsname"]:
        raise Refusal(
            f"formatting OSTs destroys all data on them and is done only when asked for by name: "
            f"-e format_osts_destroy={lustre.get('fsname', 'FSNAME')}; it was {request.get('destroy')!r}"
        )
    if not asked:
        raise Refusal(f"{os.uname().nodename}: format_osts_devices names no device; nothing was formatted")
    if here := [str(mount.point) for mount in mounts.of_clients() if mount.fsname == lustre["fsname"]]:
        raise Refusal(f"{here[0]} is a client's mount of {lustre['fsname']}; unmount every client before")
    for path in [ost[key] for ost in asked for key in ("device", "mount")]:
        declaration.path("format_osts_devices", path)
    plan = []
    for ost in asked:
        found = look(ost["device"])
        number = rf"{re.escape(lustre['fsname'])}[-:]OST[0-9a-f]{{4}}"  # a colon before it was ever mounted
        if found["Lustre FS"] != lustre["fsname"] or not re.fullmatch(number, found["Target"]):
            raise Refusal(
                f"{ost['device']} holds {found['Target']} of {found['Lustre FS']}, no OST of {lustre['fsname']}; "
                "nothing was formatted"
            )
        if found.get("Mount type") != "ldiskfs":
            raise Refusal(f"{ost['device']} is of {found.get('Mount type')}: only ldiskfs is formatted; nothing was")
        plan.append((ost, found))
    said = ", ".join(f"{found['Target']} on {ost['device']}" for ost, found in plan)
    if check:
        return {"changed": True, "msg": f"would format {said}"}
    for ost, found in plan:
        _format(ost["device"], Path(ost["mount"]), found, lustre)
    return {"changed": True, "msg": f"formatted {said}"}


def _format(device: str, point: Path, found: dict[str, str], lustre: dict[str, Any]) -> None:
    if filesystems.mounted_at(point):
        run(["umount", str(point)], timeout=LUSTRE_PATIENCE_S)
    nodes = [f"--mgsnode={node}" for node in lustre["mgs"].split(":")]
    # --replace: the MGS knows this number already, and would refuse a new OST that claims it.
    head = ["mkfs.lustre", "--reformat", "--replace", "--ost", f"--fsname={lustre['fsname']}"]
    run([*head, f"--index={found['Index']}", *nodes, device], timeout=LUSTRE_PATIENCE_S)
    now = look(device)
    if (now["Index"], now["Lustre FS"]) != (found["Index"], lustre["fsname"]):
        raise Failure(f"{device} was formatted as {now['Target']}, number {now['Index']}, not as {found['Target']}")
    run(["mount", "-t", "lustre", device, str(point)], timeout=LUSTRE_PATIENCE_S)
