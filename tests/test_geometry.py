"""An ext4 made like another one, by the header of its text; and blocks taken in its bitmap without a mount."""

import io
import itertools
import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_filesystems import MIB, mounted
from tiers import first_of

from fsage.base import Failure
from fsage.base.message import Unacceptable
from fsage.host.filesystems.ext4 import WritableBitmap
from fsage.layouts import ext4, extents, saved
from fsage.layouts.ext4 import BlockBitmap
from fsage.layouts.filesystems import Xfs
from fsage.layouts.freespace import ONCE, Counting
from fsage.layouts.geometry import Geometry, XfsGeometry, why_not
from fsage.layouts.store import NotThisText

EVIDENCE = Path(__file__).parent / "data" / "evidence"
OST = "-i 69905 -I 512 -G 256 -J size=16 -m 5 -O uninit_bg,flex_bg,^resize_inode,64bit,^metadata_csum,quota,huge_file"
RAID = "-O ^flex_bg,^64bit -E stride=16,stripe_width=128,resize=4000000"
MADE = [
    OST,
    "-O ^has_journal,meta_bg,^resize_inode -N 40000 -g 16384",
    RAID,
    "-I 256 -G 16 -O sparse_super2",
    "-O ^uninit_bg",
]


def made(place, *options, mib=1500):
    place.touch()
    os.truncate(place, mib * MIB)
    late = "lazy_itable_init=1,nodiscard"
    # Debian 13 makes a file of orphans, whose blocks are laid as those of any other file.
    words = [f"{word},^orphan_file" if before == "-O" else word for before, word in itertools.pairwise(["", *options])]
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", late, "-b", "4096", *words, place], check=True)
    return place


def free_of(image):
    free = []
    ext4.of_device(str(image), Counting(keep=lambda *ends: free.extend(zip(*ends, strict=True))))
    return free


@pytest.mark.parametrize("options", MADE)
def test_what_is_made_by_a_header_has_its_metadata_in_the_same_places(tmp_path, options):
    original = made(tmp_path / "original", *options.split())
    store = ext4.of_device(str(original))
    geometry = Geometry.from_json(store.geometry, "geometry")
    copy = tmp_path / "copy"
    copy.touch()
    os.truncate(copy, 1900 * MIB)  # an image is of whole GiB
    late = ",".join(["lazy_itable_init=1", "nodiscard", *geometry.extended()])
    words = ["mkfs.ext4", "-q", "-F", *geometry.words(), "-E", late, str(copy), str(geometry.blocks)]
    subprocess.run(words, check=True)
    ours, theirs = free_of(copy), free_of(original)
    differ = extents.size(extents.without(ours, theirs)) + extents.size(extents.without(theirs, ours))
    assert differ <= 16 * 4096, "but for the first blocks of quota files and the like"
    assert ext4.of_device(str(copy)).geometry["inodes"] == geometry.inodes


@pytest.mark.root
@pytest.mark.parametrize(
    "options",
    first_of(
        "--unsupported -s size=4096 -d agsize=48m,sunit=128,swidth=512 -l size=32m,agnum=3 -i size=1024 "
        "-m reflink=0,finobt=0,inobtcount=0",
        "-m rmapbt=1",
        "",
    ),
)
def test_an_xfs_is_made_like_another_by_its_mount_and_by_the_text_of_xfs_db(tmp_path, options):
    """A grown one has many small groups: mkfs would choose four."""

    def made_xfs(name, *words, mib):
        image = tmp_path / name
        image.touch()
        os.truncate(image, mib * MIB)
        subprocess.run(["mkfs.xfs", "-q", "-f", *words, image], check=True)
        return image

    def seen(image):
        with mounted(image, "loop,ro,norecovery") as point:
            return Xfs().of_mount("", point)

    image = made_xfs("original", *options.split(), mib=1500)
    original, unmounted = seen(image), Xfs().free_space_unmounted(str(image), ONCE)
    assert {**unmounted.geometry, "features": original.geometry["features"]} == original.geometry, "which no text has"
    words = XfsGeometry.from_json(original.geometry, "geometry").words()
    copy = seen(made_xfs("copy", *words, mib=1900))
    assert (copy.found, copy.geometry) == (original.found, original.geometry)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_blocks_are_taken_as_the_list_says_and_nothing_else_changes(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("taken")
    image = made(folder / "image", *data.draw(st.sampled_from(MADE)).split())
    before = free_of(image)
    blocks = st.integers(0, before[-1][1] // 4096)
    cuts = sorted(4096 * cut for cut in data.draw(st.sets(blocks, min_size=2, max_size=60)))
    taken = extents.common(before, list(zip(cuts[::2], cuts[1::2], strict=False)))
    bitmap = WritableBitmap(str(image))
    assert list(bitmap.free()) == before
    bitmap.take(taken)
    bitmap.close()
    assert free_of(image) == extents.without(before, taken), "dumpe2fs"
    assert ext4.of_library(str(image)).found["free_bytes"] == extents.size(before) - extents.size(taken)
    check = subprocess.run(["e2fsck", "-fn", image], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    differences = "".join(re.findall("(?m)^Block bitmap.*", check.stdout))
    ranges = re.findall(r"-(?:\((\d+)--(\d+)\)|(\d+))", differences)
    ownerless = [(int(start or alone) * 4096, (int(end or alone) + 1) * 4096) for start, end, alone in ranges]
    assert extents.without(taken, ownerless) == extents.without(ownerless, taken) == [], check.stdout
    faults = [line for line in check.stdout.splitlines() if line and not re.match(r"Pass \d|Block bitmap|Fix\?", line)]
    assert all("WARNING" in line or "files (" in line for line in faults), "and no count and no checksum is wrong"


def test_what_is_no_ext4_is_refused_in_the_librarys_words(tmp_path):
    image = tmp_path / "image"
    image.write_bytes(bytes(MIB))
    with pytest.raises(Failure, match=r"image: ext2fs_open: Bad magic number in super-block"):
        BlockBitmap(str(image))


def test_what_a_header_says_that_cannot_be_made_is_said():
    text = (EVIDENCE / "dumpe2fs.txt").read_bytes()

    def read(old, new):
        assert old in text
        return why_not(Geometry, saved.read(io.BytesIO(text.replace(old, new, 1))).geometry)

    assert read(b"Inode size:", b"Inode size:") is None
    assert read(b" flex_bg", b" flex_bg bigalloc") == (
        "it has feature bigalloc (clusters of several blocks), which no target can have"
    )
    assert "how it was made" in read(b"Inode size", b"Inode sise")
    with pytest.raises(NotThisText, match=r"4294967296 blocks without feature 64bit, which allows 4294967295"):
        read(b"Block count:              2097152", b"Block count:              4294967296")
    with pytest.raises(NotThisText, match=r"group 0 of blocks 0 to 32767; by its header .* 0 to 32766"):
        read(b"Blocks per group:         32768", b"Blocks per group:         32767")
    geometry = saved.read(io.BytesIO(text)).geometry
    assert "its geometry.block_bytes is 65536: 4096 is wanted" in why_not(Geometry, {**geometry, "block_bytes": 65536})
    with pytest.raises(Unacceptable, match=r"g\.features\[0\] is 'flex_bg -E x': one of"):
        Geometry.from_json({**geometry, "features": ["flex_bg -E x"]}, "g")
