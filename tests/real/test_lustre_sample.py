"""A real Lustre on which nobody tells what others do: a sample of the files is looked at before each cell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import lustre_vm as real
import pytest
from lustre_vm import LustreProject, run_there, ssh

from fsage.host.states.structure_check import SIZE

pytestmark = real.MARKS
SMALL = {
    "states__capacity": [10],
    "states__fragmentation": [0],
    "states__file_size": ["1M"],
    "cells__transfer_size": ["4M"],
    "cells__iterations": 4,
    "headline": [],
}
STATE = "10.00@1M"
LOOKS = Path(__file__).with_name("sample_looks.py")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target in a state of about a thousand files."""
    with real.at_work(tmp_path_factory.mktemp("sample")) as made:
        made.write_study(**SMALL)
        yield made


def test_cells_after_the_first_rest_on_a_sample_and_say_what_it_leaves_out(project: LustreProject) -> None:
    project.done("snakemake", *real.ALL)
    records = sorted(project.records().values(), key=lambda each: each["began"])
    assert {record["status"] for record in records} == {"valid"}, project.why()
    files = records[0]["layout"]["filler_files"]
    assert files > 3 * SIZE
    assert [each["check"]["looked_at"] for each in records] == ["files", "sample", "sample", "sample"]
    share = 1 - SIZE / files
    assert all(each["check"]["unseen_share"] == pytest.approx(share) for each in records[1:])
    assert f"missed with a chance of {share:.1%} a cell" in log(project)


def log(project: LustreProject) -> str:
    """What the visit said."""
    return (project.root / f"results/logs/lvm/small/measure_{STATE}.log").read_text()


def test_files_that_a_stranger_writes_in_place_are_noticed_and_the_state_is_made_anew(project: LustreProject) -> None:
    project.forget()
    some = f"$(ls -d {real.MOUNT}/fsage/filler/g1/* | head -n 600)"
    write = f"for f in {some}; do printf x | dd of=$f conv=notrunc status=none; done"
    started = project.start("snakemake", *real.ALL)
    real.once_written(write)
    assert started.wait(timeout=900) == 0
    assert re.search(r"then: before cell \S+: the state changed since the session began", log(project))
    failed = [why for why in project.why().values() if why]
    assert len(failed) <= 1, failed  # the cell beside which he wrote: on one machine both have the client's locks


def test_what_a_second_client_does_is_seen_as_it_is_elsewhere(project: LustreProject) -> None:
    """At once what changes a directory; what changes a file in place in one of as many looks as take in all."""
    source = ssh(f"findmnt -n -o SOURCE {real.MOUNT}").strip()
    found = run_there(LOOKS, source=source, home=f"{real.MOUNT}/fsage", second="/mnt/second")
    print(found)
    for act in ("create", "delete", "rename", "replace"):
        assert all(found[act]), act
    for act in ("write", "grow", "punch"):
        assert any(found[act]), act
