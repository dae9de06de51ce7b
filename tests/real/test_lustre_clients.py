"""Two clients of a real Lustre: IOR on one file and BLAST by MPI, netflow; and a client that loses its power."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import ahead
import lustre_vm as real
import pytest
import second_client
import yaml
from lustre_vm import HOST, LustreProject, ssh

pytestmark = real.MARKS
BOTH = (HOST, second_client.NAME)
STRIPES = {"recipe": "striping", "pattern": ["IOR.4"], "default": "IOR.4"}
AHEAD = "/var/lib/fsage-ahead"  # programs may not be run from /run
TCP = ["--mca", "btl_tcp_if_include", f"{second_client.HERE}/24"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target of two clients."""
    folder = tmp_path_factory.mktemp("clients")
    spec = {**real.declaration(), "launcher_options": TCP}
    with second_client.second_client(folder) as config, real.at_work(folder, spec, BOTH, config) as made:
        yield made


@pytest.mark.parametrize("realisation", ["pfl", "segments"])
def test_iors_tasks_on_two_clients_share_a_file(project: LustreProject, realisation: str) -> None:
    cells = {"workload": "striped_file", "transfer_size": "1M", "iterations": 1}
    (record,) = project.measured(headline=[], states={**STRIPES, "realisation": realisation}, cells=cells).values()
    phase = record["phases"][0]
    assert f"{HOST}:2,{second_client.NAME}:2" in phase["argv"] or "beside" in phase
    assert sum(phase["placement"]["stripes"].values()) == 2 + 3
    assert phase["cached_pages"] == 0 and set(record["hosts"]) == set(BOTH)


def test_netflows_tasks_on_two_clients_share_the_work(project: LustreProject) -> None:
    patterns = {"recipe": "striping", "pattern": ["netflow.4"], "default": "netflow.4"}
    cells = {"workload": "netflow", "distribution": ["synchronous", "asynchronous"], "iterations": 1}
    records = project.measured(headline=[], states=patterns, cells={**cells, "models_read": 64})
    assert len(records) == 2
    for record in records.values():
        raw = json.loads((project.root / "results" / record["raw"]["path"]).read_text())
        for phase in raw["phases"]:
            tasks = {name: json.loads(each["stdout"])["tasks"] for name, each in phase["by_host"].items()}
            assert tasks == dict.fromkeys(BOTH, 2)
    assert len({record["metrics"]["models_checksum"] for record in records.values()}) == 1


def test_blastn_is_launched_by_mpi(project: LustreProject) -> None:
    if not ssh("command -v blastn makeblastdb", check=False):
        pytest.skip(f"{HOST} has no blastn: apt-get install ncbi-blast+ there")
    states = {"recipe": "blast", "pattern": ["blast.10"], "default": "blast.10", "seed": 1}
    states["database"] = {"volumes": 8, "percent": 50, "queries": 4}
    cells = {"workload": "blast", "processes": 4, "iterations": 1}
    (record,) = project.measured(headline=[], states=states, cells=cells).values()
    search = record["phases"][0]
    assert all("mpirun" in each["argv"] for each in (search, *search["beside"]))
    assert record["metrics"]["search_hits"] >= 4


def test_a_client_whose_clock_is_5_s_ahead_is_refused_before_anything_is_done(project: LustreProject) -> None:
    """Both share a kernel, so the second client's Python gets another clock."""
    ssh(f"mkdir {AHEAD} && {ahead.make(AHEAD)}", stdin=ahead.SOURCE)
    hosts = project.root / "inventories" / project.spec["name"] / "hosts.yml"
    before = hosts.read_text()
    inventory = yaml.safe_load(before)
    inventory["all"]["children"]["clients"]["hosts"][second_client.NAME] = {
        "ansible_python_interpreter": f"{AHEAD}/python3"
    }
    hosts.write_text(yaml.safe_dump(inventory))
    project.write_study(headline=[])
    files = f"find {real.MOUNT}/fsage -printf '%p %T@\\n' | sort"
    there = ssh(files)
    try:
        for words in (("snakemake", *real.ALL), ("fsage", "--target", project.spec["name"], "site", "small")):
            printed = project.fails(*words)
            assert re.search(ahead.refused(second_client.NAME), printed), printed[-3000:]
        assert not project.records() and ssh(files) == there
    finally:
        hosts.write_text(before)
        ssh(f"rm -r {AHEAD}")


def test_a_client_without_power_ends_the_run_and_the_same_command_goes_on(project: LustreProject) -> None:
    project.write_study(
        states__capacity=[10],
        states__fragmentation=[0],
        states__file_size=["64M"],
        cells__tool="ior",
        cells__transfer_size=["64K"],
        cells__iterations=2,
        headline=[],
    )
    started = project.start("snakemake", *real.ALL)
    real.once_written("true")
    second_client.power_off()
    assert started.wait(timeout=900) != 0
    said = " ".join((project.root / "started.log").read_text().split())
    assert f"host {second_client.NAME} was lost" in said, said[-3000:]
    second_client.power_on()
    project.done("snakemake", *real.ALL)
    assert len(project.why()) == 2 and not any(project.why().values()), project.why()
