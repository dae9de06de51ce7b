"""A second client of a real Lustre suffers from a cell, which is ended for its sake (`stop_if`)."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator

import lustre_vm as real
import pytest
import second_client
from lustre_vm import HOST, LustreProject, ssh

pytestmark = real.MARKS
THEIRS, TIMES = f"{real.MOUNT}/theirs", "/run/fsage-theirs"
OTHER = f"""import mmap, os, time
with open("{THEIRS}", "wb") as file:
    file.write(os.urandom(1 << 20))
buffer, file = mmap.mmap(-1, 1 << 20), os.open("{THEIRS}", os.O_RDONLY | os.O_DIRECT)
while True:
    began = time.monotonic()
    os.preadv(file, [buffer], 0)
    print(time.time(), round(1000 * (time.monotonic() - began), 1), flush=True)
    time.sleep(0.1)
"""
"""A process of the second client: when it had read 1 MiB past its cache, and how many ms that took."""
READS = f"""setsid nsenter --net=/run/netns/{second_client.NAME} python3 -c '{OTHER}' </dev/null >>{TIMES} 2>&1 &
echo $! >{TIMES}.pid"""
END = f"kill -- -$(cat {TIMES}.pid); rm -f {TIMES} {TIMES}.pid {THEIRS}"
STUDY = {"states__capacity": [10], "states__fragmentation": [0], "states__file_size": ["64M"], "headline": []}
CELLS = {"cells__iterations": 1, "cells__transfer_size": ["4M"]}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target whose cells take many seconds, on all OSTs."""
    folder = tmp_path_factory.mktemp("stop")
    spec = real.declaration(capacity_gib=4, free_percent=60, stripe_count=-1, tolerance_mib=64)
    spec |= {"amount_mib": 128, "scale": {"file_size": 1, "tasks": 16}, "stop_if": {"slower": 2, "in_a_row": 1}}
    with second_client.second_client(folder) as config, real.at_work(folder, spec, (HOST,), config) as made:
        yield made


def raw(project: LustreProject, record: dict) -> dict:
    """What the host told of a cell."""
    return json.loads((project.root / "results" / record["raw"]["path"]).read_text())


def test_a_cell_that_a_second_client_suffers_from_is_stopped(project: LustreProject) -> None:
    project.write_study(**STUDY, **CELLS)
    ssh(READS)
    try:
        ssh("sleep 75")
        project.done("snakemake", *real.ALL)
        (record,) = project.records().values()
        assert record["status"] == "stopped" and "others suffer: the probe (" in record["why"], record["why"]
        assert ssh(f"find {real.MOUNT}/fsage/measured -type f").split() == [], "its files are gone"
        told = project.fails("snakemake", "small")
        assert "stopped: 10.00@64M transfer_size-4M_i1: stop_if: others suffer" in told, told[-3000:]
        looks = raw(project, record)["phases"][0]["signs"]
        began, ended = (looks[when][HOST]["time"] for when in ("before", "after"))
        reads = [tuple(map(float, line.split())) for line in ssh(f"cat {TIMES}").splitlines()]
        quiet = [ms for at, ms in reads if at < reads[0][0] + 70]
        beside = [ms for at, ms in reads if began < at < ended]
        assert statistics.quantiles(beside, n=10)[-1] > 2 * statistics.quantiles(quiet, n=10)[-1], (quiet, beside)
    finally:
        ssh(END, check=False)
        project.forget()


def test_a_cell_is_stopped_when_requests_take_long_on_a_server(project: LustreProject) -> None:
    """By the counters of its OSTs, which anybody may read who can log in there."""
    project.declare(stop_if={"slower": None, "server_ms": 0.2, "in_a_row": 1})
    project.write_study(**STUDY, **CELLS)
    project.done("snakemake", *real.ALL)
    (record,) = project.records().values()
    assert record["status"] == "stopped", record["why"]
    assert "in ms, a request of an OST took" in record["why"], record["why"]
    assert raw(project, record)["probe"]["servers"][-1]["server_ms"] > 0.2
    project.forget()
