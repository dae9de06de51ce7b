"""What a host is, what a measurement's clients must have in common, and how far the hosts' clocks may be apart."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fsage.host import containers
from fsage.host.lustre import params
from fsage.host.system import privilege
from fsage.host.system.machine import memory_bytes
from fsage.host.targets import run_as
from fsage.model.hosts import Facts
from fsage.model.target import Spec

SKEW_S = 2.0
"""Clocks may differ by this much; what they tell in leases and records would disagree beyond it."""
ALIKE = {
    "kernel": "kernel",
    "uid": "the number of the user who measures",
    "memory_bytes": "memory, GiB",
    "network_mbit_s": "network, Mbit/s",
    "tools": "versions of tools",
    "images": "container images",
    "lustre": "version of Lustre",
}
"""What the clients must have in common for their numbers to belong together."""


def facts(spec: Spec) -> Facts:
    """This host, as far as it costs nothing to tell."""
    uname = os.uname()
    return {
        "root": privilege.why_not() is None,
        "uid": None if run_as.why_not(spec) else run_as.uid(spec),
        "host": uname.nodename,
        "kernel": uname.release,
        "memory_bytes": memory_bytes(),
        "network_mbit_s": network_mbit_s(),
        "time": time.time(),
        "images": containers.digests(spec["containers"]),
        "lustre": params.version() if spec["lustre"] and shutil.which("lctl") else None,
    }


def network_mbit_s(interfaces: Path = Path("/sys/class/net")) -> list[int]:
    """Speeds of the network devices that are up (sysfs-class-net: -1, or no answer, where it is not known)."""
    found = []
    for speed in interfaces.glob("*/speed"):
        try:
            found.append(int(speed.read_text()) if (speed.parent / "device").exists() else -1)
        except OSError:  # it is down
            continue
    return sorted(value for value in found if value > 0)


def differences(clients: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Where clients (name -> facts, or more) differ in what must be alike, a sentence each."""
    said = []
    for key, what in ALIKE.items():
        by_value: dict[str, list[str]] = {}
        for name, known in clients.items():
            value = known.get(key)
            if key == "memory_bytes" and value:  # no two nodes have the same to the byte
                value = round(value / 2**30)
            by_value.setdefault(str(value), []).append(name)
        if len(by_value) > 1:
            each = "; ".join(f"{', '.join(names)}: {value}" for value, names in sorted(by_value.items()))
            said.append(f"clients differ in {what}: {each}")
    return said


def skews(name: str, time_there: float, asked_at: float, heard_at: float) -> list[str]:
    """What is wrong with the clock of a host that named its time between two moments of ours: a sentence, or none."""
    ahead_s, behind_s = time_there - heard_at, asked_at - time_there
    if max(ahead_s, behind_s) <= SKEW_S:
        return []
    by = f"{ahead_s:.0f} s ahead of" if ahead_s > 0 else f"{behind_s:.0f} s behind"
    return [
        f"the clock of {name} is {by} {os.uname().nodename}'s (at most {SKEW_S:g} s): synchronise it, or leases and "
        "records disagree about what came first"
    ]
