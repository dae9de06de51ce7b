"""Processes that a command leaves behind: ours are waited for and ended, others stay."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from fsage.base import Failure
from fsage.host.system import commands

AWAY = 'setsid sh -c "exec sleep {} 3>{}" >/dev/null 2>&1 & until [ -e {} ]; do sleep 0.05; done; exit 3'


def start(path: Path, seconds: float) -> None:
    """A command that fails, and leaves a process in a session of its own that has a file open."""
    command = ["sh", "-c", AWAY.format(seconds, path, path)]
    (ran,) = commands.run([command], lambda: None, 60, env={**os.environ, **commands.marked()})
    assert ran["rc"] == 3


def having_open(path: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may end meanwhile
            if any(os.readlink(descriptor) == str(path) for descriptor in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


@pytest.mark.parametrize(("seconds", "grace_s"), [(1, 30.0), (3600, 0.3)])
def test_what_a_command_left_is_waited_for_and_then_ended(tmp_path, monkeypatch, seconds, grace_s):
    monkeypatch.setattr(commands, "GRACE_S", grace_s)
    start(tmp_path / "f", seconds)
    assert having_open(tmp_path / "f")
    commands.end_leftover([tmp_path])
    assert not having_open(tmp_path / "f")


def test_somebody_elses_process_and_one_at_other_files_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "GRACE_S", 0.0)
    measured = tmp_path / "measured"
    measured.mkdir()
    with open(measured / "f", "w") as file, subprocess.Popen(["sleep", "3600"], stdout=file) as others:
        start(tmp_path / "beside", 3600)
        (beside,) = having_open(tmp_path / "beside")
        commands.end_leftover([measured])
        assert having_open(tmp_path / "beside") == [beside] and others.poll() is None
        others.kill()
    os.kill(beside, 9)


def test_one_that_does_not_end_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "PATIENCE_S", 0.3)
    start(tmp_path / "f", 3600)
    (pid,) = having_open(tmp_path / "f")
    with pytest.raises(Failure, match=f"processes {pid} of a command were killed and have not ended"):
        commands.end_leftover([tmp_path])
    os.kill(pid, 9)
