"""`run_as`: the agent is root, and what is measured is not. Real fio on a real target."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from fsage.agent import claim, images
from fsage.agent.calibrate import amount
from fsage.agent.cells import commands
from fsage.agent.errors import Refusal
from fsage.agent.state import remove_measured
from fsage.agent.target import open_target
from fsage.workloads._shared import mpirun

SOMEBODY = pwd.getpwnam("nobody")


@pytest.mark.root
def test_what_is_measured_runs_as_the_user_who_is_declared(local_target: dict[str, Any]) -> None:
    spec = {**local_target, "run_as": SOMEBODY.pw_name}
    del spec["mount_dir"]  # the test's own folder is closed to others
    images.create(spec, {}, False)
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
    assert amount(target, 100)["calibration"]["write_mib_s"] > 0
    assert target.front(["fio", f"--filename={target.devices[0]}"]) == [], "the device itself only root reads"
    assert "--allow-run-as-root" not in mpirun(target.claim) and "--allow-run-as-root" in mpirun({"uid": 0})
    (place / "made").chmod(0o600)
    remove_measured(target)
    assert not any(place.iterdir())


@pytest.mark.root
@pytest.mark.parametrize(
    ("name", "said"), [("n0body-here", "whom .* does not know; nothing was touched"), ("a b", "the name of a user")]
)
def test_a_user_who_is_not_there_is_refused_before_the_first_change(
    local_target: dict[str, Any], name: str, said: str
) -> None:
    images.create(local_target, {}, False)
    with pytest.raises(Refusal, match=said):
        claim.claim({**local_target, "run_as": name}, {}, False)
    assert not (Path(local_target["home"]) / local_target["name"] / "claim.json").exists()
