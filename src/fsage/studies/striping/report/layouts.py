"""Tables of layouts, and which rows figures and tables show.

Tables of layouts: as cells verified them, with and without the servers' cache, and whether results agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

import pandas as pd

from fsage.api.model import Json, Segment, round_size, significant
from fsage.api.report import Data, Section, dataset, figures, groups, statistics, words

from ..model import object_bytes

FEW = 8
"""Layouts, below whose names there is room for their stripes."""


def rows_of(data: Data) -> pd.DataFrame:
    """Bandwidths in planned order, writes before reads, as `described`; of several numbers of nodes the largest."""
    table = data.table[data.table["measure"].str.endswith("_bw_mib_s")]
    return one_count_of_nodes(described(table, data.planned))


def described(table: pd.DataFrame, planned: list[str]) -> pd.DataFrame:
    """The rows with `kind`, static or dynamic, and `x`, a place for each layout, in planned order.

    `rest`: which parameters differ, but the nodes, where there are several sets of them; `line`: the kind with those
    and the nodes.
    """
    segments = dataset.unpacked(table, "axis", "segments")["segments"]
    kinds = ["dynamic" if number > 1 else "static" for number in segments]
    places = {state: float(place) for place, state in enumerate(planned)}
    whole = _differing(table)
    return table.assign(
        kind=kinds,
        line=[", ".join(filter(None, texts)) for texts in zip(kinds, whole, strict=True)],
        rest=_differing(table, "nodes"),
        x=table["state"].map(places),
    ).sort_values(["measure", "x", "params"], ascending=[False, True, True], kind="stable")


def one_count_of_nodes(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the largest number of nodes, where there are several; then it is no part of a label."""
    nodes = dataset.unpacked(rows, "param", "nodes")["nodes"].astype("float64")
    if nodes.nunique(dropna=False) < 2:
        return rows
    kept = rows[nodes == nodes.max()]
    return kept.assign(line=(kept["kind"] + ", " + kept["rest"]).str.removesuffix(", "))


def _differing(rows: pd.DataFrame, *but: str) -> list[str]:
    """For each row a label of what of its parameters, but these, is not the same in all."""
    rows = rows.drop(columns=[f"param.{name}" for name in but], errors="ignore")
    labels = {text: label.split(", ") for text, label in groups.params_labels(rows).items()}
    if not labels:
        return []
    common = set.intersection(*map(set, labels.values()))
    own = {text: ", ".join(word for word in label if word not in common) for text, label in labels.items()}
    return [own[text] for text in rows["params"]]


def by_line(
    title: str, rows: pd.DataFrame, data: Data, y: figures.Axis, by: str = "line", levels: Iterable[figures.Level] = ()
) -> figures.Figure:
    """Layouts side by side, a series for each `line`."""
    return figures.lines(title, rows, by, layouts_axis(rows, data), y, joined=False, levels=levels)


def layouts_axis(part: pd.DataFrame, data: Data) -> figures.Axis:
    """What the places of layouts are called in a figure, and the axis: a set that all are of stands there once.

    Below a few names stand their stripes, one count after the other as the file grows: '4\u21928\u219216'.
    """
    states = part.drop_duplicates("x").set_index("x")["state"]
    stripes = stripes_of(data.notes)
    sets = set(states.str.extract(r"^([A-Za-z]+)\.", expand=False))
    label = "layout"
    names = states
    if len(sets) == 1 and isinstance(name := sets.pop(), str):
        label = f"layout, {name}.n"
        names = states.str.removeprefix(f"{name}.")
    below = {}
    if len(states) <= FEW and set(states) <= stripes.keys():
        for state, segments in stripes.items():
            below[state] = "\u2192".join(str(segment.stripes) for segment in segments)
    ticks = {}
    for x, name in names.items():
        ticks[float(x)] = f"{name}\n{below.get(states[x], '')}".strip()
    return figures.Axis(label, ticks=ticks)


def segments_of(text: str) -> list[Segment]:
    """The segments of a layout, as a cell of the table has them."""
    return [Segment(*segment) for segment in dataset.lists(text)]


def stripes_of(notes: Mapping[str, Json]) -> dict[str, list[Segment]]:
    """The segments of each layout that the target has, by the notes of states, as cells verified them."""
    stripes = {}
    for state, noted in notes.items():
        text = noted.get("stripe", {}).get("segments")
        if text:
            stripes[state] = segments_of(text)
    return stripes


KEPT = "kept"
PUBLISHED = (
    "Reed et al. (ORNL), without ZFS's cache: IOR loses about 7% of its write and 38% of its read bandwidth. The first "
    "phase of netflow loses 15% (synchronous; asynchronous little), its second phase 26% and 22%. "
)
VERIFIED = {
    "objects": "A cell is valid only if its write left as many objects as the layout has, and as many bytes. On "
    "Lustre each file must also have the stripes of its layout (`lfs getstripe`).",
    "volumes": "A search is valid only if each volume of the database was searched, and each query was found where it "
    "is from. The volumes are the state's own files, whose extents are compared before and after.",
}


