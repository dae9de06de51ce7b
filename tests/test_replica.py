"""A layout copied block by block onto real file systems, out of what is known of one that aged by other means."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import random
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_filesystems import MIB, small
from states import bring

from fsage.agent import claim as claims
from fsage.agent import images
from fsage.agent.evidence import extents
from fsage.agent.evidence.extents import Extents, Head
from fsage.agent.steps.replica import Replica
from fsage.agent.structure import files
from fsage.agent.target import open_target
from fsage.evidence import free

root = pytest.mark.root
SIZE = 1024 * MIB


def churn(place: Path, seed: int = 67005) -> None:
    """Files of many sizes come and go until it has aged: no step of fsage does that."""
    draw, alive, number = random.Random(seed), list[Path](), 0

    def full() -> float:
        space = os.statvfs(place)
        return 1 - space.f_bfree / space.f_blocks

    for _ in range(2):
        while full() < 0.9:
            path = place / str(number % 20) / str(number)
            path.parent.mkdir(exist_ok=True)
            files.fallocate(path, 4096 * (1 + int(draw.lognormvariate(4.5, 1.5))))
            alive.append(path)
            number += 1
        draw.shuffle(alive)
        while full() > 0.7:
            alive.pop().unlink()


def step_of(head: Head, places: Extents, joined: bool = False) -> tuple[Replica, dict[str, str]]:
    """The step that copies a layout, and what its request has beside."""
    text = b"".join(extents.written(head, places))
    name = hashlib.sha256(text).hexdigest()
    inputs = {name: base64.b64encode(zlib.compress(text)).decode()}
    return Replica(1, "ost0012.txt.gz", joined, 1, 16, 67005, name), inputs


def claimed_as(local_target: dict, filesystem: str) -> dict:
    local_target["filesystem"] = filesystem
    images.create(local_target, {}, False)
    claims.claim(local_target, {}, False)
    return local_target


@pytest.fixture
def aged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[free.Free]:
    """What is known of an aged file system of the target's size: of ext4 as dumpe2fs' packed text, of XFS live."""
    with small(request.param, tmp_path / "original", size=SIZE) as original:
        churn(original.point)
        os.sync()
        if request.param == "ext4":
            original.remount()
            text = tmp_path / "ost0012.txt.gz"
            text.write_bytes(gzip.compress(subprocess.run(["dumpe2fs", original.image], capture_output=True).stdout))
            yield free.read(str(text))
        else:
            yield free.read(str(original.point))


@root
@pytest.mark.parametrize("aged", ["ext4", "xfs"], indirect=True)
def test_the_free_space_of_an_aged_file_system_is_copied_block_by_block(aged, local_target):
    spec = claimed_as(local_target, aged.head.filesystem)
    step, inputs = step_of(aged.head, list(aged.pairs()))
    token = bring(spec, step, inputs=inputs)
    noted = token["notes"]["replica"]
    print(noted)
    assert noted["agree_share"] > 0.999, noted["differ"]
    assert 0.98 < noted["found"]["free_extents"] / len(aged.places) < 1.02
    mount = open_target(spec).mounts[0]
    found = free.read(str(mount))
    here, there = list(found.pairs()), list(aged.pairs())
    both = extents.size(extents.common(here, there))
    assert both > 0.998 * max(extents.size(here), extents.size(there)), "as read from outside, tokens and all"

    whole, inputs = step_of(aged.head, list(aged.pairs()), joined=True)
    joined = bring(spec, whole, inputs=inputs)["notes"]["replica"]
    assert abs(joined["found"]["free_bytes"] / noted["found"]["free_bytes"] - 1) < 0.002, "equally full"
    assert joined["found"]["free_extents"] < noted["found"]["free_extents"] / 10
