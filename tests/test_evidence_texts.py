"""Saved text: what each program's text gives, what it cannot give, and nothing that is cut gives another number."""

import io
import itertools
import json
import re
import subprocess
from pathlib import Path

import preloaded
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import first_of

from fsage.evidence import page
from fsage.layouts import saved, stream
from fsage.layouts.store import KEYS, NotThisText
from fsage.layouts.terminal import extents_per_file

HERE = Path(__file__).parent / "data" / "evidence"
TEXTS = {path.stem: path.read_bytes() for path in HERE.glob("*.txt")}
MIB = 1 << 20


def read(text):
    return saved.read(io.BytesIO(text)).summary(0)


def read_text(name):
    return read(TEXTS[name])


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"filefrag_v_s2_f1"}))
def test_what_a_text_lacks_is_absent_with_the_reason(name):
    found = read_text(name)
    for key in KEYS:
        assert (found[key] is None) == (key in found["absent"])
    assert all(found["absent"].values())


def test_dumpe2fs_and_e2freefrag_of_one_ost():
    """Some files apart in time: most of the free space is the same."""
    large = []
    for name, free_bytes in (("dumpe2fs", 7813095424), ("e2freefrag", 1906994 * 4096)):
        store = read_text(name)
        rows = store["free_extents"]["histogram"]
        assert store["device_bytes"] == 8 << 30
        assert store["free_bytes"] == sum(row["bytes"] for row in rows) == free_bytes
        assert store["free_extents"]["largest_bytes"] == 2879488 << 10
        large.append([row for row in rows if row["from_bytes"] >= 8 * MIB and row["extents"]])
    assert large[0] == large[1]
    whole = read_text("dumpe2fs")
    groups = whole["groups"]
    for buckets in (groups["buckets"], groups["inode_buckets"]):
        assert sum(bucket["groups"] for bucket in buckets) == groups["count"] == 64
    assert sum(whole["bitmap"]["free_share"]) * whole["bitmap"]["bin_bytes"] == whole["free_bytes"]


def test_e2freefrag_with_chunks():
    assert read_text("e2freefrag_c")["aligned_free_share"] == {str(4 * MIB): 60 * 4 * MIB / (277609 * 1024)}


def test_dumpe2fs_header_gives_the_superblocks_count():
    found = read_text("dumpe2fs_h")
    assert found["free_bytes"] == 1923876 * 4096
    assert found["bitmap"] is found["groups"] is None


HEADER = b"""\
Filesystem volume name:   <none>
Block count:              %d
Free blocks:              0
First block:              0
Block size:               1024
Cluster size:             %d
Blocks per group:         %d
Inodes per group:         16


"""
LINES = (b"\n", b"  Free inodes: 3-16\n", b"  Inode table at 40-41 (+8)\n", b"  0 free\n")


