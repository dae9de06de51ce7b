"""A project at work on the testbed."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from project import Project, make_project, succeeded
from testbed import Testbed

SMALL = {"states__capacity": [30], "states__fragmentation": [50], "cells__transfer_size": ["4M"], "headline": []}


@dataclass
class ClusterProject(Project):
    """A clone on the testbed's login host; its target is on n1, reached over SSH."""

    testbed: Testbed
    become: Sequence[str] = ()

    def run(self, *argv: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        return super().run(*self._there(argv), timeout=timeout)

    def start(self, *argv: str) -> subprocess.Popen:
        return super().start(*self._there(argv))

    def release(self) -> None:
        """Release and remove the target."""
        succeeded(self.playbook("release.yml", "local_target.yml", "-e", "fsage_local_target_state=absent"))

    def _there(self, argv: tuple[str, ...]) -> list[str]:
        return self.testbed.inside(*self.become, *argv, folder=self.root)

    def write_hosts(self, clients: Sequence[str], launcher: Sequence[str] = (), servers: Sequence[str] = ()) -> None:
        """Write the hosts of the target's inventory."""
        groups = {"launcher": launcher, "clients": clients, "servers": servers}
        children = {group: {"hosts": dict.fromkeys(names)} for group, names in groups.items()}
        path = self.root / "inventories" / self.spec["name"] / "hosts.yml"
        path.write_text(yaml.safe_dump({"all": {"children": children}}))


def project_on(testbed: Testbed, folder: Path, spec: dict) -> ClusterProject:
    """A project of root's on the testbed's login host."""
    made = make_project(folder, spec)
    (made.root / "slurm").symlink_to("profiles/slurm")
    return ClusterProject(made.root, made.spec, {**made.env, "HOME": str(testbed.folder)}, testbed)


@contextlib.contextmanager
def on_shared_directory(testbed: Testbed, folder: Path, **changes: object) -> Iterator[ClusterProject]:
    """A project whose target is a directory that all hosts share, on n1 to n3, launched by n2. Not claimed."""
    with tempfile.TemporaryDirectory(prefix="fsage-test-", dir="/var/tmp") as place:
        project = project_on(testbed, folder, {**shared_directory(Path(place), tasks=2), **changes})
        project.write_study(**SMALL)
        project.write_hosts(["n1", "n2", "n3"], ["n2"])
        try:
            yield project
        finally:
            testbed.run("scancel", "--full", "--user=root")
            project.release()


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
