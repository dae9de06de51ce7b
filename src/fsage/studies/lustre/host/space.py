"""Room on Lustre, OST by OST: how full each is, and how much more of it may be taken.

How full a Lustre file system is, OST by OST, by `lfs df`; and waiting until what was deleted is free again.

After an unlink the old numbers stay for 7 to 8 s: the MDT commits every 5 s, only then it has the objects destroyed.

How much more of each OST the files of a target on Lustre may take, and what quotas leave.

Quotas are those of a user, his group and a project, by `lfs quota`: a user may ask for his own.
"""

from __future__ import annotations

import errno
import math
import os
import re
import time
from collections.abc import Callable, Collection
from itertools import chain, repeat
from pathlib import Path
from typing import Optional

from fsage.api.host import run
from fsage.api.model import KIB, MIB, Failure
from fsage.api.target import SLACK_BYTES, Silent, budget
from fsage.layouts import servers
from fsage.layouts.servers import Ost
from fsage.layouts.store import NotThisText

from ..model import LustreSpec
from . import stripes

# A client believes for a second what it was last told (llite.*.statfs_max_age), so two looks closer than that are one.
LOOK_EVERY_S = 1.1
PENDING_EVERY_S = (0.1, 0.2, 0.4, 0.8)  # then as the last: each time all targets of the servers commit
ANSWER_S = 120.0  # `lfs df` itself would wait for a lost OST for ever (seen on 2.17)
WAITED_S = 600.0  # for so long `lfs df` is not waited for again: a state asks often, and each time 2 minutes passed
PASSES_S = 30.0  # a client that was evicted connects anew within seconds
PASSING = tuple(
    map(os.strerror, (errno.EIO, errno.ESHUTDOWN, errno.ENOTCONN, errno.EAGAIN, errno.ETIMEDOUT, errno.EINPROGRESS))
)
FREES_PATIENCE_S = 300.0
STILL_S = 20.0  # where nothing was freed for so long after the servers committed, nothing more will be
UNSEEN_S = 10.0  # freeing takes at most so long where no server can be told to commit


Sync = Callable[[], Optional[int]]


def parse(text: str) -> servers.Read:
    """What `lfs df` prints. Raises Failure."""
    try:
        return servers.parse_lfs_df(text.splitlines())
    except NotThisText as why:
        raise Failure(str(why)) from why


def name_of(fsname: str, number: int) -> str:
    """The name of an OST."""
    return f"{fsname}-OST{number:04x}"


def read_osts(mount: Path, needed: Collection[int] | None = None) -> list[Ost]:
    """The OSTs of the file system mounted at `mount` that answer. Raises Failure where one of those needed does not.

    `needed`: the numbers of the OSTs that files may lie on; None: all. What passes, such as after an eviction, is asked
    again for PASSES_S.
    """
    began = time.monotonic()
    while True:
        found, silent = _asked(mount)
        lacking = [ost for ost in silent if needed is None or ost.number is None or ost.number in needed]
        if not lacking and found:
            return found
        waited_s = time.monotonic() - began
        passing = all(ost.why in PASSING for ost in lacking)
        if not lacking or not passing or waited_s > PASSES_S:
            names = ", ".join(f"{ost.name} ({ost.why})" for ost in lacking) or "any OST"
            if passing and lacking:
                tried = f"in {waited_s:.0f} s of attempts"
            else:
                tried = "in one attempt"
            raise Failure(
                f"{os.uname().nodename} does not learn how full {names} of {mount} is, {tried}: `lfs check servers` "
                "names what does not answer. Bring it back, or have it deactivated, and run the same command again"
            )
        time.sleep(LOOK_EVERY_S)


def needed_osts(mount: Path, needed: Collection[int] | None) -> list[Ost]:
    """Those of the OSTs of `read_osts` that are needed. Raises Failure."""
    return [ost for ost in read_osts(mount, needed) if needed is None or ost.number in needed]


_did_not_end: dict[Path, float] = {}
"""When `lfs df` of a mount did not end in time, by the clock of time.monotonic."""


