"""A project at work on the testbed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from project import Project
from testbed import Testbed


@dataclass
class ClusterProject(Project):
    """A clone on the testbed's login host; its target is on n1, reached over SSH."""

    testbed: Testbed | None = None

    def run(self, *argv: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        return super().run(*self._there(argv), timeout=timeout)

    def start(self, *argv: str) -> subprocess.Popen:
        return super().start(*self._there(argv))

    def _there(self, argv: tuple[str, ...]) -> list[str]:
        assert self.testbed
        return self.testbed.inside(*argv, folder=self.root)


def shared_directory(place: Path, tasks: int) -> dict:
    """The declaration of a target that is a directory of `place`, which all hosts of the testbed share."""
    return {
        "name": "testbed",
        "kind": "directory",
        "directory": str(place / "target"),
        "home": str(place / "home"),
        "budget_gib": 0.25,
        "scale": {"file_size": 0.125, "tasks": tasks},
        "amount_mib": 8,
    }
