"""A cluster for the tests that are marked `cluster`, and projects at work on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import testbed as testbeds
from beds import bed
from cluster_project import ClusterProject, project_on
from project import succeeded


@contextlib.contextmanager
def at_work(testbed: testbeds.Testbed, folder: Path, spec: dict) -> Iterator[ClusterProject]:
    """A project whose target is not yet created; the target is removed in the end."""
    project = project_on(testbed, folder, spec)
    project.write_hosts(["n1"])
    yield project
    testbed.run("scancel", "--full", "--user=root")
    succeeded(project.playbook("local_target.yml", "-e", "fsage_local_target_state=absent"))


@pytest.fixture(scope="session")
def testbed() -> Iterator[testbeds.Testbed]:
    """Four hosts with sshd and Slurm, for all tests of a session."""
    with bed() as made:
        yield made


@pytest.fixture
def cluster(testbed: testbeds.Testbed, tmp_path: Path, new_target: dict) -> Iterator[ClusterProject]:
    """A project on the testbed."""
    with at_work(testbed, tmp_path / "clone", new_target) as project:
        yield project
