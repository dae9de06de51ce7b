"""The limits of a site on this host (fsage.model.limits): root's file, the bytes of the day, and fsage's own pace."""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time

from fsage.host.system import files, interruption, places
from fsage.model import MIB, declaration, limits
from fsage.model.errors import Refusal
from fsage.model.target import Limits

WRITTEN = "written.json"
"""The note of the bytes that were written today, by all targets of this user: where it lies no inventory says."""


def of_host() -> Limits:
    """What root allows on this host; no limit where there is no file. Raises Refusal for one that is not root's."""
    try:
        descriptor = places.file(limits.FILE, os.O_RDONLY)
    except FileNotFoundError:
        return limits.of_site({})
    except OSError as error:
        raise Refusal(
            f"{limits.FILE}: {error.strerror}: what root allows is not known, so nothing was touched. All must be able "
            f"to read it (chmod 644)"
        ) from error
    with open(descriptor, encoding="utf-8") as text:
        owner = os.fstat(descriptor).st_uid
        if owner:
            raise Refusal(
                f"{limits.FILE} belongs to {places.who(owner)}, and the limits of a site are root's: nothing was "
                f"touched. `chown root {limits.FILE}`, or remove it"
            )
        try:
            return limits.of_site(json.load(text))
        except (ValueError, Refusal) as why:
            raise Refusal(f"{limits.FILE}: {why}; nothing was touched") from None


def effective(declared: Limits) -> Limits:
    """What is declared and what root allows, whichever is stricter. Raises Refusal."""
    return limits.stricter(declared, of_host())


def refuse_now(allowed: Limits, what: str, needs_s: float, wanted_bytes: int, note: bool = True) -> None:
    """Raise Refusal where `what` is not begun now, by the hours and the bytes a day.

    With `note` its bytes count from now on.
    """
    why = why_not_now(allowed, what, needs_s, wanted_bytes, note)
    if why:
        raise Refusal(f"{why}. Nothing was touched")


def why_not_now(allowed: Limits, what: str, needs_s: float, wanted_bytes: int, note: bool = True) -> str | None:
    """Why `what` is not begun now, by the hours and the bytes a day; None: it is. With `note` its bytes count."""
    why = limits.why_not_begun(allowed, what, needs_s, time.time())
    if why:
        return why
    if allowed["gib_a_day"] is None:
        return None
    path = declaration.usual_home() / WRITTEN
    today = time.strftime("%Y-%m-%d")
    with files.locked(path.with_suffix(".lock")) if note else contextlib.nullcontext():
        written = (files.read_json(path) or {}).get(today, 0) + wanted_bytes
        why = limits.why_too_much(allowed, what, written)
        if why:
            return why
        if note:
            files.write_json(path, {today: written})
    return None


def forget() -> list[str]:
    """Remove the note of the bytes of a day that is over; a sentence on one that stays."""
    path = declaration.usual_home() / WRITTEN
    with contextlib.suppress(PermissionError):  # of a home that this user may not pass: then there is none
        if time.strftime("%Y-%m-%d") in (files.read_json(path) or {}):
            return [f"{path} stays until tomorrow: limits.gib_a_day counts what was written today"]
        files.remove(path)
        files.remove(path.with_suffix(".lock"))
    return []


class Pace:
    """Keeps what fsage itself writes, makes and deletes below a share of the site's rates, by sleeping.

    `pause` is called before each of these operations, by any thread: it may wait too, or end the work by a Failure.
    """

    def __init__(self, allowed: Limits, share: int = 1) -> None:
        self.bytes_s = (allowed["bandwidth_mib_s"] or math.inf) * MIB / share
        self.operations_s = (allowed["operations_s"] or math.inf) / share
        self.lock = threading.Lock()
        self.free_at_s = 0.0
        self.pause = interruption.check

    def spend(self, size: int = 0) -> None:
        """Note an operation that moved so many bytes, and wait until the next may begin."""
        self.pause()
        if math.isinf(self.bytes_s) and math.isinf(self.operations_s):
            return
        with self.lock:
            now_s = time.monotonic()
            self.free_at_s = max(self.free_at_s, now_s) + max(size / self.bytes_s, 1 / self.operations_s)
            wait_s = self.free_at_s - now_s
        time.sleep(wait_s)


UNLIMITED = Pace(limits.of_site({}))
