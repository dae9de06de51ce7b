"""Texts from public reports, each with its right value or the reason why it is refused (data/trials, reconstructed)."""

import binascii
import html
import io
import json
import lzma
import re
import textwrap
from pathlib import Path

import pytest

from fsage.evidence import save_free
from fsage.layouts import saved
from fsage.layouts.store import NotThisText
from fsage.layouts.verdict import verdict
from fsage.parse import BadOutput, fio, ior, mdtest

HERE = Path(__file__).parent / "data" / "trials"


def of(name):
    """A text of these."""
    return (HERE / f"{name}.txt").read_text()


def by_line(text, begin, end="\n"):
    """The text, each line between what is put around it; `begin` may have the line's number, from 1."""
    return "".join(f"{begin.format(number)}{line}{end}" for number, line in enumerate(text.splitlines(), 1))


@pytest.mark.parametrize(
    ("name", "values", "options"),
    [
        ("02-fio-tausworthe/sprandom", (4_931_584, 10.003, 0.470), {}),
        ("02-fio-tausworthe/cpuio", (4_931_584, 10.003, 0.470), {"filename": "/dev/sdk"}),  # of the job that read
        ("04-fio-windows/crlf", (3 << 30, 3.002, 1023.3), {}),
        ("05-fio-group-options/group", (1 << 30, 5.21, 196.5), {"direct": "1", "ioengine": "libaio"}),
    ],
)
def test_what_a_run_of_fio_moved(name, values, options):
    run = fio.parse((HERE / f"{name}.stdout").read_bytes().decode(), "", 0)
    moved = run.read or run.write
    assert (moved.moved_bytes, moved.seconds) == values[:2]
    assert moved.bw_mib_s == pytest.approx(values[2], abs=0.05)
    assert run.options.items() >= options.items()
    assert "filename_format" not in run.options, "that is another job's"


@pytest.mark.parametrize(
    ("parser", "name", "reason"),
    [
        (fio, "01-fio219-kib/4gib", "fio-2.19-66-gd44a counts io_bytes in KiB"),
        (fio, "01-fio219-kib/fio210-no-timestamp-ms", "fio-2.10 counts io_bytes in KiB"),
        (fio, "02-fio-tausworthe/randread", "exceeds 32-bit tausworthe random generator.; fio: Switching"),
        (fio, "06-fio-eio/eio", "err=5/file:io_u.c:1896, func=io_u error, error=Input/output error"),
        (fio, "06-fio-eio/quota-error-0", "err=122/.* error=Disk quota exceeded"),
        (mdtest, "07-mdtest193-fastest/quiet", "mdtest-1.9.3 with -u and 32 tasks prints .* fastest task"),
        (mdtest, "07-mdtest193-fastest/phase-T", "mdtest-1.9.3 with -u and 2 tasks prints .* fastest task"),
        (ior, "09-ior-stonewall-one-size/one-repetition", "10052.0 MiB/s .* summary gives 9345.5; .* table is right"),
        (ior, "10-ior-epoch-seconds/512gib", "gives 0.00 where a number above 0 must be"),
        (ior, "10-ior-epoch-seconds/no-warning", "gives 0.000000 where a number above 0 must be"),
        (ior, "10-ior-epoch-seconds/with-warning", "WARNING: inconsistent file size"),
    ],
)
def test_why_a_run_gives_no_number(parser, name, reason):
    with pytest.raises(BadOutput, match=reason):
        parser.parse((HERE / f"{name}.stdout").read_bytes().decode(), "", 0)


def test_the_fastest_task_is_that_of_all_where_clocks_start_together():
    text = (HERE / "07-mdtest193-fastest/phase-T.stdout").read_text()
    for alike in (text.replace(' "-u"', ""), text.replace('"-T"', '"-T" "-t"'), text.replace("2 total", "1 total")):
        assert mdtest.parse(alike, "", 0).per_s == {"File stat": 8000.0}
    with pytest.raises(BadOutput, match="fastest task"):
        mdtest.parse(text.replace('"-F" "-u"', '"-Fu"'), "", 0)


