"""Asking the hosts of an inventory, all at once; one that does not answer is an answer too."""

from __future__ import annotations

import getpass
import json
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from fsage import seam
from fsage.base import Json
from fsage.model.hosts import differences, skews
from fsage.plan import Plan, results
from fsage.plan.target import Target
from fsage.run.play import failures
from fsage.study import StudyError

PLAYBOOK = "playbooks/check_site.yml"


@dataclass(frozen=True)
class Host:
    """One host: its groups, what its agent (hosts.probe) answered between two moments; or why it did not.

    `why_no_become`: why a server that answered does not let the user become root, where that was tried.
    """

    name: str
    groups: tuple[str, ...]
    answer: Json | None
    asked_at: float | None = None
    answered_at: float | None = None
    why: str | None = None
    why_no_become: str | None = None


@dataclass(frozen=True)
class Site:
    """The hosts of an inventory by name, and all its groups, the empty ones too."""

    hosts: list[Host]
    groups: tuple[str, ...]

    def in_group(self, group: str) -> list[Host]:
        """The hosts of a group."""
        return [host for host in self.hosts if group in host.groups]

    def answers(self, group: str | None = None) -> list[Json]:
        """What hosts answered: those of a group, or all."""
        hosts = self.in_group(group) if group else self.hosts
        return [host.answer for host in hosts if host.answer]


def inspect(inventory: Path, tuned: bool = False) -> Site:
    """Ask all hosts of an inventory. Raises StudyError when it cannot be read.

    `tuned`: also try on servers what tune_prealloc.yml needs.
    """
    groups = groups_of(_read(inventory))
    names = sorted(set().union(*groups.values()))
    if not names:
        return Site([], tuple(groups))
    with tempfile.TemporaryDirectory(prefix="fsage-site-") as folder:
        variables = json.dumps({"probe_folder": folder, "probe_become": tuned})
        command = ["ansible-playbook", "-i", str(inventory), PLAYBOOK, "-e", variables]
        asked_at = time.time()
        ran = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        whys = failures(ran.stdout)
        hosts = []
        for name in names:
            path = Path(folder) / f"{name}.json"
            own_groups = tuple(group for group, members in groups.items() if name in members)
            answer = results.read(path)
            why = whys.get(name)
            if answer:
                host = Host(name, own_groups, answer, asked_at, path.stat().st_mtime, why_no_become=why)
            else:
                host = Host(name, own_groups, None, asked_at, why=why or ran.stderr.strip() or "it gave no answer")
            hosts.append(host)
    return Site(hosts, tuple(groups))


def user_of(inventory: Path, group: str = "clients") -> str:
    """The user as whom the hosts of a group are logged in to, by the inventory or ssh's configuration.

    Raises StudyError where there are several, or none that rules could be for.
    """
    inventory_json = _read(inventory)
    variables = inventory_json.get("_meta", {}).get("hostvars", {})
    names = groups_of(inventory_json).get(group, [])
    named = sorted({login_of(name, variables.get(name, {})) for name in names}) or [getpass.getuser()]
    if len(named) > 1:
        raise StudyError(f"inventory {inventory} has several users ({', '.join(named)}): rules are for one; name one")
    (user,) = named
    if user == "root":
        raise StudyError(
            "root needs no rules: run this as the user who measures, or name him: ansible_user, or `User` in ssh's "
            "configuration"
        )
    if not re.fullmatch(r"[a-z_][a-z0-9_.-]{0,31}", user):
        raise StudyError(f"{user!r} is not a user's name that can stand in sudoers(5)")
    return user


def login_of(name: str, variables: Json) -> str:
    """As whom a host of an inventory is logged in to: `ansible_user`, else what ssh's configuration says."""
    if variables.get("ansible_user"):
        return str(variables["ansible_user"])
    if variables.get("ansible_connection") == "local" or not shutil.which("ssh"):
        return getpass.getuser()
    words = ["ssh", "-G"]
    for kind in ("common", "extra"):
        words += shlex.split(str(variables.get(f"ansible_ssh_{kind}_args") or ""))
    words.append(str(variables.get("ansible_host") or name))
    ran = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    match = re.search(r"^user (\S+)$", ran.stdout, re.MULTILINE)
    if match:
        return match[1]
    return getpass.getuser()


