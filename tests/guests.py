"""Kernels that run as programs, for tests: targets in guests, their cells, and what guests answer."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fsage.base import MIB
from fsage.base.shell import run
from fsage.host.verbs import checks
from fsage.model.structure import Step
from fsage.studies.kernels.host import uml
from fsage.studies.kernels.model import TASK, programs
from fsage.studies.kernels.model.boot import Kernel

KERNELS = programs.here()


needs_kernel = pytest.mark.skipif(
    not KERNELS, reason="no kernel that is a program is here (fsage kernels --fetch bookworm)"
)


def newest() -> Kernel:
    return KERNELS[-1]


def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **declared: object) -> tuple[dict[str, Any], Any]:
    """A target in guests, with images of its own, and its claim."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec = {"name": "guests", "kind": "uml", "filesystem": "ext4", "size_gib": 1, "amount_mib": 64}
    spec |= {"home": str(tmp_path / "home"), **declared}
    return spec, ask(spec, "claim")["claim"]


def observations(tmp_path: Path) -> list[tuple[Path, Any]]:
    """What was seen of each cell of that target, with its place."""
    return [(path, json.loads(path.read_text())) for path in sorted(tmp_path.glob("home/guests/outbox/**/*.json"))]


def ask(target: dict[str, object], verb: str, **of: object) -> dict[str, Any]:
    """What guests answer to a verb on a target of kind `uml`."""
    given = {"target": target, "request": of, "hosts": None}
    answer = uml.Uml.answered(verb, given, checks.checked(of, None), False)
    assert answer is not None
    return answer


def new_file(name: str, release: str, mount: str | None = None) -> dict[str, object]:
    """A cell that writes a file of 64 MiB on a kernel, as a request has it."""
    task = {"bytes": 64 * MIB, "request_bytes": 4 * MIB, "direct": True, "device": {"kind": "iocost"}}
    phase = {"name": "write", "argv": ["new_file"], "reads": False, "allocator": "warm"}
    phase["files"] = {TASK: json.dumps(task)}
    if mount:
        phase["mount_options"] = mount
    return cell(name, {"workload": "new_file", "kernel": release, "mount": mount}, [phase])


def cell(name: str, params: dict[str, Any], phases: Any) -> dict[str, object]:
    """A cell with these phases, as a request has it."""
    return {"name": name, "kind": "planned", "attempt": 1, "order": 1, "params": params, "phases": phases}


def asked_of(claimed: Any, state: str, *steps: Step) -> dict[str, Any]:
    """What verbs are asked of a state."""
    return {"study": "s", "state": state, "steps": [step.to_json() for step in steps], "claim": claimed["id"]}


def fsage(words: list[str], environment: dict[str, str], code: int = 0) -> str:
    """What a command prints, or says where it fails."""
    done = run([sys.executable, "-m", "fsage", *words], ok=(code,), env=environment)
    return done.stderr if code else done.stdout
