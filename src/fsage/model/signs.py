"""Signs of trouble: what a host tells before and after a phase, and what is to be said of the difference.

A host is looked at twice (fsage.studies.neighbours), and both looks are on record. They are compared here, once,
when the record is made. Trouble that makes a number worthless fails the cell: a client that a server evicted lost what
it had cached and its locks. All else is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypedDict

from fsage.base import Json, JsonView
from fsage.base.typed import Count, Seconds, Word

WAITED_S = 5.0
"""A request that waits for longer is reported; the least time limit of a request is about that."""
RETRANSMITTED = 0.01
"""Share of retransmitted segments of TCP from which it is reported; below it a network may do that every day."""
LEAST_SEGMENTS = 20
SHOWN = 3
EVICTED = "EVICTED"
LOST = "DISCONN"


class _Connection(TypedDict):
    state: Word


class Connection(_Connection, total=False):
    """A client's connection to a target of Lustre (an OSC or MDC): its import, and how long its requests waited.

    `history`: the times, in seconds since 1970, and states that the kernel still knows, oldest first. `waits`: number,
    longest, sum and sum of squares of the waiting times, in microseconds.
    """

    generation: Count
    attempts: Count
    timeouts: Count
    history: list[list[int | str]]
    waits: list[int]


class Nfs(TypedDict):
    """The counters of an NFS mount since it was mounted, all operations together."""

    operations: Count
    transmissions: Count
    timeouts: Count
    connects: Count


class Network(TypedDict):
    """The segments of TCP that a host has sent, and sent again."""

    sent: Count
    retransmitted: Count


class Look(TypedDict, total=False):
    """What a host tells of itself. `absent`: what cannot be read, and why; `kernel`: lines that tell of trouble.

    `stalled_s`: how long, amid a phase, a device ended none of its requests.
    """

    time: float
    kernel: Json
    connections: dict[Word, Connection]
    nfs: dict[Word, Nfs]
    network: Network
    lnet: dict[Word, Count]
    load: list[float]
    stalled_s: dict[Word, Seconds]
    absent: dict[Word, Word]


class _Looks(TypedDict):
    before: dict[Word, Look]
    after: dict[Word, Look]


class Looks(_Looks, total=False):
    """A look at each host before a phase, and one after it. `unused`: OSTs that evicted it and have no file of it."""

    unused: list[Word]


class Judged(NamedTuple):
    """Sentences: why the cell failed (or None), and warnings."""

    failed: str | None
    warnings: list[str]


def judge(phases: Iterable[JsonView]) -> Judged:
    """What is to be said of the phases of an observation."""
    failed: list[str] = []
    warnings: list[str] = []
    for phase in phases:
        for host, after in phase.get("signs", {}).get("after", {}).items():
            before = phase["signs"]["before"].get(host, {})
            where = f"{phase['name']}: {host}"
            unused = phase["signs"].get("unused", ())
            by = evicted(before, after)
            used = [name for name in by if name not in unused]
            if used:
                lost = "so that what it had cached and its locks were lost"
                failed.append(f"{where}: evicted by {_named(used)}, {lost}")
            others = [name for name in by if name in unused]
            if others:
                warnings.append(f"{where}: evicted by {_named(others)}, on which no file of the target lies")
            warnings += [f"{where}: {what}" for what in _suspicious(before, after)]
    return Judged("; ".join(failed) or None, warnings)


def lost_osts(fullness: JsonView) -> list[str]:
    """A sentence for each OST that the client named before a cell and not after it, by what it read of all both times.

    A guest sees nothing else of an OST that is deactivated: his command fails with EIO.
    """
    if not fullness.get("before") or not fullness.get("after"):
        return []
    lost = sorted(set(fullness["before"]) - set(fullness["after"]))
    return [f"{name} was lost during the cell: `lfs df` does not name it any more" for name in lost]


def evicted(before: JsonView, after: JsonView) -> list[str]:
    """By which targets the client was evicted between two looks of a host: 'lustre-OST0000'."""
    names = [name for name, states in _new_states(before, after) if EVICTED in states]
    if not names and not after.get("connections"):  # who may not read connections sees it in the kernel's log
        names = re.findall(r"was evicted by (\S+?);", "\n".join(_lines(after)))
    return sorted(set(map(_plain, names)))


def _suspicious(before: JsonView, after: JsonView) -> Iterator[str]:
    """A sentence for each kind of trouble between two looks of a host."""
    new = list(_new_states(before, after))
    names = [name for name, states in new if LOST in states]
    if names:
        yield f"the connection to {_named(names)} was lost"
    names = [name for name, _ in new if after["connections"][name]["state"] not in ("FULL", "IDLE")]
    if names:
        yield f"no connection to {_named(names)} at the end"
    late = {name: count for name, count in _rises(before, after, "connections", "timeouts") if count}
    if late:
        yield f"{sum(late.values())} requests to {_named(late)} timed out"
    waited = {name: wait for name, wait in _waits(before, after) if wait > WAITED_S}
    if waited:
        yield f"a request to {_named(waited)} waited at least {max(waited.values()):.0f} s"
    for device, stalled_s in after.get("stalled_s", {}).items():
        if stalled_s > WAITED_S:
            yield f"{device} ended none of its requests for {stalled_s:.0f} s"
    for mount, count in _rises(before, after, "nfs", "timeouts"):
        again = _rise(before, after, "nfs", mount, "transmissions") - _rise(before, after, "nfs", mount, "operations")
        parts = [f"{again} were sent again"] if again > 0 else []
        if count > 0:
            parts.append(f"{count} timed out")
        if parts:
            yield f"of the requests to NFS at {mount}, {' and '.join(parts)}"
        connects = _rise(before, after, "nfs", mount, "connects")
        if connects:
            yield f"NFS at {mount} connected to its server anew ({connects} times)"
    sent, again = (
        after.get("network", {}).get(key, 0) - before.get("network", {}).get(key, 0)
        for key in ("sent", "retransmitted")
    )
    if again >= LEAST_SEGMENTS and again > RETRANSMITTED * sent:
        yield f"{again} of {sent} segments of TCP were sent again"
    for counter, value in after.get("lnet", {}).items():
        count = value - before.get("lnet", {}).get(counter, 0)
        if count > 0:
            yield f"LNet counted {counter} {count} times"
    lines = _lines(after)
    if lines:
        more = len(lines) - SHOWN + int(after["kernel"].get("more", 0))
        yield f"its kernel says: {' | '.join(lines[:SHOWN])}" + (f" (and {more} more lines)" if more > 0 else "")
    if after.get("kernel", {}).get("lost"):
        yield "its kernel overwrote part of its log before it was read"


def _lines(after: JsonView) -> list[str]:
    return list(map(str, after.get("kernel", {}).get("lines", ())))


def _new_states(before: JsonView, after: JsonView) -> Iterator[tuple[str, list[str]]]:
    """What each connection went through between two looks. A connection without requests is closed, and is then IDLE.

    The kernel keeps the last states only, so the first of them may be gone in the second look.
    """
    for name, connection in after.get("connections", {}).items():
        then = before.get("connections", {}).get(name, {}).get("history", [])
        now = connection.get("history", [])
        new = [entry for entry in now if entry[0] >= int(before.get("time", 0))]
        for known in range(1, min(len(then), len(now)) + 1):
            if then[-known:] == now[:known]:
                new = now[known:]
        yield name, [str(state) for _, state in new]


def _rise(before: JsonView, after: JsonView, kind: str, name: str, key: str) -> int:
    """By how much a counter rose; what counts from zero since rose to what it is."""
    then, now = (look.get(kind, {}).get(name, {}).get(key, 0) for look in (before, after))
    return int(now - then if now >= then else now)


def _rises(before: JsonView, after: JsonView, kind: str, key: str) -> Iterator[tuple[str, int]]:
    for name in after.get(kind, {}):
        yield name, _rise(before, after, kind, name, key)


def _waits(before: JsonView, after: JsonView) -> Iterator[tuple[str, float]]:
    """How long the longest request of each connection waited at least, in seconds.

    That is the longest ever where it is a new one, else the mean of the times, each weighted by itself.
    """
    for name, connection in after.get("connections", {}).items():
        then = before.get("connections", {}).get(name, {}).get("waits") or [0, 0, 0, 0]
        _, longest, total, squares = connection.get("waits") or [0, 0, 0, 0]
        if longest > then[1]:
            yield name, longest / 1e6
        elif total > then[2] and squares > then[3]:
            yield name, (squares - then[3]) / (total - then[2]) / 1e6


def _named(names: Iterable[str] | JsonView) -> str:
    """'lustre-OST0000, lustre-OST0001 and 4 more', without what tells a client's mounts apart."""
    short = list(map(_plain, names))
    return ", ".join(short[:SHOWN]) + (f" and {len(short) - SHOWN} more" if len(short) > SHOWN else "")


def _plain(name: str) -> str:
    """'lustre-OST0000' of 'lustre-OST0000-osc-ff11'."""
    return re.sub(r"-(osc|mdc)-[0-9a-f]+$", "", name)