def layouts(data: Data) -> Section | None:
    """A row for each layout, those that the target cannot have among them, with the reason."""
    noted = {}
    for state, notes in data.notes.items():
        if "stripe" in notes:
            noted[state] = notes["stripe"] | notes.get("database", {})
    if not noted:
        return None
    rows = rows_of(data)
    sizes = rows["transfer_size_bytes"].fillna(0)  # a search has none
    rows = rows[sizes == sizes.max()]
    columns = []
    for row in rows.itertuples():
        columns.append(groups.Measure.of(row.measure).name + row.line.removeprefix(row.kind))
    rows = rows.assign(column=columns)
    names = list(dict.fromkeys(columns))
    heads = [f"{name}, {what}" for name in names for what in ("MiB/s", "speed-up")]
    files = "volumes" if any("volumes" in notes for notes in noted.values()) else "objects"
    table = [["layout", "segments", "file", "OSTs in use", files, *heads, "verified in"]]
    warnings = []
    for state, notes in noted.items():
        state_records = data.frame[data.frame["state"] == state]
        measured = rows[rows["state"] == state]
        cells = f"{(state_records['status'] == 'valid').sum()} of {len(state_records)} cells"
        table.append([state, *_layout(notes), *_rates(measured, names), cells])
        if "unsupported" in notes:
            warnings.append(f"Unsupported: {notes['unsupported']}.")
    realised = ", ".join(sorted({notes["realisation"] for notes in noted.values() if "realisation" in notes}))
    text = f"Stripe counts and watermarks as scaled to this target. {VERIFIED[files]}"
    text += f" Realisation: {realised}." if realised else ""
    return Section("Layouts as verified", text, [], table=table, warnings=warnings)


def _layout(noted: Json) -> list[str]:
    if "unsupported" in noted:
        return ["unsupported", Section.NONE, Section.NONE, Section.NONE]
    segments = segments_of(noted["segments"])
    if "volumes" in noted:
        return _volumes(noted, segments)
    parts = [f"{words_of(segment)} to {round_size(segment.end_bytes)}" for segment in segments]
    objects = [number for number, size in enumerate(object_bytes(segments)) if size]
    used = len({number % noted["osts"] for number in objects})
    return ["; ".join(parts), round_size(segments[-1].end_bytes), f"{used} of {noted['osts']}", str(len(objects))]


def words_of(segment: Segment) -> str:
    """'4 x 1 MiB'."""
    return f"{segment.stripes} \u00d7 {round_size(segment.stripe_bytes)}"


def _volumes(noted: Json, segments: list[Segment]) -> list[str]:
    """The volumes of a database in words."""
    volumes = dataset.lists(noted["volumes"])
    of_segments, of_osts = zip(*volumes, strict=True)
    counts = Counter(of_segments)
    parts = [f"{words_of(segment)}: {counts[number]}" for number, segment in enumerate(segments)]
    osts = set(of_osts) - {None}  # Lustre's servers choose them, and say nothing
    where = f"{len(osts)} of {noted['osts']}" if osts else Section.NONE
    return ["; ".join(parts) + " volumes", round_size(noted["bytes"]), where, str(len(volumes))]


def _rates(rows: pd.DataFrame, names: list[str]) -> list[str]:
    """Median and speed-up, with their intervals, of each measure and set of parameters."""
    cells = []
    for name in names:
        found = rows[rows["column"] == name]
        if found.empty:
            cells += [Section.NONE, Section.NONE]
            continue
        row = found.iloc[0]
        cells.append(f"{significant(row['median'], 4)}{words.bounds(row['low'], row['high'])}")
        cells.append("the default" if row["state"] == row["clean"] else words.times(row["to_clean"]))
    return cells


def server_cache(data: Data) -> Section | None:
    """A row for each layout and phase measured both ways, with the factor and its interval."""
    rows = rows_of(data)
    rows = rows.assign(
        setting=dataset.unpacked(rows, "param", server_cache=KEPT),
        rest=dataset.without(rows, "server_cache"),
    )
    table = [["layout", "phase", "kept, MiB/s", "without", "MiB/s", "factor"]]
    for _, part in rows.groupby(["measure", "x", "rest", "condition"], sort=False, dropna=False):
        kept = part[part["setting"] == KEPT].to_dict("records")
        for other in part[part["setting"] != KEPT].to_dict("records"):
            if kept:
                table.append(_cache_row(kept[0], other))
    if len(table) == 1:
        return None
    text = (
        "The OSTs had ZFS's primarycache as it was (kept), or metadata or none while a cell ran. With none, the "
        "servers' memory never holds measured data. The factor is the median of all pairwise ratios to kept, with the "
        f"interval that inverts the exact rank-sum test. {PUBLISHED}"
    )
    return Section("With and without the servers' cache", text, [], table=table)


def _cache_row(kept: Json, other: Json) -> list[str]:
    medians = significant(kept["median"], 4), other["setting"], significant(other["median"], 4)
    factor = words.times(statistics.ratio(other["samples"], kept["samples"]))
    return [other["state"], groups.Measure.of(other["measure"]).name, *medians, factor]


def results(data: Data) -> Section | None:
    """A row for each phase whose result has a checksum; a warning names the cells in which it is another."""
    agreements = data.results
    if not agreements:
        return None
    table = [["result", "cells", "layouts", "checksums"]]
    for result in agreements:
        cells = list(chain.from_iterable(result.cells.values()))
        layouts = {cell.partition(" ")[0] for cell in cells}
        table.append([result.phase, str(len(cells)), str(len(layouts)), ", ".join(map(str, result.cells))])
    wrong = data.disagreements
    same = sorted({result.phase for result in agreements if len(result.cells) == 1})
    if same:
        text = f"The same in every layout and every cell: {', '.join(same)}. "
    else:
        text = ""
    text += (
        "A layout changes where bytes lie, not what they are: a result that differs means that something else was read "
        "or computed."
    )
    return Section(
        "Results", text, [], table=table, warnings=[f"{sentence[0].upper()}{sentence[1:]}." for sentence in wrong]
    )
