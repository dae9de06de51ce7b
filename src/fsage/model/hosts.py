"""The hosts of a target, what they are, and who asks something of it."""

from __future__ import annotations

from typing import TypedDict

from fsage.model.typed import Count, Json, Name, Printable, Word


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
    """The inventory's hosts: clients, of whom the first launches, and servers."""

    clients: list[Host]
    servers: list[Host]


class Asker(TypedDict, total=False):
    """Of a request who asks, what he knows of the target, and what he brings: his run, its claim, its hosts.

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


class Facts(TypedDict):
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


class _Probe(Facts):
    able: bool
    missing: list[Word]
    tools: dict[Name, Word | None]
    places: list[Place]
    claim: KnownClaim | None


class Probe(_Probe, total=False):
    """What a host is and can do (fsage.host.remote.probe)."""

    io_controller: Json
    unreached: dict[Printable, str]


def clients_of(asked: Asker) -> list[Host]:
    """The inventory's clients, the launcher first; none where it names none."""
    return (asked.get("hosts") or Inventory()).get("clients", [])


def servers_of(asked: Asker) -> list[Host]:
    """The inventory's servers."""
    return (asked.get("hosts") or Inventory()).get("servers", [])
