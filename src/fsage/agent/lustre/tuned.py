"""Whether the servers still have the preallocation that tune_prealloc.yml set: an OST loses its table with each umount.

The launcher compares what it noted with what its servers answer: when a state is laid out by the servers' own
preallocation begins and ends, when a visit begins, and after each cell, whose files are laid by it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from fsage.agent import files
from fsage.agent.errors import Refusal
from fsage.agent.lustre.servercache import Servers
from fsage.agent.prealloc_ask import read, size_words
from fsage.agent.request import Inventory, Request
from fsage.agent.structure.step import Step
from fsage.agent.target import Target

NOTE = "preallocation"  # its key in tunables.json
TABLE = "prealloc_table"
SHOWN = 3


def why_not(servers: Servers, noted: Mapping[str, Any] | None) -> str | None:
    """Why the servers do not have what was `noted` when they were tuned; None when they have, or nothing was set."""
    wanted = {ost: one[TABLE] for ost, one in ((noted or {}).get("now") or {}).items() if TABLE in one}
    if not wanted:
        return None
    there: dict[str, str] = {}
    for answer in servers.ask_servers(do="prealloc").values():
        there.update(answer["tables"])
    other = [ost for ost, table in sorted(wanted.items()) if there.get(ost) != table]
    if not other:
        return None
    said = "; ".join(f"{ost} has {TABLE} {there.get(ost)!r}" for ost in other[:SHOWN])
    more = f"; {len(other) - SHOWN} more have others" if len(other) > SHOWN else ""
    return (
        f"{said}{more}, and tune_prealloc.yml had set {wanted[other[0]]!r}: an OST loses its table when it is mounted "
        "anew. tune_prealloc.yml without a size sets again what was asked for last"
    )


def verify_step(target: Target, request: Request, step: Step) -> None:
    """`Refusal` unless the servers' preallocation is what a step that leaves the pieces to them asks for."""
    from fsage.agent.hosts.others import Hosts, of  # whose agents import this module's users
    from fsage.agent.steps.interleave import TOGETHER, Interleave

    if not target.has_osts or not isinstance(step, Interleave) or step.method != TOGETHER:
        return
    wanted = step.granularity_bytes
    noted = (files.read_json(target.home / "tunables.json") or {}).get(NOTE)
    size = read(noted["asked"]).size_bytes if noted else None
    if not noted or (size != wanted and "table" not in noted["asked"]):
        raise Refusal(
            f"target {target.name}: the state's files are laid out by the servers, in pieces of {size_words(wanted)}, "
            f"and tune_prealloc.yml set {noted['asked'] if noted else 'nothing'}: run it with "
            f"tune_prealloc_size={size_words(wanted)} first"
        )
    hosts = of(request)
    only_servers: Inventory = {"clients": hosts["clients"][:1], "servers": hosts["servers"]}
    with closing(Hosts(target.spec, target.claim, only_servers)) as others:
        if why := why_not(others, noted):
            raise Refusal(f"target {target.name}: {why}")
