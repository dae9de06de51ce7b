"""The hosts of a target, what they are and must have in common, and who asks something of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypedDict

from fsage.base import Json, JsonView
from fsage.base.typed import Count, Name, Printable, Word
from fsage.model.target import Limits


class Holder(TypedDict):
    """Who asks: a run of fsage, by its process. `since`: when it began, UTC."""

    run: Name
    host: str
    machine: str | None
    pid: int
    pid_start: int | None
    command: str
    since: str


class _Host(TypedDict):
    name: Printable


class Host(_Host, total=False):
    """A host of the inventory: its name, its Python's path, and whether it is the machine that runs the playbook."""

    python: str
    local: bool


class Inventory(TypedDict, total=False):
    """The inventory's hosts: clients, of whom the first launches, and servers. `watched`: those that are only read."""

    clients: list[Host]
    servers: list[Host]
    watched: list[Host]


class Asker(TypedDict, total=False):
    """Who makes a request, what he knows of the target, and what he brings: his run, its claim, its hosts.

    `gone`: runs whose process was looked up where he is, and has ended. `inputs`: what steps need beside what they say,
    by the name that they have for it.
    """

    holder: Holder | None
    gone: list[Name]
    claim: Name | None
    hosts: Inventory | None
    inputs: dict[Name, str]


class KnownClaim(TypedDict):
    """What a host tells of the claim that it has."""

    id: Name
    created: Word
    status: Word


class Place(TypedDict):
    """A directory that could hold images."""

    directory: Word
    free_gib: float


class _Facts(TypedDict):
    """What a host is, as far as it costs nothing to tell. `time`: its clock's, seconds since 1970."""

    root: bool
    uid: int | None
    host: Word
    kernel: Word
    memory_bytes: Count
    network_mbit_s: list[Count]
    time: float
    images: dict[Word, Word]
    lustre: Word | None


class Facts(_Facts, total=False):
    """`limits`: what root allows on this host."""

    limits: Limits


class _Probe(Facts):
    able: bool
    missing: list[Word]
    tools: dict[Name, Word | None]
    places: list[Place]
    claim: KnownClaim | None


class Probe(_Probe, total=False):
    """What a host is and can do (fsage.host.remote.probe). `tunables`: as they are now, of Lustre clients.

    `refused`: why a claim would be refused, on the host that launches; `capacity_bytes`: what it could take there.
    `user`: as whom the agent runs; `home`, `directory` and `notes`: where it keeps notes of the target, the target
    itself, and the bytes of the day.
    """

    user: Word
    home: Word
    directory: Word
    notes: Word
    capacity_bytes: Count
    io_controller: Json
    tunables: dict[Name, Word]
    unreached: dict[Printable, str]
    refused: str | None


def clients_of(request: Asker) -> list[Host]:
    """The inventory's clients, the launcher first; none where it names none."""
    return (request.get("hosts") or Inventory()).get("clients", [])


def servers_of(request: Asker) -> list[Host]:
    """The inventory's servers."""
    return (request.get("hosts") or Inventory()).get("servers", [])


def watched_of(request: Asker) -> list[Host]:
    """The inventory's servers that are looked at and never do anything."""
    return (request.get("hosts") or Inventory()).get("watched", [])


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


def differences(clients: Mapping[str, JsonView]) -> list[str]:
    """Where clients (name -> facts, or more) differ in what must be alike, a sentence each."""
    sentences = []
    for key, what in ALIKE.items():
        by_value: dict[str, list[str]] = {}
        for name, facts in clients.items():
            value = facts.get(key)
            if key == "memory_bytes" and value:  # no two nodes have the same to the byte
                value = round(value / 2**30)
            by_value.setdefault(str(value), []).append(name)
        if len(by_value) > 1:
            each = "; ".join(f"{', '.join(names)}: {value}" for value, names in sorted(by_value.items()))
            sentences.append(f"clients differ in {what}: {each}")
    return sentences


def skews(name: str, time_there: float, asked_at: float, heard_at: float) -> list[str]:
    """What is wrong with the clock of a host that named its time between two moments here: a sentence, or none."""
    ahead_s = time_there - heard_at
    behind_s = asked_at - time_there
    if max(ahead_s, behind_s) <= SKEW_S:
        return []
    by = f"{ahead_s:.0f} s ahead of" if ahead_s > 0 else f"{behind_s:.0f} s behind"
    return [
        f"the clock of {name} is {by} {os.uname().nodename}'s (at most {SKEW_S:g} s): synchronise it, or leases and "
        "records disagree about what came first"
    ]
