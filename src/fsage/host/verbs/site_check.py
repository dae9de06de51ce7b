"""What a host can do, and where it launches, whether the target could be claimed as it is declared."""

from __future__ import annotations

from collections.abc import Mapping

from fsage.host.kinds.directory import Directory
from fsage.host.remote import probe
from fsage.host.targets import kinds
from fsage.host.targets.kinds import Result
from fsage.host.verbs import claim, create
from fsage.model.declaration import complete
from fsage.model.errors import Failure, Refusal
from fsage.model.request import Request


def check_site(declared: Mapping[str, object], request: Request, check: bool) -> Result:
    """The answer of `probe`; where the host launches, with what a claim would refuse. Changes nothing."""
    answer = probe.probe(declared, request, check)
    found = answer["probe"]
    if request.get("launches") and found["able"]:
        found["refused"] = why_refused(declared, request)
        if (offered := capacity_bytes(declared)) is not None:
            found["capacity_bytes"] = offered
    return answer


def capacity_bytes(declared: Mapping[str, object]) -> int | None:
    """What a claim could take of a shared file system now; None where that is not known, or declared by itself."""
    spec = complete(declared)
    kind = kinds.named(spec["kind"])
    if not issubclass(kind, Directory):
        return None
    try:
        return kind.offer(spec).capacity_bytes
    except (Refusal, Failure, OSError):  # the claim would be refused, and `refused` says why
        return None


def why_refused(declared: Mapping[str, object], request: Request) -> str | None:
    """Why creating and claiming the target would be refused, by the checks of these commands; None: they would not."""
    try:
        created = create.create(declared, request, True)
        if not created["changed"]:  # what is not made yet cannot be checked as what is
            claim.claim(declared, request, True)
    except (Refusal, Failure) as why:
        return str(why)
    return None
