"""Trouble amid a cell on a real Lustre, and what record and report say of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import lustre_vm as real
import pytest
from lustre_vm import LustreProject, ssh

pytestmark = real.MARKS
OST, DEVICE, POINT = f"{real.FSNAME}-OST0000", "/dev/vdc", "/mnt/ost0"
ONE = {"states__capacity": [20], "states__fragmentation": [0], "states__file_size": ["32M"], "headline": []}
CELLS = {"cells__iterations": 1, "cells__transfer_size": ["64K"]}
# Without localrecov an OST that comes back evicts the client on its own node.
BACK = f"until mount -t lustre -o localrecov {DEVICE} {POINT}; do sleep 1; done"
EVICT = "lctl set_param 'obdfilter.*.evict_client='$(lctl get_param -n llite.*.uuid | head -n 1)"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target whose files are on all OSTs."""
    spec = real.declaration(capacity_gib=2, stripe_count=-1, tolerance_mib=4)
    with real.at_work(tmp_path_factory.mktemp("trouble"), spec) as made:
        made.write_study(**ONE, **CELLS)
        yield made


def amid(project: LustreProject, then: str) -> dict:
    """The record of a cell amid which a shell line ran on the Lustre host."""
    project.forget()
    started = project.start("snakemake", *real.ALL)
    real.once_written(then)
    started.wait(timeout=1500)
    records = list(project.records().values())
    assert len(records) == 1, (project.root / "started.log").read_text()
    return records[0]


def test_an_ost_that_is_away_for_a_minute_is_on_record_and_on_top_of_the_report(project: LustreProject) -> None:
    ssh(f"umount {POINT} && {BACK} && sleep 10")
    record = amid(project, f"umount {POINT} && sleep 60 && {BACK}")  # with -f the OST would not know its clients again
    assert record["status"] == "valid", record["why"]
    warnings = "; ".join(record["warnings"])
    assert f"the connection to {OST} was lost" in warnings, warnings
    assert re.search(rf"a request to {OST}\S* waited at least [3-9]\d s", warnings), warnings
    project.done("snakemake", "small")
    (page,) = (project.root / "results").rglob("index.html")
    text = page.read_text()
    assert "1 of 1 valid samples has signs of trouble" in text and "Signs of trouble</h2>" in text


def test_a_server_that_hangs_for_a_minute_and_stays_connected_is_on_record(project: LustreProject) -> None:
    """One request of the OSTs' waits, by Lustre's own means of making faults."""
    try:
        record = amid(project, "lctl set_param fail_val=60 fail_loc=0x80000214")
    finally:
        ssh("lctl set_param fail_loc=0 fail_val=0")
    assert record["status"] == "valid", record["why"]
    warnings = "; ".join(record["warnings"])
    assert re.search(rf"a request to {real.FSNAME}-OST\S* waited at least [5-9]\d s", warnings), warnings


def test_an_evicted_client_is_a_failed_cell(project: LustreProject) -> None:
    record = amid(project, EVICT)
    assert record["status"] == "failed" and f"evicted by {real.FSNAME}-OST" in str(record["why"]), record["why"]
