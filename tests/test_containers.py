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
from fsage.model.declaration import complete
from fsage.plan.target import Target

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
SEQUENTIAL = {"workload": "sequential", "transfer_size": 4 * MIB, "iteration": 1}
METADATA = {"workload": "metadata", "files_per_task": 50, "iteration": 1}


@pytest.mark.parametrize(
    ("params", "tool", "starts"),
    [
        (SEQUENTIAL, "fio", FIO),
        (METADATA, "fio", FIO),
        ({"workload": "device_range", "iteration": 1}, None, FIO),
        ({"workload": "file_read", "transfer_size": MIB, "iteration": 1}, None, FIO),
        # The hybrid model: the host's launcher starts the container on each rank.
        (SEQUENTIAL, "ior", ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", *IOR, "ior"]),
        (METADATA, "mdtest", ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", *IOR, "mdtest"]),
    ],
)
def test_the_tool_is_started_in_its_container_and_told_the_same(params, tool, starts):
    params = params | ({"tool": tool} if tool else {})
    commands, known = workloads.load(params["workload"]).commands, workloads.params_of(params)
    bare = commands(known, {**CLAIM, "containers": None})
    for inside, outside in zip(commands(known, CLAIM), bare, strict=True):
        options = outside["argv"][outside["argv"].index(starts[-1]) + 1 :]
        assert inside["argv"] == [*starts, *options]


def test_on_several_clients_the_tools_of_all_are_in_containers():
    claim_of_two = {**CLAIM, "kind": "lustre", "hosts": ["n1", "n2"]}
    phase = workloads.load("sequential").commands(
        workloads.load("sequential").Params.model_validate(SEQUENTIAL | {"tool": "fio"}), claim_of_two
    )[0]
    assert phase["argv"] == [*FIO, "--output-format=json", "--eta=never", "-"]
    ior = workloads.load("sequential").commands(
        workloads.load("sequential").Params.model_validate(SEQUENTIAL | {"tool": "ior"}), claim_of_two
    )[0]
    where = ["--host", "n1:2,n2:2", "--map-by", "slot"]
    launched = ["mpirun", "--allow-run-as-root", "--oversubscribe", *where, "-np", "4"]
    assert ior["argv"][:18] == [*launched, *IOR, "ior", "-v"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file in place of fio's image, and on PATH a file in place of Apptainer; neither is run."""
    (tmp_path / "fio.sif").write_bytes(b"image")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/apptainer").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def claimed_with(folder: Path) -> dict:
    return {"target": "x", "containers": str(folder), "images": containers.digests(str(folder))}


def test_images_are_known_by_their_digest(folder):
    ours = claimed_with(folder)
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
    answer = probe.probe(directory_target, {}, False)["probe"]
    assert not answer["able"] and len(answer["missing"]) == 1 and answer["tools"]["fio"] is None


def test_the_declaration_names_a_folder():
    assert Target(complete({"name": "t", "kind": "directory"})).images is None
    assert (
        Target(complete({"name": "t", "kind": "directory", "containers": "/shared/images"})).images == "/shared/images"
    )
