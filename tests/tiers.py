"""The tier of each test, from where it lies and which fixtures it takes; the tiers that cost most begin first."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import pytest
from hypothesis import settings

SYSTEM_FOLDERS = ("behaviour", "cluster", "real")
SYSTEM_FILES = (
    *("test_cli.py", "test_commands.py", "test_dag.py", "test_lock.py", "test_monitoring.py", "test_pages.py"),
    *("test_playbooks.py", "test_run_wrapper.py", "test_several_targets.py"),
)
FILE_SYSTEM_FIXTURES = {"new_target", "new_module_target", "machine", "outside"}
TIERS = {
    "long": "a test that takes minutes, draws many samples, or is marked so; runs only when asked for: -m long",
    "system": "Slurm, sshd, containers, a browser, whole projects, processes of snakemake and Ansible",
    "filesystem": "loop devices, mounts and control groups: as root",
    "unit": "Python and files, nothing else",
}


def first_of(*values: Any) -> list[Any]:
    """Parameters of a test, of which the first is of its own tier and the others are long."""
    return [values[0], *(pytest.param(value, marks=pytest.mark.long) for value in values[1:])]


def first_row_of(*rows: tuple[Any, ...]) -> list[Any]:
    """The same for a test with several parameters."""
    return [rows[0], *(pytest.param(*row, marks=pytest.mark.long) for row in rows[1:])]


# No test asserts a time. What is drawn in the default tiers is the same each time.
settings.register_profile("default tiers", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=1000)


def pytest_configure(config: pytest.Config) -> None:
    """Say what the tiers are in `pytest --markers`; draw more examples where long tests are asked for."""
    # numpy reads this once; with more, threads of several workers wait for each other, and spin.
    assert "numpy" not in sys.modules or os.environ.get("OPENBLAS_NUM_THREADS") == "1"
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settings.load_profile("long" if config.getoption("markexpr") == "long" else "default tiers")
    for name, what in TIERS.items():
        config.addinivalue_line("markers", f"{name}: tier: {what}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test with its tier; each has one."""
    if not item.get_closest_marker("long"):
        item.add_marker(tier(item))


def tier(item: pytest.Item) -> str:
    """The tier of a test that is not `long`."""
    folder, file = item.path.parent.name, item.path.name
    if folder in SYSTEM_FOLDERS or file in SYSTEM_FILES or item.get_closest_marker("system"):
        return "system"
    fixtures = set(getattr(item, "fixturenames", ()))
    return "filesystem" if item.get_closest_marker("root") or fixtures & FILE_SYSTEM_FIXTURES else "unit"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files of the dearest tiers; then those that wait for disks in turns with those that compute.

    Where the former ran one after the other, processors waited for the disk for a third of the time.
    """
    order = list(TIERS)
    dearest: dict[str, int] = {}
    for item in items:
        rank = min(order.index(mark.name) for mark in item.iter_markers() if mark.name in TIERS)
        dearest[item.location[0]] = min(rank, dearest.get(item.location[0], rank))
    in_turns = order.index("filesystem"), order.index("unit")
    place: dict[str, tuple[int, float]] = {}
    for rank in range(len(order)):
        files = [file for file in dearest if dearest[file] == rank]
        for number, file in enumerate(files):
            place[file] = (in_turns[0], number / len(files)) if rank in in_turns else (rank, 0)
    items.sort(key=lambda item: place[item.location[0]])


def pytest_collection_finish() -> None:
    """What was loaded stays: no collection of garbage looks at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)  # tests make many objects, and few cycles