SOUND = HERE.parent / "corpus" / "fio-3.33" / "write-bs1m-nj4-group.stdout"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda text: text.replace('"bw_bytes"', 'oops\n"bw_bytes"', 1),
            "line .* was written by something else: 'oops",
        ),
        (lambda text: text[:2000], "it was cut short"),
        (lambda text: "  read: IOPS=1\n", "begins with '  read: IOPS=1.* --output-format=json"),
        (
            lambda text: text.replace('"io_bytes" : 268435456', '"io_bytes" : 262144'),
            "262144 bytes in .* bytes a second",
        ),
        (lambda text: text.replace('"jobs" :', '"client_stats" :'), "run with --client, whose JSON has several hosts"),
        (lambda text: text.replace('"read" :', '"mixed" :'), "--unified_rw_reporting, which adds reads and writes up"),
        (lambda text: text.replace('"error" : 0', '"error" : 0, "total_err" : 5'), "job j had 5 errors and continued"),
    ],
)
def test_why_a_document_is_not_whole(change, reason):
    bent = change(SOUND.read_text())
    assert bent != SOUND.read_text()
    with pytest.raises(BadOutput, match=reason):
        fio.parse(bent, "", 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: json.dumps(json.loads(text), separators=(",", ":")),
        lambda text: re.sub('.*"bw_bytes".*\n', "", text).replace("fio-3.33", "fio-3.1"),
    ],
    ids=["one line", "of 2017"],
)
def test_a_document_of_another_form_tells_the_same(change):
    bent = change(SOUND.read_text())
    assert fio.parse(bent, "", 0).write == fio.parse(SOUND.read_text(), "", 0).write


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + by_line(text, "> ", "\r\n"),
        lambda text: "\x1b[1m" + text.replace("\n", "\x1b[0m\n", 3),
        lambda text: "- so:\n\n  ```\n" + by_line(text, "  ") + "  ```\n",
        html.escape,
        lambda text: text.replace("'", "\u2019").replace('"', "\u201c"),
    ],
    ids=["mail of windows", "colours", "code in a list", "web page", "letter"],
)
@pytest.mark.parametrize(
    ("parser", "name"),
    [
        (fio, "fio-3.33/write-bs1m-nj4-group"),
        (ior, "ior-3.3.0/sweep-np2-t1m"),
        (mdtest, "mdtest-main/u-F-i3"),
    ],
)
def test_what_mail_and_editors_add_changes_no_number(parser, name, change):
    text = (HERE.parent / "corpus" / f"{name}.stdout").read_text()
    assert parser.parse(change(text), "", 0) == parser.parse(text, "", 0)


def look(content):
    """The store that a text tells of, and the sentences of its verdict."""
    content = content.encode() if isinstance(content, str) else content
    store = saved.read(io.BytesIO(content)).summary(0)
    return store, " ".join(verdict(store, "FILE", None).sentences)


KIB, MIB = 1 << 10, 1 << 20
APPENDERS = "Files that grow together, a bit each in turn, can have an extent for each bit"


@pytest.mark.parametrize(
    ("name", "values", "says", "never"),
    [
        (
            "12-ext4-zeroed-descriptors/dumpe2fs",
            {
                "free_bytes": 42_549 * 4096,
                "unknown_bytes": 512 * MIB,
                "fullness_percent": pytest.approx(68.77, abs=0.01),
            },
            "Damaged: 4 of 8 block groups (2-5) have their block bitmap at block 0, where none can be. What is free of "
            "their 512 MiB is not known: the other groups have 42549 free blocks, and the superblock counts 81870",
            "worthwhile",
        ),
        (
            "14-e2freefrag-2009/chunks-2009",
            {"extents": 173_553, "mean": pytest.approx(248 * KIB, rel=0.01), "free_bytes": 10_774_142 * 4096},
            "its head has an average of 184 KB, its rows of 248 KB (taken)",
            "cut short",
        ),
        (
            "14-e2freefrag-2009/no-num-line-1.41",
            {"extents": 4_618, "free_bytes": 292_995 * 4096, "mean": pytest.approx(253.8 * KIB, rel=0.001)},
            "80.5% full",
            "Note",
        ),
        ("15-e2freefrag-appenders/e2freefrag", {"extents": 71}, APPENDERS, "A new file of"),
        ("15-e2freefrag-appenders/filefrag", {"files": 64, "of_files": 16_764_192}, "64 files listed", "Note"),
        ("17-filefrag-sparse-image/filefrag-v", {"of_files": 13, "bytes": 164_890 * 4096}, "13 extents", "Note"),
        ("17-filefrag-sparse-image/one-hole", {"of_files": 1}, "The file listed has 1 extent.", "Note"),
        ("18-filefrag-lustre-devices/mirrored", {"of_files": 2, "bytes": 2 * MIB}, "on 2 devices", "fragments"),
        ("18-filefrag-lustre-devices/one-stripe-13", {"of_files": 13, "bytes": 1_468_006_400}, "13 extents", "Note"),
        ("18-filefrag-lustre-devices/two-stripes-logical", {"of_files": 4, "score": None}, "on 2 devices", "1 extents"),
        ("21-xfs-bmap-punched/bmap-v", {"of_files": 9, "bytes": 8_876_032}, "9 extents", "Note"),
        ("21-xfs-bmap-punched/bmap-v-with-error", {"files": 2}, "cannot open 2: Permission denied", "3 files"),
        ("21-xfs-bmap-punched/bmap-trailing-spaces", {"of_files": 1}, "2 extents shared; 1 extent unwritten", "lists"),
        (
            "22-xfs-freesp-histogram/freesp-s-ag15",
            {"extents": 75_606, "free_bytes": 8_459_434 * 4096, "device_bytes": None},
            "How full it is, the text does not say. Note: blocks are taken for 4 KiB, which it does not say.",
            "cut short",
        ),
        (
            "22-xfs-freesp-histogram/freesp-s-per-ag",
            {"extents": 106_780, "mean": pytest.approx(127.0 * 4096, rel=0.001)},
            "of 2 groups (15, 30) only",
            "% full",
        ),
        ("22-xfs-freesp-histogram/xfs_spaceman-freesp", {"extents": 75_606}, "75,606 extents", "% full"),
        (
            "23-xfs-16mib-enospc/freesp-d",
            {"extents": 6, "largest": 268 * 4096, "fullness_percent": pytest.approx(93.2, abs=0.05)},
            "So little is free that a new file, or an inode of its own, may not be had",
            "contiguous as on",
        ),
        (
            "23-xfs-16mib-enospc/freesp-d-45-blocks",
            {"largest": 32 * 4096, "fullness_percent": pytest.approx(98.9, abs=0.05)},
            "No new file of 1 MiB fits. Now no free extent holds 1 MiB. So little is free",
            "contiguous as on",
        ),
        ("23-xfs-16mib-enospc/freesp-s", {"extents": 6, "mean": pytest.approx(46.3 * 4096, rel=0.01)}, "", "% full"),
        (
            "27-lfs-df/lfs-df-old-summary",
            {"device_bytes": 6 << 30},
            "3 OSTs, the fullest is lus-OST0002 (86%)",
            "deact",
        ),
        (
            "27-lfs-df/lfs-df-inactive",
            {"device_bytes": 4 << 30},
            "2 OSTs, the fullest is lus-OST0002 (86%); deact",
            "3 OST",
        ),
        ("27-lfs-df/lfs-df-numeric", {"device_bytes": 1_588_349_376 << 10}, "it has 3 OSTs", "deactivated"),
        ("26-dumpe2fs-stripped/blanks-lost", {"device_bytes": 8 << 30, "free_bytes": 7_813_095_424}, "", "cut short"),
    ],
)
def test_what_a_text_tells(name, values, says, never):
    store, said = look(of(name))
    extents = store["free_extents"] or {}
    files = (store["files"] or {}).get("listed", {})
    published = {
        **store,
        "extents": extents.get("count"),
        "mean": extents.get("mean_bytes"),
        "largest": extents.get("largest_bytes"),
        "files": files.get("files"),
        "of_files": files.get("extents"),
        "bytes": files.get("bytes"),
        "score": files.get("layout_score"),
    }
    assert {key: published[key] for key in values} == values
    assert says in said and never not in said, said


