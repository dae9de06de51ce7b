"""The request: all that a playbook, and by it an agent, is told about a state and its cells; declared here alone.

`fsage.run.request` makes it. `fsage.host.verbs.checks` checks it where it arrives and says which keys a verb
needs; any other may be missing. A request is JSON: only its steps become values of their own types.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from fsage.base import Json
from fsage.base.typed import Attempt, Name, Positive, Printable
from fsage.model.hosts import Asker, Holder, Inventory  # noqa: F401 (3.9.2 resolves what Asker has here)
from fsage.model.structure import Step


class Query(TypedDict):
    """A query that is repeated until it has taken `seconds` (fsage.studies.iocontrol.instruments.query)."""

    path: str
    seconds: float


class Cost(TypedDict):
    """IOCost's model of a device."""

    bytes_per_s: int
    sequential_iops: int
    random_iops: int


class _Group(TypedDict):
    name: str
    weight: int
    file: int


class Group(_Group, total=False):
    """One of the groups that share a device: its weight, which file of the state it uses, and what it runs.

    That is `argv`, a reader that never ends, or `query`; one group at most has a query.
    """

    argv: list[str]
    query: Query


class IoGroups(TypedDict):
    """Groups that share a device by weight (fsage.studies.iocontrol.instruments).

    `queue`: the device's scheduler; `cost`: None where IOCost is off. They are counted over the same `seconds`, after
    `settle_s`.
    """

    queue: str
    cgroup: Literal["v1", "v2"]
    cost: Cost | None
    settle_s: float
    seconds: float
    groups: list[Group]


class _Phase(TypedDict):
    name: Name
    argv: list[str]


class Phase(_Phase, total=False):
    """One command of a cell; caches are cold before it, whatever it does.

    `reads`: what is read must not be in memory; `reads_files`: files of the state that are; `warm`: they must be, all
    of them. `beside`: commands that run at the same time. `folders` are made first; `files`: name ->
    text, found at {files}/NAME. `jobs`: client -> what its own run of the command reads, all begun together, and
    `asks_next`: they share a count (fsage.host.remote). `io_groups`: groups instead of a command.
    `allocator`: of what the file system's allocator reads none is in memory, or all, or what the phase before left
    there (nothing is dropped then); `mount_options`: further ones. `as_root`: root runs it, whoever runs others.
    `leaves`: its files lie there before what is measured, and no device model charges for them; `uncharged`: nor does
    one for this phase, which is measured.
    `metadata`: how warm names are, if that is known. `eviction_file`: it is read after caches were
    dropped. `server_cache`: what the servers may cache. `timeout_s`: set where it runs.
    """

    reads: bool
    reads_files: list[str]
    warm: bool
    beside: list[list[str]]
    folders: list[str]
    files: dict[str, str]
    jobs: dict[str, str]
    asks_next: bool
    io_groups: IoGroups
    metadata: str
    eviction_file: bool
    server_cache: Literal["metadata", "none"]
    allocator: Literal["cold", "warm", "kept"]
    mount_options: str
    as_root: bool
    leaves: bool
    uncharged: bool
    timeout_s: float


class _Cell(TypedDict):
    name: Name
    kind: Name
    attempt: Attempt
    order: int
    params: Json
    phases: list[Phase]


class Cell(_Cell, total=False):
    """One requested measurement. `params` are the workload's; the agent only copies them.

    `makes_bytes`: what its files hold; `writes_bytes`: what it writes. `unsupported`: why this target can never run it.
    """

    estimate_s: float
    makes_bytes: int
    writes_bytes: int
    unsupported: str | None
    trace: bool


class Request(Asker, total=False):
    """The request. `first_instance`: the layout instance in which the state was first reached.

    `until`: begin no cell that would end later, seconds since 1970. `bundle`, `evidence`, `claim_copy`: files on the
    machine that runs the playbook. `osts`: what the servers saw of them. `amount_mib`, `amount_source`: what each task
    moves and why, where that is not the claim's. `reach_s`: an estimate of building the state.
    `take_over`: the id of a claim whose note is lost, and whose target may be emptied for it.
    `step_kind`: no other step is due; `threads`: so many do a step on each client.
    """

    schema: Literal[1]
    study: Name
    state: Name
    nominal: Json
    run: Name | None
    release: bool
    slurm_job: Name | None
    until: float | None
    tuning: Json
    reuse: Literal["nested", "fresh"]
    steps: list[Step]
    step_kind: str
    threads: Positive
    first_instance: Name | None
    reach_s: float
    cells: list[Cell]
    amount_mib: int
    amount_source: str
    bundle: Printable
    evidence: Printable
    claim_copy: Printable
    osts: Any
    prealloc: Json
    launches: bool
    destroy: str
    take_over: str


TRANSFER = "transfer.json"
"""Input of a phase in which the host side's own process moves one file: the text of its Transfer."""


NAMES = "names.json"
"""Input of a phase in which it makes, looks up or removes empty files: the text of its Names."""


class Names(TypedDict):
    """What is done, with how many files of which folder."""

    operation: Literal["create", "stat", "remove"]
    folder: str
    files: int


class Transfer(TypedDict):
    """What is moved past the cache, in requests of one size. `file`: its name among the measured files."""

    file: str
    bytes: int
    request_bytes: int
    reads: bool