@given(
    block_bytes=st.sampled_from([97, 1 << 20]),
    cluster=st.sampled_from([1, 4]),
    groups=st.lists(st.lists(st.booleans(), min_size=16, max_size=16), min_size=1, max_size=12),
    spelling=st.randoms(use_true_random=False),
)
def test_dumpe2fs_tells_of_each_free_block(block_bytes, cluster, groups, spelling):
    """Runs and single blocks as dumpe2fs writes them, other lines between."""
    blocks = 16 * cluster
    text = bytearray(HEADER % (blocks * len(groups), cluster << 10, blocks))
    for number, free in enumerate(groups):
        begin = number * blocks
        places = [begin + place * cluster for place in itertools.compress(range(16), free)]
        firsts = [place for place in places if place == begin or place - cluster not in places]
        lasts = [place for place in places if place + cluster not in places]
        lasts = [place + spelling.choice((0, cluster - 1)) for place in lasts]
        listed = [b"%d-%d" % run if run[0] < run[1] else b"%d" % run[0] for run in zip(firsts, lasts, strict=True)]
        text += b"Group %d: (Blocks %d-%d) csum 0x00\n" % (number, begin, begin + blocks - 1)
        text += b"".join(spelling.choices(LINES[1:], k=spelling.randint(0, 3)))
        text += b"  %d free clusters, 7 free inodes, 0 directories\n  Free blocks: " % sum(free)
        text += b", ".join(listed) + b"\n" + b"".join(spelling.choices(LINES[:2], k=spelling.randint(0, 2)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fsage.layouts.stream.BLOCK_BYTES", block_bytes)
        found = read(bytes(text))
        assert found["free_bytes"] == sum(map(sum, groups)) * cluster << 10
        assert "in use" not in found["source"]["free"]
        assert found["groups"]["count"] == len(groups)
        assert found["free_extents"]["count"] == len(
            [bit for bit, _ in itertools.groupby(itertools.chain(*groups)) if bit]
        )


def test_filefrag_and_xfs_bmap_of_the_same_files_agree():
    """Two of them have holes that are as large on the device, which are no fragments."""
    expected = {"files": 4, "bytes": 2 * MIB, "extents": 3, "extents_per_file": {"0": 1, "1": 3}}
    for name in ("filefrag_v_four", "xfs_bmap", "xfs_bmap_v", "xfs_bmap_vp"):
        listed = read_text(name)["files"]["listed"]
        assert {key: listed[key] for key in expected} == expected, name
        assert listed["mean_extent_bytes"] == 2 * MIB / 3
    moved = TEXTS["filefrag_v_four"].replace(b"24..        39", b"1024..     1039", 1).replace(b"a: 1", b"a: 2")
    # Blocks behind their predecessor: of two files of 128 blocks 126 and 127, of one of 256 blocks 255.
    score = (126 + 127 + 255) / (2 * 127 + 255)
    assert read(moved)["files"]["listed"]["layout_score"] == score
    assert read_text("xfs_bmap")["files"]["listed"]["layout_score"] is None, "the size of a block is not in it"


def test_filefrag_without_v_and_of_many_files():
    listed = read_text("filefrag_plain_f1")["files"]["listed"]
    assert (listed["extents_per_file"], listed["bytes"]) == ({"2": 1}, None)
    many = read(TEXTS["filefrag_v_s2_f1"] + TEXTS["filefrag_v_onost0"] + TEXTS["filefrag_v_plain_f1"])
    assert many["files"]["listed"]["extents_per_file"] == {"1": 1, "2": 1}
    assert many["source"]["files"] == "filefrag; 1 file could not be mapped"
    after_numbers = read(TEXTS["filefrag_plain_f1"] + TEXTS["filefrag_v_onost0"])
    assert after_numbers["files"]["listed"]["extents_per_file"] == {"1": 1, "2": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "it is empty"),
        (b"\n" * 100, "which no program writes whose text is read"),
        (TEXTS["filefrag_v_s2_f1"], "cannot be mapped"),
        (TEXTS["filefrag_v_four"] + TEXTS["e2freefrag_c"].replace(b"   64K", b"   0: 64K"), "which is no extent"),
        (TEXTS["xfs_bmap_v"].replace(b"   3: [", b"   4: [", 1), "extent '4: .* where 3 should be"),
        (TEXTS["xfs_bmap_v"] + b"  4: [8..", r"continues with '  4: \[8\.\.', which is no whole extent"),
        (TEXTS["dumpe2fs"].replace(b"Group 7: ", b"Group 8: "), "where group 7 should begin"),
        (TEXTS["dumpe2fs"].replace(b"Block size:               4096", b"Block size:               0"), "cannot be"),
        (
            TEXTS["dumpe2fs"].replace(b"Free blocks: 32", b"Free blocks: 9" + 18 * b"9"),
            "lists of free blocks.* bytes at",
        ),
        (
            TEXTS["dumpe2fs"].replace(b"Block count:              2097152", b"Block count:              1923877"),
            "more than the 59 groups",
        ),
        (TEXTS["e2freefrag"].replace(b"Total blocks: 2097152", b"Total blocks: 0"), "0 blocks of 4096 bytes"),
        (
            TEXTS["dumpe2fs"].replace(b"Block size:               4096", b"Block size:    1" + 18 * b"0"),
            "no device has",
        ),
        (TEXTS["e2freefrag"].replace(b"Num. free extent: ", b"Num. free extent: " + b"7" * 400), "40[0-9] digits"),
        (TEXTS["filefrag_plain_f1"].replace(b" 2 ", b" " + b"9" * 400 + b" "), "a number of 400 digits"),
        (TEXTS["filefrag_v_four"] + TEXTS["filefrag_v_onost0"].replace(b"4096", b"1024"), "blocks of 1024 bytes"),
    ],
)
def test_foreign_or_bent_text_is_refused_with_the_reason(text, reason):
    with pytest.raises(NotThisText, match=reason) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_a_line_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(stream, "LINE_BYTES", MIB)
    with pytest.raises(NotThisText, match="a line of more than 1 MiB"):
        read(b"x" * (3 * MIB))