def test_what_damage_hides_is_not_copied(tmp_path):
    with pytest.raises(ValueError, match=r"Damaged: 4 of 8 .* Nothing of it is copied before it is repaired"):
        save_free(str(HERE / "12-ext4-zeroed-descriptors/dumpe2fs.txt"), tmp_path / "saved.gz")
    assert not list(tmp_path.iterdir())


WHOLE = (HERE.parent / "evidence" / "dumpe2fs.txt").read_text()
ZEROED = of("12-ext4-zeroed-descriptors/dumpe2fs")


@pytest.mark.parametrize(
    ("text", "unknown_bytes", "says"),
    [
        (WHOLE.replace("state:         clean", "state:         not clean with errors"), 0, "'not clean with errors'"),
        (WHOLE.replace("\nFirst block", "\nFS Error count:           3\nFirst block"), 0, "and 3 errors noted"),
        (re.sub(r"(Group 5: .*csum 0x\w+)", r"\1 (EXPECTED 0x1234)", WHOLE), 128 * MIB, "(5) have a checksum"),
        (
            re.sub(r"(Group 5: (?:.*\n)*?) +\d+ free blocks", r"\1  40000 free blocks", WHOLE, count=1),
            128 * MIB,
            "(5) have ",
        ),
        (
            re.sub(r"(Group 50: (?:.*\n)*?) +\d+ free blocks", r"\1  0 free blocks", WHOLE, count=1),
            128 * MIB,
            "(50) have all",
        ),
        (
            re.sub(r"Block bitmap at \d+", "Block bitmap at 5000", WHOLE, count=2),
            256 * MIB,
            "2 of 64 block groups (0-1)",
        ),
        (
            WHOLE.replace("Group 7:", "dumpe2fs: Inode bitmap checksum does not match\nGroup 7:"),
            8 << 30,
            "dumpe2fs says",
        ),
        (
            re.sub(r"(Group 3: (?:.*\n)*?)  Free blocks: \d+", r"\1  Free blocks: 98304", WHOLE, count=1),
            128 * MIB,
            "(4) have blocks of their own superblock",
        ),
        (
            re.sub(
                r"(Group 2: (?:.*\n)*?) +\d+ free blocks", r"\1  7 free blocks", WHOLE.replace(" needs_recovery", "")
            ),
            8 << 30,
            "1 groups list more or less free than they count",
        ),
        (WHOLE + "\n*** Checksum errors detected in filesystem!  Run e2fsck now!\n\n", 8 << 30, "Run e2fsck now"),
    ],
)
def test_damage_is_said_first(text, unknown_bytes, says):
    assert text != WHOLE
    store, said = look(text)
    assert store["unknown_bytes"] == unknown_bytes
    assert said.startswith("Damaged: ") and says in said.split("% full")[0], said
    assert ("worthwhile" in said) == (not unknown_bytes)


