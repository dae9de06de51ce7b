"""What a target may leave on a machine: every place that a release is answerable for, as it is now."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fsage.base.shell import run


def of_target(spec: dict[str, Any], *folders: Path) -> dict[str, Any]:
    """The traces of one target, on a machine where others work at the same time; `folders` are its own places."""
    name, places = spec["name"], [str(folder) for folder in folders]

    def ours(text: object) -> bool:
        return any(word in str(text) for word in (f"fsage-{name}", f"/{name}/", f"/{name} ", *places))

    loops = json.loads(run(["losetup", "--list", "--json"]).stdout or '{"loopdevices": []}')["loopdevices"]
    return {
        "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if ours(line)],
        "loop devices": [loop["name"] for loop in loops if ours(loop["back-file"])],
        "control groups": [str(path) for path in Path("/sys/fs/cgroup").rglob("*fsage*") if path.name.endswith(name)],
        "processes": [words for pid in os.listdir("/proc") if pid.isdigit() and ours(words := _words(pid))],
        "shared memory": [path.name for path in Path("/dev/shm").iterdir() if ours(path.name) or _of_mpi(path)],
        "files": sorted(str(path) for folder in folders for path in folder.rglob("*")),
    }


def _words(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _of_mpi(path: Path) -> bool:
    return path.name.startswith(("vader_segment", "sm_segment")) and path.stat().st_uid == os.geteuid()
