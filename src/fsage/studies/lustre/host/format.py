"""Formatting OSTs, for the playbook format_osts.yml only: no step of a study does it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fsage.api.host import run
from fsage.api.model import MIB, Failure, Refusal
from fsage.api.target import Request, declaration
from fsage.layouts import machine

from ..model import LustreSpec, lustre_of
from . import clients

TUNEFS = re.compile(r"^(Target|Index|Lustre FS|Mount type|Persistent mount opts|Parameters): *(.*?) *$", re.MULTILINE)
DUMPE2FS = re.compile(r"^([A-Z][^:\n]*): +(.+?) *$", re.MULTILINE)
# Properties of an OST that mke2fs can make again, and the option for each; the journal, in MiB, is in the file system.
AGAIN = {
    "Block size": "-b",
    "Inode size": "-I",
    "Inode count": "-N",
    "Blocks per group": "-g",
    "Flex block group size": "-G",
}
OF_NO_MKFS = {"needs_recovery", "orphan_present"}  # features that come and go while it is mounted
LUSTRE_PATIENCE_S = 600


def parse(text: str) -> dict[str, str]:
    """Target, Index, Lustre FS, Mount type, mount options, Parameters, as `tunefs.lustre --dryrun` first has them."""
    fields: dict[str, str] = {}
    for key, value in TUNEFS.findall(text):
        fields.setdefault(key, value)
    return fields


def inspect(device: str) -> dict[str, str]:
    """What is on a device. Raises Refusal if it holds no Lustre target: then its owner is not known."""
    try:
        fields = parse(run(["tunefs.lustre", "--dryrun", device]).stdout)
    except Failure as why:
        raise Refusal(f"{device}: {why}; nothing was formatted") from why
    if not {"Target", "Index", "Lustre FS"} <= set(fields):
        raise Refusal(f"{device} holds no Lustre target that `tunefs.lustre --dryrun` knows; nothing was formatted")
    return fields


def geometry(device: str) -> dict[str, str]:
    """The geometry of an OST, with the names of `dumpe2fs -h`. Raises Refusal where it cannot be made again."""
    try:
        output = dict(DUMPE2FS.findall(run(["dumpe2fs", "-h", device]).stdout))
    except Failure as why:
        raise Refusal(f"{device}: {why}; nothing was formatted") from why
    journal = output.get("Total journal blocks") or output.get("Journal length")
    if journal is None or not {"Block size", "Block count", "Reserved block count", *AGAIN} <= set(output):
        if journal is None:
            inside = "a journal on another device, or none"
        else:
            inside = "another layout"
        raise Refusal(f"{device} has {inside}, which would not be made again: format it by hand; nothing was formatted")
    geometry_now = {key: output[key] for key in AGAIN}
    geometry_now["Journal, MiB"] = str(int(journal) * int(output["Block size"]) // MIB)
    geometry_now["Reserved, percent"] = f"{100 * int(output['Reserved block count']) / int(output['Block count']):.4g}"
    geometry_now["Features"] = " ".join(sorted(set(output["Filesystem features"].split()) - OF_NO_MKFS))
    raid = {"RAID stride": "stride", "RAID stripe width": "stripe_width"}
    return {**geometry_now, **{option: output[key] for key, option in raid.items() if key in output}}


def mkfs_options(made: dict[str, str]) -> str:
    """The mkfs options that make a file system of this geometry again.

    >>> mkfs_options({"Block size": "4096", "Inode size": "512", "Inode count": "99", "Blocks per group": "32768",
    ...               "Flex block group size": "16", "Journal, MiB": "16", "Reserved, percent": "5"})
    '-J size=16 -m 5 -b 4096 -I 512 -N 99 -g 32768 -G 16'
    """
    words = [f"-J size={made['Journal, MiB']}", f"-m {made['Reserved, percent']}"]
    words += [f"{option} {made[key]}" for key, option in AGAIN.items()]
    extended = [f"{key}={made[key]}" for key in ("stride", "stripe_width") if key in made]
    return " ".join([*words, *([f"-E {','.join(extended)}"] if extended else [])])


def format_osts(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """Format `request["osts"]`, [{"device", "mount"}], if `request["destroy"]` is the file system's name.

    Each keeps its number and stays mounted where it was. All devices are checked before the first is touched.
    """
    spec = declaration.complete(declared)
    fsname = declaration.fsname_of(spec)
    wanted: list[Any] = request.get("osts", [])
    if not fsname or request.get("destroy") != fsname:
        raise Refusal(
            f"formatting OSTs destroys all data on them, and needs the file system's name: "
            f"-e format_osts_destroy={fsname or 'FSNAME'}; it was {request.get('destroy')!r}"
        )
    if not wanted:
        raise Refusal(f"{os.uname().nodename}: format_osts_devices names no device; nothing was formatted")
    mounted = [str(mount.point) for mount in clients.of_clients() if mount.fsname == fsname]
    if mounted:
        raise Refusal(f"{mounted[0]} is a client's mount of {fsname}; unmount every client before")
    for path in [ost[key] for ost in wanted for key in ("device", "mount")]:
        declaration.path("format_osts_devices", path)
    plan = []
    for ost in wanted:
        fields = inspect(ost["device"])
        number = rf"{re.escape(fsname)}[-:]OST[0-9a-f]{{4}}"  # a colon before it was ever mounted
        if fields["Lustre FS"] != fsname or not re.fullmatch(number, fields["Target"]):
            raise Refusal(
                f"{ost['device']} holds {fields['Target']} of {fields['Lustre FS']}, no OST of {fsname}; "
                "nothing was formatted"
            )
        if fields.get("Mount type") != "ldiskfs":
            raise Refusal(
                f"{ost['device']} is of {fields.get('Mount type')}, and only ldiskfs can be formatted; nothing was "
                "formatted"
            )
        plan.append((ost, fields, geometry(ost["device"])))
    described = ", ".join(f"{fields['Target']} on {ost['device']} ({mkfs_options(made)})" for ost, fields, made in plan)
    if check:
        return {"changed": True, "msg": f"would format {described}"}
    for ost, fields, made in plan:
        _format(ost["device"], Path(ost["mount"]), fields, made, lustre_of(spec))
    return {"changed": True, "msg": f"formatted {described}"}


def _format(device: str, point: Path, fields: dict[str, str], made: dict[str, str], lustre: LustreSpec) -> None:
    if machine.mounted_at(point):
        run(["umount", str(point)], timeout=LUSTRE_PATIENCE_S)
    parameters = fields.get("Parameters", "").split()
    nodes = [f"--{parameter}" for parameter in parameters if parameter.startswith("mgsnode=")]
    nodes = nodes or [f"--mgsnode={node}" for node in lustre["mgs"].split(":")]
    kept = [f"--param={parameter}" for parameter in parameters if not parameter.startswith("mgsnode=")]
    kept += [f"--mkfsoptions={mkfs_options(made)}"]
    options = fields.get("Persistent mount opts")
    if options:
        kept.append(f"--mountfsoptions={options}")
    # --replace: the MGS knows this number already, and would refuse a new OST that claims it.
    head = ["mkfs.lustre", "--reformat", "--replace", "--ost", f"--fsname={lustre['fsname']}"]
    run([*head, f"--index={fields['Index']}", *nodes, *kept, device], timeout=LUSTRE_PATIENCE_S)
    now = inspect(device)
    if (now["Index"], now["Lustre FS"]) != (fields["Index"], lustre["fsname"]):
        raise Failure(f"{device} was formatted as {now['Target']}, number {now['Index']}, not as {fields['Target']}")
    after = {**geometry(device), **{key: now.get(key, "") for key in ("Persistent mount opts", "Parameters")}}
    before = {**made, **{key: fields.get(key, "") for key in ("Persistent mount opts", "Parameters")}}
    run(["mount", "-t", "lustre", device, str(point)], timeout=LUSTRE_PATIENCE_S)
    lost = [f"{key} was {before[key]}, and is {after.get(key)}" for key in before if after.get(key) != before[key]]
    if lost:
        raise Failure(
            f"{device} ({fields['Target']}) is formatted and mounted, but differs from before: {'; '.join(lost)}"
        )
