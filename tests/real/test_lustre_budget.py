"""OSTs of a real Lustre lay files out by the preallocation that was set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import lustre_vm as real
import pytest
from lustre_vm import LustreProject

pytestmark = real.MARKS
PREALLOC = {"recipe": "prealloc", "deleted": [4], "files": 24, "seed": 1, "filler": "together"}  # several on each OST
CELLS = {"workload": "sequential", "tool": "fio", "transfer_size": "4M", "iterations": 1}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[LustreProject]:
    """A target that may fill a part of the file system with files of one stripe."""
    with real.at_work(tmp_path, real.declaration(capacity_gib=1)) as made:
        yield made


def test_the_servers_preallocation_decides_the_extents(project: LustreProject) -> None:
    """The published order: larger preallocation, fewer extents."""
    evidence = project.root / "results" / "states"
    extents = {}
    for size in ("1M", "8M"):
        project.write_study(headline=[], states={**PREALLOC, "preallocation_size": [size]}, cells=CELLS)
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
