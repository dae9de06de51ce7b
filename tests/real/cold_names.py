"""Runs on the Lustre host (lustre_vm.there): a metadata cell's phases, names cold, warm and as fsage leaves them.

Cold is made by umount and mount by hand, warm by looking every file up. What counts is how many requests the client
sends its servers during a phase.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from states import phases_of

from fsage.host.cells.phases import Phases
from fsage.host.remote.remote_hosts import Hosts, inventory_of
from fsage.host.states.inspection import remove_measured
from fsage.host.system import caches, lctl
from fsage.host.targets import claims
from fsage.host.targets.directories import measured_files
from fsage.host.targets.opening import opened
from fsage.model.request import Request
from fsage.studies.lustre.host.clients import client_mount
from fsage.studies.lustre.model import lustre_of


def ours(phases: Counted, phase: dict) -> dict:
    return Phases.drop_caches(phases, phase)


def cold(phases: Counted, phase: dict) -> dict:
    dropped = ours(phases, phase)
    mount = client_mount(lustre_of(phases.target.spec), Path(phases.target.spec["directory"]))
    subprocess.run(["umount", mount.point], check=True)
    caches.drop_all_pages()
    subprocess.run(["mount", "-t", "lustre", f"{mount.mgs}:/{mount.fsname}", mount.point], check=True)
    return dropped


def warm(phases: Counted, phase: dict) -> dict:
    dropped = ours(phases, phase)
    for path in measured_files(phases.target.mounts):
        path.stat()
    return dropped


def requests() -> Counter[str]:
    """How many requests this client has sent to MDTs (mdc) and OSTs (osc), by operation."""
    sent: Counter[str] = Counter()
    for name, text in lctl.get("mdc.*.stats", "osc.*.stats").items():
        for operation, count in re.findall(r"^(\w+) +(\d+) samples", text, re.MULTILINE):
            sent[f"{name.partition('.')[0]} {operation}"] += int(count)
    return sent


class Counted(Phases):
    """Phases that count what their commands ask of the servers."""

    way: Callable[[Counted, dict], dict] = staticmethod(ours)

    def drop_caches(self, phase: dict) -> dict:
        return self.way(self, phase)

    def call(self, phase: dict, inherited: Sequence[int] = ()) -> dict:
        before = requests()
        done = super().call(phase, inherited)
        sent = requests() - before
        total = sum(count for operation, count in sent.items() if operation.endswith(" req_waittime"))
        return {**done, "requests": total, "operations": dict(sent)}


def main(spec: dict[str, Any], request: Request, times: int) -> dict[str, dict[str, list[dict]]]:
    """Phase -> way -> {"requests", "operations", "wall_s", "metadata"} of each time."""
    target = opened(spec, request)
    found: dict[str, dict[str, list[dict]]] = {}
    with closing(Hosts(target.spec, target.claim, inventory_of(request))) as hosts:
        phases = phases_of(target, hosts, Counted)
        state = claims.read_token(target.mounts[0])
        for _ in range(times):
            for way in (cold, warm, ours):
                phases.way = way
                taken, why, _ = phases.run(request["cells"][0], lambda: None)
                assert why is None, (why, taken)
                for each in taken:
                    kept = {key: each[key] for key in ("requests", "operations", "wall_s", "metadata")}
                    found.setdefault(each["name"], {}).setdefault(way.__name__, []).append(kept)
                remove_measured(target, state)
    return found
