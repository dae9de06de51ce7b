"""Tests with real builds of IOR and mdtest: each runs with every build, or is skipped with the reason."""

from __future__ import annotations

import pytest
from builds import builds, why_none

REASON = why_none()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `build` runs with each."""
    if "build" in metafunc.fixturenames:
        mpi = {"mpi": marker.args[0]} if (marker := metafunc.definition.get_closest_marker("mpi")) else {}
        found = [one for one in builds() if one.mpi == mpi.get("mpi", one.mpi)]
        metafunc.parametrize("build", found or [None], ids=[one.name for one in found] or ["none"])


@pytest.fixture(autouse=True)
def built() -> None:
    if REASON:
        pytest.skip(REASON)
