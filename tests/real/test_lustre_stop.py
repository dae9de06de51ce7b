"""A second client of a real Lustre suffers from a cell, which is ended for its sake (`stop_if`)."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import lustre_vm as real
import pytest
import second_client
from lustre_vm import HOST, LustreProject, ssh

pytestmark = real.MARKS
THEIRS, TIMES = f"{real.MOUNT}/theirs", "/run/fsage-theirs"
# Each second it looks up a name and reads 1 MiB past its cache; microseconds, a line each.
READS = f"""dd if=/dev/urandom of={THEIRS} bs=1M count=1 conv=fsync 2>/dev/null
setsid nsenter --net=/run/netns/{second_client.NAME} sh -c 'while :; do
  began=$(date +%s%N); stat {THEIRS}-no 2>/dev/null; dd if={THEIRS} of=/dev/null bs=1M iflag=direct 2>/dev/null
  echo $((($(date +%s%N) - began) / 1000)); sleep 1; done' </dev/null >>{TIMES} 2>/dev/null &
echo $! >{TIMES}.pid"""
END = f"kill -- -$(cat {TIMES}.pid); rm -f {TIMES} {TIMES}.pid {THEIRS}"
STUDY = {"states__capacity": [10], "states__fragmentation": [0], "states__file_size": ["64M"], "headline": []}
CELLS = {"cells__iterations": 1, "cells__transfer_size": ["64K"]}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target whose cells take about a minute, on all OSTs."""
    folder = tmp_path_factory.mktemp("stop")
    spec = real.declaration(capacity_gib=4, free_percent=60, stripe_count=-1, tolerance_mib=64)
    spec |= {"amount_mib": 64, "scale": {"file_size": 1, "tasks": 16}, "stop_if": {"slower": 2, "in_a_row": 1}}
    with second_client.second_client(folder) as config, real.at_work(folder, spec, (HOST,), config) as made:
        yield made


def test_a_cell_that_a_second_client_suffers_from_is_stopped(project: LustreProject) -> None:
    project.write_study(**STUDY, **CELLS)
    ssh(READS)
    try:
        ssh("sleep 15")
        quiet = [int(line) for line in ssh(f"cat {TIMES}").split()]
        started = project.start("snakemake", *real.ALL)
        real.once_written(f"sleep 5; : >{TIMES}")
        started.wait(timeout=1500)
        log = (project.root / "started.log").read_text()
        beside = [int(line) for line in ssh(f"cat {TIMES}").split()]
        (record,) = project.records().values()
        assert record["status"] == "stopped" and "others suffer: the last 1 probes" in record["why"], record["why"]
        assert "Traceback" not in log and "stop_if" in log, log[-3000:]
        assert ssh(f"find {real.MOUNT}/fsage/measured -type f").split() == [], "its files are gone"
        assert statistics.median(beside[:10]) > 2 * statistics.median(quiet), (quiet, beside)
    finally:
        ssh(END, check=False)
        project.forget()
