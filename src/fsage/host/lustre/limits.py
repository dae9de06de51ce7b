"""How much more of each OST the files of a target on Lustre may take, and what quotas leave.

Quotas are those of a user, his group and a project, by `lfs quota`: a user may ask for his own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from pathlib import Path

from fsage.host.lustre import space, stripes
from fsage.host.system.shell import run
from fsage.host.targets.limits import Left, Limits, owner_of
from fsage.model.declaration import MIB
from fsage.model.errors import Failure
from fsage.model.evidence.lfs_df import Ost
from fsage.model.filler import SLACK_BYTES
from fsage.model.target import LustreSpec

OTHERS_SHARE = 0.01  # of each OST stays free for its other users
KIB = 1024
NUMBER = r"(\d{1,19})\*?"  # a star: the limit is exceeded
LINE = re.compile(rf"\s*\S+\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s+\S+\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s+\S+\s*")


class Osts(Limits):
    """The OSTs of a target on Lustre, by `lfs df`; a share of each stays free for others.

    One look at the OSTs is good for as many bytes as the fullest has left: so many fill none, wherever the files lie.
    For a larger file the file is made first, and its own OSTs are examined. Several files may grow at once. The bytes
    that they were promised and do not have yet show in no look, so they are counted to their OSTs.
    """

    slack_bytes = SLACK_BYTES

    def __init__(
        self, mount: Path, lustre: LustreSpec, alone: bool, sync: space.Sync, usable: Collection[int] | None = None
    ) -> None:
        """`alone`: nobody else uses the file system; `sync`: as space.await_frees takes it.

        `usable`: the OSTs that the target's files lie on; None: all.
        """
        self.mount, self.alone, self.sync, self.usable = mount, alone, sync, usable
        self.declared, self.stripe_bytes = lustre["stripe_count"], lustre["stripe_size_mib"] * MIB
        self.good_bytes, self.known = 0, dict[int, Ost]()
        self.promised, self.outstanding = dict[Path, tuple[int, int]](), dict[int, int]()

    def inspect(self) -> None:
        """Read the OSTs anew, after the time for which a client repeats its last answer."""
        if self.known:
            time.sleep(space.LOOK_EVERY_S)
        osts = space.osts(self.mount, self.usable)
        self.known = {ost.number: ost for ost in osts if self.usable is None or ost.number in self.usable}
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
        kept = SLACK_BYTES if self.alone else int(OTHERS_SHARE * ost.total_bytes)
        return ost.available_bytes - kept - self.outstanding.get(number, 0)

    def take(self, size: int, path: Path, spread: int) -> None:
        """Raise Failure if a file of `size` bytes in `spread` stripes (0: as declared) would fill an OST."""
        count = spread or self.declared
        self.left()
        each = size if count == 1 else -(-size // (len(self.known) if count < 1 else count)) + self.stripe_bytes
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
            if (lacking := size - (_held(path) - before)) <= 0:
                continue
            on = self._on(path)
            each = lacking if len(on) == 1 else -(-lacking // len(on)) + self.stripe_bytes
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
        space.await_frees(self.mount, self.sync, alone=self.alone, needed=self.usable)


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
    if not (match := LINE.fullmatch(text.replace("\n", " "))):
        raise Failure(f"`lfs quota -q` said {text[:80]!r}: no line of numbers")
    used, soft, hard, inodes, soft_inodes, hard_inodes = map(int, match.groups())
    return used * KIB, (hard or soft) * KIB, inodes, hard_inodes or soft_inodes


def quotas_left(place: Path, project: int | None) -> list[Left]:
    """What each quota leaves for files that are made in `place`: those that have a limit. Raises Failure."""
    uid, gid = owner_of(place)
    asked = [("user", "-u", uid), ("group", "-g", gid), *([("project", "-p", project)] if project else [])]
    lefts = []
    for kind, option, number in asked:
        ran = run(["lfs", "quota", "-q", option, str(number), str(place)], ok=range(256))
        if ran.returncode:  # quotas are off
            continue
        used, limit, inodes, most_inodes = parse_quota(ran.stdout)
        if limit or most_inodes:
            rest = max(0, limit - used) if limit else None
            lefts.append(Left(f"{kind} {number}", rest, max(0, most_inodes - inodes) if most_inodes else None))
    return lefts


def project_of(place: Path) -> int | None:
    """The number of the project that files made in `place` belong to; None: of none. Raises Failure."""
    ran = run(["lfs", "project", "-d", str(place)], ok=range(256))
    words = ran.stdout.split()
    inherits = ran.returncode == 0 and len(words) > 1 and words[0].isdigit() and words[1] == "P"
    return int(words[0]) or None if inherits else None
