"""The workload `allocator` and the counters beside each cell, on real file systems of a loop device."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_targets import claimed
from states import phases_of
from tiers import first_of

from fsage.base import Failure
from fsage.host.cells.phases import Phases
from fsage.host.remote.remote_hosts import Hosts, inventory_of
from fsage.host.states.inspection import remove_measured
from fsage.host.targets.opening import open_target
from fsage.model import filesystems, signs
from fsage.model.structure import ALONE
from fsage.studies.allocator import host, report
from fsage.studies.allocator import workloads as allocator
from fsage.studies.allocator.model import PlantFreeSpace, considered

MIB, BLOCK = 1 << 20, 4096
NAMES = filesystems.names()


@pytest.fixture(params=first_of("ext4", *sorted({*NAMES} - {"ext4"})))
def phases(local_target: dict, request: pytest.FixtureRequest) -> Iterator[Phases]:
    target = claimed({**local_target, "filesystem": request.param})
    remove_measured(target)
    with closing(Hosts(target.spec, target.claim, inventory_of({}))) as hosts:
        yield phases_of(target, hosts)


def measured(phases: Phases, **more: object) -> tuple[dict[str, dict], dict[str, float]]:
    """A cell's phases by name, and its metrics."""
    params = allocator.Params.model_validate({"workload": "allocator", "iteration": 1, **more})

    def remove() -> None:
        phases.target.remount()  # it may have been shut down
        remove_measured(phases.target)

    taken, why, _ = phases.run({"phases": allocator.commands(params, phases.target.claim)}, remove)
    remove()
    assert why is None, (why, taken)
    observation = {"status": "done", "params": params.model_dump(), "phases": json.loads(json.dumps(taken))}
    outcome = allocator.read({**observation, "conditions": {"filesystem": phases.target.filesystem}})
    assert outcome.status == "valid", outcome
    return {phase["name"]: phase for phase in taken}, outcome.metrics


@given(
    st.lists(st.integers(1, 4000), min_size=2, max_size=12),
    st.integers(1, 99),
    st.integers(1, 64),
    st.sampled_from([0, 128]),
    st.integers(1, 60),
)
def test_planted_free_space_is_as_much_as_requested_and_holes_stay_apart(gaps, fullness, hole, run, place):
    ends = [BLOCK * end for end in itertools.accumulate(gaps)]
    usable = list(zip(ends[::2], ends[1::2], strict=False))
    hole_bytes, run_bytes = hole * BLOCK, run * BLOCK
    try:
        wanted = PlantFreeSpace(1, fullness, hole_bytes, run_bytes, place).wanted(usable)
    except ValueError as why:
        assert "no run of" in str(why)
        return
    assert all(a % BLOCK == 0 and any(start <= a < b <= end for start, end in usable) for a, b in wanted)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(wanted))
    holes = [b - a for a, b in wanted].count(hole_bytes)
    assert holes + (run > 0) * (run != hole) == len(wanted)
    assert run == 0 or any(b - a == run_bytes and a % run_bytes == 0 for a, b in wanted)
    free = sum(end - start for start, end in usable) * (1 - fullness / 100)
    assert sum(b - a for a, b in wanted) <= max(free, run_bytes) + BLOCK


def test_holes_of_a_large_target_are_nearly_as_much_as_requested():
    usable = [(group * 32768 * BLOCK + 260 * BLOCK, (group + 1) * 32768 * BLOCK) for group in range(20)]
    for fullness, hole in itertools.product((50, 85, 99), (1, 16, 256)):
        wanted = PlantFreeSpace(1, fullness, hole * BLOCK, 0, 0).wanted(usable)
        free = sum(end - start for start, end in usable) * (1 - fullness / 100)
        assert sum(b - a for a, b in wanted) == pytest.approx(free, rel=0.03)


@pytest.mark.long
@pytest.mark.root
def test_a_call_is_cold_or_warm_and_what_the_allocator_did_is_counted(phases):
    _, cold = measured(phases, request_size=8 * MIB, cache="cold")
    of_warm, warm = measured(phases, request_size=8 * MIB, cache="warm")
    assert cold["device_reads"] > 0 or phases.target.filesystem == "btrfs"
    assert {"fallocate_ms", "fallocate_cpu_ms", "mount_ms", "umount_ms"} <= warm.keys()
    kernel_threads_are_seen = any(b"kthreadd" in path.read_bytes() for path in Path("/proc").glob("2/comm"))
    assert ("kernel_threads_ms" in warm) == kernel_threads_are_seen
    counts = of_warm["fallocate"]["counters"]["allocator"][0]["counts"]
    if phases.target.filesystem == "ext4":
        assert counts["reqs"] == counts["success"] == 1
        assert 1 <= counts["groups_scanned"] <= warm["groups_considered"]
        # Warm: the bitmap of every group was made into a buddy before the call.
        assert warm["device_reads"] < cold["device_reads"]
        assert "buddies_made" not in warm
    elif phases.target.filesystem == "xfs":
        assert counts["blocks_allocated"] >= 8 * MIB // BLOCK
        assert warm["tree_lookups"] > 0


@pytest.mark.root
def test_a_file_in_extents_is_made_and_unlinked(phases):
    before = phases.target.free(phases.target.mounts[0])
    _, metrics = measured(phases, extents=1500)
    assert 0 < metrics["unlink_ms"] < metrics["freed_ms"]
    assert metrics["device_reads"] > 0
    phases.target.settle()
    assert phases.target.free(phases.target.mounts[0]).counted == before.counted


