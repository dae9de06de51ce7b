"""`fsage_target.stop_if`: what a probe beside the load may see before a cell is ended for the sake of others.

A site sets it in the inventory. The probe (fsage.host.cells.probe) looks up a name and reads 1 MiB every EVERY_S.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict, cast

from fsage.model.target import COUNT, LIVE, POSITIVE, Key
from fsage.model.typed import Check

EVERY_S = 5.0
MORE_THAN_USUAL = Check(lambda times: times > 1, "more than 1, or null,")


class StopIf(TypedDict):
    """Limits of a probe. `slower`: times the 99th percentile of quiet probes; `stat_ms`, `read_ms`: absolute ones.

    Of the servers that the inventory names: `server_load`, the load average of the last minute of any; `server_ms`, of
    Lustre, the mean time of the reads and writes of any OST since the probe before, whoever asked for them.

    A cell is stopped after `in_a_row` probes above a limit. The run then ends, or waits for as many below, at most
    `wait_minutes`.
    """

    slower: Annotated[float | None, MORE_THAN_USUAL, Key(2.0, LIVE)]
    stat_ms: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    read_ms: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    server_load: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    server_ms: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    in_a_row: Annotated[int, COUNT, Key(3, LIVE)]
    then: Annotated[Literal["end", "wait"], Key("end", LIVE)]
    wait_minutes: Annotated[float, POSITIVE, Key(60, LIVE)]


LIMITS = ("slower", "stat_ms", "read_ms", "server_load", "server_ms")
"""Keys of which null means no limit."""


def limits(stop_if: StopIf, usual: dict[str, float]) -> dict[str, float]:
    """The limit of each kind of probe in ms: the smaller of the absolute one and the multiple of the usual."""
    limit = {}
    for name, usual_ms in usual.items():
        absolute_ms = cast("float | None", stop_if[f"{name}_ms"])  # type: ignore[literal-required]  # stat or read
        both = [absolute_ms, stop_if["slower"] * usual_ms if stop_if["slower"] else None]
        if known := [value for value in both if value is not None]:
            limit[name] = min(known)
    return limit
