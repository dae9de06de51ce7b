"""The agent runs on hosts with Python 3.9 and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
IMPORT_ALL = f"""
import sys; sys.path.insert(0, {str(SOURCE)!r})
import importlib, pkgutil, fsage.agent
for found in pkgutil.walk_packages(fsage.agent.__path__, "fsage.agent."):
    importlib.import_module(found.name)
print(sys.version_info[:2])
"""


def old_python() -> str | None:
    """A Python 3.9, which may be pyenv's own and not on PATH."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places = [*map(Path, os.environ["PATH"].split(":")), *sorted(pyenv.glob("versions/3.9.*/bin"))]
    for path in (place / "python3.9" for place in places):
        if (
            os.access(path, os.X_OK)
            and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            return str(path)
    return None


@pytest.mark.skipif(old_python() is None, reason="there is no Python 3.9 here")
def test_every_module_of_the_agent_can_be_imported_by_the_oldest_python() -> None:
    ran = subprocess.run([str(old_python()), "-I", "-S", "-c", IMPORT_ALL], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "(3, 9)", ran.stderr[-500:]
