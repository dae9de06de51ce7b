"""What could not be had or known where a cell was measured, and why: gathered from its observation, once.

A guest has no root and no login on servers. What that costs is on record with each cell, and on top of the report.
"""

from __future__ import annotations

from fsage.model.caches import KEPT
from fsage.model.typed import JsonView

SIGNS = {
    "kernel": "the log of the kernel",
    "connections": "the state of connections to servers",
    "lnet": "LNet's counters",
    "all": "signs of trouble",
}
"""What a look at a host lacks (fsage.model.signs), in words."""


def of_observation(observation: JsonView) -> dict[str, str]:
    """What is absent -> why."""
    absent: dict[str, str] = {}
    conditions, layout, phases = observation["conditions"], observation["layout"], observation["phases"]
    for phase in phases:
        for host, look in phase.get("signs", {}).get("after", {}).items():
            absent |= {f"{SIGNS.get(key, key)} of {host}": why for key, why in look.get("absent", {}).items()}
    absent |= {f"{key} of the OSTs": why for key, why in observation.get("osts", {}).get("absent", {}).items()}
    absent |= {
        f"tunable {name}": note["unsupported"]
        for name, note in conditions["tunables"].items()
        if isinstance(note, dict) and "unsupported" in note
    }
    if not layout["state_known"]:
        absent["how full and fragmented the file system is"] = "others use it too, and its free space is not read"
    if why := layout.get("notes", {}).get("digest", {}).get("absent"):
        absent["a digest of all extents"] = why
    if any(phase.get("metadata") == KEPT for phase in phases):
        absent["cold names and inodes"] = "to drop them needs root or its helper"
    served = {name for phase in phases for name in phase.get("cache_drop_hosts", {})} - set(observation["hosts"])
    if conditions.get("lustre") and phases and not served:
        absent["cold caches of the servers"] = "the inventory names no server to log in to"
    return {what: str(why) for what, why in absent.items()}
