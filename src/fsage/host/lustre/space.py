"""How full a Lustre file system is, OST by OST, by `lfs df`; and waiting until what was deleted is free again.

After an unlink the old numbers stay for 7 to 8 s: the MDT commits every 5 s, only then it has the objects destroyed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Optional

from fsage.host.system import shell
from fsage.host.system.shell import run
from fsage.host.targets.limits import Wrong, nothing
from fsage.model.errors import Failure
from fsage.model.evidence import lfs_df
from fsage.model.evidence.lfs_df import Ost
from fsage.model.evidence.store import NotThisText

# A client believes for a second what it was last told (llite.*.statfs_max_age), so two looks closer than that are one.
LOOK_EVERY_S = 1.1
PENDING_EVERY_S = (0.1, 0.2, 0.4, 0.8)  # then as the last: each time all targets of the servers commit
ANSWER_S = 120.0  # `lfs df` itself would wait for a lost OST for ever (seen on 2.17)
PASSES_S = 30.0  # a client that was evicted connects anew within seconds
PASSING = tuple(
    os.strerror(code)
    for code in (errno.EIO, errno.ESHUTDOWN, errno.ENOTCONN, errno.EAGAIN, errno.ETIMEDOUT, errno.EINPROGRESS)
)
FREES_PATIENCE_S = 300.0
STILL_S = 20.0  # where nothing was freed for so long after the servers committed, nothing more will be
UNSEEN_S = 10.0  # freeing takes at most so long where no server can be told to commit
OWN_BYTES = 1 << 20  # the logs and directories of an OST grow by less while it serves (a few KiB were seen)


MIB = 1 << 20


Sync = Callable[[], Optional[int]]


def parse(text: str) -> list[Ost]:
    """The OSTs in what `lfs df` prints, by number, without those that are deactivated. Raises Failure."""
    try:
        return lfs_df.parse(text.splitlines()).all_osts()
    except NotThisText as why:
        raise Failure(str(why)) from why


def name_of(fsname: str, number: int) -> str:
    """The name of an OST."""
    return f"{fsname}-OST{number:04x}"


def osts(mount: Path, needed: Collection[int] | None = None) -> list[Ost]:
    """The OSTs of the file system mounted at `mount` that answer. Raises Failure where one of those needed does not.

    `needed`: the numbers of the OSTs that files may lie on; None: all. What passes, such as after an eviction, is asked
    again for PASSES_S.
    """
    began = time.monotonic()
    while True:
        found, silent = _asked(mount)
        lacking = [one for one in silent if needed is None or one.number is None or one.number in needed]
        if not lacking and found:
            return found
        waited_s = time.monotonic() - began
        passing = all(one.why in PASSING for one in lacking)
        if not lacking or not passing or waited_s > PASSES_S:
            names = ", ".join(f"{one.name} ({one.why})" for one in lacking) or "any OST"
            tried = f"in {waited_s:.0f} s of attempts" if passing and lacking else "in one attempt"
            raise Failure(
                f"{os.uname().nodename} does not learn how full {names} of {mount} is, {tried}: `lfs check servers` "
                "names what does not answer. Bring it back, or have it deactivated, and run the same command again"
            )
        time.sleep(LOOK_EVERY_S)


def _asked(mount: Path) -> tuple[list[Ost], list[lfs_df.Silent]]:
    """What `lfs df` says; where it waits for a target that is lost, what `lfs df --lazy` says of the others."""
    for words in (["lfs", "df"], ["lfs", "df", "--lazy"]):
        with contextlib.suppress(shell.Silent):
            ran = run([*words, str(mount)], timeout=ANSWER_S, ok=range(256))
            if ran.returncode and not ran.stdout.strip():
                raise Failure(f"`{' '.join(words)} {mount}` ended with status {ran.returncode}: {ran.stderr.strip()}")
            try:
                read = lfs_df.parse(ran.stdout.splitlines())
            except NotThisText as why:
                raise Failure(str(why)) from why
            return read.osts, read.silent
    raise Failure(
        f"`lfs df {mount}` did not end within {ANSWER_S:g} s: an OST or MDT does not answer; `lfs check servers` "
        "names it"
    )


def fullness(osts: list[Ost]) -> dict[str, dict[str, float]]:
    """Bytes and fullness by OST, for an observation; full is what clients cannot write any more."""
    return {
        ost.name: {
            "total_bytes": ost.total_bytes,
            "used_bytes": ost.used_bytes,
            "available_bytes": ost.available_bytes,
            "fullness_percent": 100 * (1 - ost.available_bytes / ost.total_bytes),
        }
        for ost in osts
    }


def used(osts: Sequence[Ost]) -> dict[str, int]:
    """Used bytes by OST."""
    return {ost.name: ost.used_bytes for ost in osts}


def moved(then: Mapping[str, int], now: Mapping[str, int], tolerance_bytes: int) -> list[str]:
    """A sentence for each OST whose used bytes changed since `then`, by more than others may (`tolerance_bytes`)."""
    return [f"{name} is gone" for name in sorted(set(then) - set(now))] + [
        f"{name} holds {now[name] / MIB:.1f} MiB, where {bytes_then / MIB:.1f} MiB were left"
        for name, bytes_then in sorted(then.items())
        if name in now and abs(now[name] - bytes_then) > OWN_BYTES + tolerance_bytes
    ]


def as_left(then: Mapping[str, int], tolerance_bytes: int) -> Wrong:
    """Finds OSTs whose used bytes changed since `then` (moved)."""
    return lambda now: moved(then, used(now), tolerance_bytes)


def in_all(then: Mapping[str, int], more_bytes: int, tolerance_bytes: int) -> Wrong:
    """Finds that these OSTs together do not hold as much as `then` and `more_bytes`, within others' tolerance each."""
    total_bytes = sum(then.values()) + more_bytes

    def wrong(now: Sequence[Ost]) -> list[str]:
        used_bytes = sum(ost.used_bytes for ost in now if ost.name in then)
        if abs(used_bytes - total_bytes) <= len(then) * (OWN_BYTES + tolerance_bytes):
            return []
        return [f"the OSTs hold {used_bytes / MIB:.1f} MiB, and {total_bytes / MIB:.1f} MiB are accounted for"]

    return wrong


