"""A layout copied block by block onto real file systems, out of what is known of one that aged by other means."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import random
import re
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_targets import claimed
from recorded import file_of, measured, taken
from records import build, contents, undrawn
from small_filesystems import MIB, small
from states import bring
from tiers import first_of

from fsage.base import Failure
from fsage.evidence import Free, lay, read_free, save_free
from fsage.host.structure import files
from fsage.host.system import caches, mounting
from fsage.host.targets.opening import open_target
from fsage.layouts import extents, saved
from fsage.layouts.extents import Extents, Head
from fsage.layouts.store import NotThisText
from fsage.plan import Plan
from fsage.studies.replica import inputs
from fsage.studies.replica.free import Windows
from fsage.studies.replica.host.whole_extents import in_turns
from fsage.studies.replica.model import Replica
from fsage.studies.replica.report import percent_full, share_of_draws
from fsage.study import StudyError
from fsage.study.files import load_study

root = pytest.mark.root
SIZE = 1024 * MIB
EVIDENCE = Path(__file__).parent / "data" / "evidence"


def churn(place: Path, seed: int = 67005) -> None:
    """Files of many sizes come and go until it has aged: no step of fsage does that."""
    draw, alive, number = random.Random(seed), list[Path](), 0

    def full() -> float:
        if number % 8 == 0:
            caches.flush(place)  # btrfs' statfs lags behind
        space = os.statvfs(place)
        return 1 - space.f_bavail / space.f_blocks

    for _ in range(2):
        while full() < 0.9:
            path = place / str(number % 20) / str(number)
            path.parent.mkdir(exist_ok=True)
            files.fallocate(path, 4096 * min(8192, 1 + int(draw.lognormvariate(4.5, 1.5))))
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
    claimed(local_target)
    return local_target


@pytest.fixture
def aged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Free]:
    """What is known of an aged file system of the target's size: by dumpe2fs' packed text, or live and saved."""
    with small(request.param, tmp_path / "original", size=SIZE) as original:
        churn(original.point)
        os.sync()
        if request.param == "ext4":
            mounting.unmount(original.point)
            original.mount()  # what has reached the device
            text = tmp_path / "ost0012.txt.gz"
            text.write_bytes(gzip.compress(subprocess.run(["dumpe2fs", original.image], capture_output=True).stdout))
            yield read_free(str(text))
        else:
            found = save_free(str(original.point), tmp_path / "ost0012.gz")
            again = read_free(str(tmp_path / "ost0012.gz"))
            assert list(again.pairs()) == list(found.pairs()) and again.head == found.head
            yield again


@root
@pytest.mark.parametrize("aged", first_of("ext4", "xfs", "btrfs"), indirect=True)
def test_the_free_space_of_an_aged_file_system_is_copied_block_by_block(aged, local_target):
    spec = claimed_as(local_target, aged.head.filesystem)
    step, inputs = step_of(aged.head, list(aged.pairs()))
    token = bring(spec, step, inputs=inputs)
    noted = token["notes"]["replica"]
    assert noted["agree_share"] > 0.999, noted["differ"]
    assert 0.98 < noted["found"]["free_extents"] / len(aged.places) < 1.02
    mount = open_target(spec).mounts[0]
    found = read_free(str(mount))
    ours, there = list(found.pairs()), list(aged.pairs())
    both = extents.size(extents.common(ours, there))
    assert both > 0.998 * max(extents.size(ours), extents.size(there)), "as read from outside, tokens and all"

    whole, inputs = step_of(aged.head, list(aged.pairs()), joined=True)
    joined = bring(spec, whole, inputs=inputs)["notes"]["replica"]
    assert abs(joined["found"]["free_bytes"] / noted["found"]["free_bytes"] - 1) < 0.002, "equally full"
    assert joined["found"]["free_extents"] < noted["found"]["free_extents"] / 10


@pytest.mark.long
@root
def test_what_cannot_be_copied_is_refused_in_a_sentence_and_the_target_is_made_anew(local_target):
    spec = claimed_as(local_target, "ext4")
    head = Head(SIZE, 4096, 128 * MIB, "ext4", "a test")
    wanted: Extents = [(512 * MIB, 600 * MIB)]
    refused = {
        "it is larger than the target": (head._replace(device_bytes=2 * SIZE), wanted),
        "has no free block where target": (head, [(0, 4096)]),
        r"[0-9.]+% of the free bytes lie where they should, and a replica needs 90%": (head, [(0, 24 * MIB)]),
    }
    for message, (of, places) in refused.items():
        step, inputs = step_of(of, places)
        with pytest.raises(Failure, match=message):
            bring(spec, step, inputs=inputs)
    step, inputs = step_of(head, wanted)
    (name,) = inputs
    other = base64.b64encode(zlib.compress(b"fsage free extents 1\n")).decode()
    for bad, message in (
        ({}, "the request lacks the layout ost0012.txt.gz"),
        ({name: other}, "it is not the one that was named"),
    ):
        with pytest.raises(Failure, match=message):
            bring(spec, step, inputs=bad)
    token = bring(spec)
    assert (token["files"], token["state"]) == (0, "empty"), "what was half done is gone"


runs = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=30)


def laid(lengths: list[tuple[int, int]]) -> Extents:
    """Extents by gaps and lengths in blocks."""
    found, at = [], 0
    for gap, length in lengths:
        found.append(((at + gap) * 4096, (at + gap + length) * 4096))
        at += gap + length
    return found


def blocks(extents_: Extents) -> set[int]:
    return {block for start, end in extents_ for block in range(start // 4096, end // 4096)}


@given(runs, st.data())
def test_the_list_of_free_extents_reads_back_and_no_part_of_it_passes_for_the_whole(lengths, data):
    places = laid(lengths)
    head = Head(4096 * 4000, 4096, 4096 * 1000, "ext4", "a test")
    text = b"".join(extents.written(head, places))
    found, again = extents.read(text.splitlines(keepends=True))
    assert (found, list(again)) == (head, places)
    store = saved.read(io.BytesIO(text)).summary(0)
    assert store["free_bytes"] == extents.size(places) and store["free_extents"]["count"] == len(places)
    cut = text[: data.draw(st.integers(0, len(text) - 2))]
    with pytest.raises(NotThisText):
        saved.read(io.BytesIO(cut))


@given(runs, runs)
def test_extents_are_sets_of_blocks(some, others):
    ours, there = laid(some), laid(others)
    assert blocks(extents.common(ours, there)) == blocks(ours) & blocks(there)
    assert blocks(extents.without(ours, there)) == blocks(ours) - blocks(there)
    total = extents.size(ours) // 2 // 4096 * 4096
    run = extents.joined(ours, total, extents.centre(ours))
    assert extents.size(run) == total and blocks(run) <= blocks(ours)
    order = sorted(blocks(ours))
    assert not run or sorted(blocks(run)) == order[order.index(run[0][0] // 4096) :][: len(blocks(run))]


@given(runs, st.integers(0, 3000), st.integers(0, 3000))
def test_a_stretch_is_taken_in_turns_and_every_block_once(some, start, length):
    free_, at = laid(some), start * 4096
    given_free, ends = set(), [at]
    for stop, is_free in in_turns(at, at + length * 4096, free_):
        assert stop > ends[-1]
        given_free |= set(range(ends[-1] // 4096, stop // 4096)) if is_free else set()
        ends.append(stop)
    assert ends[-1] == at + length * 4096
    assert given_free == blocks(free_) & set(range(start, start + length))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"0 5\n", "cannot be"),  # it touches the one before
        (b"99999999 5\n", "cannot be"),
        (b"-4 5\n", "where a free extent or the end should be"),
        (b"end 7 7\n", "its end counts 7 free extents"),
    ],
)
def test_a_list_that_cannot_be_is_refused(line, why):
    head = Head(4096 * 4000, 4096, 4096 * 1000, "ext4", "a test")
    mark, device, first, end = list(extents.written(head, [(4096, 8192)]))
    with pytest.raises(NotThisText, match=why):
        saved.read(io.BytesIO(mark + device + first + line + end))


def test_packed_texts_are_read_as_they_are_and_refused_when_cut():
    text = (EVIDENCE / "dumpe2fs.txt").read_bytes()
    plain = saved.read(io.BytesIO(text)).summary(0)
    for packed in (gzip.compress(text), pa.compress(text, "zstd", asbytes=True)):
        assert saved.read(io.BytesIO(packed)).summary(0) == plain
        with pytest.raises(NotThisText, match=r"cannot be unpacked|cut short"):
            saved.read(io.BytesIO(packed[: len(packed) // 2]))


XFS_DB = b"""blocksize = 4096
dblocks = 102400
agblocks = 25600
    agno    agbno      len
       0        6        4
       0      280      512
       1        7        1
       2        6        1
       3       10    25590
   from      to extents  blocks    pct
      1       1       2       2   0.01
      4       7       1       4   0.01
    512    1023       1     512   0.62
  16384   25600       1   25590  86.91
