"""Projects at work, on targets that go with their tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_targets import written
from project import FEW, FEW_CELLS, Project, make_project, succeeded


@pytest.fixture
def new_project(tmp_path: Path, new_target: dict) -> Project:
    """A project of one test, of whose target nothing was made yet."""
    return make_project(tmp_path / "clone", new_target)


@pytest.fixture
def project(new_project: Project) -> Project:
    """The same with its image there."""
    written(new_project.spec)
    return new_project


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, module_target: dict) -> Project:
    """A project whose study, FEW, was measured whole; each test that takes it leaves it whole."""
    made = make_project(tmp_path_factory.mktemp("finished") / "clone", module_target)
    made.write_study(**FEW)
    succeeded(made.snakemake())
    assert len(made.records()) == FEW_CELLS
    return made
