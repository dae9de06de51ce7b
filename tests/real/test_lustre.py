"""A real Lustre, from claim to release. Minutes each; run with FSAGE_LUSTRE_SSH=HOST ./run pytest -n 0 -m long tests/real."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import lustre_vm as real
import pytest
from lustre_vm import LustreProject, ssh

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not real.HOST, reason=real.WHY_NOT),
]
PAF = {
    "states__capacity": [10],
    "states__file_size": ["64M"],
    "cells__transfer_size": ["4M"],
    "headline": [],
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[LustreProject]:
    """A target on all of the file system, claimed; released in the end, which leaves nothing on it."""
    yield from claimed(tmp_path)


def claimed(tmp_path: Path, **lustre: object) -> Iterator[LustreProject]:
    made = real.project_in(tmp_path / "clone", real.declaration(**lustre))
    made.write_study(**PAF)
    before = real.used_mib()
    try:
        made.done(*made.playing("local_target.yml", "claim.yml"))
        yield made
    finally:
        made.done(*made.playing("release.yml", "local_target.yml", "-e", "fsage_local_target_state=absent"))
        shutil.rmtree(made.env["ANSIBLE_SSH_CONTROL_PATH_DIR"], ignore_errors=True)
    assert not ssh(f"ls -A {real.MOUNT}").split()
    after = real.used_mib()
    assert all(abs(after[ost] - before[ost]) < 1 for ost in before), (before, after)
    assert not ssh("ls -A /var/lib/fsage /run/fsage-ssh-* 2>/dev/null", check=False).split()


def test_each_cell_begins_with_the_space_that_the_state_left(project: LustreProject) -> None:
    """The files of the cell before are gone from the OSTs, and fullness on record counts none of them."""
    project.done("snakemake", *real.ALL)
    records = project.records()
    assert {record["status"] for record in records.values()} == {"valid"}, project.why()
    for state in {record["state"] for record in records.values()}:
        before = [r["osts"]["fullness"]["before"] for r in records.values() if r["state"] == state]
        for ost in before[0]:
            used = [one[ost]["used_bytes"] / real.MIB for one in before]
            assert max(used) - min(used) < 1, (state, ost, used)
    full, half = (next(r for r in records.values() if r["state"] == s) for s in ("10.00", "10.50"))
    deleted = full["layout"]["filler_bytes"] - half["layout"]["filler_bytes"]
    assert deleted > 0
    assert half["layout"]["free_bytes"] - full["layout"]["free_bytes"] == pytest.approx(deleted, abs=6 * real.MIB)
