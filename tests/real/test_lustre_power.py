"""The only node of a real Lustre loses its power amid a cell: the run says so, and the same command goes on."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator

import lustre_vm as real
import pytest
from lustre_vm import HOST, LustreProject

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not real.HOST, reason=real.WHY_NOT),
    pytest.mark.skipif(not real.POWER, reason="FSAGE_LUSTRE_POWER names no program that ends and starts it"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target on all of the file system."""
    with real.at_work(tmp_path_factory.mktemp("power")) as made:
        yield made


def power(word: str) -> None:
    subprocess.run([real.POWER, word], check=True, timeout=900, stdin=subprocess.DEVNULL)


def test_a_node_without_power_ends_the_run_and_the_same_command_goes_on(project: LustreProject) -> None:
    project.write_study(
        states__capacity=[10],
        states__fragmentation=[0],
        states__file_size=["64M"],
        cells__transfer_size=["64K"],
        cells__iterations=3,
        headline=[],
    )
    started = project.start("snakemake", *real.ALL)
    outbox = f"/var/lib/fsage/{project.spec['name']}/outbox"
    real.ssh(f"timeout 600 sh -c 'until find {outbox} -name \"*.json\" | grep -q .; do sleep 0.2; done'", timeout=700)
    real.once_written("true")
    began = time.monotonic()
    power("off")
    try:
        assert started.wait(timeout=600) != 0
        ended_s = time.monotonic() - began
        log = (project.root / "started.log").read_text()
        said = " ".join(log.split())
        print(f"ended {ended_s:.0f} s after the power went: {log[-3000:]}")
        assert f"{HOST}: " in said and "Traceback" not in said, log[-3000:]
        assert "were not measured" in said, log[-3000:]
        printed = " ".join(project.fails("snakemake", *real.ALL).split())
        assert "Traceback" not in printed and HOST in printed, printed[-3000:]
    finally:
        power("on")
    kept = json.loads(real.ssh(f"cat $(find {outbox} -name '*.json' | head -n 1)"))["id"]
    project.done("snakemake", *real.ALL)
    records = project.records()
    assert len(records) == 3 and not any(project.why().values()), project.why()
    assert kept in {record["id"] for record in records.values()}, "what was measured before is not measured again"