XFS = "blocksize = 4096\ndblocks = 16384\nagblocks = 4096\nfdblocks = 9000\n   agno agbno len\n"
ROWS = "      0      8   100\n      1     11  3998\n      2      8     1\n      3      8     1\n"
SIZES = "      1       1       2       2   0.05\n     64     127       1     100   2.44\n"
SIZES = "   from      to extents  blocks    pct\n" + SIZES + "   2048    4095       1    3998  97.51\n"
TABLE = XFS + ROWS + SIZES


@pytest.mark.parametrize(
    ("complaint", "unknown_bytes", "free_blocks"),
    [
        ("Metadata CRC error detected at 0x5591, xfs_agf block 0x8001/0x200\n", 16 * MIB, 102),
        ("xfs_db: cannot init perag data (74). Continuing anyway.\n", 64 * MIB, 4100),
    ],
)
def test_xfs_db_complains(complaint, unknown_bytes, free_blocks):
    store, said = look(complaint + TABLE)
    assert (store["unknown_bytes"], store["free_bytes"]) == (unknown_bytes, free_blocks * 4096)
    assert said.startswith("Damaged: xfs_db says") and "45.1% full" in said, "by the superblock"
    assert look(TABLE)[0]["warnings"] == []


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_device_of_which_no_block_is_in_use_is_damaged(is_empty):
    head = "Device: d\nBlocksize: 4096 bytes\nTotal blocks: 32768\nFree blocks: 20000 (61.0%)\n\n"
    row = "    4K...    8K-  :             1             1    0.00%\n"
    row = "  128M...  256M-  :             1         32768  100.00%\n" if is_empty else row
    store, said = look(head + "Num. free extent: 1\n" + row)
    assert bool(store["unknown_bytes"]) == said.startswith("Damaged: e2freefrag") == is_empty
    assert is_empty or "rows 1 (the bitmaps', taken): it is mounted, or damaged" in said


PUT_BEFORE = (
    *(">", "| ", "    ", "  3: ", "fio-1  | ", "[pod/fio/fio] ", "17:00 < root> ", "# ", "+"),
    *("oss1: ", "Nov 26 02:00:00 oss1 root[12]: ", "{0:6d}\t", "Nov 26 02:00:00.{0:06d} ", "out.txt:{0}:", "{0}. "),
    "17:00:00.{0:03d} ",
)
CHANGED = (
    (r"(?m)^ +| +$", ""),
    (r"\n", "  \n"),
    (r"\n", "\n\n"),
    (r"\n", "\r"),
    (r"\n", "<br>\n"),
    (r"\Z", "   "),
    (" ", "\u00a0"),
    (" {2,}", "\t"),
    (r"(?<=\d)-(?=\d)", "\u2013"),
    (r"\n\Z", ""),
    (" dir_index", "\ndir_index"),  # wrapped
    (r"Blocks (\d+)-", r"Blocks \1 -- "),  # of 2002
    (r"\A", "\x1b[1mroot@oss#\x1b[0m dumpe2fs\n"),
)


@pytest.mark.parametrize(
    "bent",
    [
        *(by_line(WHOLE, begin) for begin in PUT_BEFORE),
        *(re.sub(old, new, WHOLE) for old, new in CHANGED),
        WHOLE.encode("utf-16"),
        WHOLE.encode("utf-16-le"),
        b"\xef\xbb\xbf" + WHOLE.encode(),
        by_line(WHOLE, "> > ", "\r\n"),
        json.dumps(WHOLE),
        f"<pre>{WHOLE}</pre>",
        binascii.b2a_qp(WHOLE.encode()),
        "1. I ran:\n\n   ```\n" + by_line(WHOLE, "   ") + "   ```\n",
        "On Monday, root wrote:\n" + by_line(WHOLE, ">"),
    ],
    ids=[
        *PUT_BEFORE,
        *(f"{old} {new}" for old, new in CHANGED),
        *("utf16", "utf16 without a mark", "mark", "mail", "JSON", "web page", "mail as sent", "list", "answered"),
    ],
)
def test_what_editors_terminals_and_mail_do_to_a_text_changes_nothing(bent):
    assert look(bent)[0] == look(WHOLE)[0]


def test_lines_that_mail_wrapped_change_nothing():
    lines = [line if len(line) <= 76 else textwrap.fill(line, 76) for line in ZEROED.split("\n")]
    assert look("\n".join(lines))[0]["free_bytes"] == look(ZEROED)[0]["free_bytes"]
    osts = of("27-lfs-df/lfs-df-inactive")
    assert look(binascii.b2a_qp(osts.encode()))[0] == look(osts)[0], "as sent: wrapped behind a letter"


