"""A real Lustre, from claim to release: FSAGE_LUSTRE_SSH=HOST ./run pytest -n 0 -m long tests/real/test_lustre.py."""

from __future__ import annotations

import re
from collections.abc import Iterator

import lustre_vm as real
import pytest
from lustre_vm import LustreProject, ssh

pytestmark = real.MARKS
PAF = {
    "states__capacity": [10],
    "states__file_size": ["64M"],
    "cells__transfer_size": ["4M"],
    "headline": [],
}
FULL, HALF = "10.00@64M", "10.50@64M"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target on all of the file system, with a study of two states."""
    with real.at_work(tmp_path_factory.mktemp("lustre")) as made:
        made.write_study(**PAF)
        yield made


def test_each_cell_begins_with_the_space_that_the_state_left(project: LustreProject) -> None:
    """The files of the cell before are gone from the OSTs, and fullness on record counts none of them."""
    project.done("snakemake", *real.ALL)
    records = project.records()
    assert {record["status"] for record in records.values()} == {"valid"}, project.why()
    for state in (FULL, HALF):
        before = [r["osts"]["fullness"]["before"] for r in records.values() if r["state"] == state]
        for ost in before[0]:
            used = [each[ost]["used_bytes"] / real.MIB for each in before]
            assert max(used) - min(used) < 1, (state, ost, used)
    full, half = (next(r for r in records.values() if r["state"] == state) for state in (FULL, HALF))
    deleted = full["layout"]["filler_bytes"] - half["layout"]["filler_bytes"]
    assert deleted > 0
    assert half["layout"]["free_bytes"] - full["layout"]["free_bytes"] == pytest.approx(deleted, abs=6 * real.MIB)
    assert {phase["cached_pages"] for record in records.values() for phase in record["phases"]} == {0}


def test_a_file_of_somebody_else_is_noticed(project: LustreProject) -> None:
    """By the free space of one OST: before a visit, and by the cell during which it was written."""
    project.done("fsage", "remeasure", "small", "--state", HALF)
    foreign = f"{real.MOUNT}/foreign"
    write = f"dd if=/dev/zero of={foreign} bs=1M count=20 oflag=direct status=none"
    remove = f"rm -f {foreign}"
    ssh(write)
    try:
        said = project.done(*project.playing("scrub.yml", "-e", f"fsage_request={project.request(HALF)}", "--check"))
        assert re.search(r"would empty target lvm: the target was changed since epoch \d+: lustre-OST\d+ holds", said)
    finally:
        ssh(remove)
        real.used_mib()
    started = project.start("snakemake", *real.ALL)
    try:
        real.once_written(write)
        started.wait(timeout=900)
    finally:
        ssh(remove)
        real.used_mib()
    failed = {name: why for name, why in project.why().items() if why}
    assert len(failed) == 1, project.log()
    assert re.search(
        r"cleaning up failed: .*lustre-OST\d+ holds .*\. Either somebody else writes", str(failed.popitem()[1])
    )


def test_a_table_that_a_remount_takes_is_noticed(project: LustreProject) -> None:
    project.done(*project.playing("tune_prealloc.yml", "-e", "tune_prealloc_size=4MiB"))
    assert set(real.tables().values()) == {"256 512 1024"}
    project.done("fsage", "remeasure", "small", "--state", HALF, "--cell", "transfer_size-4M_i1")
    ssh("umount /mnt/ost0 && mount -t lustre /dev/vdc /mnt/ost0 && sleep 5")
    said = project.fails("snakemake", *real.ALL)
    assert f"lustre-OST0000 has prealloc_table '{real.OWN_TABLE}', and tune_prealloc.yml had set '256 512 1024'" in said
    project.done(*project.playing("tune_prealloc.yml"))
    assert set(real.tables().values()) == {"256 512 1024"}
    project.done("snakemake", *real.ALL)
    assert not any(project.why().values()), project.why()
    project.done(*project.playing("tune_prealloc.yml", "-e", "tune_prealloc_state=restored"))
    assert set(real.tables().values()) == {real.OWN_TABLE}
