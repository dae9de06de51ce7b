"""A file in a given number of extents on a full file system, and the same file defragmented: real XFS and ext4."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from local_targets import claimed
from states import MIB, bring, populate
from tiers import first_of

from fsage import workloads
from fsage.base import Failure
from fsage.host.cells import measure
from fsage.host.states import state
from fsage.host.system.files import read_json
from fsage.host.targets.opening import open_target
from fsage.model import structure
from fsage.model.structure import path_of
from fsage.studies.defrag import host

pytestmark = pytest.mark.root
EXTENTS = 150
PIECES = structure.read({"kind": "fragmented_file", "generation": 1, "percent": 4, "extents": EXTENTS})
OTHERS = populate(84, 2, (MIB,))
VACATE = structure.read({"kind": "free_reserved_run", "generation": 1})
DEFRAGMENT = structure.read({"kind": "defragment", "generation": 1, "scope": "file", "time_limit_s": 60})


def cell(claimed: dict, cache: str, reads: int) -> dict:
    params = {"workload": "file_read", "cache": cache, "transfer_size": MIB, f"{cache}_reads": reads, "iteration": 1}
    phases = workloads.load("file_read").commands(workloads.load("file_read").Params.model_validate(params), claimed)
    return {"name": cache, "kind": "planned", "order": 1, "attempt": 1, "params": params, "phases": phases}


@pytest.mark.parametrize("filesystem", first_of("ext4", "xfs"))
def test_a_file_in_pieces_is_defragmented_and_read_cold_and_warm(local_target, filesystem, monkeypatch):
    local_target["filesystem"] = filesystem
    claimed(local_target)
    before = bring(local_target, PIECES, OTHERS, VACATE)
    assert EXTENTS <= before["notes"]["fragmented_file"]["extents"] <= 1.05 * EXTENTS
    target = open_target(local_target)
    request = {"study": "test", "state": "wanted", "steps": [PIECES, OTHERS, VACATE], "reuse": "nested"}
    request["cells"] = [cell(target.claim, "cold", 2), cell(target.claim, "warm", 3)]
    assert measure.measure(local_target, request, False)["measured"] == 2
    seen = {Path(p).name: p for p in map(str, (target.home / "outbox").rglob("*.json"))}
    cold, warm = (read_json(Path(seen[f"{name}.1.json"])) for name in ("cold", "warm"))
    size = path_of(target.mounts, 1, 0).stat().st_size
    for observation, times in ((cold, 2), (warm, 3)):
        outcome = workloads.load("file_read").read(observation)
        assert (outcome.status, outcome.metrics.get("read_bytes")) == ("valid", times * size), outcome.why
    assert [phase["cached_pages"] for phase in cold["phases"]] == [0, 0]
    assert warm["phases"][1]["cached_pages"] * os.sysconf("SC_PAGE_SIZE") >= size
    assert workloads.load("file_read").read({**cold, "layout": {**cold["layout"], "steps": []}}).status == "failed"

    after = bring(local_target, PIECES, OTHERS, VACATE, DEFRAGMENT)
    assert after["instance"] == before["instance"], "the very file that was measured is defragmented"
    found = after["notes"]["defragment"]
    assert found["before"]["extents"] == before["notes"]["fragmented_file"]["extents"]
    assert found["after"]["extents"] <= 3, found["left"]
    assert found["moved_bytes"] > 0.9 * size and len(found["sha256"]) == 64


@pytest.mark.long
def test_a_file_that_holds_something_else_afterwards_fails_the_step(spec, monkeypatch):
    """The tools do not do that; what compares must notice it all the same."""
    bring(spec, PIECES, OTHERS, VACATE)
    real = host.defragmentation.defragment

    def wrong(where, filesystem, time_limit_s):
        done = real(where, filesystem, time_limit_s)
        with open(where[0], "r+b") as file:
            file.seek(MIB)
            file.write(b"other")
        return done

    monkeypatch.setattr(host.defragmentation, "defragment", wrong)
    with pytest.raises(Failure, match="has another content after e4defrag than before"):
        bring(spec, PIECES, OTHERS, VACATE, DEFRAGMENT)
    request = {"state": "wanted", "steps": [PIECES, OTHERS, VACATE, DEFRAGMENT], "study": "test"}
    assert "interrupted" in state.diagnose(spec, request, False)["why"]
