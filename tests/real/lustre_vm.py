"""A project at work on a real Lustre: a host named by FSAGE_LUSTRE_SSH that is every one of its nodes.

FSAGE_LUSTRE_SSH_CONFIG names a file for `ssh -F` if the host is not in ~/.ssh/config. FSAGE_LUSTRE_POWER names a
program: `off` ends the host at once, `on` starts it and returns when its Lustre is mounted. The file system must hold
nothing that is missed: the tests claim it, fill a part of it, remount its OSTs and format one.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import preloaded
import pytest
import yaml
from project import Project, kill_group, make_project

from fsage.host.system.library import BOOT, packed, sent

HOST = os.environ.get("FSAGE_LUSTRE_SSH", "")
CONFIG = os.environ.get("FSAGE_LUSTRE_SSH_CONFIG", "")
POWER = os.environ.get("FSAGE_LUSTRE_POWER", "")
WHY_NOT = "FSAGE_LUSTRE_SSH names no host with a real Lustre (docs/background/lustre.md)"
# An emulated machine takes a quarter of an hour for what takes a real one a minute.
MARKS = [pytest.mark.long, pytest.mark.timeout(3600), pytest.mark.skipif(not HOST, reason=WHY_NOT)]
MOUNT = "/mnt/lustre"
FSNAME = "lustre"
MIB = 1 << 20
OWN_TABLE = "4 8 16 32 64 128 256 512 1024 2048"
ALL = ("--omit-from", "report_small", "--", "small")


def ssh(*words: str, stdin: bytes = b"", check: bool = True, timeout: float = 300) -> str:
    """What a shell line on the Lustre host prints."""
    options = ["-F", CONFIG] if CONFIG else []
    words = ("ssh", *options, "-o", "BatchMode=yes", HOST, *words)
    ran = subprocess.run(words, input=stdin, capture_output=True, timeout=timeout, check=False)
    assert not check or ran.returncode == 0, f"{words}: {ran.stdout!r}{ran.stderr!r}"
    return ran.stdout.decode()


def run_there(program: Path, **given: Any) -> Any:
    """What `main` of a program returns that runs on the Lustre host, where it has the agent."""
    code = BOOT + "import json; text, given = json.load(read); exec(text); print(json.dumps(main(**given)))"
    asked = sent(packed()) + json.dumps([program.read_text(), given]).encode()
    said = ssh(shlex.join(["python3", "-I", "-S", "-c", code]), stdin=asked, timeout=1500)
    return json.loads(said)


def once_written(then: str, patience_s: int = 900, place: str = f"{MOUNT}/fsage") -> None:
    """Run a shell line on the Lustre host as soon as a cell has written something."""
    written = f"find {place}/measured -type f -size +0 2>/dev/null | grep -q ."
    ssh(f"timeout {patience_s} sh -c 'until {written}; do sleep 0.2; done' && {then}", timeout=patience_s + 300)


def begin(program: str, name: str) -> str:
    """A shell line that has a Python program print into /run/NAME until `end` of that name."""
    return f"setsid python3 -c '{program}' </dev/null >>/run/{name} 2>&1 & echo $! >/run/{name}.pid"


def end(name: str) -> str:
    """A shell line that ends what `begin` began, and removes what it printed."""
    return f"kill -- -$(cat /run/{name}.pid); sleep 1; rm -f /run/{name} /run/{name}.pid"


def make_user(user: str) -> str:
    """A shell line that makes a user who is reached by ssh as root is."""
    keys = f"/home/{user}/.ssh"
    return f"""useradd --create-home --shell /bin/bash {user} && install -d -m 700 -o {user} -g {user} {keys} &&
