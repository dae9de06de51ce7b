"""The locks: complete for pyproject.toml, every package pinned with hashes, bound to no index; development apart."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import fsage

ROOT = Path(__file__).resolve().parents[1]
LOCKS = [(ROOT / f"envs/{name}.lock").read_text() for name in ("build", "requirements", "development")]
LOCK = "".join(LOCKS)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"]
NEEDED = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["studies"]]
#: Name to version and hashes, of each lock.
BUILD, RUN_TIME, DEVELOPMENT = (
    {
        name: (version, re.findall(r"--hash=sha256:[0-9a-f]{64}\b", rest))
        for name, version, rest in re.findall(r"^([a-z0-9-]+)==(\S+)(.*(?:\n[ #].*)*)", lock, re.MULTILINE)
    }
    for lock in LOCKS
)
ENTRIES = BUILD | RUN_TIME | DEVELOPMENT


@pytest.mark.parametrize("text", [*NEEDED, *GROUPS["dev"], *GROUPS["build"]])
def test_every_requirement_is_locked_to_a_version_it_allows(text: str) -> None:
    requirement = Requirement(text)
    assert Version(ENTRIES[requirement.name][0]) in requirement.specifier


def test_each_package_is_in_the_lock_of_those_who_ask_for_it() -> None:
    in_two = (BUILD.keys() & RUN_TIME.keys()) | ((BUILD.keys() | RUN_TIME.keys()) & DEVELOPMENT.keys())
    assert in_two == {"colorama"}, "what fsage runs with wants it on Windows alone, the documentation's theme here too"
    asked = (GROUPS["build"], BUILD), (NEEDED, RUN_TIME), (GROUPS["dev"], DEVELOPMENT)
    for texts, lock in asked:
        assert {Requirement(text).name for text in texts} <= lock.keys()


def test_every_entry_has_a_hash_and_no_line_is_anything_else() -> None:
    assert [name for name, (_, hashes) in ENTRIES.items() if not hashes] == []
    others = [line for line in LOCK.splitlines() if not re.match(r"[a-z0-9-]+==|    --hash=|\s*#", line)]
    assert others == []


def test_no_index_and_no_host_is_named() -> None:
    assert re.findall(r"://|--(?:extra-)?index|--find-links|\b[\w-]+\.(?:org|com|io|net|dev)\b", LOCK) == []


def test_builds_with_what_is_locked() -> None:
    assert PROJECT["build-system"]["requires"][0] in GROUPS["build"]


def test_the_version_is_the_same_everywhere() -> None:
    for name in ("CITATION.cff", "galaxy.yml"):
        assert f"\nversion: {fsage.__version__}\n" in (ROOT / name).read_text(), name
    assert f"\n## [{fsage.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
