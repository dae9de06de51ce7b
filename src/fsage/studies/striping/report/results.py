"""Whether what was computed is the same in every layout."""

from __future__ import annotations

from fsage.analysis import agreement
from fsage.report.section import Data, Section


def results(data: Data) -> Section | None:
    """A row for each phase whose result has a checksum; a warning names the cells in which it is another."""
    frame = data.frame[data.frame["recipe"] == "striping"]
    agreements = agreement.results(frame)
    if not agreements:
        return None
    table = [["result", "cells", "layouts", "checksums"]]
    for result in agreements:
        cells = [cell for several in result.cells.values() for cell in several]
        layouts = {cell.partition(" ")[0] for cell in cells}
        table.append([result.phase, str(len(cells)), str(len(layouts)), ", ".join(map(str, result.cells))])
    wrong = agreement.disagreements(frame)
    same = sorted({result.phase for result in agreements if len(result.cells) == 1})
    text = f"The same in every layout and every cell: {', '.join(same)}. " if same else ""
    text += (
        "A layout changes where bytes lie, not what they are: a result that differs means that something else was read "
        "or computed."
    )
    return Section(
        "Results", text, [], table=table, warnings=[f"{sentence[0].upper()}{sentence[1:]}." for sentence in wrong]
    )
