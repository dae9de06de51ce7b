"""Free extents, groups and files are counted as a bitmap, block by block, would count them."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsage.layouts import fiemap
from fsage.layouts.freespace import ALIGNED_POWERS, BUCKETS, Buckets, Counting, FreeSpace

BLOCK = 256 << 10  # large, so that a short list of blocks holds aligned chunks of up to 64 MiB


def runs(bits):
    """Start and length of the runs of True."""
    found = []
    for place, bit in enumerate(bits):
        if bit and place and bits[place - 1]:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        elif bit:
            found.append((place, 1))
    return found


bitmaps = st.lists(st.tuples(st.booleans(), st.integers(1, 400)), min_size=1, max_size=20).map(
    lambda parts: [bit for bit, times in parts for _ in range(times)]
)


@given(bits=bitmaps, unit=st.sampled_from([1, 4096, BLOCK]), bins=st.integers(1, 64), data=st.data())
def test_free_space_is_that_of_the_bitmap(unit, bits, bins, data):
    kept = []
    counting = Counting(bins, lambda *ends: kept.extend(zip(*ends, strict=True)))
    free = FreeSpace(counting, len(bits) * BLOCK, BLOCK, unit)
    whole = runs(bits)
    for start, length in whole:
        cut = start + data.draw(st.integers(1, length))  # neighbours that come in calls apart are one extent
        for first, end in ((start, cut), (cut, start + length)):
            if first < end:
                free.add([(first * BLOCK // unit, (end - first) * BLOCK // unit)])
    found = free.summary()
    assert kept == [(start * BLOCK, (start + length) * BLOCK) for start, length in whole]

    assert found["free_bytes"] == sum(bits) * BLOCK
    assert found["free_bytes"] + found["used_bytes"] == len(bits) * BLOCK
    extents = found["free_extents"]
    assert extents["count"] == len(whole)
    assert extents["largest_bytes"] == max((length for _, length in whole), default=0) * BLOCK
    rows = extents["histogram"]
    for row in rows:
        inside = [length * BLOCK for _, length in whole if row["from_bytes"] <= length * BLOCK < 2 * row["from_bytes"]]
        assert (row["extents"], row["bytes"]) == (len(inside), sum(inside))
    assert sum(row["extents"] for row in rows) == len(whole)

    blocks_per_bin = found["bitmap"]["bin_bytes"] // BLOCK
    parts = [bits[at : at + blocks_per_bin] for at in range(0, len(bits), blocks_per_bin)]
    assert found["bitmap"]["free_share"] == [sum(part) / len(part) for part in parts]
    assert len(parts) <= bins

    for power in ALIGNED_POWERS:
        blocks = (1 << power) // BLOCK
        chunks = sum(all(bits[at : at + blocks]) for at in range(0, len(bits) - blocks + 1, blocks))
        share = found["aligned_free_share"][str(1 << power)]
        assert share == (chunks * blocks / sum(bits) if any(bits) else None)


@pytest.mark.parametrize(
    ("extents", "wrong"),
    [
        ([(BLOCK, BLOCK), (0, BLOCK)], "after one up to"),
        ([(BLOCK, 0)], "of 0 bytes"),
        ([(0, 9 * BLOCK)], "on a device of"),
    ],
)
def test_extents_that_cannot_be_are_refused(extents, wrong):
    free = FreeSpace(Counting(), 8 * BLOCK, BLOCK)
    with pytest.raises(ValueError, match=wrong):
        free.add(extents)
        free.summary()  # many are looked at together


@given(free=st.lists(st.integers(0, 64)))
def test_every_group_is_in_one_bucket(free):
    groups = Buckets("block group")
    groups.add_all([64] * len(free), free)
    buckets = groups.summary()["buckets"]
    assert sum(bucket["groups"] for bucket in buckets) == groups.count == len(free)
    assert buckets[0]["groups"] == free.count(0)
    for bucket in buckets[1:-1]:
        inside = [each for each in free if each and bucket["from_share"] <= each / 64 < bucket["to_share"]]
        assert bucket["groups"] == len(inside)
    assert [bucket["label"] for bucket in buckets] == [label for label, _ in BUCKETS]


def test_a_log_on_a_device_of_a_lower_number_is_not_the_main_one(monkeypatch, tmp_path):
    """XFS and ext4 map an external log first then: nothing was free."""
    log = fiemap.RECORD.pack(999, fiemap.FMR_OF_SPECIAL_OWNER, 0, 2, 0, 1 << 26, 0, 0, 0)
    flags = fiemap.FMR_OF_SPECIAL_OWNER | fiemap.FMR_OF_LAST
    data = fiemap.RECORD.pack(os.stat(tmp_path).st_dev, flags, 8192, fiemap.FMR_OWN_FREE, 0, 4096, 0, 0, 0)

    def mapped(_descriptor, _request, buffer):
        fiemap.FSMAP_HEADER.pack_into(buffer, 0, 0, 0, 0, 2, *[0] * 6)
        at = fiemap.FSMAP_HEADER.size + 2 * fiemap.RECORD.size
        buffer[at : at + len(log + data)] = log + data

    monkeypatch.setattr("fcntl.ioctl", mapped)
    assert list(fiemap.free_extents(tmp_path)) == [(8192, 4096)]