install -m 600 -o {user} -g {user} -t {keys} /root/.ssh/*"""


def reached_as(user: str, folder: Path) -> str:
    """An ssh configuration by which the Lustre host is reached as a user; it is written into a folder."""
    config = folder / "user.conf"
    first = Path(CONFIG).read_text() if CONFIG else f"Host {HOST}\n  User root\n"
    config.write_text(first.replace("User root", f"User {user}"))
    return str(config)


def everything(user: str, mount: str = MOUNT) -> set[str]:
    """All that is on the Lustre host, but for what a login makes: files with owners and modes, mounts, tunables."""
    lines = ssh(f"""find / -xdev '(' \
  -path /proc -o -path /sys -o -path /var/log -o -path /home/{user}/.ansible -o -path /var/lib/systemd ')' \
  -prune -o -printf '%p %u %m\\n' 2>/dev/null | grep -v 'lastlog\\|wtmp\\|/tmp/systemd' | sort
find /run /dev/shm /tmp {mount} -xdev -printf '%p %u %m\\n' 2>/dev/null \
  | grep -v '^/run/\\(user\\|sudo\\|systemd\\|udev\\|log\\)' | sort
awk '{{print $5}}' /proc/self/mountinfo | grep -v ^/run/user | sort
lctl get_param 'osc.*.max_rpcs_in_flight' 'llite.*.max_read_ahead_mb'
""")
    return set(lines.splitlines())


def used_mib() -> dict[str, float]:
    """What each OST holds, when all that was deleted is gone."""
    ssh("lctl set_param -n 'osd-*.*.force_sync=1'; sleep 3; lctl set_param -n 'osd-*.*.force_sync=1'; sleep 1.2")
    lines = (line.split() for line in ssh(f"lfs df {MOUNT}").splitlines() if "OST:" in line)
    return {line[0].removesuffix("_UUID"): int(line[2]) / 1024 for line in lines}


def tables() -> dict[str, str]:
    """The preallocation table of each OST, by its device."""
    said = ssh("grep -H . /proc/fs/ldiskfs/*/prealloc_table")
    found = (line.split(":", 1) for line in said.splitlines())
    return {Path(path).parent.name: table.strip() for path, table in found if "vdb" not in path}


@contextlib.contextmanager
def filled(number: int, left_kib: int = 8192) -> Iterator[str]:
    """A shell line that leaves an OST a few MiB; what it wrote goes in the end."""
    foreign = f"{MOUNT}/foreign"
    free = f"$(lfs df {MOUNT} | awk '/OST:{number}/ {{ print $4 }}')"
    try:
        yield f"lfs setstripe -c 1 -i {number} {foreign} && fallocate -l $(({free} - {left_kib}))K {foreign}"
    finally:
        ssh(f"rm -f {foreign}")
        used_mib()


@dataclass
class LustreProject(Project):
    """A clone whose target is on the Lustre of that host."""

    started: list[subprocess.Popen] = field(default_factory=list)

    def start(self, *argv: str) -> subprocess.Popen:
        self.started.append(super().start(*argv))
        return self.started[-1]

    def run(self, *argv: str, timeout: float = 3000) -> subprocess.CompletedProcess[str]:
        return super().run(*argv, timeout=timeout)

    def end_started(self) -> None:
        """End what a test that failed left running."""
        for process in self.started:
            if process.poll() is None:
                kill_group(process)

    def done(self, *argv: str) -> str:
        """What a command prints that must succeed."""
        ran = self.run(*argv)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def fails(self, *argv: str) -> str:
        """What a command prints that must not, in one line."""
        ran = self.run(*argv)
        assert ran.returncode != 0, ran.stdout + ran.stderr
        assert "Traceback" not in ran.stdout + ran.stderr
        return " ".join((ran.stdout + ran.stderr).split())

    def playing(self, *words: str) -> tuple[str, ...]:
        return ("ansible-playbook", "-i", f"inventories/{self.spec['name']}", *preloaded.playbooks(*words))

    def declare(self, **changes: object) -> None:
        """Edit the target's declaration."""
        self.spec.update(changes)
        place = self.root / "inventories" / self.spec["name"] / "group_vars/all/target.yml"
        place.write_text(yaml.safe_dump({"fsage_target": self.spec}))

    def claim_file(self) -> dict[str, Any]:
        return json.loads((self.root / "results" / "targets" / f"{self.spec['name']}.json").read_text())

    def request(self, state: str) -> Path:
        """The request for a state, without cells."""
        path = self.root / f"{state}.json"
        ran = self.run("fsage", "request", "small", state, "--no-cells")
        assert ran.returncode == 0, ran.stderr
        path.write_text(ran.stdout)
        return path

    def measured(self, **study: Any) -> dict[str, dict]:
        """The records of a small study, all valid; the next one begins without any."""
        self.write_study(**study)
        try:
            self.done("snakemake", *ALL)
            records = self.records()
            assert records and {record["status"] for record in records.values()} == {"valid"}, self.why()
            return records
        finally:
            self.forget()

    def forget(self) -> None:
        """Set all records aside."""
        for state in {record["state"] for record in self.records().values()}:
            self.done("fsage", "remeasure", "small", "--state", state)

    def valid_again(self) -> None:
        """All is measured by the same command, after what had failed was set aside."""
        self.forget()
        self.done("snakemake", *ALL)
        assert self.why() and not any(self.why().values()), self.why()
        self.forget()

    def cells(self, state: str) -> list[str]:
        """The names of the cells of a state that have a record."""
        return [name.rpartition("/")[2] for name in self.record_files() if name.startswith(f"{state}/")]

    def why(self) -> dict[str, str | None]:
        """state/cell -> why it failed."""
        return {name: record["why"] for name, record in self.records().items()}


