"""envs/requirements.lock: complete for pyproject.toml, every package pinned with hashes, and bound to no index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
LOCK = (ROOT / "envs/requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"]
#: Name to version and hashes.
ENTRIES = {
    name: (version, re.findall(r"--hash=sha256:[0-9a-f]{64}\b", rest))
    for name, version, rest in re.findall(r"^([a-z0-9-]+)==(\S+)(.*(?:\n[ #].*)*)", LOCK, re.MULTILINE)
}


@pytest.mark.parametrize("text", [*PROJECT["project"]["dependencies"], *GROUPS["dev"], *GROUPS["build"]])
def test_every_requirement_is_locked_to_a_version_it_allows(text: str) -> None:
    requirement = Requirement(text)
    assert Version(ENTRIES[requirement.name][0]) in requirement.specifier


def test_every_entry_has_a_hash_and_no_line_is_anything_else() -> None:
    assert [name for name, (_, hashes) in ENTRIES.items() if not hashes] == []
    others = [line for line in LOCK.splitlines() if not re.match(r"[a-z0-9-]+==|    --hash=|\s*#", line)]
    assert others == []


def test_no_index_and_no_host_is_named() -> None:
    assert re.findall(r"://|--(?:extra-)?index|--find-links|\b[\w-]+\.(?:org|com|io|net|dev)\b", LOCK) == []


def test_builds_with_what_is_locked() -> None:
    assert PROJECT["build-system"]["requires"][0] in GROUPS["build"]
