"""The preallocation that was noted when a target was tuned, and whether its servers still have it."""

from __future__ import annotations

from fsage.host.preallocation.requested import read, size_words
from fsage.host.targets import tuned
from fsage.host.targets.kinds import Servers
from fsage.host.targets.target import Target
from fsage.model.errors import Refusal
from fsage.model.structure import Step
from fsage.model.tuning import PREALLOCATION
from fsage.model.typed import Json, JsonView

TABLE = "prealloc_table"
SHOWN = 3


def of(target: Target) -> Json | None:
    """What tune_prealloc.yml noted of a target."""
    return tuned.whole(target.home).get(PREALLOCATION)


def size_bytes(target: Target) -> int:
    """Bytes that the file system is to give a file at a time; 0: its own choice."""
    return int((of(target) or {}).get("bytes", 0))


def verify_step(target: Target, step: Step) -> None:
    """`Refusal` unless the servers preallocate as much as the step needs to lay out its files."""
    wanted = step.server_preallocation_bytes()
    if not target.has_osts or wanted is None:
        return
    noted = of(target)
    size = read(noted["asked"]).size_bytes if noted else None
    if not noted or (size != wanted and "table" not in noted["asked"]):
        raise Refusal(
            f"target {target.name}: the servers lay out the state's files in extents of {size_words(wanted)}, and "
            f"tune_prealloc.yml set {noted['asked'] if noted else 'nothing'}: run it with "
            f"tune_prealloc_size={size_words(wanted)} first"
        )
    if why := unavailable_because(target.osts, noted):
        raise Refusal(f"target {target.name}: {why}")


def unavailable_because(servers: Servers, noted: JsonView | None) -> str | None:
    """Why the servers have another table than was `noted` when they were tuned; None: the same, or none was set."""
    wanted = {ost: entry[TABLE] for ost, entry in ((noted or {}).get("now") or {}).items() if TABLE in entry}
    if not wanted:
        return None
    tables: dict[str, str] = {}
    for answer in servers.ask_servers(do="prealloc").values():
        tables.update(answer["tables"])
    other = [ost for ost, table in sorted(wanted.items()) if tables.get(ost) != table]
    if not other:
        return None
    described = "; ".join(f"{ost} has {TABLE} {tables.get(ost)!r}" for ost in other[:SHOWN])
    more = f"; {len(other) - SHOWN} more have others" if len(other) > SHOWN else ""
    return (
        f"{described}{more}, and tune_prealloc.yml had set {wanted[other[0]]!r}: an OST loses its table when it is "
        "mounted anew. Another target's tune_prealloc.yml sets it, too. Without a size it sets the last requested "
        "value again"
    )
