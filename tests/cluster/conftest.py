"""A cluster for the tests that are marked `cluster`, and projects at work on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import testbed as testbeds
import yaml
from cluster_project import ClusterProject
from project import make_project


@pytest.fixture(scope="session")
def testbed() -> Iterator[testbeds.Testbed]:
    """Four hosts with sshd and Slurm, for all tests of a session."""
    if lacking := testbeds.missing():
        pytest.skip(f"a testbed needs {', '.join(lacking)}")
    # A short path: the names of Ansible's sockets below $HOME may have 108 characters.
    with tempfile.TemporaryDirectory(prefix="fsage-bed-", dir="/tmp") as folder, testbeds.Testbed(Path(folder)) as made:
        yield made


@pytest.fixture
def cluster(testbed: testbeds.Testbed, tmp_path: Path, local_target: dict) -> Iterator[ClusterProject]:
    """A project whose target is not yet created."""
    made = make_project(tmp_path / "clone", local_target)
    shutil.copytree(made.root / "profiles/slurm", made.root / "slurm")
    hosts = made.root / "inventories" / made.spec["name"] / "hosts.yml"
    hosts.write_text(
        yaml.safe_dump({"launcher": {"hosts": {}}, "clients": {"hosts": {"n1": None}}, "servers": {"hosts": {}}})
    )
    project = ClusterProject(made.root, made.spec, {**made.env, "HOME": str(testbed.folder)}, testbed)
    yield project
    testbed.run("scancel", "--full", "--user=root")
    released = project.playbook("local_target.yml", "-e", "fsage_local_target_state=absent")
    assert released.returncode == 0, released.stdout + released.stderr
