"""Whether what was computed is the same in every layout."""

from __future__ import annotations

from fsage.analysis import agreement
from fsage.report.section import Data, Section


def results(data: Data) -> Section | None:
    """A row for each phase whose result has a checksum; a warning names the cells in which it is another."""
    frame = data.frame[data.frame["recipe"] == "striping"]
    found = agreement.results(frame)
    if not found:
        return None
    table = [["result", "cells", "layouts", "checksums"]]
    for one in found:
        cells = [cell for several in one.cells.values() for cell in several]
        layouts = {cell.partition(" ")[0] for cell in cells}
        table.append([one.phase, str(len(cells)), str(len(layouts)), ", ".join(map(str, one.cells))])
    wrong = agreement.disagreements(frame)
    same = sorted({one.phase for one in found if len(one.cells) == 1})
    text = f"The same in every layout and every cell: {', '.join(same)}. " if same else ""
    text += (
        "A layout changes where bytes lie, not what they are: a result that differs means that something else was read "
        "or computed."
    )
    return Section("Results", text, [], table=table, warnings=[f"{one[0].upper()}{one[1:]}." for one in wrong])
