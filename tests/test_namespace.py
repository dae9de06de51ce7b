"""A target's mounts are seen by fsage's commands alone. Real commands of the agent, as on a machine of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fsage

pytestmark = pytest.mark.root
Spec = dict[str, Any]
PLACE = "/run/fsage/namespace"
AGENT = [sys.executable, "-S", "-m", "fsage.agent"]
LIBRARY = str(Path(fsage.__file__).parents[1])
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class Machine:
    """Mounts of its own, of which nothing is shared, and where no command of fsage has run yet."""

    def __init__(self, start: Callable[..., subprocess.Popen]) -> None:
        self.first = start("unshare", "--mount", "--propagation", "private", "sleep", "600")
        self.others: list[subprocess.Popen] = []
        wait_for(lambda: os.readlink(f"/proc/{self.first.pid}/exe").endswith("/sleep"))
        self.run("mount", "-t", "tmpfs", "fsage", PLACE)

    def words(self, *words: str) -> list[str]:
        """A command there."""
        return ["nsenter", f"--mount=/proc/{self.first.pid}/ns/mnt", *words]

    def run(self, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        return subprocess.run(self.words(*words), text=True, capture_output=True, **{"check": True, **how})

    def agent(self, verb: str, spec: Spec, request: dict | None = None) -> dict:
        """One verb of the agent, as Ansible runs it."""
        given = json.dumps({"target": spec, "request": request or {}})
        done = self.run(*AGENT, verb, input=given, check=False, env={**os.environ, "PYTHONPATH": LIBRARY})
        return json.loads(done.stdout)

    def copies(self) -> subprocess.Popen:
        """A program with a mount namespace of its own, which begins now and stays."""
        program = subprocess.Popen(self.words("unshare", "--mount", "--propagation", "private", "sleep", "600"))
        self.others.append(program)
        wait_for(lambda: os.readlink(f"/proc/{program.pid}/exe").endswith("/sleep"))
        return program

    def mounts(self) -> str:
        """What everybody on the machine sees."""
        return Path(f"/proc/{self.first.pid}/mountinfo").read_text()

    def end(self) -> None:
        """End all that was started."""
        for program in (*self.others, self.first):
            program.kill()
            program.wait()


@pytest.fixture
def machine(outside: Callable[..., subprocess.Popen], local_target: Spec) -> Iterator[Machine]:
    """Such a machine; the target is released on it before `local_target` looks whether anything is left."""
    there = Machine(outside)
    yield there
    there.agent("remove", local_target)
    there.end()


@pytest.mark.parametrize("device_model", [None, {"kind": "seek"}], ids=["no model", "seek"])
def test_a_program_with_mounts_of_its_own_does_not_hold_a_target(
    machine: Machine, local_target: Spec, device_model: dict | None
) -> None:
    local_target["device_model"] = device_model
    for verb in ("create", "claim"):
        assert not machine.agent(verb, local_target).get("failed")
    assert device_model is None or "fuse" not in machine.mounts()
    machine.copies()
    study = {"study": "s", "state": "empty", "steps": []}
    for verb in ("scrub", "evidence", "release"):
        answer = machine.agent(verb, local_target, study)
        assert not answer.get("failed"), answer["msg"]


def test_a_target_is_seen_by_who_enters_and_by_nobody_else(machine: Machine, local_target: Spec) -> None:
    for verb in ("create", "claim"):
        assert not machine.agent(verb, local_target).get("failed")
    point = Path(local_target["mount_dir"]) / local_target["name"] / "0"
    enter = [str(Path(sys.executable).with_name("fsage")), "enter"]
    assert str(point) not in machine.mounts()
    assert machine.run("ls", "-A", str(point)).stdout == ""
    assert ".fsage" in machine.run(*enter, "ls", "-A", str(point)).stdout
    stranger = machine.run("nsenter", f"--mount={PLACE}/mnt", *NOBODY, "true")
    assert stranger.returncode == 0, "root may"
    stranger = machine.run(*NOBODY, "nsenter", f"--mount={PLACE}/mnt", "ls", str(point), check=False)
    assert stranger.returncode != 0 and "Operation not permitted" in stranger.stderr
    machine.run("rm", f"{PLACE}/inode")  # as a kill may leave it
    assert machine.agent("claim", local_target)["msg"].endswith("is claimed and intact")
    machine.agent("release", local_target)
    assert f"{PLACE}/mnt" not in machine.mounts(), "the namespace went with its last mount"
    nothing = machine.run(*enter, "true", check=False)
    assert nothing.returncode == 1 and "fsage: no loop target is mounted on " in nothing.stderr


def wait_for(condition: Callable[[], bool]) -> None:
    """For 5 s at most."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
