"""The text of xfs_bmap, with or without -v and -p: extents of files in any number.

It counts sectors of 512 bytes and does not say how large a block is, so there is no layout score. It has no mark of its
end either: a text that was cut between two lines cannot be told from a whole one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fsage.model.evidence.files import FileLayouts
from fsage.model.evidence.fragmentation import Extent
from fsage.model.evidence.store import OF_DEVICE, NotThisText, Store, check_extents, number_of, without

SECTOR_BYTES = 512
UNWRITTEN = 0o10000  # of the flags, the last column of -v and -p
NAME = re.compile(rb"(\S.*):(?: no extents)?$")
# Number, place in the file, place on the device; then with -v group, place in it, length, and flags where one has any.
ROW = re.compile(rb"\s+(\d+): \[(\d+)\.\.(\d+)\]:\s+(?:(\d+)\.\.\d+|hole|delalloc)(?:\s+\d+ \S+\s+\d+ ([0-7]+)$|\b)")
HEAD, LEGEND = b" EXT: FILE-OFFSET", b" FLAG Values:"


def of_text(lines: Iterable[bytes]) -> Store:
    """How the listed files lie. Raises NotThisText."""
    layouts, pieces = FileLayouts(None), list[Extent]()
    expected, legend, line = None, False, b""
    for line in lines:
        if row := ROW.match(line):
            if expected is None or number_of(row[1]) != expected:
                raise NotThisText(f"xfs_bmap's text has extent {int(row[1])} where {expected or 0} should be")
            expected, legend = expected + 1, False
            if row[4]:
                begin, last, place = (number_of(number) * SECTOR_BYTES for number in row.groups()[1:4])
                unwritten = bool(int((row[5] or b"0")[-20:], 8) & UNWRITTEN)
                pieces.append(Extent(begin, place, last - begin + SECTOR_BYTES, unwritten))
                check_extents(len(pieces))
        elif NAME.match(line):
            if expected is not None:
                layouts.add(pieces)
            expected, pieces, legend = 0, [], False
        elif line.startswith(LEGEND):
            legend = True
        elif not (legend or line.startswith(HEAD)):
            raise NotThisText(f"xfs_bmap's text continues with {line[:60]!r}, which is no extent: cut short or foreign")
    if expected is None or not line.endswith(b"\n"):
        raise NotThisText("xfs_bmap's text ends in the middle of a line: it was cut short")
    layouts.add(pieces)
    absent = without(OF_DEVICE, "xfs_bmap tells of files only")
    return Store("xfs", {"files": "xfs_bmap"}, {"files": {"listed": layouts.summary()}}, absent)
