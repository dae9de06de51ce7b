"""How much faster a file is read once it is defragmented, cold and from memory."""

from __future__ import annotations

import json

import pandas as pd

from fsage.analysis.headline import comparisons
from fsage.figures import Axis, Lines, limits, series
from fsage.report.answer import Answer, cards_of
from fsage.report.section import Data
from fsage.report.words import Finding, extents_words
from fsage.studies.defrag.report.rates import extents_of, with_cache
from fsage.study.study import Study

SCOPES = {
    "before": "as it was",
    "file": "defragmented",
    "filesystem": "after the whole file system was defragmented",
}
CODES = (
    "A state such as 1233.file is a file of 1233 extents: .before as it was laid, .file after it was defragmented, "
    ".filesystem after all files were."
)
READ = {"cold": "read cold", "warm": "read from memory"}


def answer(data: Data, study: Study) -> Answer | None:
    """A sentence for each state after the first, of reads cold and from memory."""
    rows = with_cache(data)
    sentences = []
    for state in [name for name in data.planned if name in set(rows["state"])]:
        of_state = rows[(rows["state"] == state) & rows["to_clean"].notna()]
        if of_state.empty:
            continue
        reference = str(of_state["clean"].iloc[0])
        parts = [
            Finding(row.to_clean, tested=False).said(f"{READ.get(row.cache, row.cache)}, the file", "before")
            for row in of_state.drop_duplicates("cache").itertuples()
        ]
        extents = extents_of(data, state), extents_of(data, reference)
        why = ""
        if extents[0] and extents[1] and extents[0] < extents[1]:
            why = f", because it has {extents_words(extents[0])} instead of {extents[1]:,}"
        sentences.append(f"Once {_scope(data, state)}: {parts[0]}{why}{''.join(f'; {part}' for part in parts[1:])}.")
    if not sentences:
        return None
    return Answer(sentences[:2], _figure(data, rows), cards_of(comparisons(data.frame, study)), CODES)


def _scope(data: Data, state: str) -> str:
    axes = json.loads(data.frame.loc[data.frame["state"] == state, "axes"].dropna().iloc[0])
    return SCOPES.get(axes["scope"], state)


def _figure(data: Data, rows: pd.DataFrame) -> Lines:
    states = [name for name in data.planned if name in set(rows["state"])]
    placed = rows.assign(x=rows["state"].map({state: float(place) for place, state in enumerate(states)}))
    ticks = {
        float(place): f"{_scope(data, state)}\n{extents_words(extents_of(data, state) or 0)}"
        for place, state in enumerate(states)
    }
    return Lines(
        "Reading the file before and after",
        tuple(series(READ.get(str(name), str(name)), part, joined=False) for name, part in placed.groupby("cache")),
        Axis("", ticks=ticks),
        Axis("read bandwidth, MiB/s", (0.0, limits(placed)[1])),
    )
