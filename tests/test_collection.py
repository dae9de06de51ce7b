"""The tree as an Ansible collection: packed, installed into an empty folder, and at work from there without a clone."""

from __future__ import annotations

import gzip
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
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        env = {**kept, "ANSIBLE_COLLECTIONS_PATH": str(self.folder), "LC_ALL": "C.UTF-8", "ANSIBLE_PIPELINING": "1"}
        env["ANSIBLE_CALLBACK_RESULT_FORMAT"] = "yaml"
        return subprocess.run(argv, cwd=self.folder, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    folder = tmp_path_factory.mktemp("elsewhere")
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    for words in (
        ("build", str(ROOT), "--output-path", str(folder)),
        ("install", "--offline", "-p", str(folder), str(folder / f"fsage-fsage-{fsage.__version__}.tar.gz")),
    ):
        ran = subprocess.run(
            [BIN / "ansible-galaxy", "collection", *words],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    venv.create(folder / "python", symlinks=True)
    site = next((folder / "python").glob("lib/python*/site-packages"))
    (site / "packages.pth").write_text(sysconfig.get_path("purelib"))  # its own .pth files, one has src/, are not read
    return Elsewhere(folder, folder / "python/bin/python")


def far(folder: Path, python: str) -> dict[str, str]:
    """A host over ssh's own protocol of words, by a stand-in for the ssh program that runs the last word here."""
    ssh = folder / "ssh"
    ssh.write_text(f'#!/bin/sh\nfor word; do :; done\ncd {folder} && exec /bin/sh -c "$word"\n')
    ssh.chmod(0o755)
    return {
        "ansible_connection": "ssh",
        "ansible_ssh_executable": str(ssh),
        "ansible_host": "far",
        "ansible_python_interpreter": python,
    }


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
def test_a_host_without_a_clone_gives_evidence(
    elsewhere: Elsewhere, directory_target: dict[str, Any], tmp_path: Path
) -> None:
    inventory = inventory_of(tmp_path / "inventory", directory_target)
    groups = {group: {"hosts": {}} for group in ("launcher", "servers")}
    groups["clients"] = {"hosts": {"one": far(tmp_path, "/usr/bin/python3")}}
    (inventory / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
    file = tmp_path / "evidence.json"
    asked = request(tmp_path / "request.json", [], state="empty", evidence=str(file))
    steps = [f"fsage.fsage.{name}" for name in ("local_target", "claim", "scrub", "evidence")]
    assert done(elsewhere.ansible(inventory, *steps, "-e", asked, claim_copy="")) > 0
    assert json.loads(file.read_text())["layout"]["stores"]


@pytest.mark.long  # the role from a clone: test_monitoring
@pytest.mark.root
def test_free_space_is_watched_on_a_server_without_a_clone(elsewhere: Elsewhere, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for path in ("var/lib/prometheus/node-exporter", "usr/local/lib", "etc/systemd/system"):
        (root / path).mkdir(parents=True)
    inventory = tmp_path / "hosts.yml"
    hosts = {"one": {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}}
    inventory.write_text(yaml.safe_dump({"all": {"children": {"servers": {"hosts": hosts}}}}))
    given = {"monitoring_root": str(root), "monitoring_sources": ["/dev/sdb"]}
    assert done(elsewhere.ansible(inventory, "fsage.fsage.monitoring", **given)) > 0
    program = root / "usr/local/lib/fsage-evidence.pyz"
    (example := tmp_path / "example").write_bytes(gzip.decompress((ROOT / "config/layouts/example.gz").read_bytes()))
    ran = subprocess.run(
        ["/usr/bin/python3", "-I", program, "evidence", "--openmetrics", example],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "fsage_free_bytes" in ran.stdout
