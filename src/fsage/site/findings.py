"""What is wrong with a site, a sentence each; nothing here asks a host anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fsage.agent import containers
from fsage.site.look import Host, Site
from fsage.target import Target

SKEW_S = 2.0
"""Clocks may differ by this much; what they tell in leases and records would disagree beyond it."""
MUST_HAVE_HOSTS = ("clients",)
ALIKE = {
    "kernel": "kernel",
    "memory_bytes": "memory, GiB",
    "tools": "versions of tools",
    "images": "container images",
    "lustre": "version of Lustre",
}
"""What the clients must have in common for their numbers to belong together."""


def findings(site: Site, target: Target, others: Mapping[str, Target]) -> list[str]:
    """All that must be mended before `target` is used; `others` are the targets of other inventories, by folder."""
    said = [*_empty(site, target), *_silent(site), *_unable(site), *_clocks(site), *_unlike(site)]
    here = [f"this machine lacks {what}" for what in containers.missing(target.images, containers.ANALYSIS)]
    return [*said, *here, *_servers(site, target), *_shared(target, others)]


def _empty(site: Site, target: Target) -> list[str]:
    wanted = (*MUST_HAVE_HOSTS, "oss") if target.lustre else MUST_HAVE_HOSTS
    return [
        f"group {group} has no host: name at least one in the inventory's hosts.yml"
        for group in wanted
        if not site.of(group)
    ]


def _silent(site: Site) -> list[str]:
    return [f"{host.name} ({', '.join(host.groups)}) does not answer: {host.why}" for host in site.hosts if host.why]


def _unable(site: Site) -> list[str]:
    said = [f"{host.name} lacks {what}" for host in site.of("clients") for what in _answer(host).get("missing", ())]
    rootless = [host.name for host in site.of("servers") if host.answer and not host.answer["root"]]
    return [*said, *(f"{name} (servers): no root: set ansible_become for it in the inventory" for name in rootless)]


def _clocks(site: Site) -> list[str]:
    """Each host's clock against ours, at the moment when its answer came."""
    said = []
    for host in site.hosts:
        if host.answer and host.answered_at is not None:
            ahead_s = host.answer["time"] - host.answered_at
            if abs(ahead_s) > SKEW_S:
                which = "ahead of" if ahead_s > 0 else "behind"
                said.append(
                    f"the clock of {host.name} is {abs(ahead_s):.0f} s {which} this machine's (at most {SKEW_S:g} s): "
                    "synchronise it, or leases and records disagree about what came first"
                )
    return said


def _unlike(site: Site) -> list[str]:
    """Where clients differ in what must be alike."""
    said = []
    clients = [host for host in site.of("clients") if host.answer]
    for key, what in ALIKE.items():
        by_value: dict[str, list[str]] = {}
        for host in clients:
            value = _answer(host).get(key)
            shown = (
                round(value / 2**30) if key == "memory_bytes" and value else value
            )  # no two nodes have the same to the byte
            by_value.setdefault(str(shown), []).append(host.name)
        if len(by_value) > 1:
            each = "; ".join(f"{', '.join(names)}: {value}" for value, names in sorted(by_value.items()))
            said.append(f"clients differ in {what}: {each}")
    return said


def _servers(site: Site, target: Target) -> list[str]:
    """Servers that the target names and the inventory does not."""
    known = {host.name for host in site.of("oss")}
    return [
        f"fsage_target.lustre.oss names {name}, which is not in the inventory's group oss"
        for name in (target.lustre.oss if target.lustre else ())
        if name not in known
    ]


def _shared(target: Target, others: Mapping[str, Target]) -> list[str]:
    """Other inventories that name the same file system."""
    said = []
    for folder, other in others.items():
        if other.kind != target.kind:
            continue
        if other.name == target.name:
            said.append(f"inventories/{folder} has a target of the same name, {target.name}: give one another name")
        elif target.lustre and other.lustre and _file_system(target) == _file_system(other):
            said.append(
                f"target {other.name} of inventories/{folder} is on the same file system as {target.name} "
                f"({''.join(_file_system(target))}): they would change each other's state"
            )
        elif target.kind == "directory" and target.directory and other.directory and _within(target, other):
            said.append(
                f"target {other.name} of inventories/{folder} shares a file tree with {target.name} "
                f"({other.directory}, {target.directory}): they would change each other's state"
            )
    return said


def _file_system(target: Target) -> tuple[str, str]:
    assert target.lustre is not None
    return f"{target.lustre.mgs}:/", target.lustre.fsname


def _within(one: Target, other: Target) -> bool:
    here, there = Path(str(one.directory)).resolve(), Path(str(other.directory)).resolve()
    return here == there or here in there.parents or there in here.parents


def _answer(host: Host) -> dict[str, Any]:
    return host.answer or {}
