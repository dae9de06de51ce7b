"""What the quotas of a user, his group and a project leave on Lustre, by `lfs quota`: a user may ask for his own."""

from __future__ import annotations

import re
from pathlib import Path

from fsage.host.system.shell import run
from fsage.host.targets.quotas import Left, owner_of
from fsage.model.errors import Failure

KIB = 1024
NUMBER = r"(\d{1,19})\*?"  # a star: the limit is exceeded
LINE = re.compile(rf"\s*\S+\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s+\S+\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s+\S+\s*")


def parse(text: str) -> tuple[int, int, int, int]:
    """Used bytes, their limit, used inodes and their limit in what `lfs quota -q` prints; 0: no limit. Raises Failure.

    >>> parse("    /mnt/lustre       4       0 1536000       -       1       0   20000       - \\n")
    (4096, 1572864000, 1, 20000)
    """
    if not (match := LINE.fullmatch(text.replace("\n", " "))):
        raise Failure(f"`lfs quota -q` said {text[:80]!r}: no line of numbers")
    used, soft, hard, inodes, soft_inodes, hard_inodes = map(int, match.groups())
    return used * KIB, (hard or soft) * KIB, inodes, hard_inodes or soft_inodes


def left(place: Path, project: int | None) -> list[Left]:
    """What each quota leaves for files that are made in `place`: those that have a limit. Raises Failure."""
    uid, gid = owner_of(place)
    asked = [("user", "-u", uid), ("group", "-g", gid), *([("project", "-p", project)] if project else [])]
    lefts = []
    for kind, option, number in asked:
        ran = run(["lfs", "quota", "-q", option, str(number), str(place)], ok=range(256))
        if ran.returncode:  # quotas are off
            continue
        used, limit, inodes, most_inodes = parse(ran.stdout)
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