BUDDIES = """\
#group: free  frags first [ 2^0   2^1   2^2   2^3   2^4   2^5   2^6   2^7   2^8   2^9   2^10  2^11  2^12  2^13  ]
#0    : 7     2     100   [ 1     1     1     0     0     0     0     0     0     0     0     0     0     0     ]
#1    : 32768 1     0     [ 0     0     0     0     0     0     0     0     0     0     0     0     0     4     ]
#2    : 0     0     32768 [ 0     0     0     0     0     0     0     0     0     0     0     0     0     0     ]
"""
ALLOCATOR = """{
    "capacity": 1073741824,
    "alloc_unit": 4096,
    "alloc_type": "hybrid",
    "alloc_name": "block",
    "extents": [
        {
            "offset": "0x2000",
            "length": "0x100000"
        },
        {
            "offset": "0x0",
            "length": "0x1000"
        }
    ]
}
"""
LISTED_OSD = json.dumps(json.loads(ALLOCATOR)["extents"], indent=4) + "\n"
FILEFRAG_2009 = """Filesystem type is: ef53
Filesystem cylinder groups is approximately 157
File size of /a is 6291456 (1536 blocks, blocksize 4096)
 ext logical physical expected length flags
   0       0    34816             512
   1     512    40960    35327   1024 eof
/a: 2 extents found
File size of /b is 8192 (2 blocks, blocksize 4096)
Discontinuity: Block 1 is at 77 (was 33)
/b: 2 extents found, perfection would be 1 extent
"""
FILEFRAG_2008 = """Checking /a
Filesystem type is: ef53
Filesystem cylinder groups is approximately 157
Blocksize of file /a is 4096
File size of /a is 204800 (50 blocks)
First block: 8613
Last block: 9037
Discontinuity: Block 12 is at 9000 (was 8624)
/a: 2 extents found, perfection would be 1 extent
"""
FILEFRAG = """Filesystem type is: 9123683e
File size of /c is 262144 (64 blocks of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..      31:       1000..      1031:     32:             encoded
   1:       32..      63:       1004..      1035:     32:       1032: last,encoded,shared,eof
/c: 2 extents found
"""
WRAPPED = """\
Filesystem type is: 9123683e
File size of /a is 154 (1 block of 4096 bytes)
  ext:     logical_offset:        physical_offset: length:   expected:
flags:
    0:        0..    4095:          0..      4095:   4096:
last,not_aligned,inline,eof
/a: 1 extent found
File size of /b is 4096 (1 block of 4096 bytes)
    0:        0..       0:       3328..      3328:      1:
last,unwritten,eof
/b: 1 extent found
"""
FIEMAP = """\
/a:
 EXT: FILE-OFFSET      BLOCK-RANGE      TOTAL FLAGS
   0: [0..7]:          0..7                 8   0x200
   1: [8..15]:         22..29               8   0x2008
   2: [16..23]:        hole                 8
   3: [24..31]:        80..87               8   0x800
   4: [32..39]:        0..7                 8   0x7
"""
FSMAP = """\
\t0: 8:16 [0..7]: static fs metadata 8
\t1: 8:16 [8..15]: free space 8
\t2: 8:16 [16..23]: inode 132 data 0..7 8
\t3: 8:16 [16..23]: inode 137 data 0..7 8
\t4: 8:16 [24..31]: free space 8
"""
FSMAP_V = """\
 EXT: DEV BLOCK-RANGE  OWNER       FILE-OFFSET AG AG-OFFSET TOTAL FLAGS
   0: 8:16 [0..15]:    free space              0  (0..15)      16
   1: 8:16 [16..31]:   132         0..15       1  (0..15)      16 0100000
"""
INFO = """\
meta-data=/dev/sdb               isize=512    agcount=4, agsize=4096 blks
data     =                       bsize=1024   blocks=16384, imaxpct=25
"""
SPACEMAN = "".join(f"       0 {place:8}        1\n" for place in range(0, 100, 2))
SPACEMAN += "   from      to extents  blocks    pct\n      1       1      50      50 100.00\n"
OLD_FREESP = of("22-xfs-freesp-histogram/freesp-s-ag15")
OLD_BMAP = of("21-xfs-bmap-punched/bmap-v")
E2FREEFRAG_BIGALLOC = """\
Device: big16.img
Blocksize: 1024 bytes
Total blocks: 307200
Free blocks: 287376 (93.5%)
Min. free extent: 256 KB
Max. free extent: 23040 KB
Avg. free extent: 2027 KB
Num. free extent: 61
  256K...  512K-  :            21          5376    1.87%
  512K... 1024K-  :            11          5632    1.96%
    1M...    2M-  :            13         16640    5.79%
    4M...    8M-  :            15         72960   25.39%
   16M...   32M-  :             1         23040    8.02%
"""  # of mke2fs -b 1024 -O bigalloc -C 16384
E2FREEFRAG = of("15-e2freefrag-appenders/e2freefrag")


