"""The tree as an Ansible collection: packed, installed into an empty folder, and at work from there without a clone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from test_playbooks import done, inventory_of, request

import fsage

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text())


class Elsewhere(NamedTuple):
    """A folder with the collection alone, and a Python that has Ansible and nothing of fsage."""

    folder: Path
    python: Path

    def ansible(self, inventory: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """`ansible-playbook` with the playbooks of the collection."""
        argv = [self.python, "-m", "ansible", "playbook", "-i", inventory, *words, "-e", json.dumps(more)]
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        env |= {"ANSIBLE_COLLECTIONS_PATH": str(self.folder), "LC_ALL": "C.UTF-8", "ANSIBLE_PIPELINING": "1"}
        env["ANSIBLE_CALLBACK_RESULT_FORMAT"] = "yaml"
        return subprocess.run(argv, cwd=self.folder, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    folder = tmp_path_factory.mktemp("elsewhere")
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    for words in (
        ("build", ROOT, "--output-path", folder),
        ("install", "--offline", "-p", folder, folder / f"fsage-fsage-{fsage.__version__}.tar.gz"),
    ):
        argv = [BIN / "ansible-galaxy", "collection", *words]
        ran = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    venv.create(folder / "python", symlinks=True)
    site = next((folder / "python").glob("lib/python*/site-packages"))
    (site / "packages.pth").write_text(sysconfig.get_path("purelib"))  # its own .pth files, one has src/, are not read
    return Elsewhere(folder, folder / "python/bin/python")


def test_versions_and_requirements_are_those_of_the_package() -> None:
    assert GALAXY["version"] == fsage.__version__
    definition = (ROOT / "envs/execution-environment.yml").read_text()
    assert definition.count(f"fsage-fsage-{fsage.__version__}.tar.gz") == 2
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "envs/controller-requirements.txt").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} <= {
        *project["dependencies"],
        *project["optional-dependencies"]["studies"],
    }


def test_every_playbook_and_role_is_named_in_full() -> None:
    texts = [path.read_text() for path in (*ROOT.glob("playbooks/*.yml"), *ROOT.glob("roles/*/tasks/*.yml"))]
    named = {name for text in texts for name in re.findall(r"(?:- role|include_role:\n +name): (\S+)", text)}
    assert named == {f"fsage.fsage.{path.name}" for path in ROOT.glob("roles/*")}


def test_it_has_what_a_controller_needs_and_no_more(elsewhere: Elsewhere) -> None:
    there = elsewhere.folder / "ansible_collections/fsage/fsage"
    assert {path.name for path in there.iterdir()} == {
        *("CHANGELOG.md", "CITATION.cff", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "pyproject.toml"),
        *("envs", "extensions", "meta", "playbooks", "plugins", "roles", "src"),
    }
    assert not [path for path in there.rglob("*") if path.is_symlink() or path.name == "__pycache__"]


@pytest.mark.long
@pytest.mark.root
def test_a_host_without_a_clone_gives_evidence_and_is_watched(
    elsewhere: Elsewhere, directory_target: dict[str, Any], tmp_path: Path
) -> None:
    """Over ssh's own protocol of words, by a stand-in for the ssh program that runs the last word here."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nfor word; do :; done\ncd {tmp_path} && exec /bin/sh -c "$word"\n')
    ssh.chmod(0o755)
    far = {"ansible_connection": "ssh", "ansible_ssh_executable": str(ssh), "ansible_host": "far"}
    far["ansible_python_interpreter"] = "/usr/bin/python3"
    inventory = inventory_of(tmp_path / "inventory", directory_target)
    groups = {group: {"hosts": {}} for group in ("launcher", "servers")} | {"clients": {"hosts": {"one": far}}}
    (inventory / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
    file = tmp_path / "evidence.json"
    asked = request(tmp_path / "request.json", [], state="empty", evidence=str(file))
    steps = [f"fsage.fsage.{name}" for name in ("local_target", "claim", "scrub", "evidence")]
    assert done(elsewhere.ansible(inventory, *steps, "-e", asked, claim_copy="")) > 0
    assert json.loads(file.read_text())["layout"]["stores"]

    root, hosts = tmp_path / "root", tmp_path / "hosts.yml"
    hosts.write_text(yaml.safe_dump({"all": {"children": {"servers": {"hosts": {"one": far}}}}}))
    for path in ("var/lib/prometheus/node-exporter", "usr/local/lib", "etc/systemd/system"):
        (root / path).mkdir(parents=True)
    given = {"monitoring_root": str(root), "monitoring_sources": ["/dev/sdb"]}
    assert done(elsewhere.ansible(hosts, "fsage.fsage.monitoring", **given)) > 0
    program = [far["ansible_python_interpreter"], "-I", root / "usr/local/lib/fsage-evidence.pyz"]
    ran = subprocess.run([*program, "evidence", "--help"], capture_output=True, text=True, check=True)
    assert "--openmetrics" in ran.stdout
