"""The table of layouts: the requested layout, and the target's, as its cells verified."""

from __future__ import annotations

import json
from collections import Counter

import pandas as pd

from fsage.analysis.groups import measure_label
from fsage.model.striping import Segment, object_bytes
from fsage.model.typed import Json
from fsage.report.section import Data, Section
from fsage.studies.striping.report.rows import rows_of
from fsage.text.sizes import round_size

NONE = "\u2013"
VERIFIED = {
    "objects": "A cell is valid only if its write left as many objects as the layout has, and as many bytes. On "
    "Lustre each file must also have the stripes of its layout (`lfs getstripe`).",
    "volumes": "A search is valid only if each volume of the database was searched, and each query was found where it "
    "is from. The volumes are the state's own files, whose extents are compared before and after.",
}


def layouts(data: Data) -> Section | None:
    """A row for each layout, those that the target cannot have among them, with the reason."""
    frame = data.frame[data.frame["recipe"] == "striping"]
    noted = frame.dropna(subset="notes").groupby("state")["notes"].first().map(json.loads)
    noted = {state: notes["stripe"] | notes.get("database", {}) for state, notes in noted.items() if "stripe" in notes}
    if not noted:
        return None
    rows = rows_of(data)
    sizes = rows["transfer_size_bytes"].fillna(0)  # a search has none
    rows = rows[sizes == sizes.max()]
    ends = [line.removeprefix(kind) for line, kind in zip(rows["line"], rows["kind"], strict=True)]
    rows = rows.assign(column=[measure_label(name)[0] + end for name, end in zip(rows["measure"], ends, strict=True)])
    names = list(rows["column"].unique())
    heads = [f"{name}, {what}" for name in names for what in ("MiB/s", "speed-up")]
    files = "volumes" if any("volumes" in notes for notes in noted.values()) else "objects"
    table = [["layout", "segments", "file", "OSTs in use", files, *heads, "verified in"]]
    warnings = []
    for state in (name for name in data.planned if name in noted):
        state_records, measured = frame[frame["state"] == state], rows[rows["state"] == state]
        cells = f"{(state_records['status'] == 'valid').sum()} of {len(state_records)} cells"
        table.append([state, *_layout(noted[state]), *_rates(measured, names), cells])
        if "unsupported" in noted[state]:
            warnings.append(f"Unsupported: {noted[state]['unsupported']}.")
    realised = ", ".join(sorted({notes["realisation"] for notes in noted.values() if "realisation" in notes}))
    text = f"Stripe counts and watermarks as scaled to this target. {VERIFIED[files]}"
    text += f" Realisation: {realised}." if realised else ""
    return Section("Layouts as verified", text, [], table=table, warnings=warnings)


def _layout(noted: Json) -> list[str]:
    if "unsupported" in noted:
        return ["unsupported", NONE, NONE, NONE]
    segments = [Segment(*segment) for segment in noted["segments"]]
    if "volumes" in noted:
        return _volumes(noted, segments)
    sentences = [
        f"{segment.stripes} \u00d7 {round_size(segment.stripe_bytes)} to {round_size(segment.end_bytes)}"
        for segment in segments
    ]
    used = {number % noted["osts"] for number, size in enumerate(object_bytes(segments)) if size}
    objects = sum(1 for size in object_bytes(segments) if size)
    return ["; ".join(sentences), round_size(segments[-1].end_bytes), f"{len(used)} of {noted['osts']}", str(objects)]


def _volumes(noted: Json, segments: list[Segment]) -> list[str]:
    """The volumes of a database in words."""
    of = Counter(number for number, _ in noted["volumes"])
    sentences = [
        f"{segment.stripes} \u00d7 {round_size(segment.stripe_bytes)}: {of[number]}"
        for number, segment in enumerate(segments)
    ]
    osts = {ost for _, ost in noted["volumes"] if ost is not None}  # Lustre's servers choose them, and say nothing
    where = f"{len(osts)} of {noted['osts']}" if osts else NONE
    return ["; ".join(sentences) + " volumes", round_size(noted["bytes"]), where, str(len(noted["volumes"]))]


def _rates(rows: pd.DataFrame, names: list[str]) -> list[str]:
    """Median and speed-up, with their intervals, of each measure and set of parameters."""
    cells = []
    for name in names:
        row = next(iter(rows[rows["column"] == name].to_dict("records")), None)
        cells.append(f"{row['median']:.4g}{_held(row['low'], row['high'])}" if row else NONE)
        ratio = row["to_clean"] if row else None
        if row and row["state"] == row["clean"]:
            cells.append("the default")
        elif ratio is None or ratio.value is None:
            cells.append(NONE)
        else:
            interval = ratio.interval
            cells.append(f"{ratio.value:.3g}x{_held(interval.low, interval.high) if interval else ''}")
    return cells


def _held(low: float | None, high: float | None) -> str:
    return "" if low is None or pd.isna(low) else f" ({low:.4g} to {high:.4g})"