@pytest.mark.root
def test_ext4_considers_as_many_groups_as_a_planted_layout_makes_it(local_target):
    """A mount option is of its own phases alone."""
    target = claimed(local_target)
    remove_measured(target)
    step = PlantFreeSpace(1, 50, 256 << 10, 64 * MIB, 60)
    notes = host.plant_free_space(step, target, [], ALONE, lambda: None).notes
    with closing(Hosts(target.spec, target.claim, inventory_of({}))) as hosts:
        for optimized in (0, 1):
            of_cells = phases_of(target, hosts)
            taken, metrics = measured(of_cells, request_size=32 * MIB, cache="warm", mb_optimize_scan=optimized)
            assert metrics["groups_considered"] == considered(notes["run_group"], bool(optimized))
            (options,) = taken["fallocate"]["mount_options"]
            assert ("mb_optimize_scan=1" in options.split(",")) == bool(optimized)
    assert not any("mb_optimize_scan" in line for line in target.mount_options())


@pytest.mark.root
def test_bitmaps_of_a_small_ext4_are_in_memory_after_a_reset_unless_it_is_cold(spec):
    for reset, loaded in (("remount", 8), ("cold", 0)):
        target = open_target({**spec, "allocator_reset": reset})
        target.remount()
        assert target.made_of.allocator_counts(target.devices[0])["buddies_generated"] == loaded, reset


def test_unlinking_with_each_value_of_an_option_has_a_row_and_a_line_of_its_own(monkeypatch):
    rows = pd.DataFrame({"mb_optimize_scan": [0, 1, 0, 1], "extents": [9, 9, 99, 99], "median": [5.0, 6, 7, 8]})
    same = {"state": "50.64K", "cache": "cold", "measure": "unlink_ms", "request_size": np.nan, "low": np.nan}
    rows = rows.assign(**same, high=np.nan, n=1, samples=[[1.0]] * 4)
    monkeypatch.setattr(report, "rows_of", lambda data, *measures: rows)
    section = report.unlinks(SimpleNamespace())
    assert [row[:3] for row in section.table[1:3]] == [
        ["50.64K, cold with mb_optimize_scan=0", "9", "5"],
        ["50.64K, cold with mb_optimize_scan=1", "9", "6"],
    ]
    assert [[point.y for point in line.points] for line in section.figures[0].series] == [[5, 7], [6, 8]]


@pytest.mark.parametrize(
    ("end", "why"),
    [(partial(os.listdir, "/none"), "No such file"), (partial(os.kill, 0, signal.SIGKILL), "it was killed")],
)
def test_calls_that_end_early_are_no_result(tmp_path, end, why):
    def ends() -> Iterator[dict]:
        os.setpgid(0, 0)
        yield {"first": True}
        end()

    with pytest.raises(Failure, match=f"ended early: .*{why}"):
        list(host.results(ends, tmp_path, 60.0))


@pytest.mark.long
@pytest.mark.root
def test_a_call_that_does_not_end_is_left_behind_and_the_target_is_free_again(phases):
    mount = phases.target.mounts[0]

    def spins() -> Iterator[dict]:
        yield {"first": True}
        while True:
            mount.joinpath("measured", "made").touch()
            mount.joinpath("measured", "made").unlink()

    first, last = host.results(spins, mount, 0.5)
    assert first == {"first": True}
    assert last["unended"] and last["seconds"] >= 0.5
    assert last["cpu_s"] > 0
    assert last["functions"] and last["freed_by"] == "SIGKILL"
    phases.target.remount()


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
@pytest.mark.timeout(600)
def test_until_full_ends_by_itself_or_at_a_call_that_a_shutdown_ends(new_target, filesystem):
    """Free space is half a million holes of a block: one call for most of it takes seconds, and no signal."""
    target = claimed({**new_target, "size_gib": 4, "sparse": True, "amount_mib": 64, "filesystem": filesystem})
    remove_measured(target)
    host.plant_free_space(PlantFreeSpace(1, 50, BLOCK, 0, 0), target, [], ALONE, lambda: None)
    [mount] = target.mounts
    before = target.free(mount)
    with closing(Hosts(target.spec, target.claim, inventory_of({}))) as hosts:
        phases = phases_of(target, hosts)
        taken, metrics = measured(phases, request_size=3 << 29, until_full=True, limit_s=1)
        (call,) = json.loads(taken["fill"]["stdout"])["calls"]
        assert call["freed_by"] == "shutdown" and call["functions"] and call["cpu_s"] > 0, call
        assert signs.judge([taken["fill"]]).warnings == [], "what follows a shutdown on request is no trouble"
        assert metrics["fill_unended"] == 1 and metrics["fill_ms"] >= 1000 and metrics["given_bytes"] == 0
        assert target.free(mount).counted == before.counted, "what the call took by then is lost"

        taken, metrics = measured(phases, request_size=64 * MIB, until_full=True, limit_s=60)
        last = json.loads(taken["fill"]["stdout"])["calls"][-1]
        assert metrics["fill_unended"] == 0 and metrics["calls"] >= before.bytes // (64 * MIB)
        assert last["bytes"] == BLOCK and last["error"] == "ENOSPC", "down to the last block"
        assert metrics["given_bytes"] <= before.bytes < 1.02 * metrics["given_bytes"], "maps of extents"
        assert target.free(mount).counted == before.counted
