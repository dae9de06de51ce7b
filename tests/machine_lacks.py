"""Skips for what a machine lacks: rights of root, mounts of its own by unshare(1), programs that are not installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsage.host.device import capabilities

ENVS = Path(__file__).resolve().parents[1] / "envs"
#: Of these fixtures, or marked `unshare`, are tests that run unshare(1) or nsenter(1) in mount namespaces.
UNSHARING = {"machine", "outside", "bare"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that this machine does not allow, with the reason."""
    no_root = capabilities.why_no_loops()
    no_unshare = no_root or _why_no_unshare()
    for item in items:
        if no_root and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason=no_root))
        elif no_unshare and (item.get_closest_marker("unshare") or UNSHARING & set(getattr(item, "fixturenames", ()))):
            item.add_marker(pytest.mark.skip(reason=no_unshare))


def _why_no_unshare() -> str | None:
    """In a chroot whose root is no mount unshare(1) cannot make mounts private."""
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip() or None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that a program was missing for is skipped, and names the program."""
    report: pytest.TestReport = yield
    if report.failed and call.excinfo and (program := _missing_program(call.excinfo.value)):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: needs {program}: .ci/testbed installs it")
    return report


def _missing_program(error: BaseException | None) -> str | None:
    """The program of study-packages.txt or testbed-packages.txt that an error, or what caused it, did not find."""
    while error:
        if isinstance(error, FileNotFoundError) and error.filename in _optional() and not shutil.which(error.filename):
            return str(error.filename)
        error = error.__cause__ or error.__context__
    return None


def _optional() -> set[str]:
    lists = [ENVS / f"{name}-packages.txt" for name in ("study", "testbed")]
    return {line.split()[0] for path in lists for line in path.read_text().splitlines() if not line.startswith("#")}
