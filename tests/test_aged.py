"""File systems that are aged by use, and replicas of what use left free on them."""

from __future__ import annotations

import math
import os
import random
from collections import Counter

import pytest
import recorded
from hypothesis import given, settings
from hypothesis import strategies as st
from local_targets import claimed
from records import CONFIG, contents
from small_filesystems import MIB
from states import bring
from tiers import first_of

from fsage.analysis.words import sentences
from fsage.base import Failure
from fsage.host.structure import verify
from fsage.host.targets.opening import open_target
from fsage.recipes import expand
from fsage.statistics import Ratio
from fsage.studies.aged import model
from fsage.studies.aged.model import Age
from fsage.studies.replica.model import KeepFreeSpace
from fsage.study.files import load_study

root = pytest.mark.root
WAYS = sorted(model.WAYS)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(WAYS), st.integers(32, 256), st.integers(1, 3), st.integers(0, 2**32))
def test_no_way_holds_more_than_it_may_and_all_end_the_same(way, full_mib, times, seed):
    full_bytes, written_bytes = full_mib * MIB, times * full_mib * MIB
    sizes, in_use, written = Counter(), 0, 0
    for change in model.changes(way, full_bytes, written_bytes, seed):
        key = change.folder, change.name
        before = model.blocks_bytes(sizes[key])
        if change.size is None:
            assert sizes.pop(key) > 0, "what is deleted was there"
        else:
            assert change.first == (key not in sizes or not sizes[key]) and change.size > 0
            sizes[key] += change.size
            written += change.size
        in_use += model.blocks_bytes(sizes.get(key, 0)) - before
        assert in_use <= full_bytes
    assert written_bytes <= written < written_bytes + full_bytes
    assert model.left(way, full_bytes, written_bytes, seed) == +sizes
    assert times == 1 or in_use > full_bytes / 2


@pytest.mark.long
@root
@pytest.mark.parametrize(
    "filesystem", ["ext4", *(pytest.param(name, marks=pytest.mark.long) for name in ("xfs", "btrfs"))]
)
@pytest.mark.parametrize("way", first_of("logs", *sorted({*WAYS} - {"logs"})))
def test_the_free_space_that_use_left_is_kept_without_its_files(local_target, filesystem, way):
    local_target["filesystem"] = filesystem
    claimed(local_target)
    age = Age(1, way, 60, 150, 67005)
    original = bring(local_target, age)
    left = age.left(original["notes"]["age"]["capacity_bytes"])
    assert original["files"] == len(left) and original["bytes"] == sum(left.values())
    target = open_target(local_target)
    mount = target.mounts[0]
    before = os.statvfs(mount)
    assert 0.5 < 1 - before.f_bfree / before.f_blocks < 0.7
    target.remount()
    assert abs(os.statvfs(mount).f_bfree - before.f_bfree) < 64, "no blocks are kept beyond the ends of logs"

    copy = KeepFreeSpace(2, False)
    kept = bring(local_target, age, copy)
    noted = kept["notes"]["keep_free_space"]
    assert noted["agree_share"] > 0.99, noted["differ"]
    assert kept["files"] < 10 and len(list((mount / "filler").iterdir())) == 1
    assert noted["original"]["free_extents"] > 4, "it was aged"

    joined = bring(local_target, age, copy, KeepFreeSpace(3, True))["notes"]["keep_free_space"]
    assert joined["found"]["free_extents"] < max(10, noted["found"]["free_extents"] / 3)
    assert abs(joined["found"]["free_bytes"] / noted["found"]["free_bytes"] - 1) < 0.01


@pytest.mark.long
@root
def test_a_file_that_use_did_not_leave_is_noticed(local_target):
    claimed(local_target)
    age = Age(1, "churn", 30, 40, 1)
    token = bring(local_target, age)
    mounts = open_target(local_target).mounts
    first = age.named(mounts, token["notes"]["age"])[0]
    first.unlink()
    with pytest.raises(Failure, match="1 files missing, 0 too many"):
        verify(mounts, [age], token["notes"]["age"]["capacity_bytes"], token["notes"])


def test_the_page_says_whether_replica_and_original_agree(tmp_path):
    """Records whose rates are planted: the replica of churn costs what its original does, that of logs does not."""
    study = load_study(CONFIG / "replica_validity.yaml")
    page = contents(study, planted(study, {"logs.copied": 0.8, "joined": 1.25}), tmp_path)
    section = next(each for each in page.sections if each.title == "Does the replica cost what its original does?")
    said = {(row[0], row[1]): row[3] for row in section.table[1:]}
    assert said["churn", "writes"] == "agree within 3%"
    assert said["logs", "writes"].startswith("20% slower (")
    agreed, lost = page.answer.sentences
    assert agreed.startswith("A replica costs what its original does, within 3%, in 4 of 6 rates. That is not shown of")
    assert "writes among logs: 0.80x (" in agreed and "reads among logs" in agreed
    assert lost.startswith("Aged by churn, logs and packages, writing loses 20%, 20% and 20% on the originals, and")
    assert "20%, 36% and 20% on the replicas." in lost
    costs = next(each for each in page.sections if each.title.startswith("What age costs"))
    replica = {
        point.name: point.y for line in costs.figures[0].series if line.label == "replica" for point in line.points
    }
    assert replica["churn"] == pytest.approx(0.8, rel=0.02) and replica["logs"] == pytest.approx(0.64, rel=0.02)


def test_what_costs_next_to_nothing_is_no_minus_nothing():
    costs = {
        holes: {("churn", "w"): Ratio(value, None, 5, 5)} for holes, value in (("original", 1.002), ("copied", 0.8))
    }
    data = {"rates": {}, "others": [], "margin": "3%", "ways": ["churn"], "costs": costs, "writes": "w"}
    assert sentences("aged/answer", **data)[0].startswith("Aged by churn, writing loses 0% on the original, and 20% on")


def planted(study, factors):
    """Records of the study, a rate of 100 times the factors whose name ends the state's."""
    draw = random.Random(5)
    records = []
    cells = [(state, cell) for state in expand(study) for cell in study.cells_of(state)]
    for number, (state, cell) in enumerate(cells):
        factor = math.prod(value for name, value in factors.items() if state.name.endswith(name))
        rates = {f"{phase}_bw_mib_s": 100 * factor * draw.lognormvariate(0, 0.004) for phase in ("write", "read")}
        made = recorded.taken("replica")[0]
        made |= {"study": study.name, "state": state.name, "nominal": state.nominal, "cell": cell.name}
        made |= {"order": cell.order, "params": cell.params, "metrics": rates, "id": str(number)}
        made["began"] = f"2026-11-21T01:{number // 60:02d}:{number % 60:02d}.000Z"
        made["layout"] = {**made["layout"], "notes": {}, "digest": state.name}
        records.append(made)
    return records
