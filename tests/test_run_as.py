"""`run_as`: the agent is root, and what is measured is not. Real fio on a real target."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from measuring import asked, cell, observed
from session import PREFIX, another_host
from states import MIB, bring, populate
from striped import osts_of, step

from fsage.base import Refusal
from fsage.host.cells import measure
from fsage.host.states.inspection import remove_measured
from fsage.host.system import commands
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.model.structure import Step
from fsage.studies.netflow import workloads as netflow
from fsage.workloads.shared import mpirun

SOMEBODY = pwd.getpwnam("nobody")
FIO = '#!/bin/sh\nid -u >>{noted}\nexec {fio} "$@"\n'
STEP = populate(10, sizes=(MIB,), request_bytes=MIB)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody can look into."""
    with tempfile.TemporaryDirectory(prefix=f"fsage-test-{PREFIX}", dir="/var/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def measured(spec: dict, of: Step, hosts: dict | None, **params: object) -> dict:
    """What is observed of one cell in a state of one step."""
    request = asked([cell(spec, "one", [of], **params)], steps=[of], state="wanted", hosts=hosts)
    assert measure.measure(spec, request, False)["measured"] == 1
    return observed(spec, "one")[0]


@pytest.mark.root
def test_what_is_measured_runs_as_the_user_who_is_declared(local_target):
    spec = {**local_target, "run_as": SOMEBODY.pw_name}
    del spec["mount_dir"]  # the test's own folder is closed to others
    claim.create(spec, {}, False)
    claim.claim(spec, {}, False)  # calibrated by fio
    target = open_target(spec)
    remove_measured(target)
    place = target.mounts[0] / "measured"
    argv = ["sh", "-c", "id -u; id -G; echo $HOME; cat /proc/self/status | grep ^CapEff; exec >made; env"]
    (ran,) = commands.run([argv], lambda: None, 60, cwd=place, front=target.front(argv))
    groups = " ".join(map(str, os.getgrouplist(SOMEBODY.pw_name, SOMEBODY.pw_gid)))
    said = [str(SOMEBODY.pw_uid), groups, SOMEBODY.pw_dir, f"CapEff:\t{0:016x}"]
    assert (ran["rc"], ran["stdout"].splitlines()) == (0, said), ran["stderr"]
    assert (place / "made").owner() == SOMEBODY.pw_name and target.claim["uid"] == target.uid == SOMEBODY.pw_uid
    assert target.front(["fio", f"--filename={target.devices[0]}"]) == [], "the device itself only root reads"
    assert "--allow-run-as-root" not in mpirun(target.claim) and "--allow-run-as-root" in mpirun({"uid": 0})
    (place / "made").chmod(0o600)
    remove_measured(target)
    assert not any(place.iterdir())


@pytest.mark.root
@pytest.mark.parametrize(
    ("name", "said"), [("n0body-here", "and .* has no such user; nothing was touched"), ("a b", "the name of a user")]
)
def test_a_user_who_is_not_there_is_refused_before_the_first_change(local_target, name, said):
    claim.create(local_target, {}, False)
    with pytest.raises(Refusal, match=said):
        claim.claim({**local_target, "run_as": name}, {}, False)
    assert not (Path(local_target["home"]) / local_target["name"] / "claim.json").exists()


@pytest.mark.long
@pytest.mark.root
def test_on_several_clients_each_fio_runs_as_him(place, monkeypatch):
    noted, programs = place / "noted", place / "bin"
    programs.mkdir()
    noted.touch()
    os.chown(noted, SOMEBODY.pw_uid, SOMEBODY.pw_gid)
    (programs / "fio").write_text(FIO.format(noted=noted, fio=shutil.which("fio")))
    (programs / "fio").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    spec = {"name": "shared", "kind": "directory", "directory": str(place / "target"), "home": str(place / "home")}
    spec |= {"budget_gib": 0.25, "scale": {"file_size": 0.125, "tasks": 1}, "amount_mib": 8}
    spec["run_as"] = SOMEBODY.pw_name
    for lie, why in (
        ("pwd.getpwnam = {}.__getitem__", r"n2 lacks user nobody \(fsage_target.run_as\): .*; nothing was touched"),
        (
            "real = pwd.getpwnam; pwd.getpwnam = lambda name: pwd.struct_passwd((name, 'x', 77, *real(name)[3:]))",
            f"clients differ in the number of the user who measures: n1: {SOMEBODY.pw_uid}; n2: 77",
        ),
    ):
        hosts = {"clients": [{"name": "n1"}, another_host(place, "n2", lie)], "servers": []}
        with pytest.raises(Refusal, match=why):
            claim.create(spec, {"hosts": hosts}, False)
        assert not (place / "target").exists()
    another_host(place, "n2")
    claim.create(spec, {"hosts": hosts}, False)
    claim.claim(spec, {"hosts": hosts}, False)
    bring(spec, STEP, hosts=hosts)
    noted.write_text("")
    seen = measured(spec, STEP, hosts, workload="metadata", files_per_task=20, tool="fio")
    assert [each["rc"] for each in seen["phases"][0]["by_host"].values()] == [0, 0], seen["why"]
    ran = noted.read_text().split()
    assert len(ran) >= 2 and set(ran) == {str(SOMEBODY.pw_uid)}, "on each client"
    claim.remove(spec, {}, False)
    assert not (place / "target").exists()


@pytest.mark.long
@pytest.mark.root
def test_a_program_of_the_agents_own_runs_as_him(new_target, monkeypatch):
    """The agent's code and a job's files are root's, wherever they are; he gets copies."""
    del new_target["mount_dir"]
    python = shutil.which("python3", path="/usr/bin")
    if not python:
        pytest.skip("needs /usr/bin/python3: this environment's lies where only root can look")
    spec = osts_of({**new_target, "run_as": SOMEBODY.pw_name}, amount_mib=32)
    striped = step("netflow.6")
    bring(spec, striped)
    monkeypatch.setattr(sys, "executable", python)
    outcome = netflow.read(measured(spec, striped, None, workload="netflow", models_read=64))
    assert (outcome.status, outcome.why) == ("valid", None)
