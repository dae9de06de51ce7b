"""Verbs of the helper for Lustre: locks and known tunables of a client, commit and counters of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fsage.agent.helper.caller import Caller, Given
from fsage.agent.lustre import granted


def lustre_locks(caller: Caller, given: Given) -> None:
    """Give back the locks of a Lustre client that nobody uses."""
    granted.cancel_locks(granted.check_locks(given.get("connections")))


def lustre_tune(caller: Caller, given: Given) -> None:
    """Set known tunables of a Lustre client."""
    granted.tune(granted.check_tunables(given.get("values")))


def lustre_sync(caller: Caller, given: Given) -> str:
    """Have a Lustre server commit."""
    return granted.commit(granted.check_fsname(given.get("fsname")))


def lustre_counters(caller: Caller, given: Given) -> str:
    """What the OSTs of a Lustre server have counted."""
    return granted.counters(granted.check_fsname(given.get("fsname")))


VERBS: dict[str, Callable[[Caller, Given], Any]] = {
    "lustre-locks": lustre_locks,
    "lustre-tune": lustre_tune,
    "lustre-sync": lustre_sync,
    "lustre-counters": lustre_counters,
}
