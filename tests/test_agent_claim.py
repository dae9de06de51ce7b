"""What a claim finds out: capacity, rates, and the amount that makes a sample last a second."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fsage.host import claiming
from fsage.host.remote import probe
from fsage.host.targets import Target
from fsage.host.verbs import checks, claim
from fsage.model import tools

Spec = dict[str, Any]


@pytest.mark.long
@pytest.mark.root
def test_the_amount_is_calibrated(local_target, monkeypatch):
    monkeypatch.setattr(claiming, "BACKING_MIB", 128)
    monkeypatch.setattr(claiming, "SAMPLE_S", 0.2)
    local_target |= {"amount_mib": None, "scale": {"tasks": 2}}
    claim.create(local_target, {}, False)
    ours = claim.claim(local_target, {}, False)["claim"]
    found = ours["calibration"]
    assert ours["amount_source"] == "calibrated" and ours["tasks"] == 2
    assert ours["amount_mib"] == 64, "of 15% of 1 GiB, shared by two tasks, 64 MiB is what fits"
    assert ours["passes"] >= 1 and min(found["write_s"], found["read_s"]) >= claiming.SAMPLE_S
    assert found["pair_s"] > found["write_s"] + found["read_s"] and found["backing_read_mib_s"] > 0
    assert f"--loops={ours['passes']}" in found["commands"][-1]


def test_probe_says_what_can_be_done(local_target, directory_target):
    answer = checks.check_site(local_target, {}, False)
    found = answer["probe"]
    assert not answer["changed"] and found["able"] == (not found["missing"])
    assert set(found["tools"]) == {"fio", "ior", "mdtest", "mpirun", "srun", "blastn", "makeblastdb"}
    assert found["io_controller"]["usable"] == (found["io_controller"]["unavailable_because"] is None)
    assert found["kernel"] and found["host"] in answer["msg"]
    assert found["tools"]["srun"] is None, "it is asked only where it launches"
    assert not any("directory" in word for word in probe.probe(directory_target, {})["missing"])
    answer = checks.check_site({**directory_target, "directory": "/dev/shm/x"}, {}, False)
    assert not answer["probe"]["able"] and "which is memory" in answer["msg"]


@pytest.mark.parametrize(
    ("tool", "said", "version"),
    [
        ("fio", "fio-3.33\n", "3.33"),
        ("fio", "fio-3.33-17-g5d16\n", "3.33-17-g5d16"),
        ("ior", "IOR-3.0.1: MPI Coordinated Test of Parallel I/O\n", "3.0.1"),
        ("ior", "some warning of MPI 4.1\nIOR-4.1.0+dev: MPI Coordinated Test of Parallel I/O\n", "4.1.0+dev"),
        ("ior", "Error invalid argument: -w\nInvalid options\nSynopsis ior\n  -t 4.5\n", None),
        (
            "mdtest",
            "-- started at 11/20/2026 --\n\nmdtest-3.3.0 was launched with 1 total task(s) on 1 node(s)",
            "3.3.0",
        ),
        ("mpirun", "mpirun (Open MPI) 4.1.4\n", "4.1.4"),
        ("srun", "slurm 22.05.8\n", "22.05.8"),
        ("mpirun", "HYDRA build details:\n    Version:      4.0.3\n", "4.0.3"),
    ],
)
def test_versions_are_read(tool, said, version):
    assert tools.version_in(tool, said) == version


def test_on_a_modelled_device_the_amount_follows_from_its_rate_and_a_short_pair_shows_that_it_charges():
    spec = {"name": "disk", "amount_mib": None, "scale": {"tasks": 1}, "sparse": False}
    target = SimpleNamespace(name="disk", spec=spec, capacity_bytes=8 << 30, claim={"device_model": {}})
    moved = []

    def pair(each_mib: int, passes: int) -> dict[str, float]:
        moved.append(each_mib * passes)
        return {"write_s": each_mib * passes / 181, "read_s": each_mib * passes / 181}

    assert claiming.amount_for(cast(Target, target), 181.0, pair)["amount_mib"] == 192 and set(moved) == {192}
    moved.clear()
    target.claim["device_model"]["bytes_per_s"] = 190_000_000
    assert claiming.amount_for(cast(Target, target), 181.0, pair)["amount_mib"] == 192 and moved == [64]
