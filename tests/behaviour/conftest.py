"""Projects at work, on targets that go with their tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from project import CELLS, Project, make_project


@pytest.fixture
def project(tmp_path: Path, local_target: dict) -> Project:
    """A project of one test, whose target is not yet created."""
    return make_project(tmp_path / "clone", local_target)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, module_target: dict) -> Project:
    """A project whose study was measured whole; each test that takes it leaves it whole."""
    made = make_project(tmp_path_factory.mktemp("finished") / "clone", module_target)
    ran = made.snakemake()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(made.records()) == CELLS
    return made
