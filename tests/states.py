"""Steps, and bringing a target into a state as the playbooks do."""

from __future__ import annotations

from typing import Any

from fsage.host import states
from fsage.host.cells.phases import Phases
from fsage.host.instruments import Instruments, Visit, found
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.targets import Target
from fsage.model.claim import Token
from fsage.model.request import Request
from fsage.model.structure import Method, Step
from fsage.studies.paf.model import Fragment, Populate

MIB = 1 << 20


def phases_of(target: Target, hosts: Hosts, of: type[Phases] = Phases) -> Any:
    """Phases of cells on a target, with the instruments that surround them."""
    visit = Visit(target, {}, hosts, Token("claim", "ready", 1, "instance", ""))
    return of(target, hosts, Instruments([each(visit) for each in found() if each.wanted(visit)]))


def populate(
    percent: int,
    generation: int = 1,
    sizes: tuple[int, ...] = (8 * MIB,),
    method: Method = "fallocate",
    request_bytes: int = 4 * MIB,
    files_at_once: int = 4,
) -> Populate:
    return Populate(generation, percent, sizes, 67005, method, request_bytes, files_at_once)


def fragment(percent: int, generation: int = 1) -> Fragment:
    return Fragment(generation, percent, 67005)


def asked(*steps: Step, **more: Any) -> Request:
    """The request of a state of these steps."""
    request: Request = {"state": "wanted", "steps": list(steps), "reuse": "nested", "study": "test"}
    return {**request, **more}


def bring(spec: dict, *steps: Step, **more: Any) -> dict[str, Any]:
    """What the playbooks do, by the same verbs; returns the token."""
    request = asked(*steps, **more)
    states.reach(spec, request)
    return states.evidence(spec, request, False)["evidence"]["token"]
