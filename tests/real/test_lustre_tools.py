"""IOR, mdtest, stripes and an evicted client on a real Lustre. As test_lustre.py, minutes each."""

from __future__ import annotations

import json
from collections.abc import Iterator

import lustre_vm as real
import pytest
from lustre_vm import LustreProject

pytestmark = real.MARKS
ONE = {"states__capacity": [10], "states__fragmentation": [0], "states__file_size": ["64M"], "headline": []}
STRIPES = {"headline": [], "states": {"recipe": "striping", "pattern": ["IOR.1", "IOR.4"], "default": "IOR.1"}}
TOO_LATE = "after another one had ended, not beside it"
STRIPED = {"workload": "striped_file", "transfer_size": "1M", "iterations": 1}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target on all of the file system."""
    with real.at_work(tmp_path_factory.mktemp("lustre")) as made:
        yield made


def test_ior_writes_and_reads(project: LustreProject) -> None:
    cells = {"cells__tool": "ior", "cells__iterations": 1, "cells__transfer_size": ["4M"]}
    (record,) = project.measured(**ONE, **cells).values()
    assert record["phases"][0]["argv"][0] == "mpirun" and record["metrics"]["write_bw_mib_s"] > 0
    assert sum(record["phases"][0]["placement"]["stripes"].values()) == 2, "a file of one stripe for each task"


def test_an_edit_of_what_the_claim_froze_is_applied_or_refused(project: LustreProject) -> None:
    """Applied: how tasks are launched, on record with the cell. Refused: what a task moves."""
    options = ["--mca", "btl", "self,sm"]
    project.declare(launcher_options=options)
    try:
        cells = {"cells__tool": "ior", "cells__iterations": 1, "cells__transfer_size": ["4M"]}
        (record,) = project.measured(**ONE, **cells).values()
        argv = record["phases"][0]["argv"]
        assert argv[argv.index("--mca") :][:3] == options
        assert record["conditions"]["launch"]["launcher_options"] == options
        project.declare(amount_mib=64)
        said = project.fails("snakemake", *real.ALL)
        assert "was claimed with amount_mib 32, and 64 is declared now; nothing was touched" in said
    finally:
        project.declare(launcher_options=[], amount_mib=32)


def test_mdtest_counts_and_is_cold(project: LustreProject) -> None:
    cells = {"workload": "metadata", "tool": "mdtest", "files_per_task": 100, "iterations": 1}
    (record,) = project.measured(**ONE, cells=cells).values()
    assert {"create_per_s", "stat_per_s", "remove_per_s"} <= set(record["metrics"])
    assert all(phase["cached_pages"] == 0 for phase in record["phases"])


@pytest.mark.parametrize("realisation", ["pfl", "segments"])
def test_a_file_lies_in_its_stripes(project: LustreProject, realisation: str) -> None:
    """On 6 OSTs 4 stripes are 2 and 8 are 3; what lies elsewhere is a failed cell."""
    study = json.loads(json.dumps(STRIPES))
    study["states"]["realisation"] = realisation
    project.write_study(**study, cells=STRIPED)
    for _ in range(3):  # a machine where a program takes so long to start may not have two IORs at work at once
        project.run("snakemake", *real.ALL)
        records = project.records()
        if not any(TOO_LATE in (why or "") for why in project.why().values()):
            break
        project.done("fsage", "remeasure", "small", "--failed")
    assert records and not any(project.why().values()), project.why()
    project.forget()
    counts = {r["state"]: sum(r["phases"][0]["placement"]["stripes"].values()) for r in records.values()}
    assert counts == {"IOR.1": 2, "IOR.4": 2 + 3}


def test_an_evicted_client_fails_its_cell_and_the_next_is_valid(project: LustreProject) -> None:
    project.write_study(**ONE, cells__iterations=2, cells__transfer_size=["64K"])
    started = project.start("snakemake", *real.ALL)
    real.once_written(
        "uuid=$(lctl get_param -n llite.*.uuid | head -n 1); "
        "for ost in 0 1 2 3 4 5; do lctl set_param obdfilter.lustre-OST000$ost.evict_client=$uuid; done"
    )
    started.wait(timeout=1500)
    why = project.why()
    assert len(why) == 2 and sum(each is not None for each in why.values()) <= 1, (
        why,
        (project.root / "started.log").read_text(),
    )
    project.done("fsage", "remeasure", "small", "--state", "10.00@64M")