def declaration(**more: object) -> dict[str, Any]:
    """A target on all of that file system."""
    return {
        "name": "lvm",
        "kind": "lustre",
        "directory": f"{MOUNT}/fsage",
        "lustre": {"fsname": FSNAME, "mgs": mgs(), "capacity_gib": "all", "oss": [HOST], **more},
        "scale": {"file_size": 1, "tasks": 2},
        "launcher": "openmpi",
        "launcher_options": [],
        "amount_mib": 32,
        "home": "/var/lib/fsage",
    }


def mgs() -> str:
    """The NIDs in the client's mount."""
    return ssh(f"findmnt -n -o SOURCE {MOUNT}").strip().partition(":/")[0]


def project_in(
    folder: Path,
    spec: dict[str, Any],
    clients: Sequence[str] = (HOST,),
    config: str = "",
    server: str = HOST,
    watched: Sequence[str] = (),
) -> LustreProject:
    """A clone in `folder`, its hosts reached by an ssh configuration (FSAGE_LUSTRE_SSH_CONFIG); nothing is claimed.

    `server`: another name of the host, as which it is a server; empty: nobody logs in to servers.
    """
    made = make_project(folder, spec)
    variables: dict[str, Any] = {} if config else {"ansible_user": "root"}
    if config := config or CONFIG:
        variables["ansible_ssh_common_args"] = f"-F {shlex.quote(config)}"
    serving = {"hosts": {server: None} if server else {}}
    groups = {
        "launcher": {"hosts": {HOST: None}},
        "clients": {"hosts": dict.fromkeys(clients)},
        "servers": {"children": {"mds": serving, "oss": serving}},
        "watched": {"hosts": dict.fromkeys(watched)},
    }
    hosts = made.root / "inventories" / made.spec["name"] / "hosts.yml"
    hosts.write_text(yaml.safe_dump({"all": {"vars": variables, "children": groups}}))
    sockets = f"/tmp/fsage-lvm-{os.getpid()}"  # a short path: that of a socket has 108 bytes at most
    atexit.register(shutil.rmtree, sockets, ignore_errors=True)
    env = {**made.env, "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets}
    return LustreProject(made.root, made.spec, env)


@contextlib.contextmanager
def at_work(
    folder: Path,
    spec: dict[str, Any] | None = None,
    clients: Sequence[str] = (HOST,),
    config: str = "",
    server: str = HOST,
) -> Iterator[LustreProject]:
    """A project whose target is claimed; released in the end, which leaves nothing on the file system nor its hosts."""
    made = project_in(folder / "clone", spec or declaration(), clients, config, server)
    before = used_mib()
    try:
        made.done(*made.playing("local_target.yml", "claim.yml"))
        yield made
    finally:
        made.end_started()
        made.done(*made.playing("release.yml", "local_target.yml", "-e", "fsage_local_target_state=absent"))
    assert ssh(f"ls -A {MOUNT}").split() == []
    after = used_mib()
    assert all(abs(after[ost] - before[ost]) < 1 for ost in before), (before, after)
    assert ssh("ls -d /var/lib/fsage 2>/dev/null", check=False).split() == []
    assert set(tables().values()) == {OWN_TABLE}
