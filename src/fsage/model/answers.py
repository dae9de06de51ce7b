"""What hosts answer: what a machine has and holds, and what it did of what it was told.

What a machine has and holds, as the launcher is told (fsage.seam).

What a host beside the launcher answers to what it was told (fsage.host.host_agent): a type for each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

from fsage.base import MIB, Json, typed
from fsage.base.message import printable, read_block
from fsage.base.typed import Check, Count, Printable, Seconds, Signed, Word
from fsage.model.hosts import Facts
from fsage.model.signs import Look


class Obstacle(NamedTuple):
    """Why a capability cannot be had here: what failed, the name of its errno where there is one, what helps."""

    reason: str
    errno: str | None
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}"


class Able(NamedTuple):
    """A capability that fsage needs of a machine, what for, and why this process has it not; None: it has."""

    name: str
    purpose: str
    obstacle: Obstacle | None


class HeldTarget(NamedTuple):
    """A target that a machine holds. `what`: in words; `inventory`: its own, with which it is given back anywhere.

    `take_over`: the id of its claim, where that is known by the mark in the target alone.
    """

    name: str
    kind: str
    home: Path
    what: str
    inventory: Path | None
    take_over: str | None = None


ANSWER_BYTES = 4 * MIB
MOST_ENDS = 100_000  # of free extents in one answer: 19 digits each


class Hello(Facts, total=False):
    """What a host is; a client that is not claimed yet says what it lacks too."""

    missing: list[Word]


class Left(TypedDict):
    """What of files is in memory."""

    cached_pages: Count
    cached_names: Count | None  # None: the kernel lacks the call
    metadata: Word  # fsage.model.observation: COLD, WARM, KEPT or UNASKED


class DroppedAll(TypedDict):
    """How caches were dropped, and how long it took."""

    seconds: Seconds
    method: Word


class Dropped(Left, DroppedAll, total=False):
    """The caches of a client after a drop, with what of the measured files is still in memory."""

    locks: Count  # of Lustre: how many were given back
    locks_left: Count  # and how many others took meanwhile, on the same mount


class _Served(TypedDict):
    now: dict[str, str]


class Served(_Served, total=False):
    """What a server's caches are set to, by dataset, its OSTs by what they are on, and what was put back."""

    ldiskfs: list[str]
    zfs: list[str]
    proof: list[str]


class Tables(TypedDict):
    """The preallocation table of each ldiskfs OST of a server."""

    tables: dict[str, str]


class Astray(TypedDict):
    """Settings of a host that a study does not name, a sentence each."""

    astray: list[Printable]


class Committed(TypedDict):
    """How many objects each MDT of a server still has to destroy on each OST; none of an OSS."""

    to_destroy: list[Count]


class Counters(TypedDict):
    """The counters of a server's OSTs, as Lustre prints them."""

    text: str


class FreeSpace(TypedDict):
    """The free space of an OST, the fields of a Store; None where the server does not serve it with ldiskfs."""

    store: Json | None


class FreeExtents(TypedDict):
    """Where free extents begin and end, bytes, ascending, MOST_ENDS at a time."""

    ends: list[Count]


class Clock(TypedDict):
    """Seconds since 1970."""

    time: float


class Busy(TypedDict):
    """The load average of the last minute. `requests`: of each OST how many it has done, and how long they took, us."""

    load: float
    requests: dict[str, Annotated[list[Count], Check(lambda pair: len(pair) == 2, "a number and a time")]]


class Ran(TypedDict):
    """What came of a command."""

    rc: Signed
    stdout: str
    stderr: str
    wall_s: Seconds
    timed_out: bool


ANSWERS: Json = {
    "hello": Hello,
    "drop": DroppedAll,
    "server_cache": Served,
    "prealloc": Tables,
    "settings": Astray,
    "commit": Committed,
    "counters": Counters,
    "free_space": FreeSpace,
    "free_extents": FreeExtents,
    "clock": Clock,
    "busy": Busy,
    "go": Ran,
    "signs": Look,
}


def checked(text: bytes, verb: str, role: str) -> Json:
    """The answer of a client or server to what it was told to do. Raises Unacceptable."""
    answer = read_block(text, ANSWER_BYTES)
    if "failed" in answer:
        return {"failed": printable(str(answer["failed"]))[:2000]}
    kind: Any = Dropped if (verb, role) == ("drop", "client") else ANSWERS.get(verb, Json)
    checked_answer: Json = typed.read(kind, answer)
    return checked_answer
