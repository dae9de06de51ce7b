"""An OST of a real Lustre fills up, turns read-only, is lost, comes back: a failed cell, and the next one is valid."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import lustre_vm as real
import pytest
from lustre_vm import LustreProject, ssh

pytestmark = real.MARKS
ONE = {"states__capacity": [20], "states__fragmentation": [0], "states__file_size": ["32M"], "headline": []}
DEVICE, POINT = "/dev/vdc", "/mnt/ost0"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target that may fill a part of the file system, its files on all OSTs; others may change 4 MiB of each."""
    spec = real.declaration(capacity_gib=2, stripe_count=-1, tolerance_mib=4)
    with real.at_work(tmp_path_factory.mktemp("osts"), spec) as made:
        made.write_study(**ONE, cells__iterations=1, cells__transfer_size=["256K"])
        yield made


def test_an_ost_without_room_is_named_before_anything_is_written(project: LustreProject) -> None:
    with real.filled(0) as fill:
        ssh(fill)
        said = project.fails("snakemake", *real.ALL)
        assert re.search(r"would lie on lustre-OST0000, which has \d+ left for the target's files", said), said[-3000:]
    project.valid_again()


def test_an_ost_that_fills_up_amid_a_cell_fails_it(project: LustreProject) -> None:
    started = project.start("snakemake", *real.ALL)
    with real.filled(0) as fill:
        real.once_written(fill)
        started.wait(timeout=900)
        (why,) = project.why().values()
        assert why and re.search("No space left|lustre-OST0000 holds", why), why
    project.valid_again()


def test_an_ost_that_turns_read_only_amid_a_cell_fails_it(project: LustreProject) -> None:
    started = project.start("snakemake", *real.ALL)
    real.once_written("echo fsage-test >/sys/fs/ldiskfs/vdc/trigger_fs_error")
    try:
        started.wait(timeout=1500)
        said = (project.root / "started.log").read_text()
        (why,) = project.why().values()
        assert "Traceback" not in said and why and "Input/output error" in why, (why, said[-3000:])
    finally:
        ssh(f"umount {POINT}; e2fsck -fy {DEVICE}; mount -t lustre {DEVICE} {POINT} && sleep 10")
    project.valid_again()


def test_an_ost_that_is_lost_and_comes_back(project: LustreProject) -> None:
    """Amid a cell clients wait for it; while it is away a command says which one does not answer."""
    started = project.start("snakemake", *real.ALL)
    real.once_written(f"umount -f {POINT} && sleep 20 && mount -t lustre {DEVICE} {POINT}")
    started.wait(timeout=1500)
    (why,) = project.why().values()
    assert why is None or "lustre-OST0000" in why or "write" in why, why
    project.valid_again()
    ssh(f"umount -f {POINT}")
    try:
        said = project.fails("snakemake", *real.ALL)
        assert "OST0000" in said or "does not answer" in said, said[-3000:]
    finally:
        ssh(f"mount -t lustre {DEVICE} {POINT} && sleep 10")
    project.valid_again()


def test_an_ost_that_is_lost_for_good_is_named_by_the_next_command(project: LustreProject) -> None:
    """It is deactivated, as sites do then, so that clients no longer wait: `lfs df` leaves it out and says nothing."""
    devices = "osc.lustre-OST0000-*.active osp.lustre-OST0000-*.active"
    started = project.start("snakemake", *real.ALL)
    real.once_written(f"umount -f {POINT} && sleep 10 && for it in {devices}; do lctl set_param $it=0; done")
    try:
        started.wait(timeout=1500)
        (record,) = project.records().values()
        assert record["status"] == "failed" and "lustre-OST0000" in json.dumps([record["why"], record["warnings"]])
        project.forget()
        said = project.fails("snakemake", *real.ALL)
        assert "was claimed with lustre-OST0000, which `lfs df` does not name any more" in said, said[-3000:]
    finally:
        back = f"for it in {devices}; do lctl set_param $it=1; done"
        ssh(f"until mount -t lustre -o localrecov {DEVICE} {POINT}; do sleep 1; done; {back}; sleep 20")
    project.valid_again()