@pytest.mark.parametrize("text", [FILEFRAG_2008, FILEFRAG_2009, FILEFRAG, OLD_BMAP, ALLOCATOR, LISTED_OSD, BUDDIES])
def test_blanks_and_prompts_change_no_text(text):
    prompt = "[root@oss1 ~]# "
    for bent in (
        re.sub("(?m)^ +| +$", "", text),
        by_line(text, "    ", "  \n"),
        f"{prompt}cmd\n{text}{prompt}\n",
        f"{prompt}cmd\n{text}{prompt}",
        f"```\n{text}```\n\nreal\t0m1.1s\n",
        f"\x1b]0;oss1\x07\x1b[?2004l\r{text}".replace("\n", "\r\r\n"),
        f"[CODE]{text}[/CODE]\n",
        f"```{text}```",
        f"<html><body><PRE>{text}</PRE></body></html>\n",
        text.replace("size of ", "size of  "),
        f"[sudo] password for admin: {text}",
        by_line(text, "--More--\r        \r"),
        f"\x1b[H\x1b[2JEvery 2.0s: cmd\x1b[3;1H{text}",
    ):
        assert look(bent)[0] == look(text)[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (by_line(FILEFRAG_2009, "{0}:"), "all files have 4 extents"),
        (
            "File size of a is 9 (1 block of 4096 bytes)\na: 0 extents found\n",
            "1 file of more than 0 bytes without an extent: a hole, or filefrag -x or -E",
        ),
        (f"[root@oss1 ~]# xfs_bmap -v /f\n{OLD_BMAP}\nreal\t0m1.1s\n[root@oss1 ~]#\n", "9 extents"),
        (E2FREEFRAG + OLD_BMAP, "Note: what begins with 'EXT: FILE-OFFSET"),
        (FILEFRAG_2009, "all files have 4 extents"),
        (FILEFRAG_2008, "The file listed has 2 extents"),
        ("/d: Permission denied\n" + FILEFRAG_2009, "1 file could not be read, the first: /d: Permission denied"),
        (WHOLE.replace("has_journal", "has_journal needs_recovery"), "its journal is not replayed, or it is mounted"),
        (OLD_BMAP + "FLAG Values:\n0010000 Unwritten preallocated extent\n", "9 extents"),  # -vv, without its blanks
        (WHOLE[: WHOLE.index("\n\n\nGroup") + 1], "dumpe2fs -h and tune2fs -l list no groups"),
        (FILEFRAG, "2 extents encoded; 1 extent shared; of the encoded ones"),
        (
            FILEFRAG.replace("/c: 2", "/c: 1"),
            "two numbers of extents are told: /c has 2 by its rows and 1 by its last line",
        ),
        (
            E2FREEFRAG.replace("Free blocks: 34501259", "Free blocks: 34400000"),
            "34400000 free blocks (the superblock's)",
        ),
        ("actual 120, ideal 30, fragmentation factor 75.00%\n", "Files have 120 extents, where 30 would do."),
        (
            "\t0: 7:1 [0..63]: journalling log 64\n" + FSMAP + "\t6: 8:32 [0..7]: free space 8\n",
            "50.0% full: 8 KiB of 16 KiB are in use, the file system's own blocks among them. Note: it has no mark of "
            "its end; of device 8:16, and not of 1 free extent on another",
        ),
        (FIEMAP, "The file listed has 2 extents. Note: 1 extent shared; 1 extent unwritten; 1 extent encoded, whose"),
        (WRAPPED, "all files have 1 extent, 0.5 each"),
        (BUDDIES.replace("32768", "8192 ").replace("4     ]", "1     ]"), "and it is less full; `dumpe2fs -h` tells"),
        (E2FREEFRAG.replace("...", " ..."), "in 71 extents"),
        ("=" * 76 + "\n" + INFO + SIZES, "of 16 MiB are in use"),  # no line of a mail
        ("So it is\n" * 4 + by_line(BUDDIES, "   "), "lists 3 groups"),
        ("So it is\n" * 4 + by_line(FILEFRAG, "   "), "The file listed has 2 extents"),
        (INFO + SPACEMAN, "The 50 KiB that are free lie in 50 extents"),
        (SPACEMAN, "The 200 KiB that are free lie in 50 extents"),
        (XFS + SIZES, "the superblock counts 9000 free blocks, and freesp 4100 (taken)"),
        ("xfs_db> " + TABLE.replace("blocksize = 4096", "blocksize = 1024"), "of 16 MiB are in use"),
        (
            E2FREEFRAG.replace("Free blocks: 34501259", "Free blocks: 34400000"),
            "feature bigalloc, whose clusters e2freefrag misreads unless it is mounted (run dumpe2fs)",
        ),
        (OLD_FREESP.replace("   pct\n", "   pct  blkcdf  extcdf\n").replace("0.00\n", "0.00 0.0 0.0\n"), "75,606"),
    ],
)
def test_what_a_text_says_of_itself_is_said(text, says):
    assert says in look(text)[1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (of("15-e2freefrag-appenders/before-and-after"), "two texts of e2freefrag, or"),
        (of("27-lfs-df/lfs-df-h"), r"counts inodes \(-i\) or rounds \(-h\): run `lfs df` without them"),
        (of("15-e2freefrag-appenders/e4defrag-c"), "text of `e4defrag -c`.*: run `filefrag -v FILE"),
        (WHOLE + WHOLE, "two texts of dumpe2fs"),
        (WHOLE.replace("165887, 186", "165887\n, 186"), "continues with b', 186368-196607"),
        (lzma.compress(WHOLE.encode()), r"it is packed \(xz\): give the text itself"),
        (bytes(257) + b"ustar" + WHOLE.encode(), r"it is packed \(tar\)"),
        (
            WHOLE.replace("Group 0: (Blocks 0-", "Group 0: (Blocks 0x0000-"),
            "hexadecimal .dumpe2fs -x.: run dumpe2fs without",
        ),
        (
            re.sub("Filesystem|Inode count|Block count|Group ", "Dateisystem ", WHOLE),
            "LC_ALL=C dumpe2fs",
        ),
        (E2FREEFRAG.replace("   64M...", "#"), "counts 71 free extents and its rows list 69: rows are missing"),
        (re.sub("Num. .*\n", "", E2FREEFRAG)[:-56], "its last row is of another size: rows are missing"),
        (FILEFRAG.replace("32:  ", "20:  "), "does not add up: is it hexadecimal"),
        (OLD_FREESP + OLD_FREESP, "2 texts of freesp, and does not say that each is of another group"),
        (re.sub(" +512 .*\n", "", OLD_FREESP), "counts 75606 free extents in its last lines, and its rows 75449"),
        (re.sub(" +512 .*\n|total.*\n|average.*\n", "", OLD_FREESP), "tells of 1.83%: digits or rows are missing"),
        (re.sub(r": +(\d+)(\d{3})\n", r": \1,\2\n", WHOLE), "separators of thousands, such as 524,288"),
        ("xfs_spaceman: FS_IOC_GETFSMAP [m]: Invalid\n" + SIZES[:40], "the program failed, and says 'xfs_spaceman"),
        (TABLE.replace("     11", "     12"), "begins at multiples of 4 blocks: run freesp without -A"),
        (TABLE.replace("      3      8", "      2     12"), "nothing of 1 allocation group .3.: run freesp without -a"),
        (TABLE.replace("3998 ", "3 998 "), "continues with .*3 998 .*, which is none of its rows"),
        (
            "   from      to extents  blocks    pct\n      1       1       2       3 100.00\n",
            "2 extents of 3 blocks in all, which",
        ),
        (OLD_FREESP.split("\n")[0] + "\n", "no block is free, or it was cut short; run freesp -s"),
        (
            "        AG    extents     blocks\n         0          5        100\n",
            "`freesp -g`, which tells sums of gro",
        ),
        (FSMAP.replace("16..23]: in", "16..31]: in"), "has sectors 24 to 31 where 32 should follow"),
        (
            FSMAP.replace("[24..31]", "[24..25]"),
            "in other blocks than of 4096 bytes, and does not say in which: `xfs_db",
        ),
        (INFO, "xfs_info, which tells sizes only: give that of `xfs_db -r -c 'freesp -s' DEVICE` behind it"),
        (" ".join(FILEFRAG_2009.splitlines()), "filefrag's lines stand on one"),
        (FILEFRAG + re.sub("   1: .*\n", "-- 8< --\n", FILEFRAG).replace("/c", "/d"), "/d ends before its last extent"),
        (re.sub("   1: .*\n", "", FILEFRAG), "/c ends before its last extent: rows are missing"),
        (FILEFRAG.replace("/c: 2", "/d: 2"), "filefrag's list of /c has no end: something is missing"),
        (OLD_BMAP.replace("[7616880..", "[7616888.."), "has extent '3: .* where 3 should be"),
        (BUDDIES.replace("]\n", "] |\n"), "mb_groups has something behind its row '#0"),
        (
            re.sub(r"Num(.*): .*\n[^@]*", r"Num\1: 0\n", E2FREEFRAG),
            "34501259 free blocks and no free extent: it has feature bigalloc",
        ),
        (E2FREEFRAG_BIGALLOC, "287376 free blocks, its rows 123648 in sixteens: it has feature bigalloc"),
        ("dumpe2fs 1.47.0 (5-Feb-2023)\n\ngroup:block:super:gdt\n0:0:0:1-1\n", "no list that is read: run `dumpe2fs D"),
        ("     Total   Exclusive  Set shared  Filename\n", "a text of btrfs, of which none is read"),
        ("Overall:\n    Device size:  1.00GiB\n", "a text of btrfs, of which none is read: run `fsage evidence MOUNT`"),
        ("obdfilter.l-OST0000.kbytesfree=10\n", "lctl, which tells of no free space: run `lfs df`"),
        ('{\n    "stdout_lines": [\n        "Device: /dev/x"\n', "JSON of ansible: give the program's own text"),
        ("actual 120, ideal 30, fragmentation factor 7", "no whole factor, such as 75.00%: it was cut short"),
        (FILEFRAG + FILEFRAG, "filefrag lists /c twice: give one text at a time"),
        (FILEFRAG.replace("   0:  ", "   7:  "), "lists extent 7 of /c where 0 should be"),
        ('[{"max_len": 4096, "total": 10}]\n', "ceph daemon osd.N bluestore allocator dump block"),
        (FILEFRAG_2009.replace("/a: 2", "[snip]\n/a: 2"), r"its line '\[snip\]' says that something was left out"),
        (re.sub("File size of /a.*\n", "", FILEFRAG_2009), "below no `File size of ...`"),
        (
            re.sub("total.*\n|average.*\n", "", OLD_FREESP.replace("27.86", "24.86").replace("44.59", "47.59")),
            "digits or",
        ),
        (E2FREEFRAG[E2FREEFRAG.index("Min. free") :], "e2freefrag without its first lines"),
        (BUDDIES.split("\n", 1)[1], "mb_groups without its first line"),
        (
            "dumpe2fs: Permission denied while trying to open /dev/sda1\n",
            "the program failed, and says 'dumpe2fs: Perm",
        ),
        (2 * of("27-lfs-df/lfs-df-inactive"), "of several file systems: run `lfs df MOUNT`"),
        ("lustre-OST0000_UUID 10 5 5 50% /mnt/l[OST:0]\n", "`lfs df` without its first line"),
        (ALLOCATOR[ALLOCATOR.index('    "alloc_unit') :], "no capacity: its beginning is missing"),
        (LISTED_OSD[:-4], "the allocator dump has no end: it was cut short"),
        (
            "actual 120, ideal 30, fragmentation factor 57.00%\n",
            "frag's factor is 57.00%, and of 120 and 30 extents 75.00%",
        ),
    ],
)
def test_the_reason_of_a_refusal_is_true(text, reason):
    with pytest.raises(NotThisText, match=reason):
        look(text)