def _asked(mount: Path) -> tuple[list[Ost], list[servers.Silent]]:
    """What `lfs df` says; where it waits for a target that is lost, what `lfs df --lazy` says of the others."""
    commands = [["lfs", "df"], ["lfs", "df", "--lazy"]]
    if time.monotonic() < _did_not_end.get(mount, -math.inf) + WAITED_S:
        del commands[0]
    for words in commands:
        try:
            ran = run([*words, str(mount)], timeout=ANSWER_S, ok=range(256))
            if ran.returncode and not ran.stdout.strip():
                raise Failure(f"`{' '.join(words)} {mount}` ended with status {ran.returncode}: {ran.stderr.strip()}")
            read = parse(ran.stdout)
            return read.osts, read.silent
        except Silent:
            _did_not_end[mount] = time.monotonic()
    raise Failure(
        f"`lfs df {mount}` did not end within {ANSWER_S:g} s: an OST or MDT does not answer; `lfs check servers` "
        "names it"
    )


def lost(mount: Path) -> str:
    """Which OSTs and MDTs are deactivated or do not answer, the end of a sentence on an I/O error; '' if all do."""
    try:
        ran = run(["lfs", "df", "--lazy", str(mount)], timeout=ANSWER_S, ok=range(256))
        read = parse(ran.stdout)
    except (Failure, OSError):
        return ""
    names = [f"{name} (deactivated)" for name in read.inactive]
    names += [f"{target.name} ({target.why})" for target in read.silent]
    if not names:
        return ""
    return f"; of {mount} {', '.join(names)} does not answer. Bring it back, and run the same command again"


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