def _read(inventory: Path) -> Json:
    command = ["ansible-inventory", "-i", str(inventory), "--list"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    try:
        inventory_json: dict[str, object] = json.loads(ran.stdout)
    except ValueError:
        error = " ".join(ran.stderr.split()) or "ansible-inventory said nothing"
        raise StudyError(f"inventory {inventory} cannot be read: {error}") from None
    return inventory_json


def groups_of(listed: Json) -> dict[str, list[str]]:
    """Group -> hosts, of an inventory as Ansible reads it."""
    groups: dict[str, list[str]] = {}

    def walk(group: str) -> list[str]:
        entry = listed.get(group, {})
        names = set(entry.get("hosts", []))
        for child in entry.get("children", []):
            names.update(walk(child))
        return groups.setdefault(group, sorted(names))

    for group in listed["all"].get("children", []):
        walk(group)
    groups.pop("ungrouped", None)
    return groups


GROUPS = ("launcher", "servers")
MUST_HAVE_HOSTS = ("clients",)


def findings(site: Site, target: Target, others: Mapping[str, Target], plans: Sequence[Plan] = ()) -> list[str]:
    """All that must be mended before `target` is used for plans; `others`: targets of other inventories, by folder."""
    sentences = [*_empty(site, target), *_silent(site), *_unable(site), *_clocks(site)]
    sentences += differences({host.name: host.answer for host in site.in_group("clients") if host.answer})
    sentences += [f"this machine lacks {what}" for what in seam.images_missing(target.images)]
    sentences += [*_servers(site, target), *_untuned(site, plans), *_shared(target, others)]
    return sentences or _refused(site)


def _refused(site: Site) -> list[str]:
    """What the claim would refuse, found by its own checks, only where nothing else is to be mended."""
    sentences = []
    for host in site.hosts:
        why = _answer(host).get("refused")
        if why:
            sentences.append(f"{host.name} would refuse the claim: {why}")
    return sentences


def _empty(site: Site, target: Target) -> list[str]:
    named = target.of_kind.named_hosts(target.spec)
    sentences = [
        f"the inventory has no group {group}, which playbooks name: add it to hosts.yml, if only as `{group}:`"
        for group in GROUPS
        if group not in site.groups
    ]
    return sentences + [
        f"group {group} has no host: name at least one in the inventory's hosts.yml"
        for group in (*MUST_HAVE_HOSTS, *filter(named.get, named))
        if not site.in_group(group)
    ]


def _silent(site: Site) -> list[str]:
    return [f"{host.name} ({', '.join(host.groups)}) gave no answer: {host.why}" for host in site.hosts if host.why]


def _unable(site: Site) -> list[str]:
    sentences = []
    for host in site.in_group("clients"):
        sentences += [f"{host.name} lacks {what}" for what in _answer(host).get("missing", ())]
    for host in site.hosts:
        for name, why in _answer(host).get("unreached", {}).items():
            sentences.append(f"{host.name} launches, and does not reach {name} as `ssh {name}` does: {why}")
    for host in site.in_group("servers"):
        if host.answer and not host.answer["root"]:
            sentences.append(
                f"{host.name} (servers): neither root nor its helper: set ansible_become for it in the inventory, or "
                "move it to the group watched"
            )
    return sentences


def _clocks(site: Site) -> list[str]:
    """Each host's clock against the launcher's: a busy host answers late, and its clock may be right."""
    sentences: list[str] = []
    for host in site.hosts:
        if host.answer and host.asked_at is not None and host.answered_at is not None:
            sentences += skews(host.name, host.answer["time"], host.asked_at, host.answered_at)
    return sentences


def _servers(site: Site, target: Target) -> list[str]:
    """Hosts that the target names and the inventory does not."""
    sentences = []
    for group, names in target.of_kind.named_hosts(target.spec).items():
        known = {host.name for host in site.in_group(group)}
        where = f"fsage_target.{target.spec['kind']}.{group}"
        for name in names:
            if name not in known:
                sentences.append(f"{where} names {name}, which is not in the inventory's group {group}")
    return sentences


def with_tuned_servers(plans: Sequence[Plan]) -> list[str]:
    """The studies with states before which tune_prealloc.yml must tune the servers."""
    return [plan.study.name for plan in plans if _tunes_servers(plan)]


def _tunes_servers(plan: Plan) -> bool:
    steps = chain.from_iterable(map(plan.estimates.steps, plan.states))
    return any(step.server_preallocation_bytes() for step in steps)


def _untuned(site: Site, plans: Sequence[Plan]) -> list[str]:
    """Servers on which tune_prealloc.yml would fail, where a study needs it."""
    sentences = []
    for host in site.hosts:
        if host.why_no_become:
            sentences.append(
                f"{host.name} (servers): states of {', '.join(with_tuned_servers(plans))} need tune_prealloc.yml, "
                f"which becomes root there by `become`, and that fails: {host.why_no_become}"
            )
    return sentences


def _shared(target: Target, others: Mapping[str, Target]) -> list[str]:
    """Other inventories that name the same file system."""
    sentences = []
    for folder, other in others.items():
        if other.spec["kind"] != target.spec["kind"]:
            continue
        disturbs = target.of_kind.disturbs(target.spec, other.spec)
        if other.name == target.name:
            sentences.append(
                f"inventories/{folder} has a target of the same name, {target.name}: give one another name"
            )
        elif disturbs:
            sentences.append(
                f"target {other.name} of inventories/{folder} {disturbs}: they would change each other's state. "
                f"Give one another directory, or remove inventories/{folder} if nobody uses it"
            )
    return sentences


def _answer(host: Host) -> Json:
    return host.answer or {}