def test_buddies_give_how_many_extents_there_are_and_how_aligned_they_are():
    store, said = look(BUDDIES)
    assert store["free_extents"]["count"] == 3 and store["free_bytes"] == 32_775 * 4096
    assert store["free_extents"]["largest_bytes"] == 128 * MIB
    assert store["aligned_free_share"][str(32 * MIB)] == pytest.approx(32_768 / 32_775)
    assert [bucket["groups"] for bucket in store["groups"]["buckets"]] == [1, 1, 0, 0, 0, 1]
    assert "sizes of extents are reckoned from buddies" in said
    for old, new in (("4     ]", "4     ] Block bitmap corrupted!"), ("#1    : 32768", "#1    : 99")):
        store, said = look(BUDDIES.replace(old, new))
        assert (store["free_bytes"], store["unknown_bytes"]) == (7 * 4096, 128 * MIB)
        assert said.startswith("Damaged: the kernel has a bitmap that cannot be of 1 of 3 block groups (1)")
    small = BUDDIES.replace("32768", "8192 ").replace("0     0     4     ]", "4     0     0     ]")
    assert look(small)[0]["device_bytes"] == 3 * 8192 * 1024, "a run has two of a size at most, but of the largest"
    with pytest.raises(NotThisText, match="where group 1 should be"):
        look(BUDDIES.replace("#1  ", "#3  "))