def await_frees(
    mount: Path,
    sync: Sync,
    wrong: budget.Wrong = budget.nothing,
    alone: bool = True,
    needed: Collection[int] | None = None,
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
                least = pending
                falls_since = at
            if at - falls_since > STILL_S or at - began > FREES_PATIENCE_S:
                break
            time.sleep(next(pauses))
        time.sleep(LOOK_EVERY_S)
        now = needed_osts(mount, needed)
        at = time.monotonic()
        quiet = budget.used(now) == last or not alone
        if budget.used(now) != last:
            last = budget.used(now)
            still_since = at
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


OTHERS_SHARE = 0.01  # of each OST stays free for its other users
NUMBER = r"(\d{1,19})\*?"  # a star: the limit is exceeded
LINE = re.compile(rf"\s*\S+\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s+\S+\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s+\S+\s*")


class Osts(budget.Limits):
    """The OSTs of a target on Lustre, by `lfs df`; a share of each stays free for others.

    One look at the OSTs is good for as many bytes as the fullest has left: so many fill none, wherever the files lie.
    For a larger file the file is made first, and its own OSTs are examined. Several files may grow at once. The bytes
    that they were promised and do not have yet show in no look, so they are counted to their OSTs.
    """

    slack_bytes = SLACK_BYTES

    def __init__(
        self, mount: Path, lustre: LustreSpec, alone: bool, sync: Sync, usable: Collection[int] | None = None
    ) -> None:
        """`alone`: nobody else uses the file system; `sync`: as space.await_frees takes it.

        `usable`: the OSTs that the target's files lie on; None: all.
        """
        self.mount = mount
        self.alone = alone
        self.sync = sync
        self.usable = usable
        self.declared = lustre["stripe_count"]
        self.stripe_bytes = lustre["stripe_size_mib"] * MIB
        self.good_bytes = 0
        self.known = dict[int, Ost]()
        self.promised = dict[Path, tuple[int, int]]()
        self.outstanding = dict[int, int]()

    def inspect(self) -> None:
        """Read the OSTs anew, after the time for which a client repeats its last answer."""
        if self.known:
            time.sleep(LOOK_EVERY_S)
        self.known = {ost.number: ost for ost in needed_osts(self.mount, self.usable)}
        self.outstanding = self._outstanding()
        self.good_bytes = min(map(self.left_on, self.known))

    def left(self) -> int:
        """Bytes that the target may take of all OSTs together, by the last look."""
        if not self.known:
            self.inspect()
        return sum(max(0, self.left_on(number)) for number in self.known)

    def left_on(self, number: int) -> int:
        """Bytes that the target may take of an OST."""
        ost = self.known[number]
        if self.alone:
            kept = SLACK_BYTES
        else:
            kept = int(OTHERS_SHARE * ost.total_bytes)
        return ost.available_bytes - kept - self.outstanding.get(number, 0)

    def take(self, size: int, path: Path, spread: int) -> None:
        """Raise Failure if a file of `size` bytes in `spread` stripes (0: as declared) would fill an OST."""
        count = spread or self.declared
        self.left()
        if count == 1:
            each = size
        else:
            each = -(-size // (len(self.known) if count < 1 else count)) + self.stripe_bytes
        if each > self.good_bytes:
            self.inspect()
        if each > self.good_bytes:
            tightest = min(self._on(path), key=self.left_on)
            if each > self.left_on(tightest):
                raise Failure(
                    f"{path}: {each} bytes of it would lie on {self.known[tightest].name}, which has "
                    f"{max(0, self.left_on(tightest))} left for the target's files; free some, or claim less of this "
                    "file system"
                )
            self.good_bytes = each  # for this file alone: the next look is due with the next file
        self.good_bytes -= each
        self.promised[path] = size, _held(path)

    def allocated(self, path: Path) -> None:
        self.promised.pop(path, None)

    def _outstanding(self) -> dict[int, int]:
        """Bytes that files were promised and do not have yet, by OST."""
        bytes_by_ost: dict[int, int] = {}
        for path, (size, before) in self.promised.items():
            lacking = size - (_held(path) - before)
            if lacking <= 0:
                continue
            on = self._on(path)
            if len(on) == 1:
                each = lacking
            else:
                each = -(-lacking // len(on)) + self.stripe_bytes
            for index in on:
                bytes_by_ost[index] = bytes_by_ost.get(index, 0) + each
        return bytes_by_ost

    def _on(self, path: Path) -> list[int]:
        """The OSTs of a file, which is made if it does not exist; of a directory all OSTs."""
        if path.is_dir():
            return list(self.known)
        path.touch()
        return [index for component in stripes.components_of(path) for index in component.osts]

    def most(self, path: Path, left_bytes: int) -> int:
        """Bytes that an existing file can be given: on each of its OSTs as many as the fullest has left."""
        self.inspect()
        on = {index for component in stripes.components_of(path) for index in component.osts}
        each = min(map(self.left_on, on)) - (self.stripe_bytes if len(on) > 1 else 0)
        return min(left_bytes, len(on) * max(0, each))

    def freed(self) -> None:
        await_frees(self.mount, self.sync, alone=self.alone, needed=self.usable)


def _held(path: Path) -> int:
    """Bytes of a file's blocks; 0 where it does not exist."""
    try:
        return path.lstat().st_blocks * 512
    except FileNotFoundError:
        return 0


def parse_quota(text: str) -> tuple[int, int, int, int]:
    """Used bytes, their limit, used inodes and their limit in what `lfs quota -q` prints; 0: no limit. Raises Failure.

    >>> parse_quota("    /mnt/lustre       4       0 1536000       -       1       0   20000       - \\n")
    (4096, 1572864000, 1, 20000)
    """
    match = LINE.fullmatch(text.replace("\n", " "))
    if not match:
        raise Failure(f"`lfs quota -q` said {text[:80]!r}: no line of numbers")
    used, soft, hard, inodes, soft_inodes, hard_inodes = map(int, match.groups())
    return used * KIB, (hard or soft) * KIB, inodes, hard_inodes or soft_inodes


def quotas_left(place: Path, project: int | None) -> list[budget.Left]:
    """What each quota leaves for files that are made in `place`: those that have a limit. Raises Failure."""
    uid, gid = budget.owner_of(place)
    asked = [("user", "-u", uid), ("group", "-g", gid), *([("project", "-p", project)] if project else [])]
    lefts = []
    for kind, option, number in asked:
        ran = run(["lfs", "quota", "-q", option, str(number), str(place)], ok=range(256))
        if ran.returncode:  # quotas are off
            continue
        used, limit, inodes, most_inodes = parse_quota(ran.stdout)
        if limit or most_inodes:
            rest = max(0, limit - used) if limit else None
            lefts.append(budget.Left(f"{kind} {number}", rest, max(0, most_inodes - inodes) if most_inodes else None))
    return lefts


def project_of(place: Path) -> int | None:
    """The number of the project that files made in `place` belong to; None: of none. Raises Failure."""
    ran = run(["lfs", "project", "-d", str(place)], ok=range(256))
    words = ran.stdout.split()
    inherits = ran.returncode == 0 and len(words) > 1 and words[0].isdigit() and words[1] == "P"
    if inherits:
        return int(words[0]) or None
    return None
