"""The text of filefrag (e2fsprogs 1.42.7 and later), of any number of files: how many extents, with -v also where."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fsage.model.evidence.files import FileLayouts
from fsage.model.evidence.fragmentation import Extent
from fsage.model.evidence.store import (
    MOST_BLOCK_BYTES,
    OF_DEVICE,
    NotThisText,
    Store,
    check_extents,
    number_of,
    without,
)

HEAD = re.compile(rb"File size of (.+) is \d+ \(\d+ blocks? of (\d+) bytes\)")
ROW = re.compile(rb" *\d+: +(\d+)\.\. *\d+: +(\d+)\.\. *\d+: +(\d+):(?: +\d+:)? *(\S*)")
END = re.compile(rb"(.+): (\d+) extents? found")
PLACELESS = {b"unknown_loc", b"delalloc", b"unknown"}
TITLE = b" ext:"


def of_text(lines: Iterable[bytes]) -> Store:
    """How the listed files lie. Raises NotThisText.

    A file that filefrag could not map (on Lustre: one of several stripes) has a head only. `source` counts these files.
    A text that ends with one is refused, because it may have been cut.
    """
    layouts: FileLayouts | None = None
    name, pieces, block_bytes, unmapped, line = None, list[Extent](), 0, 0, b""
    for line in lines:
        if row := ROW.match(line):
            logical, physical, length = (number_of(number) * block_bytes for number in row.groups()[:3])
            flags = set(row[4].split(b","))
            if not flags & PLACELESS:
                pieces.append(Extent(logical, physical, length, b"unwritten" in flags))
                check_extents(len(pieces))
        elif head := HEAD.match(line):
            if pieces:
                raise NotThisText(f"filefrag's list of {_shown(name)} has no end: something is missing in the text")
            unmapped += name is not None
            name, block_bytes = head[1], number_of(head[2])
            if not 0 < block_bytes <= MOST_BLOCK_BYTES:
                raise NotThisText(f"filefrag counts {_shown(name)} in blocks of {block_bytes} bytes, which cannot be")
            layouts = layouts or FileLayouts(block_bytes)
            if block_bytes != layouts.block_bytes:
                raise NotThisText(
                    f"filefrag counts {_shown(name)} in blocks of {block_bytes} bytes, files before it in blocks of "
                    f"{layouts.block_bytes}: give the files of one file system at a time"
                )
        elif end := END.match(line):
            layouts = layouts or FileLayouts(None)
            if name == end[1]:
                layouts.add(pieces)
            else:
                layouts.add_number(number_of(end[2]))
            name, pieces = None, []
        elif line.startswith(b" ") and not line.startswith(TITLE):
            raise NotThisText(f"filefrag's text continues with {_shown(line[:60])!r}, which is no extent")
    if name is not None or not line.endswith(b"\n"):
        raise NotThisText(
            f"filefrag's text ends within {_shown(name or line)}: it was cut short, or this file cannot be mapped (on "
            "Lustre only files of one stripe can)"
        )
    if not layouts:
        raise NotThisText("filefrag's text names no file: it is of another version, or was cut short")
    source = "filefrag" + (f"; {unmapped} files could not be mapped" if unmapped else "")
    values = {"block_bytes": layouts.block_bytes, "files": {"listed": layouts.summary()}}
    return Store(None, {"files": source}, values, without(OF_DEVICE, "filefrag tells of files only"))


def _shown(name: bytes | None) -> str:
    return (name or b"").decode(errors="backslashreplace")
