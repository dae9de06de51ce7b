"""What is seen of a cell and of a state: the observation and the evidence that a host sends home; declared here alone.

Keys beside those declared are kept as they are: plain JSON. Who receives one reads it by these types
(fsage.records.messages).
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from fsage.base import Json, typed
from fsage.base.typed import Attempt, Count, Name, Positive, Seconds, Signed, Word, between
from fsage.layouts.store import StoresLayout
from fsage.model.signs import Looks
from fsage.model.structure import Achieved, Notes

Model = Annotated[Json, typed.Check(lambda model: isinstance(model.get("label"), str), "a block with a label")]
"""A device model in place; what else there is of it, its kind says."""
Outcome = Literal["done", "failed", "stopped", "unsupported"]


class _Check(TypedDict):
    agreed: bool
    epoch: Count
    rebuilt: bool
    seconds: Seconds


class Check(_Check, total=False):
    """What a cell's check saw of its state. `rebuilt`: it is another layout instance than when it was first reached.

    `looked_at`: every file; or what the kernel told of since every file was looked at; or a sample of the files, with
    every directory; and free space. `unseen_share`: of the files, what a sample leaves out. `osts_changed_bytes`: on
    Lustre, by how much the used space of any OST had changed since the state was built; `tolerance_bytes`: and may.
    """

    state: str
    status: str | None
    fingerprint: str
    looked_at: Literal["files", "events", "sample"]
    unseen_share: Annotated[float, between(0, 1, "a share from 0 to 1")]
    osts_changed_bytes: Count
    tolerance_bytes: Count
    instance: Word | None
    emptied_because: str


class Layout(TypedDict):
    """In which layout something was measured; sizes in bytes, of the filler files and of the target.

    `steps` are those of the state, as JSON. Where `state_known` is false, the file system is others' too.
    """

    digest: Word | None
    filler_files: Count
    filler_bytes: Count
    filler_extents: Count | None
    capacity_bytes: Positive
    used_bytes: Signed
    free_bytes: Signed
    state_known: bool
    generations: list[Achieved]
    steps: list[Json]
    notes: dict[Name, Notes]


class _Conditions(TypedDict):
    device_model: Model | None
    filesystem: Word | None
    mount_options: list[Word]
    allocator_reset: Word | None
    tunables: dict[Name, Json]
    tools: dict[Name, Word | None]
    amount_mib: float | None


class Conditions(_Conditions, total=False):
    """Under what it was taken: the device, the file system and how it is mounted, what was tuned, versions of tools."""

    images: dict[Word, Word] | None  # path -> SHA-256
    uid: int | None
    disks: list[Json]
    amount_source: str
    launch: object
    lustre: Json


class CommandResult(TypedDict, total=False):
    """What one command gave. `line_s`: when each line of standard output came, since the first command was started."""

    argv: list[str]
    rc: Signed | None
    stdout: str
    stderr: str
    wall_s: Seconds
    line_s: list[Seconds]
    timed_out: bool
    cpu_s: Seconds


class _Extents(TypedDict):
    files: Count
    extents: Count
    bytes: Count


class Extents(_Extents, total=False):
    """How the files that a phase made lie: on the device from 0, its first block, to 1, its last."""

    mean_position: float | None
    position_sd: float | None
    position_skewness: float | None
    position_kurtosis: float | None
    mean_extent_bytes: float | None
    layout_score: float | None
    jumps: Count
    jump_bytes: Count
    digest: str


class Mounting(TypedDict):
    """What umount and mount before a phase took, all stores together; `cpu_s`: of the calls themselves."""

    umount_s: Seconds
    umount_cpu_s: Seconds
    mount_s: Seconds
    mount_cpu_s: Seconds


class HostResult(CommandResult):
    """What the command of one host gave, and that host's clock (fsage.host.remote.Host.clock)."""

    clock_ahead_s: float
    clock_error_s: float


class _PhaseResult(TypedDict):
    name: Name
    cache_drop_s: Seconds


class PhaseResult(CommandResult, _PhaseResult, total=False):
    """What one phase of a cell gave, and what its caches were before it."""

    limit_s: Seconds
    files: dict[Name, str]
    jobs: dict[str, str]
    cached_pages: Count | None
    cached_names: Count | None
    cache_drop: str
    cache_drop_hosts: Json
    metadata: str
    beside: list[CommandResult]
    by_host: dict[Word, HostResult]
    told: float
    prepare_s: Seconds
    extents: Extents | None
    leaves: bool
    placement: Json
    server_cache: Json
    trace: Json
    mounting: Mounting
    mount_options: list[Word]
    counters: Json
    left: Json  # of a file system of the target's own: its free bytes afterwards
    groups: list[Json]
    queries: list[Json]
    shared_s: Seconds
    signs: Looks


class _Observation(TypedDict):
    schema: Literal[1]
    id: Name
    study: Name
    target: Name
    claim: Name
    state: Name
    nominal: Json
    cell: Name
    kind: Name
    attempt: Attempt
    order: Count
    params: Json
    run: Name | None
    began: Word
    ended: Word
    host: Word
    hosts: list[Word]
    kernel: Word
    status: Outcome
    why: str | None
    check: Check
    layout: Layout
    conditions: Conditions
    phases: list[PhaseResult]


class Observation(_Observation, total=False):
    """What was seen of one cell. `why` it failed or is unsupported; `seconds`: what its parts took.

    `code`: digest of what measured it. `hosts` are the clients, `servers` and `watched` the hosts of these groups of
    the inventory.
    """

    code: Word
    servers: list[Word]
    watched: list[Word]
    seconds: dict[Name, Seconds]
    osts: Json
    probe: Json
    below: Json  # a sparse image: bytes that each rehearsal gave it, and the run that counts


class _TokenSeen(TypedDict):
    instance: Word
    claim: Name


class TokenSeen(_TokenSeen, total=False):
    """The token in evidence (fsage.model.claim.Token); its other keys are of no use beside the layout's."""

    schema: int


class _StateEvidence(Layout):
    study: Name
    state: Name
    token: TokenSeen
    layout: StoresLayout


class StateEvidence(_StateEvidence, total=False):
    """The evidence of a state: its layout, stores and token, and of Lustre how full each OST is."""

    osts: Json
