"""Which of several layouts costs most: the one to drain or to defragment first."""

from __future__ import annotations

from fsage.analysis.groups import compared, measure_label
from fsage.analysis.words import span
from fsage.report.section import Data, Section
from fsage.studies.replica.report.maps import copied, is_copied


def ranking(data: Data) -> Section | None:
    """A row for each layout, the slowest writes first: its rates over those of as much free space in one run."""
    rows = compared(data.table, "value")
    rows = rows[rows["main"] & rows["state"].map(lambda state: is_copied(data, str(state)))]
    measures = list(dict.fromkeys(rows["measure"]))
    if rows.empty:
        return None
    noted = copied(data)
    ranked: list[tuple[float, list[str]]] = []
    for state, part in rows.groupby("state", sort=False):
        by_measure = {str(row["measure"]): row["to_clean"] for _, row in part.iterrows()}
        axes = data.axes_of(str(state))
        of = next((notes for name, notes in noted.items() if data.axes_of(name) == axes), None)
        lies = ["", ""]
        if of:
            free = of["found"]
            lies = [f"{100 * (1 - free['free_bytes'] / free['device_bytes']):.1f}%", f"{free['free_extents']:,}"]
        cells = [span(by_measure[measure]) if measure in by_measure else "" for measure in measures]
        worst = min(factor.value for factor in by_measure.values())
        ranked.append((worst, [str(axes["layout"]), *lies, *cells]))
    head = ["layout", "full", "free extents", *(f"{measure_label(measure)[0]}s" for measure in measures)]
    table = [head, *(row for _, row in sorted(ranked, key=lambda entry: entry[0]))]
    text = (
        "Rates with the copied free space over rates with the same amount in one extent. The worst is first: drain or "
        "defragment it first, if this target resembles its device. An interval that contains 1 shows no cost."
    )
    return Section("What the age of each costs", text, [], table=table)
