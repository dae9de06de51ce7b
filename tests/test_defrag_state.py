"""A file in a given number of extents on a full file system, and the same file defragmented: real XFS and ext4."""

from __future__ import annotations

import os

import pytest
from local_targets import claimed
from measuring import asked, cell, observed
from states import MIB, bring, populate
from tiers import first_of

from fsage.base import Failure
from fsage.host import states
from fsage.host.cells import measure
from fsage.host.targets.opening import open_target
from fsage.model import structure
from fsage.model.structure import path_of
from fsage.studies.defrag import host
from fsage.studies.defrag import workloads as file_read

pytestmark = pytest.mark.root
EXTENTS = 150
PIECES = structure.read({"kind": "fragmented_file", "generation": 1, "percent": 4, "extents": EXTENTS})
OTHERS = populate(84, 2, (MIB,))
VACATE = structure.read({"kind": "free_reserved_run", "generation": 1})
STEPS = [PIECES, OTHERS, VACATE]
DEFRAGMENT = structure.read({"kind": "defragment", "generation": 1, "scope": "file", "time_limit_s": 60})


def reading(spec: dict, cache: str, reads: int) -> dict:
    params = {"workload": "file_read", "cache": cache, "transfer_size": MIB, f"{cache}_reads": reads, "iteration": 1}
    phases = file_read.commands(file_read.Params.model_validate(params), open_target(spec).claim)
    return {**cell(spec, cache), "params": params, "phases": phases}


@pytest.mark.parametrize("filesystem", first_of("ext4", "xfs"))
def test_a_file_in_pieces_is_defragmented_and_read_cold_and_warm(local_target, filesystem):
    local_target["filesystem"] = filesystem
    claimed(local_target)
    before = bring(local_target, *STEPS)
    pieces = before["notes"]["fragmented_file"]["extents"]
    assert EXTENTS <= pieces <= 1.05 * EXTENTS
    cells = [reading(local_target, "cold", 2), reading(local_target, "warm", 3)]
    assert measure.measure(local_target, asked(cells, steps=STEPS, state="wanted"), False)["measured"] == 2
    size = path_of(open_target(local_target).mounts, 1, 0).stat().st_size
    cold, warm = (observed(local_target, name)[0] for name in ("cold", "warm"))
    for observation, times in ((cold, 2), (warm, 3)):
        outcome = file_read.read(observation)
        assert (outcome.status, outcome.metrics.get("read_bytes")) == ("valid", times * size), outcome.why
    assert [phase["cached_pages"] for phase in cold["phases"]] == [0, 0]
    assert warm["phases"][1]["cached_pages"] * os.sysconf("SC_PAGE_SIZE") >= size
    assert file_read.read({**cold, "layout": {**cold["layout"], "steps": []}}).status == "failed"

    after = bring(local_target, *STEPS, DEFRAGMENT)
    assert after["instance"] == before["instance"], "the very file that was measured is defragmented"
    found = after["notes"]["defragment"]
    assert found["before"]["extents"] == pieces
    assert found["after"]["extents"] <= 3, found["left"]
    assert found["moved_bytes"] > 0.9 * size and len(found["sha256"]) == 64


@pytest.mark.long
def test_a_file_that_holds_something_else_afterwards_fails_the_step(spec, monkeypatch):
    """The tools do not do that; what compares must notice it all the same."""
    bring(spec, *STEPS)
    real = host.defragmentation.defragment

    def wrong(where, filesystem, time_limit_s):
        done = real(where, filesystem, time_limit_s)
        with open(where[0], "r+b") as file:
            file.write(b"other")
        return done

    monkeypatch.setattr(host.defragmentation, "defragment", wrong)
    with pytest.raises(Failure, match="has another content after e4defrag than before"):
        bring(spec, *STEPS, DEFRAGMENT)
    assert "interrupted" in states.diagnose(spec, asked([], steps=[*STEPS, DEFRAGMENT]), False)["why"]
