"""The locks: complete for pyproject.toml, every package pinned with hashes, bound to no index; development apart."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from shutil import which
from typing import NamedTuple

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.version import Version

import fsage

ROOT = Path(__file__).resolve().parents[1]
PYENV = Path.home() / ".pyenv/versions"
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "timeout": 1200}
LOCKS = [(ROOT / f"envs/{name}.lock").read_text() for name in ("build", "requirements", "development")]
LOCK = "".join(LOCKS)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"]
NEEDED = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["studies"]]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


class Entry(NamedTuple):
    """A package of a lock. One that has another version for some Pythons stands there once for each."""

    name: str
    version: str
    marker: str
    hashes: list[str]


def entries_of(lock: str) -> list[Entry]:
    """The entries of a lock, in order."""
    pattern = r"^([a-z0-9-]+)==(\S+)(?: ; (.*?))? \\((?:\n[ #].*)*)"
    found = re.findall(pattern, lock, re.MULTILINE)
    return [Entry(*words, re.findall(r"--hash=sha256:[0-9a-f]{64}\b", rest)) for *words, rest in found]


BUILD, RUN_TIME, DEVELOPMENT = ({entry.name for entry in entries_of(lock)} for lock in LOCKS)


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_is_locked_to_a_version_it_allows(python):
    environment = {"python_version": python, "python_full_version": f"{python}.9"}
    locked = {
        entry.name: entry.version
        for entry in entries_of(LOCK)
        if not entry.marker or Marker(entry.marker).evaluate(environment)
    }
    for text in [*NEEDED, *GROUPS["dev"], *GROUPS["build"]]:
        wanted = Requirement(text)
        if not wanted.marker or wanted.marker.evaluate(environment):
            assert Version(locked[wanted.name]) in wanted.specifier, text


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_locks_make_an_environment_on_every_python(python, tmp_path):
    found = [found for name in (f"python{python}", *PYENV.glob(f"{python}.*/bin/python3")) if (found := which(name))]
    works = [name for name in found if not subprocess.run([name, "-c", ""], capture_output=True).returncode]
    if not works:
        pytest.skip(f"no Python {python} here")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "FSAGE"))}
    places = {**clean, "FSAGE_VENV": str(tmp_path / "venv"), "FSAGE_PYTHON": works[0], "FSAGE_DEVELOP": "1"}
    places["MPLBACKEND"] = "of the user's shell"

    def said(command: str) -> str:
        ran = subprocess.run(["./run", *command.split()], cwd=ROOT, env=places, text=True, **PIPES)
        assert ran.returncode == 0, ran.stdout[-4000:]
        return ran.stdout

    assert f"Python {python}." in said("python --version")
    drawn = f"fsage evidence tests/data/evidence/e2freefrag.txt --html {tmp_path}/page.html"
    for command in ("snakemake --version", "ansible --version", "fsage plan quickstart", drawn):
        said(command)
    said("pytest -q -n 2 tests/test_playbooks.py tests/test_dag.py")


def test_each_package_is_in_the_lock_of_those_who_ask_for_it():
    in_two = (BUILD & RUN_TIME) | ((BUILD | RUN_TIME) & DEVELOPMENT)
    assert in_two == {"colorama"}, "what fsage runs with wants it on Windows alone, the documentation's theme here too"
    for texts, lock in ((GROUPS["build"], BUILD), (NEEDED, RUN_TIME), (GROUPS["dev"], DEVELOPMENT)):
        assert {Requirement(text).name for text in texts} <= lock
    assert PROJECT["build-system"]["requires"][0] in GROUPS["build"]


def test_every_entry_has_a_hash_and_no_line_is_anything_else():
    assert [entry.name for entry in entries_of(LOCK) if not entry.hashes] == []
    assert len(entries_of(LOCK)) == len(re.findall("^[a-z0-9]", LOCK, re.MULTILINE))
    others = [line for line in LOCK.splitlines() if not re.match(r"[a-z0-9-]+==|    --hash=|\s*#", line)]
    assert others == []


def test_no_index_and_no_host_is_named():
    assert re.findall(r"://|--(?:extra-)?index|--find-links|\b[\w-]+\.(?:org|com|io|net|dev)\b", LOCK) == []


def test_the_version_is_the_same_everywhere():
    for name in ("CITATION.cff", "galaxy.yml"):
        assert f"\nversion: {fsage.__version__}\n" in (ROOT / name).read_text(), name
    assert f"\n## [{fsage.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
