"""Steps, and bringing a target into a state as the playbooks do."""

from __future__ import annotations

from typing import Any

from fsage.agent import state

MIB = 1 << 20


def populate(
    percent: int,
    generation: int = 1,
    sizes: tuple[int, ...] = (8 * MIB,),
    method: str = "fallocate",
    request_bytes: int = 4 * MIB,
    files_at_once: int = 4,
) -> dict:
    return {
        "kind": "populate",
        "generation": generation,
        "percent": percent,
        "file_bytes": list(sizes),
        "seed": 67005,
        "method": method,
        "request_bytes": request_bytes,
        "files_at_once": files_at_once,
    }


def fragment(percent: int, generation: int = 1) -> dict:
    return {"kind": "fragment", "generation": generation, "percent": percent, "seed": 67005}


def bring(spec: dict, *steps: dict, reuse: str = "nested", shards: int = 1) -> dict[str, Any]:
    """What the playbooks do, by the same verbs; returns the token."""
    request = {"state": "wanted", "steps": list(steps), "reuse": reuse, "study": "test"}
    state.scrub(spec, request, False)
    for step in steps:
        begun = state.begin(step["kind"], spec, request, False)
        if begun["due"]:
            for index in range(shards):
                shard = {"index": index, "count": shards, "threads": shards}
                state.work(spec, request, begun["step"], shard)
            state.end(spec, request, begun["step"])
    return state.evidence(spec, request, False)["evidence"]["token"]
