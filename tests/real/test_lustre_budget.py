"""On a real Lustre no state takes more than the budget; its OSTs lay files out by the preallocation that was set."""

from __future__ import annotations

import json
from collections.abc import Iterator

import lustre_vm as real
import pytest
from lustre_vm import LustreProject

pytestmark = real.MARKS
BUDGET_MIB = 1024
PREALLOC = {"recipe": "prealloc", "preallocation_size": ["1M"], "deleted": [1], "files": 4, "seed": 1}
CELLS = {"workload": "sequential", "tool": "fio", "transfer_size": "4M", "iterations": 1}


@pytest.fixture(scope="module", params=[1, -1])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target that may fill a part of the file system: files of one stripe, or of all."""
    spec = real.declaration(capacity_gib=BUDGET_MIB / 1024, stripe_count=request.param)
    with real.at_work(tmp_path_factory.mktemp("budget"), spec) as made:
        yield made


def test_a_state_that_is_full_holds_the_budget_and_no_more(project: LustreProject) -> None:
    before = real.used_mib()
    records = project.measured(headline=[], states=PREALLOC, cells=CELLS)
    for record in records.values():
        layout, full = record["layout"], record["state"] == "1M.01"
        assert layout["free_bytes"] >= 0 and 0 <= layout["used_bytes"] <= layout["capacity_bytes"]
        used = record["osts"]["fullness"]["before"]
        there = sum(each["used_bytes"] for each in used.values()) / real.MIB - sum(before.values())
        assert there <= BUDGET_MIB
        assert not full or there > 0.7 * BUDGET_MIB, "one file of four, and one, was deleted"
        striped = project.spec["lustre"]["stripe_count"] != 1
        assert bool(layout["notes"].get("digest", {}).get("absent")) == (striped and layout["filler_files"] > 0)


def test_the_servers_preallocation_decides_the_extents(project: LustreProject) -> None:
    """The published order: larger preallocation, fewer extents. Files with several stripes do not say."""
    if project.spec["lustre"]["stripe_count"] != 1:
        pytest.skip("FIEMAP gives extents of files of one stripe only")
    states = {**PREALLOC, "files": 24, "deleted": [4], "filler": "together"}  # several on each OST
    evidence = project.root / "results" / "states"
    extents = {}
    for size in ("1M", "8M"):
        project.write_study(headline=[], states={**states, "preallocation_size": [size]}, cells=CELLS)
        said = project.fails("snakemake", *real.ALL)
        assert "tune_prealloc_size" in said and f"in extents of {size}iB" in said
        project.done(*project.playing("tune_prealloc.yml", "-e", f"tune_prealloc_size={size}iB"))
        project.done("snakemake", *real.ALL)
        assert not any(project.why().values()), project.why()
        place = evidence / project.spec["name"] / "small" / f"{size}.04.json"
        filler = json.loads(place.read_text())["layout"]["stores"][-1]["files"]["filler"]
        extents[size] = filler["extents"] / filler["files"]
        project.forget()
    assert extents["1M"] > 2 * extents["8M"], extents
    project.done(*project.playing("tune_prealloc.yml", "-e", "tune_prealloc_state=restored"))
