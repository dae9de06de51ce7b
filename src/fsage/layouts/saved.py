"""Saved text of the programs that tell of layouts: told apart by its first lines, read as a stream.

The programs are dumpe2fs, e2freefrag, filefrag, mb_groups, xfs_bmap, xfs_db, xfs_spaceman, xfs_io, lfs df, bluestore,
and fsage itself (of free extents). A text may be packed.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import IO, cast

from fsage.base import in_words
from fsage.layouts import classes, dumpe2fs, e2fsprogs, extents, servers, xfs, xfs_io
from fsage.layouts.freespace import ONCE, Counting
from fsage.layouts.store import NotThisText, Store, shown
from fsage.layouts.stream import BLOCK_BYTES, FIRST_LINES, Text, blocks_of, tidied

PACKED = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
"""How what is packed so begins."""
ARCHIVE = re.compile(rb"(?P<bzip2>BZh\d)|(?P<xz>\xfd7zXZ)|(?P<zip>PK\x03\x04)|(?P<tar>(?s:.{257})ustar)")
Reader = Callable[[Text, Counting], Store]


def _placeless(reader: Callable[[Iterable[bytes]], Store]) -> Reader:
    """The reader of a text that lists no free extents with their places."""
    return lambda text, counting: reader(text)


READERS: tuple[tuple[re.Pattern[bytes], Reader], ...] = (
    (re.compile(re.escape(extents.MARK) + b"$"), extents.of_text),
    (
        re.compile(
            rb"(?:Filesystem (?:volume name|UUID|magic number|features|flags|state)|Inode count|Block count): |"
            rb"Group \d+: \(Blocks "
        ),
        dumpe2fs.of_text,
    ),
    (
        re.compile(rb"Device: .*|Blocksize: \d+ bytes|Total blocks: \d|Free blocks: \d+ \("),
        _placeless(e2fsprogs.of_e2freefrag_text),
    ),
    (
        re.compile(rb"Filesystem type is: |File size of .* blocks? of |.*: \d+ extents? found"),
        _placeless(e2fsprogs.of_filefrag_text),
    ),
    (re.compile(rb"\s*\d+: \[\d+\.\.\d+\]: | ?EXT: FILE-OFFSET|.*: no extents$"), _placeless(xfs_io.of_bmap_text)),
    (re.compile(rb"\s*\d+: \d+:\d+ \[\d+\.\.\d+\]: | ?EXT: DEV BLOCK-RANGE"), xfs_io.of_fsmap_text),
    (
        re.compile(rb"blocksize = \d+$|\s*agno\s+agbno\s+len *$| *\d+ +\d+ +\d+ *$|\s*from +to +extents +blocks +pct"),
        xfs.of_text,
    ),
    (re.compile(rb" *#group: +(?:free|bfree +gfree) +frags +first"), _placeless(classes.of_mb_groups_text)),
    (re.compile(rb"UUID +(?:1K-blocks|bytes|Inodes) +"), _placeless(servers.of_lfs_df_text)),
    (re.compile(rb'.*"(?:alloc_unit|alloc_type)": ?|.*\{"offset": ?"0x|\s*"offset": "0x'), servers.of_bluestore_text),
    (re.compile(rb"(?:inode \d+ )?actual \d+,? ideal \d+"), _placeless(xfs.of_frag_text)),
)


HINTS = (
    (
        re.compile(rb"#\d+ *: *\d+ +\d+ +\d+ .*\["),
        "it is the text of mb_groups without its first line (`#group: free frags first ...`): give that too",
    ),
    (
        re.compile(rb" *\d+ +\d+ +\d+ +\d+ +\d+[.,]\d\d *$"),
        "it is the text of `freesp` without its first line (`from to extents blocks pct`): give that too",
    ),
    (
        re.compile(rb"(?:Min|Max|Avg|Num)\. free extent|HISTOGRAM OF FREE EXTENT"),
        "it is the text of e2freefrag without its first lines (`Device: ...`, `Blocksize: ...`): give those too",
    ),
    (
        re.compile(rb"[^\s.]+-(?:OST|MDT)[0-9a-f]{4}"),
        "it is the text of `lfs df` without its first line (`UUID 1K-blocks ...`): give that too",
    ),
    (
        re.compile(rb'.*"(?:max_len|fragmentation_rating)":'),
        "it is a score or a histogram of bluestore: run `ceph daemon osd.N bluestore allocator dump block`",
    ),
    (
        re.compile(rb"(?!.*Filesystem magic number).*: +0xEF53$"),
        "it is the text of dumpe2fs in another language than English: run `LC_ALL=C dumpe2fs DEVICE`",
    ),
    (
        re.compile(rb"Filesystem +(?:Type +)?(?:\S+-blocks|Size|Inodes) "),
        "it is the text of `df`, which tells totals: run `fsage evidence DIR`, or `dumpe2fs`, `xfs_db -c freesp`",
    ),
    (
        re.compile(rb"e4defrag \d|.*<Fragmented files>"),
        "it is the text of `e4defrag -c`, which lists a few files only: run `filefrag -v FILE ...`",
    ),
    (
        re.compile(
            rb"(?:dumpe2fs|debugfs|e2fsck|tune2fs|resize2fs|mke2fs) 1\.|group:block:super|Inode: \d+ +Type: |"
            rb"Level Entries |Pass 1: "
        ),
        "this text of e2fsprogs has no list that is read: run `dumpe2fs DEVICE`, or for files `filefrag -v FILE ...`",
    ),
    (
        re.compile(rb"meta-data=.* agsize="),
        "it is the text of xfs_info, which tells sizes only: give that of `xfs_db -r -c 'freesp -s' DEVICE` behind it",
    ),
    (
        re.compile(
            rb"Overall:|superblock: bytenr=|(?:Data|System|Metadata)[, +]|Label: .* uuid: |"
            rb"(?:leaf|node) \d+ (?:items|level) |\s*Total +Exclusive |Calculating size of |Processed \d+ files?, "
        ),
        "it is a text of btrfs, of which none is read: run `fsage evidence MOUNT`",
    ),
    (
        re.compile(rb"lmm_|\s*lcm_|[\w-]+(?:\.[\w-]+)+="),
        "it is a text of lfs getstripe or lctl, which tells of no free space: run `lfs df`, or `dumpe2fs` on a server",
    ),
    (re.compile(rb'\s*"stdout(?:_lines)?": '), "it is JSON of ansible: give the program's own text"),
)
"""What is known but not read, and what to run instead."""


FAILED = re.compile(
    rb"(?:\S*sh|sudo|btrfs|dumpe2fs|e2freefrag|filefrag|e4defrag|xfs_\w+|lfs|lctl|ceph)(?: \S+)?: |"
    rb".*(?:Permission denied|No such file or directory|command not found|[Bb]ad magic|is not a valid )"
)
"""What a program or a shell says that failed."""


THOUSANDS = re.compile(rb"(?<![\w/.,'-])\d{1,3}(?:[,'\xe2\x80\x99]+\d{3})+(?![\w.,'])")
"""A number with separators of thousands; no program that is read writes any."""


def read(stream: IO[bytes], counting: Counting = ONCE) -> Store:
    """The store that a text tells of. Raises NotThisText, with what is wrong in one sentence."""
    blocks = _blocks(stream)
    try:
        first = next(blocks, b"")
        archive = ARCHIVE.match(first)
        if archive:
            raise NotThisText(f"it is packed ({archive.lastgroup}): give the text itself, or packed by gzip or zstd")
        return _read(Text(tidied(chain([first], blocks))), counting)
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise NotThisText(f"it cannot be unpacked: {in_words(error)}") from error
    finally:
        blocks.close()  # here, for the collector of garbage may not wait for its thread while another one starts


def is_packed(start: bytes) -> bool:
    """Whether a file that begins so is packed."""
    return start.startswith(tuple(PACKED.values())) or bool(ARCHIVE.match(start))


def _blocks(stream: IO[bytes]) -> Generator[bytes, None, None]:
    if isinstance(stream, io.BufferedReader):
        buffered = stream
    else:
        buffered = io.BufferedReader(cast(io.RawIOBase, stream))
    packed = next((codec for codec, mark in PACKED.items() if buffered.peek(4).startswith(mark)), None)
    yield from _unpacked(buffered, packed) if packed else blocks_of(buffered)


def _unpacked(stream: IO[bytes], codec: str) -> Iterator[bytes]:
    """The next block is unpacked while this one is looked at."""
    from concurrent.futures import ThreadPoolExecutor  # servers read nothing that is packed

    try:
        import pyarrow

        read = partial(pyarrow.CompressedInputStream(stream, codec).read, BLOCK_BYTES)
    except ImportError:
        if codec != "gzip":
            raise NotThisText(f"it is packed by {codec}, and this Python has no pyarrow to unpack it") from None
        from gzip import GzipFile

        read = partial(GzipFile(fileobj=stream).read, BLOCK_BYTES)
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(read)
        while block := following.result():
            following = reader.submit(read)
            yield block


def _read(text: Text, counting: Counting) -> Store:
    first = text.first(FIRST_LINES)
    parted = THOUSANDS.findall(b"".join(first))
    if len(parted) > 1:
        number = parted[0].decode(errors="replace")
        raise NotThisText(f"its numbers have separators of thousands, such as {number}: give the program's own text")
    for line in first:
        for pattern, reader in READERS:
            if pattern.match(line):
                return _with_note(reader(text, counting), reader, [*first, *text.tail.splitlines()])
    failed = next((line for line in first if FAILED.match(line)), None)
    if failed:
        raise NotThisText(f"the program failed, and says {shown(failed.strip())!r}")
    for pattern, hint in HINTS:
        if any(pattern.match(line) for line in first):
            raise NotThisText(hint)
    begins = f"begins with {shown(first[0])!r}" if first else "is empty"
    raise NotThisText(
        f"it {begins}, which no program writes whose text is read. These are dumpe2fs, e2freefrag, filefrag, xfs_bmap, "
        "`xfs_io -c fsmap`, freesp and frag of xfs_db, mb_groups, lfs df and bluestore (docs/background/replica.md)"
    )


def _with_note(store: Store, reader: Reader, lines: Iterable[bytes]) -> Store:
    """The store, with a note on the text of another program that stands before or behind its own."""
    for line in lines:
        if any(pattern.match(line) for pattern, other in READERS if other is not reader):
            for key in store.source:
                store.source[key] += f"; what begins with {shown(line.strip())!r} is another text, and was not read"
            break
    return store
