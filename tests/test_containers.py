"""Measuring in containers: which commands, what is refused before anything is changed; for real in test_apptainer."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from fsage import workloads
from fsage.base import Refusal
from fsage.host import containers
from fsage.host.remote import probe
from fsage.host.verbs import claim
from fsage.workloads import sequential

MIB = 1 << 20
CLAIM = {
    "kind": "loop",
    "stores": [{"mount": "/m/0", "image_id": {"bytes": 1 << 30}}, {"mount": "/m/1"}],
    "amount_mib": 32,
    "tasks": 2,
    "tools": {"fio": "3.33", "ior": "4.0.0", "mdtest": "4.0.0", "mpirun": "4.1.4"},
    "containers": "/images",
}
FIO = ["apptainer", "exec", "--bind", "/m/0", "--bind", "/m/1", "/images/fio.sif", "fio"]
IOR = ["apptainer", "exec", "--bind", "/m/0", "--bind", "/m/1", "/images/ior.sif"]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
SEQUENTIAL = {"workload": "sequential", "transfer_size": 4 * MIB, "iteration": 1}
METADATA = {"workload": "metadata", "files_per_task": 50, "iteration": 1}


@pytest.mark.parametrize(
    ("params", "starts"),
    [
        (SEQUENTIAL | {"tool": "fio"}, FIO),
        ({"workload": "device_range", "iteration": 1}, FIO),
        ({"workload": "file_read", "transfer_size": MIB, "iteration": 1}, FIO),
        # The hybrid model: the host's launcher starts the container on each rank.
        (SEQUENTIAL | {"tool": "ior"}, [*MPIRUN, "-np", "2", *IOR, "ior"]),
        (METADATA | {"tool": "mdtest"}, [*MPIRUN, "-np", "2", *IOR, "mdtest"]),
    ],
)
def test_the_tool_is_started_in_its_container_and_told_the_same(params, starts):
    commands, known = workloads.load(params["workload"]).commands, workloads.params_of(params)
    bare = commands(known, {**CLAIM, "containers": None})
    for inside, outside in zip(commands(known, CLAIM), bare, strict=True):
        options = outside["argv"][outside["argv"].index(starts[-1]) + 1 :]
        assert inside["argv"] == [*starts, *options]


def test_on_several_clients_the_tools_of_all_are_in_containers():
    claim_of_two = {**CLAIM, "kind": "lustre", "hosts": ["n1", "n2"]}
    argv = {}
    for tool in ("fio", "ior"):
        [phase, *_] = sequential.commands(workloads.params_of({**SEQUENTIAL, "tool": tool}), claim_of_two)
        argv[tool] = phase["argv"]
    assert argv["fio"] == [*FIO, "--output-format=json", "--eta=never", "-"]
    launched = [*MPIRUN, "--host", "n1:2,n2:2", "--map-by", "slot", "-np", "4"]
    assert argv["ior"][:18] == [*launched, *IOR, "ior", "-v"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file in place of fio's image, and on PATH a file in place of Apptainer; neither is run."""
    (tmp_path / "fio.sif").write_bytes(b"image")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/apptainer").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_images_are_known_by_their_digest(folder):
    ours = {"target": "x", "containers": str(folder), "images": containers.digests(str(folder))}
    assert ours["images"] == {str(folder / "fio.sif"): hashlib.sha256(b"image").hexdigest()}
    containers.verify(ours)
    containers.verify({"target": "an older claim"})
    (folder / "fio.sif").write_bytes(b"rebuilt")
    with pytest.raises(Refusal, match=r"fio\.sif on .* is another image \(SHA-256 .* release the target and claim it"):
        containers.verify(ours)


@pytest.mark.parametrize(
    ("take", "said"),
    [
        ("bin/apptainer", "lacks apptainer: install the package apptainer, or declare no fsage_target.containers"),
        ("fio.sif", "fio.sif: build it with `apptainer build .*/fio.sif envs/fio.def`"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_changed(folder, directory_target, take, said):
    (folder / take).unlink()
    directory_target["containers"] = str(folder)
    place, home = Path(directory_target["directory"]), Path(directory_target["home"])
    for verb in (claim.create, claim.claim):
        with pytest.raises(Refusal, match=rf"fsage_target.containers is {folder}, and .*{said}.*; nothing was touched"):
            verb(directory_target, {}, False)
    assert not place.exists() and not home.exists()
    answer = probe.probe(directory_target, {})
    assert not answer["able"] and len(answer["missing"]) == 1 and answer["tools"]["fio"] is None
