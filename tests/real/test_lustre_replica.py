"""The free space of one OST that was used, on another OST of a real Lustre: read and laid out through its server."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import lustre_vm as real
import pytest
from lustre_vm import LustreProject, ssh

from fsage.evidence import read_free

pytestmark = real.MARKS
SOURCE, GOAL = 1, 2
KEPT_BYTES = 64 << 20
AGE = """
import os, random
place, draw, alive = "{place}", random.Random(67005), []
os.mkdir(place)
assert not os.system(f"lfs setstripe -c 1 -i {ost} {{place}}")
for round in range(2):
    for number in range(220):
        path = f"{{place}}/{{round}}.{{number}}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.posix_fallocate(descriptor, 0, 4096 * min(4096, 1 + int(draw.lognormvariate(6, 1.2))))
        os.close(descriptor)
        alive.append(path)
    draw.shuffle(alive)
    for path in alive[len(alive) // 2 :]:
        os.unlink(path)
    del alive[len(alive) // 2 :]
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What dumpe2fs says of an OST on which files of many sizes came and went; they are gone by now."""
    place = f"{real.MOUNT}/aged"
    packed = tmp_path_factory.mktemp("text") / "ost1.txt.gz"
    try:
        ssh("python3 -", stdin=AGE.format(place=place, ost=SOURCE).encode(), timeout=900)
        real.used_mib()
        device = f"$(lctl get_param -n osd-ldiskfs.{real.FSNAME}-OST{SOURCE:04x}.mntdev)"
        packed.write_bytes(gzip.compress(ssh(f"dumpe2fs {device} 2>/dev/null").encode()))
    finally:
        ssh(f"rm -rf {place}")
        real.used_mib()
    return packed


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, text: Path) -> Iterator[LustreProject]:
    """A target whose files lie on one OST."""
    spec = real.declaration(stripe_count=1, first_ost=GOAL)
    with real.at_work(tmp_path_factory.mktemp("replica"), spec) as made:
        layouts = made.root / "config/layouts"
        layouts.mkdir(exist_ok=True)
        (layouts / text.name).write_bytes(text.read_bytes())
        yield made


def test_what_is_free_on_one_ost_is_free_on_another(project: LustreProject, text: Path) -> None:
    original = read_free(str(text))
    assert len(original.places) > 100, "it was aged"
    states = {"recipe": "replica", "layouts": [text.name], "empty": False, "seed": 67005}
    cells = {"workload": "sequential", "transfer_size": "4M", "iterations": 1}
    records = project.measured(headline=[], states=states, cells=cells)
    layouts = {record["state"]: record["layout"]["notes"]["replica"] for record in records.values()}
    copied, joined = layouts["ost1.copied"], layouts["ost1.joined"]
    assert copied["agree_bytes"] > 0.999 * copied["original"]["free_bytes"], copied["differ"]
    assert copied["left_bytes"] < KEPT_BYTES, "what the OST keeps back for its clients lies where it left it"
    assert joined["agree_share"] > 0.999, joined["differ"]
    assert joined["found"]["free_extents"] < copied["found"]["free_extents"] / 5
    assert abs(joined["found"]["free_bytes"] - copied["found"]["free_bytes"]) < KEPT_BYTES
