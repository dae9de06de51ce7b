"""What is wrong with a site, a sentence each; nothing here asks a host anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fsage import seam
from fsage.model.hosts import differences, skews
from fsage.plan.target import Target
from fsage.site.inspect import Host, Site

MUST_HAVE_HOSTS = ("clients",)


def findings(site: Site, target: Target, others: Mapping[str, Target]) -> list[str]:
    """All that must be mended before `target` is used; `others` are the targets of other inventories, by folder."""
    said = [*_empty(site, target), *_silent(site), *_unable(site), *_clocks(site)]
    said += differences({host.name: host.answer for host in site.of("clients") if host.answer})
    said += [f"this machine lacks {what}" for what in seam.here().images_missing(target.images)]
    return [*said, *_servers(site, target), *_shared(target, others)]


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
    said += [
        f"{host.name} launches, and does not reach {name} as `ssh {name}` does: {why}"
        for host in site.hosts
        for name, why in _answer(host).get("unreached", {}).items()
    ]
    needed = "neither root nor its helper: set ansible_become for it in the inventory"
    return [*said, *(f"{name} (servers): {needed}" for name in rootless)]


def _clocks(site: Site) -> list[str]:
    """Each host's clock against ours, while it was asked: a busy host answers late, and its clock may be right."""
    said: list[str] = []
    for host in site.hosts:
        if host.answer and host.asked_at is not None and host.answered_at is not None:
            said += skews(host.name, host.answer["time"], host.asked_at, host.answered_at)
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
        elif disturbs := target.of_kind.disturbs(target.spec, other.spec):
            said.append(f"target {other.name} of inventories/{folder} {disturbs}: they would change each other's state")
    return said


def _answer(host: Host) -> dict[str, Any]:
    return host.answer or {}
