"""Tests with real builds of IOR and mdtest: each that takes `build` runs with every one, or is skipped and says why."""

from __future__ import annotations

import pytest
from builds import builds, why_none


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The builds of all MPIs, or those of the one that a test is marked with."""
    if "build" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("mpi")
    found = [build for build in builds() if not marker or build.mpi == marker.args[0]]
    if reason := why_none():
        metafunc.parametrize("build", [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="none")])
    else:
        metafunc.parametrize("build", found, ids=[each.name for each in found])
