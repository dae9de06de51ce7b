"""A layout copied block by block onto real file systems, out of the text of one that was aged by other means."""

from __future__ import annotations

import random

import pytest

from fsage.agent.structure import files

root = pytest.mark.root


def aged(target, seed: int = 1) -> None:
    """A churn of sizes, which no step of fsage makes."""
    draw, alive, number = random.Random(seed), [], 0
    (mount,) = target.mounts
    for full in (0.95, 0.73):
        while files_share(target) < 0.95:
            path = mount / "filler" / f"{number}"
            path.parent.mkdir(exist_ok=True)
            files.fallocate(path, 4096 * (1 + int(draw.lognormvariate(3, 1.5))))
            alive.append(path)
            number += 1
        draw.shuffle(alive)
        while files_share(target) > full - 0.2:
            alive.pop().unlink()


def files_share(target) -> float:
    import os

    space = os.statvfs(target.mounts[0])
    return 1 - space.f_bfree / space.f_blocks
