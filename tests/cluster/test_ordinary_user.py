"""A study on two hosts over SSH, of a user without root whose sudo has what `fsage site --sudoers` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import preloaded
import pytest
import yaml
from beds import bed
from cluster_project import ClusterProject, shared_directory
from machine import Furnished
from project import make_project
from testbed import Testbed

pytestmark = [
    pytest.mark.root,
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("sudo"), reason="needs sudo (package sudo)"),
]
UID, USER = 54321, "fsagetest"
HOSTS = ["n1", "n2"]
BECOME = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
SSH = """\
Host *
  User {user}
  IdentityFile {home}/.ssh/key
"""
FIO = """\
#!/bin/sh
echo "$(hostname) $(id -u)" >>{noted}
exec {fio} "$@"
"""


class Login(Furnished):
    """The testbed before it has hosts."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed

    def words(self, *words: str) -> list[str]:
        return self.testbed.inside(*words)


@dataclass
class OfUser(ClusterProject):
    """A clone of the user's, at which he works on `login`."""

    def _there(self, argv: tuple[str, ...]) -> list[str]:
        return super()._there((*BECOME, *argv))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that all hosts share, for what is the user's."""
    with tempfile.TemporaryDirectory(prefix="fsage-test-", dir="/var/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def users(place: Path) -> Iterator[OfUser]:
    """His project, whose target is a directory that two hosts share. Nothing is made of it yet."""
    home, noted, installed = place / "user", place / "noted", str(shutil.which("fio"))

    def furnish(testbed: Testbed) -> None:
        (home / ".ssh").mkdir(parents=True)
        noted.touch()
        testbed.folder.chmod(0o711)  # with known hosts and public keys in it
        login = Login(testbed)
        login.add_user(USER, UID, home)
        (place / "fio").write_text(FIO.format(noted=noted, fio=shutil.copy(installed, place / "real")))
        (place / "fio").chmod(0o755)
        login.run("mount", "--bind", str(place / "fio"), installed)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / ".ssh/key"], check=True)
        shutil.copy(home / ".ssh/key.pub", testbed.folder / f"ssh/{USER}.pub")
        (home / ".ssh/config").write_text(SSH.format(user=USER, home=home))

    with bed(hosts=len(HOSTS), furnish=furnish) as testbed:
        made = make_project(home / "clone", shared_directory(home, tasks=1))
        groups = {"launcher": HOSTS[:1], "clients": HOSTS, "servers": []}
        hosts = {group: {"hosts": dict.fromkeys(names)} for group, names in groups.items()}
        (made.root / "inventories/testbed/hosts.yml").write_text(yaml.safe_dump({"all": {"children": hosts}}))
        subprocess.run(["chown", "-R", f"{UID}:{UID}", home, noted], check=True)
        path = made.env["PATH"].replace(f"{preloaded.shims()}:", "")  # which is closed to others
        env = {**made.env, "PATH": path, "HOME": str(home), "USER": USER, "LOGNAME": USER}
        yield OfUser(made.root, made.spec, env, testbed)


@pytest.mark.long
def test_a_user_with_rules_of_sudo_measures_on_two_hosts(users: OfUser, place: Path) -> None:
    assert users.testbed
    users.write_study(states__capacity=[30], states__fragmentation=[50], cells__iterations=1, headline=[])
    ran = users.measure()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    records = users.records().values()
    assert [(record["status"], record["why"]) for record in records] == [("valid", None)] * 2
    for record in records:
        assert (record["hosts"], record["conditions"]["uid"]) == (HOSTS, UID)
        for phase in record["phases"]:
            assert set(phase["by_host"]) == set(HOSTS)
            methods = [phase["cache_drop"], *(one["method"] for one in phase["cache_drop_hosts"].values())]
            assert methods == ["drop_caches=3"] * 2 and phase["metadata"] == "cold", "by the helper, on every client"
    assert set((place / "noted").read_text().split("\n")) == {*(f"{name} {UID}" for name in HOSTS), ""}
    refused = users.run("ssh", "-o", "BatchMode=yes", "n2", "sudo -n id")
    assert refused.returncode != 0 and "password is required" in refused.stderr, "his sudo has the verbs alone"

    ended = users.playbook("release.yml", "local_target.yml", "-e", "fsage_local_target_state=absent")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not Path(users.spec["directory"]).exists()
    assert not users.home.exists() or not os.listdir(users.home), "nothing is left"
