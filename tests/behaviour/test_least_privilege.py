"""A user without root measures in a directory with cold caches: a helper of root's, allowed by rules of sudo."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import AGENT, LIBRARY, Machine
from session import PREFIX

from fsage.host import helper, sudoers
from fsage.host.system import privilege
from fsage.model.declaration import complete
from fsage.seam import sudo_rules
from fsage.studies.lustre.helper import VERBS
from fsage.studies.lustre.model import Lustre

UID = 54321
USER = "fsagetest"
needs_sudo = pytest.mark.skipif(not shutil.which("sudo"), reason="needs sudo (package sudo)")


@pytest.fixture
def user(machine: Machine) -> Iterator[Path]:
    """A place of the user's, on a disk; sudo allows him what `fsage site --sudoers` prints, and nothing else."""
    with tempfile.TemporaryDirectory(prefix=f"fsage-test-{PREFIX}user-", dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        home = Path(place, "home")
        home.mkdir()
        machine.add_user(USER, UID, home)
        subprocess.run(["chown", "-R", f"{UID}:{UID}", home], check=True)
        yield home


def as_user(machine: Machine, *words: str) -> list[str]:
    """A command of the user's."""
    become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    return machine.words(*become, *words)


def agent(machine: Machine, user: Path, verb: str, spec: dict) -> dict:
    """What the user's agent answers."""
    library = {"PATH": os.environ["PATH"], "PYTHONPATH": LIBRARY, "HOME": str(user)}
    given = json.dumps({"target": spec, "request": {}})
    words = as_user(machine, *AGENT, verb)
    ran = subprocess.run(words, input=given, env=library, capture_output=True, text=True, cwd="/", check=False)
    return json.loads(ran.stdout)


@pytest.mark.root
@needs_sudo
def test_the_helper_does_its_verbs_for_users_and_nothing_else(machine: Machine, user: Path, local_target: dict) -> None:
    drop = "import json; from fsage.host.system import caches; print(json.dumps(caches.drop([])))"
    words = as_user(machine, "env", f"PYTHONPATH={LIBRARY}", AGENT[0], "-S", "-c", drop)
    dropped = subprocess.run(words, capture_output=True, text=True, cwd="/", check=True)
    assert json.loads(dropped.stdout)["method"] == "drop_caches=3"
    words = as_user(machine, "sudo", "-n", str(privilege.HELPER), "id")
    refused = subprocess.run(words, capture_output=True, text=True)
    assert refused.returncode == 1 and "password" in refused.stderr, "sudo allows the verbs alone"
    for as_caller, verb, given, said in (
        (f"SUDO_UID={UID}", "id", "{}", "no verb 'id'; there are hello, drop-caches, kernel-log, lustre-locks"),
        (f"SUDO_UID={UID}", "lustre-sync", "{}", "no verb 'lustre-sync'; .* want the name of a file system"),
        (f"SUDO_UID={UID}", "hello", "[" * 100_000, "what came on standard input is nested deeper than 32 levels"),
        (f"SUDO_UID={UID}", "hello", " " * (helper.MOST_BYTES + 1), f"and at most {helper.MOST_BYTES} are taken"),
        ("SUDO_UID=0", "hello", "{}", "root needs no helper"),
    ):
        ran = machine.run("env", as_caller, str(privilege.HELPER), verb, input=given, check=False)
        assert ran.returncode == 1 and re.search(said, json.loads(ran.stdout)["refused"])
    theirs = {**local_target, "image_dir": str(user / "images"), "home": str(user / "state")}
    answer = agent(machine, user, "create", theirs)
    assert answer["failed"] and "kind: directory" in answer["msg"] and not any(user.iterdir())


INSIDE = """
import json, os, resource, signal, sys
from fsage.host import helper
from fsage.studies.lustre.helper import lctl

def tune(fsname, holder, values):
    assert fsname == "a" and holder["user"] == %d
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGTSTP):
        os.kill(os.getpid(), number)
    names = ("FSIZE", "CPU", "CORE", "NOFILE")
    print(json.dumps([resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in names]), file=sys.stderr)

lctl.tune = tune
sys.exit(helper.main(sys.argv[1:]))
""".replace("%d", str(UID))


@pytest.mark.root
def test_the_helper_has_limits_of_its_own_and_is_not_stopped_halfway() -> None:
    """Who calls it by sudo hands his limits, timers and ignored signals on."""
    given = {"holder": {"target": "t", "home": "/h"}, "values": {"osc.a-OST0000-osc-ff.max_dirty_mb": "32"}}
    words = ["prlimit", "--fsize=0:", "--cpu=60:", "--nofile=64:", "--", "env", f"SUDO_UID={UID}"]
    words += [f"PYTHONPATH={LIBRARY}", AGENT[0], "-S", "-c", INSIDE, "lustre-tune", "a"]
    tuned = subprocess.run(words, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert json.loads(tuned.stderr) == [[-1, -1], [-1, -1], [0, 0], [1024, 1024]]
    assert tuned.returncode < 0, "all values are set; then it ends, without a traceback"


OF_A_PACKAGE = """
from fsage.api.helper import CLIENTS, SERVERS

VERBS = {CLIENTS: {"scatter-hello": lambda given: given["fsname"]}, SERVERS: {}}
"""


@pytest.mark.root
def test_a_package_that_is_not_fsages_own_offers_verbs_too(tmp_path: Path) -> None:
    """The helper has its folder `helper`, and needs nothing else of it."""
    folder = tmp_path / "scatter" / "helper"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(OF_A_PACKAGE)
    library = {"PYTHONPATH": LIBRARY, "FSAGE_EXTENSIONS": str(folder.parent)}
    make = "import sys; from fsage.host import sudoers; sys.stdout.buffer.write(sudoers.program())"
    made = subprocess.run([AGENT[0], "-c", make], env=library, capture_output=True, check=True)
    (tmp_path / "program").write_bytes(made.stdout)
    words = [AGENT[0], "-IS", str(tmp_path / "program"), "scatter-hello", "any"]
    ran = subprocess.run(words, env={"SUDO_UID": "1"}, input="{}", capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == {"value": "any"}


@pytest.mark.long
@pytest.mark.root
@needs_sudo
def test_a_helper_of_another_version_is_refused(machine: Machine, user: Path) -> None:
    place = {"name": "place", "kind": "directory", "directory": str(user / "target"), "home": str(user / "state")}
    place |= {"amount_mib": 8, "budget_gib": 0.25, "scale": {"file_size": 0.125, "tasks": 1}}
    for verb in ("create", "claim"):
        assert not agent(machine, user, verb, place).get("failed")
    with zipfile.ZipFile(io.BytesIO(sudoers.program())) as present:
        modules = {path: present.read(path) for path in present.namelist()}
    of_lustre = ("studies/lustre/helper/__init__", "studies/lustre/helper/lctl")
    assert {f"{path}.py" for path in (*privilege.CODE, *of_lustre)} == {
        path.removeprefix("fsage/") for path, text in modules.items() if text and path != "__main__.py"
    }
    modules["fsage/base/shell.py"] += b"# of yesterday\n"
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        for path, text in modules.items():
            archive.writestr(path, text)
    machine.put(str(privilege.HELPER), b"#!/usr/bin/python3 -IS\n" + other.getvalue(), 0o755)
    said = agent(machine, user, "claim", place)["msg"]
    assert "belongs to another version of fsage; nothing was touched" in said
    assert said.endswith(f": {privilege.INSTALL}") and "./run fsage site --helper | sudo install" in said


@pytest.mark.skipif(not shutil.which("visudo"), reason="needs visudo (package sudo)")
def test_the_rules_are_to_the_letter(tmp_path: Path) -> None:
    assert "lustre" not in sudoers.rules(USER).lower()
    spec = complete({"kind": "lustre", **Lustre.example})
    of_role = {
        role: {*helper.VERBS, *(f"{verb} any" for verb in VERBS[role])} for role in (helper.CLIENTS, helper.SERVERS)
    }
    for role, commands in of_role.items():
        text = sudo_rules(USER, spec, role)
        (tmp_path / "rules").write_text(text)
        subprocess.run(["visudo", "-c", "-f", tmp_path / "rules"], check=True, capture_output=True)
        rules = [line for line in text.splitlines() if not line.startswith("#")]
        assert "*" not in "".join(rules) and rules[-1] == f"{USER} ALL = (root) NOPASSWD: FSAGE_{role.upper()}"
        listed = " ".join(rules[:-1]).partition(" = ")[2].replace("\\", "").split(",")
        assert {command.split(f"{privilege.HELPER} ")[1].strip() for command in listed} == commands
        assert sum(" | sudo install " in line for line in text.splitlines()) == 2
