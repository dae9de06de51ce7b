"""A user's whole life on two hosts over SSH, in a project's directory, without root: from `site` to the release.

His sudo has what `fsage site --sudoers` prints. Root limits him by a file on the hosts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import preloaded
import pytest
from beds import bed
from cluster_project import ClusterProject, project_on, shared_directory
from machine import Furnished
from project import succeeded
from testbed import Testbed

from fsage.model import limits

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
LIMITS = {"clients": 2, "bandwidth_mib_s": 100}
OWN_ETC = """
mkdir {place}/upper {place}/work {place}/lower
mount --rbind /etc {place}/lower
mount -t overlay -o lowerdir=/etc,upperdir={place}/upper,workdir={place}/work overlay /etc
awk -v above={place}/lower '$5 ~ "^" above "/" {{ print substr($5, length(above) + 2) }}' /proc/self/mountinfo |
    while read -r name; do mount --bind {place}/lower/"$name" /etc/"$name"; done
umount --recursive --lazy {place}/lower
"""
"""An /etc of the testbed's own, with what is mounted below it."""
MADE = f"""
find /run /dev/shm /tmp /var/lib /etc {{place}} -user {UID} -not -path '{{clone}}/*' \\
    -not '(' -type d -path '*/user/.ansible*' ')' -not '(' -type d -path '*/user/.cache*' ')' 2>/dev/null
find /var/tmp -maxdepth 1 -user {UID}; pgrep --list-full --uid {UID}; awk '{{{{print $5}}}}' /proc/self/mountinfo
find /sys/fs/cgroup -name 'fsage-testbed'
"""
"""All that is his on the machine: files, processes; and all mounts, and the target's control group.

Left out are his clone, and the empty directories in which Ansible and Snakemake keep what they need.
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


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that all hosts share, for what is the user's."""
    with tempfile.TemporaryDirectory(prefix="fsage-test-", dir="/var/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def users(place: Path) -> Iterator[ClusterProject]:
    """His project, whose target is a directory that two hosts share. Nothing is made of it yet."""
    home, noted, installed = place / "user", place / "noted", str(shutil.which("fio"))

    def furnish(testbed: Testbed) -> None:
        (home / ".ssh").mkdir(parents=True)
        noted.touch()
        testbed.folder.chmod(0o711)  # with known hosts and public keys in it
        login = Login(testbed)
        login.run("sh", "-ec", OWN_ETC.format(place=place))
        login.run("install", "-D", "-m", "644", "/dev/stdin", str(limits.FILE), input=json.dumps(LIMITS))
        login.add_user(USER, UID, home)
        (place / "fio").write_text(FIO.format(noted=noted, fio=shutil.copy(installed, place / "real")))
        (place / "fio").chmod(0o755)
        login.run("mount", "--bind", str(place / "fio"), installed)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / ".ssh/key"], check=True)
        shutil.copy(home / ".ssh/key.pub", testbed.folder / f"ssh/{USER}.pub")
        (home / ".ssh/config").write_text(SSH.format(user=USER, home=home))

    with bed(hosts=len(HOSTS), furnish=furnish) as testbed:
        project = place / "project"
        project.mkdir()
        os.chown(project, 0, UID)
        project.chmod(0o2770)  # of root and a group: the user makes what he needs
        spec = {**shared_directory(home, tasks=1), "directory": str(project / "ada/fsage")}
        made = project_on(testbed, home / "clone", spec)
        made.become = BECOME
        path = made.env["PATH"].replace(f"{preloaded.shims()}:", "")  # which is closed to others
        made.env |= {"PATH": path, "HOME": str(home), "USER": USER, "LOGNAME": USER}
        made.write_hosts(HOSTS, HOSTS[:1])
        subprocess.run(["chown", "-R", f"{UID}:{UID}", home, noted], check=True)
        yield made


@pytest.mark.long
def test_a_user_in_a_project_measures_on_two_hosts_and_leaves_the_machine_as_it_was(
    users: ClusterProject, place: Path
) -> None:
    def made() -> list[str]:
        """What is there of his, without what the shell that looks is itself."""
        look = users.testbed.run("sh", "-c", MADE.format(place=place, clone=users.root)).splitlines()
        return sorted(line for line in look if "pgrep" not in line)

    before = made()
    users.testbed.run("sh", "-c", f"""echo '{{"clients": 1}}' >{limits.FILE}""")
    refused = users.fsage("--target", "testbed", "claim")
    assert refused.returncode != 0 and "2 clients, and limits.clients is 1" in refused.stderr, refused.stderr
    assert not (users.root / "results").exists(), "of a claim that never was nothing stays"
    users.testbed.run("sh", "-c", f"echo '{json.dumps(LIMITS)}' >{limits.FILE}")
    users.write_study(states__capacity=[30], states__fragmentation=[50], cells__iterations=1, headline=[])
    checked = users.fsage("--target", "testbed", "site", "small")
    assert (checked.returncode, checked.stdout.splitlines()[-1]) == (0, "Nothing stands in the way."), checked.stdout
    succeeded(users.measure())
    records = users.records().values()
    assert [(record["status"], record["why"]) for record in records] == [("valid", None)] * 2
    for record in records:
        assert (record["hosts"], record["conditions"]["uid"]) == (HOSTS, UID)
        for phase in record["phases"]:
            assert all("rate=51200k" in job for job in phase["jobs"].values()), "root's limit, half of it each"
            assert set(phase["by_host"]) == set(HOSTS)
            methods = {phase["cache_drop"], *(host["method"] for host in phase["cache_drop_hosts"].values())}
            assert methods == {"drop_caches=3"} and phase["metadata"] == "cold", "by the helper, on every client"
            assert len(phase["cache_drop_hosts"]) == 1
    assert set((place / "noted").read_text().split("\n")) == {*(f"{name} {UID}" for name in HOSTS), ""}
    refused = users.run("ssh", "-o", "BatchMode=yes", "n2", "sudo -n id")
    assert refused.returncode != 0 and "password is required" in refused.stderr, "his sudo has the verbs alone"

    succeeded(users.playbook("release.yml"))
    assert [line for line in made() if line not in before] == []
    assert [path.name for path in (users.root / "results/targets").iterdir()] == ["testbed.released.json"]