@given(st.sampled_from(["dumpe2fs", "dumpe2fs_h", "e2freefrag", "e2freefrag_c", "filefrag_v_onost0"]), st.floats(0, 1))
def test_a_text_that_was_cut_never_gives_another_number(name, share):
    text = TEXTS[name][: int(share * len(TEXTS[name]))]
    whole, header = read_text(name), read_text("dumpe2fs_h")
    try:
        found = read(text)
    except NotThisText:
        return
    if found["groups"] is None and name == "dumpe2fs":
        assert found["source"]["free"].startswith("dumpe2fs -h"), "only the header was left, and that is said"
        assert found["absent"] == header["absent"]
    else:
        assert found == whole


@pytest.mark.parametrize("name", first_of("xfs_bmap", "filefrag_v_four", "xfs_bmap_v", "xfs_bmap_vp"))
def test_of_a_list_of_files_only_whole_lines_are_taken(name):
    """Cut between two files, or with xfs_bmap between two lines, it is a shorter text; within a line refused."""
    text = TEXTS[name]
    ends = {cut for cut in range(len(text)) if re.search(rb"(\n *|extents? found)$", text[:cut])}
    for cut in set(range(1, len(text))) - ends:
        with pytest.raises(NotThisText):
            read(text[:cut])


@pytest.mark.parametrize("name", ["dumpe2fs", "dumpe2fs_h", "xfs_bmap", "filefrag_plain_f1"])
def test_a_page_opens_offline_and_draws_what_is_there(name):
    layout = {"schema": 1, "what": f"<{name}>", "seconds": 0.0, "stores": [read_text(name)]}
    text = page(layout)
    assert not re.search(r'(src|href)="(?!#|data:)', text) and "@import" not in text and f"<{name}>" not in text
    drawn = re.findall(r'<svg [^>]*aria-label="([^"]*)"', text)
    (store,) = layout["stores"]
    assert ("Free space" in drawn) == (store["bitmap"] is not None)
    assert ("Block groups by free share" in drawn) == (store["groups"] is not None)
    assert ("Free space by size of its extents" in drawn) == (store["free_extents"] is not None)
    assert len(drawn) == len(set(drawn))


def test_the_command_reads_a_file_or_standard_input_and_says_what_is_wrong(tmp_path):
    def command(*words, text=b""):
        argv = [preloaded.shims() / "fsage", "evidence", *words]
        return subprocess.run(argv, input=text, env=preloaded.environment(), capture_output=True, check=False)

    tables = command(HERE / "dumpe2fs.txt", "--html", tmp_path / "page.html")
    assert tables.returncode == 0 and b"64 block groups, the largest 128 MiB" in tables.stdout
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    given = json.loads(command("-", "--json", text=TEXTS["dumpe2fs"]).stdout)
    assert given["stores"] == [read_text("dumpe2fs")]

    (tmp_path / "cut.txt").write_bytes(TEXTS["dumpe2fs"][:20000])
    (tmp_path / "zeros.img").write_bytes(bytes(1 << 20))
    for what, reason in (
        (tmp_path / "cut.txt", "cut short"),
        (tmp_path / "zeros.img", "nothing that blkid knows is on it"),
        ("-", "standard input: it is empty"),
    ):
        done = command(what, "--json")
        said = done.stderr.decode()
        assert done.returncode == 1 and not done.stdout
        assert reason in said and said.startswith("fsage: ") and said.count("\n") == 1


def test_many_numbers_of_extents_are_shown_by_power_of_two():
    shown = extents_per_file({"extents_per_file": dict.fromkeys(map(str, range(20)), 2)})
    assert shown == {"0": 2, "1": 2, "2-3": 4, "4-7": 8, "8-15": 16, "16-31": 8}
    assert extents_per_file({"extents_per_file": {"1": 7, "900": 1}}) == {"1": 7, "900": 1}
