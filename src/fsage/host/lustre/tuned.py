"""Whether the servers still have the preallocation that tune_prealloc.yml set: an OST loses its table with each umount.

The launcher compares what it noted with what its servers answer: when a state is laid out by the servers' own
preallocation begins and ends, when a visit begins, and after each cell, whose files are laid by it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fsage.host.lustre.servercache import Servers

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