def await_frees(
    mount: Path, sync: Sync, wrong: Wrong = nothing, alone: bool = True, needed: Collection[int] | None = None
) -> list[Ost]:
    """Wait until the objects of deleted files are destroyed, and `wrong` finds nothing; the OSTs by `lfs df` then.

    `needed`: the OSTs that files may lie on; of others nothing is awaited (`osts`).

    `sync` has the servers commit, and counts the objects that they still have to destroy (None: no server answers).
    Where nothing is wrong, a count that does not fall for STILL_S is ignored. After an OST was formatted, an MDT waits
    for ever for it to confirm what the old OST was told (seen on 2.17).

    Where others write too (not `alone`), the OSTs are never still. Then UNSEEN_S must have passed.

    Raises Failure when no space was freed for STILL_S and something is wrong.
    """
    began = still_since = falls_since = time.monotonic()
    last: dict[str, int] = {}
    least: int | None = None
    while True:
        pauses = chain(PENDING_EVERY_S, repeat(PENDING_EVERY_S[-1]))
        while pending := sync():
            at = time.monotonic()
            if least is None or pending < least:
                least, falls_since = pending, at
            if at - falls_since > STILL_S or at - began > FREES_PATIENCE_S:
                break
            time.sleep(next(pauses))
        time.sleep(LOOK_EVERY_S)
        now = [ost for ost in osts(mount, needed) if needed is None or ost.number in needed]
        at, quiet = time.monotonic(), used(now) == last or not alone
        if used(now) != last:
            last, still_since = used(now), at
        why = wrong(now)
        if not why and (pending == 0 or (quiet and at - began >= UNSEEN_S)):
            return now
        if why and pending:
            why = [*why, f"{pending} objects are still to be destroyed"]
        if why and (at - still_since > STILL_S or at - began > FREES_PATIENCE_S):
            raise Failure(
                f"{mount}, {at - began:.0f} s after deleting: {'; '.join(why)}. Either somebody else writes or deletes "
                "there, or objects were not destroyed"
            )
        if at - began > FREES_PATIENCE_S:
            raise Failure(
                f"{mount}: its OSTs still change {FREES_PATIENCE_S:.0f} s after deleting; does somebody else write?"
            )
