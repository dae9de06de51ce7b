"""`fsage_target.stop_if`: what a probe beside the load may see before a cell is ended for the sake of others.

A site sets it in the inventory. The probe (fsage.host.instruments.neighbours) looks up a name, and reads and writes
64 KiB past the cache on each OST that is used, at first soon after the work began, then every EVERY_S.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict, cast

from fsage.model.target import COUNT, LIVE, POSITIVE, Key
from fsage.model.typed import Check

EVERY_S = 5.0
FLOOR_MS = 0.2
"""Nobody suffers from less, however fast the same is usually: so long a busy processor takes."""
MORE_THAN_USUAL = Check(lambda times: times > 1, "more than 1, or null,")


class StopIf(TypedDict):
    """Limits of a probe. `slower`: times the 90th percentile of quiet looks; those in ms: absolute.

    Of the servers that the inventory names: `server_load`, the load average of the last minute of any; `server_ms`, of
    Lustre, the mean time of the reads and writes of any OST since the probe before, whoever asked for them.

    What runs is stopped after `in_a_row` looks above a limit, or after more than a tenth of the last 20. The run then
    ends, or waits for `in_a_row` looks below, at most `wait_minutes`.
    """

    slower: Annotated[float | None, MORE_THAN_USUAL, Key(2.0, LIVE)]
    stat_ms: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    read_ms: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    write_ms: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    server_load: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    server_ms: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    in_a_row: Annotated[int, COUNT, Key(3, LIVE)]
    then: Annotated[Literal["end", "wait"], Key("end", LIVE)]
    wait_minutes: Annotated[float, POSITIVE, Key(60, LIVE)]


LIMITS = ("slower", "stat_ms", "read_ms", "write_ms", "server_load", "server_ms")
"""Keys of which null means no limit."""


def limits(stop_if: StopIf, usual: dict[str, float]) -> dict[str, float]:
    """The limit of each part of the probe in ms: the smaller of the absolute one and the multiple of the usual.

    A part is a kind, `stat`, `read` or `write`, with the name of an OST where there are any.
    """
    limit = {}
    for name, usual_ms in usual.items():
        absolute_ms = cast("float | None", stop_if[f"{name.split()[0]}_ms"])  # type: ignore[literal-required]
        slower_ms = max(stop_if["slower"] * usual_ms, usual_ms + FLOOR_MS) if stop_if["slower"] else None
        both = [absolute_ms, slower_ms]
        known = [value for value in both if value is not None]
        if known:
            limit[name] = min(known)
    return limit
