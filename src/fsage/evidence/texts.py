"""Saved text of dumpe2fs, e2freefrag, filefrag or xfs_bmap: told apart by its first lines, read as a stream."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import IO

from fsage.agent.evidence import dumpe2fs
from fsage.agent.evidence.store import NotThisText, Store
from fsage.evidence import e2freefrag, filefrag, xfs_bmap

FIRST_LINES = 40
# dumpe2fs lists the free blocks of a group on one line: 7 MB at most, with blocks of 64 KiB and every other one free.
LINE_BYTES = 16 << 20
READERS: tuple[tuple[re.Pattern[bytes], Callable[[Iterable[bytes]], Store]], ...] = (
    (re.compile(rb"Filesystem volume name: |Filesystem UUID: "), dumpe2fs.of_text),
    (re.compile(rb"Device: .*|Blocksize: \d+ bytes"), e2freefrag.of_text),
    (re.compile(rb"Filesystem type is: |File size of .* blocks? of |.*: \d+ extents? found"), filefrag.of_text),
    (re.compile(rb"\s+\d+: \[\d+\.\.\d+\]: | EXT: FILE-OFFSET|.*: no extents$"), xfs_bmap.of_text),
)


def read(stream: IO[bytes]) -> Store:
    """The store that a text tells of. Raises NotThisText, with what is wrong in one sentence."""
    lines = _lines(stream)
    first = list(itertools.islice(lines, FIRST_LINES))
    for line in first:
        for pattern, reader in READERS:
            if pattern.match(line):
                return reader(itertools.chain(first, lines))
    begins = f"begins with {first[0][:60]!r}" if first else "is empty"
    raise NotThisText(f"it {begins}; what can be read is the text of dumpe2fs, e2freefrag, filefrag and xfs_bmap")


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    for line in iter(partial(stream.readline, LINE_BYTES), b""):
        if len(line) == LINE_BYTES:
            raise NotThisText(f"it has a line of more than {LINE_BYTES >> 20} MiB: no text of these programs")
        yield line