def test_mb_groups_of_ldiskfs_has_what_a_new_file_can_have():
    """A real one: `gfree`, the descriptors' count, has 494 blocks more, which belong to open files."""
    text = (HERE.parent / "lustre" / "mb_groups.txt").read_text()
    store, said = look(text)
    assert store["free_bytes"] == 1_923_378 * 4096 and store["device_bytes"] == 64 * 128 * MIB
    rows = [line.split() for line in text.splitlines()[1:]]
    assert store["free_extents"]["count"] == sum(int(row[4]) for row in rows)
    assert "lists 64 groups and has no mark of its end" in said and not store["warnings"]


def test_fsmap_has_groups_with_v_and_names_ext4_by_its_own_owners():
    assert look(FIEMAP)[0]["filesystem"] is None, "any can be asked so"
    assert look(FSMAP_V)[0]["groups"]["count"] == 2
    store, _ = look(FSMAP.replace("static fs metadata", "special 102:1"))
    assert (store["filesystem"], store["groups"]) == ("ext4", None)
    assert store["absent"]["groups"] == "fsmap tells of groups only with -v"


def test_a_comma_of_another_language_changes_no_number():
    """xfs_db prints percents with the comma of its user's language."""
    for text in (TABLE, OLD_FREESP, "actual 120, ideal 30, fragmentation factor 75.00%\n"):
        commas = re.sub(r"(\d)\.(\d\d\b)", r"\1,\2", text)
        assert commas != text and look(commas)[0] == look(text)[0]


def test_free_extents_of_an_osd_lie_where_its_allocator_says():
    store, _ = look(ALLOCATOR)
    assert (store["device_bytes"], store["free_bytes"], store["free_extents"]["count"]) == (1 << 30, 257 * 4096, 2)
    on_a_line = "".join(ALLOCATOR.split())
    assert look(on_a_line.replace(":", ": "))[0] == look(on_a_line)[0] == store
    older = "".join(LISTED_OSD.split()) + "\n"  # Ceph 14 and 15 have the list alone
    for text in (LISTED_OSD, older):
        assert look(text)[0]["device_bytes"] == 258 * 4096 and "does not say how large" in look(text)[1]
    for cut in (re.sub("(.{30})", r"\1\n", older), ALLOCATOR[:-20]):
        with pytest.raises(NotThisText, match="cut short"):
            look(cut)
