"""`fsage_target.stop_if`: what a probe beside the load may see before a cell is ended for the sake of others.

A site sets it in the inventory. The probe (fsage.host.cells.probe) looks up a name and reads 1 MiB every EVERY_S.
"""

from __future__ import annotations

from typing import Literal, TypedDict, cast

from fsage.model.errors import Refusal
from fsage.model.typed import Json

EVERY_S = 5.0


class StopIf(TypedDict):
    """Limits of a probe. `slower`: times the 99th percentile of quiet probes; `stat_ms`, `read_ms`: absolute ones.

    A cell is stopped after `in_a_row` probes above a limit. The run then ends, or waits for as many below, at most
    `wait_minutes`.
    """

    slower: float | None
    stat_ms: float | None
    read_ms: float | None
    in_a_row: int
    then: Literal["end", "wait"]
    wait_minutes: float


USUAL: Json = {"slower": 2.0, "stat_ms": None, "read_ms": None, "in_a_row": 3, "then": "end", "wait_minutes": 60}


def complete(given: object) -> StopIf:
    """The block with every key. Raises Refusal."""
    where = "fsage_target.stop_if"
    if not isinstance(given, dict) or given.keys() - USUAL.keys():
        raise Refusal(f"{where} is {given!r:.100}: a block with some of {', '.join(USUAL)} is wanted")
    full = {**USUAL, **given}
    if full["then"] not in ("end", "wait"):
        raise Refusal(f"{where}.then is {full['then']!r}: allowed are end and wait")
    for key in ("slower", "stat_ms", "read_ms", "in_a_row", "wait_minutes"):
        value = full[key]
        if value is None and key in ("slower", "stat_ms", "read_ms"):
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e6:
            raise Refusal(f"{where}.{key} is {value!r}: a positive number is wanted")
    if not isinstance(full["in_a_row"], int):
        raise Refusal(f"{where}.in_a_row is {full['in_a_row']!r}: a whole number is wanted")
    if full["slower"] is not None and full["slower"] <= 1:
        raise Refusal(f"{where}.slower is {full['slower']!r}: more than 1 is wanted, or null")
    if all(full[key] is None for key in ("slower", "stat_ms", "read_ms")):
        raise Refusal(f"{where} has no limit: give slower, stat_ms or read_ms")
    return cast(StopIf, full)


def limits(stop_if: StopIf, usual: dict[str, float]) -> dict[str, float]:
    """The limit of each kind of probe in ms: the smaller of the absolute one and the multiple of the usual."""
    limit = {}
    for name, usual_ms in usual.items():
        absolute_ms = cast("float | None", stop_if[f"{name}_ms"])  # type: ignore[literal-required]
        both = [absolute_ms, stop_if["slower"] * usual_ms if stop_if["slower"] else None]
        if known := [value for value in both if value is not None]:
            limit[name] = min(known)
    return limit