"""
FSMAP = b"""\t0: 7:2 [0..79]: unknown 80
\t1: 7:2 [80..127]: free space 48
\t2: 7:2 [128..2239]: unknown 2112
\t3: 7:2 [2240..204799]: free space 202560
"""


def test_texts_of_xfs_tools_tell_where_it_is_free():
    found = saved.read(io.BytesIO(XFS_DB)).summary(0)
    assert (found["device_bytes"], found["free_bytes"]) == (102400 * 4096, (1 + 1 + 4 + 512 + 25590) * 4096)
    assert found["groups"]["count"] == 4
    found = saved.read(io.BytesIO(FSMAP)).summary(0)
    assert (found["device_bytes"], found["free_bytes"]) == (100 * MIB, (48 + 202560) * 512)
    bad = {
        XFS_DB[:-40]: "counts 4 of 518 in the end: it was cut short",
        XFS_DB.replace(b"25590\n ", b"2559\n "): "5 free extents of 3077 blocks and counts 5 of 26108",
        XFS_DB.replace(b"      280", b"    25280"): "where none can be",
        XFS_DB.replace(b"= 4096", b"= 409"): "blocks of 409 bytes, which no XFS has",
        FSMAP.replace(b"48\n", b"48 "): "which is no whole extent",
        FSMAP.replace(b"128..2239", b"120..2239"): "it is not whole",
        FSMAP[:-1]: "its last line has no end",
    }
    for text, why in bad.items():
        with pytest.raises(NotThisText, match=why):
            saved.read(io.BytesIO(text))


def large(groups: int, group_bytes: int = 64 * 4096) -> Free:
    """A device of so many groups, most nearly full, some empty; free extents reach over their ends."""
    draw = np.random.default_rng(1)
    taken = np.ones(groups * 64, dtype=bool)
    for group in range(groups):
        share = draw.choice([0.02, 0.1, 0.4, 1.0])
        taken[group * 64 : (group + 1) * 64] = draw.random(64) >= share
    edges = np.flatnonzero(np.diff(np.concatenate([[True], taken, [True]]).astype(int)))
    places = edges.reshape(-1, 2) * 4096
    return Free(Head(groups * group_bytes, 4096, group_bytes, "ext4", "a test"), places, {})


@pytest.mark.parametrize("window_groups", [1, 8])
def test_a_sample_is_of_whole_windows_and_in_proportion_to_their_free_share(window_groups):
    whole = large(240)
    windows = Windows(whole, window_groups)
    total = extents.size(list(whole.pairs()))
    assert windows.free_bytes.sum() == total == windows.by_size.sum()
    size = windows.bytes
    most_bytes = 60 * whole.head.group_bytes + 4096
    sample = windows.sample(most_bytes, 7, 1)
    chosen = sample.head.drawn["windows"]
    assert chosen == sorted(set(chosen)) and len(chosen) == 60 // window_groups
    assert sample.head.device_bytes == len(chosen) * size
    expected = {
        place * size // 4096 + block - window * size // 4096
        for place, window in enumerate(chosen)
        for block in blocks(extents.common(list(whole.pairs()), [(window * size, (window + 1) * size)]))
    }
    assert blocks(list(sample.pairs())) == expected, "inside a window all lies as it lay"
    assert (sample.places[1:, 0] > sample.places[:-1, 1]).all(), "neighbours are one"
    for members in windows.members:
        assert abs(len(set(chosen) & set(members.tolist())) - len(chosen) * len(members) / windows.count) < 1
    again = windows.sample(most_bytes, 7, 1)
    assert again.head == sample.head and (again.places == sample.places).all()
    assert windows.sample(most_bytes, 7, 2).head.drawn["windows"] != chosen
    emptiest = np.sort(np.argsort(windows.free_bytes)[-len(chosen) :])
    assert sample.head.drawn["emd_share"]["this"] < windows.distances(emptiest)[1], "better than the worst"
    with pytest.raises(ValueError, match="give fewer window_groups"):
        windows.sample(size - 1, 7, 1)


def test_a_layout_that_tells_of_nothing_to_write_to_is_refused_before_a_host_is_asked(tmp_path, monkeypatch):
    path = tmp_path / "example.gz"
    stores = {"claim": {"kind": "loop", "stores": [{"image_id": {"bytes": SIZE}}]}, "layouts": tmp_path}
    plan = SimpleNamespace(study=SimpleNamespace(name="replica"), target=SimpleNamespace(name="t"), **stores)
    step = Replica(1, "example.gz", False, 1, 16, 1)
    head = Head(SIZE, 4096, 128 * MIB, "ext4", "a test")
    for places, why in (([], "nothing is free in it"), ([(0, SIZE)], "all of it is free")):
        path.write_bytes(gzip.compress(b"".join(extents.written(head, places))))
        with pytest.raises(StudyError, match=f"study replica: layout example.gz: {why}"):
            Plan.with_inputs(plan, [step])
    gaps = [(at, at + 4096) for at in range(4096, SIZE - 81920, 40960)]
    packed = gzip.compress(b"".join(extents.written(head, gaps)), 1)
    monkeypatch.setattr(inputs, "LONG_BYTES", len(packed) // 2)
    path.write_bytes(packed)
    _, named = Plan.with_inputs(plan, [step])
    assert named == {hashlib.sha256(packed).hexdigest(): str(path)}
    assert inputs.free_bytes(plan, step) == extents.size(gaps)
    path.write_bytes(packed[:-200])
    with pytest.raises(StudyError, match=r"layout example\.gz: .*ended"):
        inputs.free_bytes(plan, step)
    path.unlink()
    with pytest.raises(StudyError, match=r"example\.gz: No such file"):
        Plan.with_inputs(plan, [step])
    path.write_bytes((EVIDENCE / "e2freefrag.txt").read_bytes().replace(b"Blocksize: 4096", b"Blocksize: 0"))
    with pytest.raises(StudyError, match="blocks of 0 bytes"):
        Plan.with_inputs(plan, [step])


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 40), st.floats(0, 1)), min_size=1, max_size=8), st.data())
def test_what_a_text_of_sizes_says_is_true_of_each_draw(classes, data):
    """Numbers and sums of all classes stay; places are apart and on the device; another seed is another layout."""
    histogram = []
    for power, (number, share) in {power: row for power, *row in classes}.items():
        blocks = (number << power) + int(share * number * ((1 << power) - 1))
        histogram.append({"from_bytes": 4096 << power, "extents": number, "bytes": 4096 * blocks})
    free_bytes, number = sum(row["bytes"] for row in histogram), sum(row["extents"] for row in histogram)
    device_bytes = data.draw(st.sampled_from([None, 2 * free_bytes + 4096 * number]))
    store = {"block_bytes": 4096, "device_bytes": device_bytes, "filesystem": "xfs", "source": {"free": "freesp"}}
    store["free_extents"] = {"histogram": histogram}
    head, places = lay(store, (1, 1))
    lengths = places[:, 1] - places[:, 0]
    for row in histogram:
        own = lengths[(lengths >= row["from_bytes"]) & (lengths < 2 * row["from_bytes"])]
        assert (len(own), own.sum()) == (row["extents"], row["bytes"])
    assert (places[1:, 0] > places[:-1, 1]).all() and places[0, 0] >= 0 and places[-1, 1] <= head.device_bytes
    assert head.device_bytes == (device_bytes or head.device_bytes) > free_bytes
    assert (lay(store, (1, 1))[1] == places).all()


def test_how_much_of_an_interval_is_of_the_draws():
    rows = pd.DataFrame({"structure": [1, 1, 1, 2, 2, 2, 3, 3, 3], "rate": [100, 101, 99, 200, 202, 198, 50, 51, 49]})
    assert share_of_draws(rows, "rate") > 0.95
    rows["rate"] = [90, 100, 110, 91, 101, 109, 92, 99, 112]
    assert share_of_draws(rows, "rate") == 0
    assert share_of_draws(rows[rows["structure"] == 1], "rate") is None


def test_the_page_of_a_replica_shows_the_original_beside_it_and_how_exactly_it_was_copied(tmp_path):
    records = taken("replica")
    page = contents(measured("replica"), records, tmp_path)
    (strips,) = [figure for figure in page.figures if figure.title == "Free space of example and of its replica"]
    assert list(strips.strips) == ["original", "example.copied", "example.joined"]
    original, copied = (np.array(strips.strips[name]) for name in ("original", "example.copied"))
    assert np.abs(original - copied).mean() < 0.01
    text = undrawn(page)
    assert "2 of 8 windows of 16 groups" in text and "earth mover" in text
    assert re.search(r"99\.9\d\d%", text)
    assert "On this file system, with the free space of example, 71% full, writing" in text, "as its table has it"
    assert "chooses blocks for new files in its own way" not in text
    for record in records:
        if "replica" in record["layout"].get("notes", {}):
            record["layout"]["notes"]["replica"]["filesystem"] = "xfs"
    foreign, last = contents(measured("replica"), records, tmp_path).answer.sentences[-2:]
    assert foreign.startswith(
        "Layout example is of XFS, and the target is ext4 (ldiskfs), which chooses blocks for new"
    )
    assert last.startswith("These are rates of a replica") and last.endswith("the layout comes from.")


def test_samples_that_are_not_equally_full_are_said_from_the_least_to_the_most():
    noted = [{"original": {"free_bytes": free, "device_bytes": 1000}} for free in (284, 310, 296)]
    assert percent_full(noted) == "69 to 72%" and percent_full(noted[1:2], 1) == "69.0%"


def test_the_layouts_of_a_study_are_ranked_by_what_their_age_costs(tmp_path):
    """The same records once more as another layout's, whose rates in pieces are half."""
    records = taken("replica")
    more = json.loads(
        json.dumps([record for record in records if record["state"] != "empty"]).replace("example", "other")
    )
    for each in more:
        if each["state"] == "other.copied":
            each["metrics"] = {name: value / 2 for name, value in each["metrics"].items()}
    path = tmp_path / "config" / "replica.yaml"
    path.parent.mkdir()
    path.write_text(file_of("replica").read_text().replace("[example.gz]", "[example.gz, other.txt.zst]"))
    page = build(load_study(path), records + more, tmp_path)
    ranked = page[page.index("What the age of each costs") :]
    rows = re.findall(r"<tr><t[hd]>(example|other)</t[hd]><td>([\d.]+)%</td><td>(\d+)</td>", ranked)
    assert [row[0] for row in rows] == ["other", "example"], ranked[:1500]
    named = re.findall(r"with the free space of (example|other), (\d+)% full", page)
    full = {row[0]: round(float(row[1])) for row in rows}
    assert named and {name: int(percent) for name, percent in named}.items() <= full.items()
