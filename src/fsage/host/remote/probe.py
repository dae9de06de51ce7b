"""What this host can do for fsage, and what is missing."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from fsage.base import GIB, Failure, JsonView, Refusal
from fsage.base.shell import SSH, run
from fsage.host import containers, targets
from fsage.host.containers import versions
from fsage.host.device import models
from fsage.host.system import files, places, privilege
from fsage.host.system.space import memory_bytes
from fsage.host.targets import budget, kinds
from fsage.model import declaration, device
from fsage.model.hosts import Asker, Facts, Probe, clients_of, servers_of, watched_of
from fsage.model.request import Request
from fsage.model.target import Spec

SSH_ANSWER_S = 30
EVERY = range(256)
PLAIN = ("drop-caches", "kernel-log")
NO_SRUN = "srun: fsage_target.launcher names it; install Slurm's client there, or declare launcher: openmpi or mpich"


def probe(declared: JsonView, request: Request) -> Probe:
    """Root, tools with versions, kernel, I/O controller and free space of this host; changes nothing."""
    spec = declaration.complete(declared)
    missing = containers.missing(spec["containers"])
    tools = versions(spec["containers"], spec["launcher"])
    if not tools["fio"] and not missing:
        why = containers.why_unusable(spec["containers"])
        if why:
            missing.append(f"fio: nothing can be measured without it; {why}")
    own = facts(spec)
    if own["uid"] is None:
        missing.append(f"user {spec['run_as']} (fsage_target.run_as): the agent must be root or this user")
    if spec["launcher"] == "srun" and not tools["srun"]:
        missing.append(NO_SRUN)
    of_kind = kinds.named(spec["kind"])
    lacking = of_kind.lacking(spec)
    missing += lacking.missing
    if os.geteuid() and not privilege.unavailable_because():
        missing += denied(spec)
    model = models.named(device.USUAL).unavailable_because(spec["device_model"] or {})
    claim = files.read_json(declaration.home_of(spec) / "claim.json")
    found_out: Probe = {
        "able": not missing,
        "missing": missing,
        **own,
        "tools": tools,
        "io_controller": {"usable": model is None, "unavailable_because": model},
        "places": [
            {"directory": place, "free_gib": round(free / GIB, 1)} for place, free in lacking.room_bytes.items()
        ],
        "user": places.who(os.geteuid()),
        "home": str(declaration.home_of(spec)),
        "directory": spec["directory"],
        "notes": str(declaration.usual_home()),
        "unreached": unreached(spec, request) if request.get("launches") else {},
        "claim": {"id": claim["id"], "created": claim["created"], "status": claim["status"]} if claim else None,
    }
    with suppress(Failure, Refusal):  # what a user may not read is not known
        found_out["tunables"] = of_kind.tunables(spec)
    return found_out


def denied(spec: Spec, front: Sequence[str] = (), server: bool = False) -> list[str]:
    """Verbs that `fsage site --sudoers` allows, and that this user may not call; none is called.

    `front`: what takes the command to another host, `server`: one of the target's servers.
    """
    verbs = [[verb] for verb in PLAIN] + kinds.named(spec["kind"]).granted(spec, server)
    ask = [*front, "sudo", "-n", "-l", str(privilege.HELPER)]
    refused = [" ".join(verb) for verb in verbs if run([*ask, *verb], timeout=SSH_ANSWER_S, ok=EVERY).returncode]
    if not refused:
        return []
    rules = f"install the rules of `fsage site --sudoers{' --servers' if server else ''}`"
    return [f"the right to call {privilege.HELPER} {', '.join(refused)}: {rules}"]


def unreached(spec: Spec, request: Asker) -> dict[str, str]:
    """Why the launcher does not reach remote hosts by ssh, or may not there what cells need, by host; empty: it may."""
    servers = {host["name"] for host in servers_of(request)}
    others = [*clients_of(request)[1:], *servers_of(request), *watched_of(request)]
    names = sorted({host["name"] for host in others if not host["local"]})

    def ask(name: str) -> str | None:
        try:
            run([*SSH, name, "true"], timeout=SSH_ANSWER_S)
            if os.geteuid() and name in servers:
                return "; ".join(denied(spec, [*SSH, name], server=True)) or None
        except Failure as failure:
            return str(failure)
        return None

    with ThreadPoolExecutor(max(1, min(len(names), 16))) as pool:
        return {name: why for name, why in zip(names, pool.map(ask, names)) if why}


def facts(spec: Spec) -> Facts:
    """The facts of this host that are cheap to find."""
    uname = os.uname()
    uid = None
    with suppress(Refusal):  # there is no such user here, or the agent is another one
        uid = targets.uid_of(spec)
    return {
        "root": privilege.unavailable_because() is None,
        "uid": uid,
        "host": uname.nodename,
        "kernel": uname.release,
        "memory_bytes": memory_bytes(),
        "network_mbit_s": network_mbit_s(),
        "time": time.time(),
        "images": containers.digests(spec["containers"]),
        "lustre": kinds.named(spec["kind"]).version(),
        "limits": budget.of_host(),
    }


def network_mbit_s(interfaces: Path = Path("/sys/class/net")) -> list[int]:
    """Speeds of the network devices that are up, in Mbit/s (sysfs-class-net: -1, or an error, where unknown)."""
    speeds = []
    for speed in interfaces.glob("*/speed"):
        try:
            speeds.append(int(speed.read_text()) if (speed.parent / "device").exists() else -1)
        except OSError:  # the device is down
            continue
    return sorted(value for value in speeds if value > 0)
