"""What this host can do for fsage, and what is missing."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fsage.agent import containers, declaration, files, privilege, run_as, space
from fsage.agent.declaration import GIB
from fsage.agent.device import iocost, models
from fsage.agent.errors import Failure, Refusal
from fsage.agent.hosts import alike
from fsage.agent.lustre import mounts
from fsage.agent.lustre import space as osts
from fsage.agent.shell import SSH, run

# What makes each tool name its version. ior and mdtest do so only at the head of a run, so they make a
# smallest one: their help, which 3.3 gives with status 0 for whatever it does not understand, says nothing of
# it.
TOOLS = {
    "fio": ["--version"],
    "ior": ["-w", "-t", "1k", "-b", "1k", "-o", "ior"],
    "mdtest": ["-n", "1", "-d", "."],
    "blastn": ["-version"],
    "makeblastdb": ["-version"],
    "mpirun": ["--version"],
    "srun": ["--version"],
}
WRITES = ("ior", "mdtest")
SSH_ANSWER_S = 30
NO_SRUN = "srun: fsage_target.launcher names it; install Slurm's client there, or declare launcher: openmpi or mpich"
NEEDED = {
    "loop": ("losetup", "blkid", "wipefs"),
    "ext4": ("mkfs.ext4",),
    "xfs": ("mkfs.xfs",),
    "btrfs": ("mkfs.btrfs",),
    "lustre": ("lfs", "lctl", "findmnt"),
}


def probe(spec: dict[str, Any], request: dict[str, Any], check: bool) -> dict[str, Any]:
    """Root, tools with versions, kernel, I/O controller and free space of this host; changes nothing."""
    spec = declaration.complete(spec)
    root, missing = os.geteuid() == 0, containers.missing(spec["containers"])
    found = versions(spec["containers"])
    if not found["fio"] and not missing:
        missing.append("fio: nothing can be measured without it; install the package fio")
    if run_as.why_not(spec):
        missing.append(f"user {spec['run_as']}: fsage_target.run_as names him, and the agent must be root or he")
    if spec["launcher"] == "srun" and not found["srun"]:
        missing.append(NO_SRUN)
    room_bytes: dict[str, int] = {}
    if spec["kind"] == "loop":
        if why := privilege.why_not():
            missing.append(f"root, or its helper, for loop devices and mounts: {why}; or declare `kind: directory`")
        missing += [
            f"{tool}: install the package that holds it"
            for tool in (*NEEDED["loop"], *NEEDED[spec["filesystem"]])
            if not shutil.which(tool)
        ]
        if not _filesystem_known(spec["filesystem"]):
            missing.append(f"{spec['filesystem']}: this kernel does not know it")
        if root:
            good, bad = space.places(spec["image_dir"])
            room_bytes = {str(place): space.free_bytes(place) for place in good}
            if not good:
                missing.append("a place for images: " + "; ".join(bad))
            if why := models.why_refused(spec["device_model"]):
                missing.append(why)
    elif spec["kind"] == "lustre":
        lacking = [f"{tool}: install the Lustre client" for tool in NEEDED["lustre"] if not shutil.which(tool)]
        missing += lacking
        if why := privilege.why_not():
            missing.append(f"root, or its helper, for lctl set_param and caches: {why}")
        if not lacking:
            try:
                mount = mounts.client_mount(spec["lustre"], Path(spec["directory"])).point
                room_bytes = {str(mount): sum(ost.available_bytes for ost in osts.osts(mount))}
            except (Refusal, Failure) as why_not:
                missing.append(str(why_not))
    elif not os.access(parent := space.existing(spec["directory"]), os.W_OK):
        missing.append(f"{spec['directory']}: {parent} cannot be written; declare another fsage_target.directory")
    elif why := space.why_no_direct_io(parent):
        missing.append(f"{why}; declare a fsage_target.directory on another file system")
    model = iocost.possible(spec["device_model"] or {})
    claim = files.read_json(declaration.home_of(spec) / "claim.json")
    found_out = {
        "able": not missing,
        "missing": missing,
        **alike.facts(spec),
        "tools": found,
        "io_controller": {"usable": model is None, "why_not": model},
        "places": [{"directory": place, "free_gib": round(free / GIB, 1)} for place, free in room_bytes.items()],
        "unreached": unreached(request.get("hosts") or {}) if request.get("launches") else {},
        "claim": claim and {key: claim[key] for key in ("id", "created", "status")},
    }
    return {
        "changed": False,
        "msg": f"{found_out['host']} can hold a {spec['kind']} target"
        if not missing
        else f"{found_out['host']} cannot hold a {spec['kind']} target: {'; '.join(missing)}",
        "probe": found_out,
    }


def unreached(hosts: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """Why the host that launches does not reach another one by ssh, by its name; empty when it reaches all."""
    others = [*hosts.get("clients", [])[1:], *hosts.get("servers", [])]
    names = sorted({host["name"] for host in others if not host["local"]})

    def ask(name: str) -> str | None:
        try:
            run([*SSH, name, "true"], timeout=SSH_ANSWER_S)
        except Failure as failure:
            return str(failure)
        return None

    with ThreadPoolExecutor(max(1, min(len(names), 16))) as pool:
        return {name: why for name, why in zip(names, pool.map(ask, names)) if why}  # noqa: B905 (hosts: Python 3.9)


def versions(images: str | None) -> dict[str, str | None]:
    """The version that each measuring tool gives of itself, from its image if there are; None where there is none."""
    inside = {tool: containers.command(tool, images) for tool in containers.IMAGES}
    return {tool: _version(tool, [*inside.get(tool, [tool]), *options]) for tool, options in TOOLS.items()}


def version_in(tool: str, said: str) -> str | None:
    """The version in what a tool says of itself; None if it is not there.

    >>> version_in("ior", "IOR-4.1.0+dev: MPI Coordinated Test of Parallel I/O")
    '4.1.0+dev'
    >>> version_in("blastn", "blastn: 2.12.0+\\n Package: blast 2.12.0, build Feb 17 2022 10:04:48")
    '2.12.0+'
    """
    named = {"ior": "IOR-", "mdtest": "mdtest-", "fio": "fio-", "mpirun": "", "srun": ""}.get(tool, f"{tool}: ")
    match = re.search(rf"^{named}(\d+\.\d[\w.+-]*)" if named else r"(\d+\.\d[\w.+-]*)", said, re.MULTILINE)
    return match[1] if match else None


def _version(tool: str, argv: list[str]) -> str | None:
    if not shutil.which(argv[0]):
        return None
    place = tempfile.TemporaryDirectory(prefix="fsage-probe-") if tool in WRITES else contextlib.nullcontext("/")
    with place as directory:
        try:
            done = subprocess.run(
                argv,
                cwd=directory,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=20,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
    return version_in(tool, done.stdout + done.stderr)


def _filesystem_known(name: str) -> bool:
    with open("/proc/filesystems", encoding="ascii") as table:
        if any(line.split()[-1] == name for line in table):
            return True
    return (
        bool(shutil.which("modprobe"))
        and subprocess.run(["modprobe", "--dry-run", "--quiet", name], capture_output=True, check=False).returncode == 0
    )
