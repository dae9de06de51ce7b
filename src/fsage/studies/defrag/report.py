"""The report of defragmentation studies: a file's extents and rates before and after, cold and from memory."""

from __future__ import annotations

import pandas as pd

from fsage.api.model import Json, round_size, significant
from fsage.api.report import Answer, Data, Section, View, dataset, figures, groups, words

COLD = "cold"
READ = {COLD: "read cold", "warm": "read from memory"}
SCOPES = {
    "before": "as it was",
    "file": "defragmented",
    "filesystem": "after the whole file system was defragmented",
}
ONCE = {"file": "once defragmented", "filesystem": "once the whole file system was defragmented"}
CODES = (
    "A state such as 1233.file is a file of 1233 extents: .before as it was laid, .file after it was defragmented, "
    ".filesystem after all files were."
)


def extents_words(count: float) -> str:
    """'1 extent', '28 extents', '1,233 extents'."""
    if count < 1000:
        return f"{count:,.4g} extent{'' if count == 1 else 's'}"
    return f"{count:,.0f} extents"


def answer(data: Data) -> Answer | None:
    """A sentence for each state after the first, of reads cold and from memory."""
    rows = with_cache(data)
    said = []
    for state in _states(data, rows):
        of_state = rows[(rows["state"] == state) & rows["to_clean"].notna()]
        if of_state.empty:
            continue
        caches = []
        for row in of_state.drop_duplicates("cache").itertuples():
            caches.append((READ.get(row.cache, row.cache), row.to_clean, words.Finding(row.to_clean, tested=False)))
        clauses = words.sentences(
            "defrag/answer",
            once=ONCE[data.axes_of(state)["scope"]],
            caches=caches,
            extents=extents_of(data.notes.get(state, {})) or 0,
            instead=extents_of(data.notes.get(str(of_state["clean"].iloc[0]), {})) or 0,
            extents_words=extents_words,
        )
        said.append(words.paragraph(clauses))
    if not said:
        return None
    return Answer(said[:2], _figure(data, rows), data.cards, CODES)


def _scope(data: Data, state: str) -> str:
    return SCOPES.get(data.axes_of(state)["scope"], state)


def _figure(data: Data, rows: pd.DataFrame) -> figures.Figure:
    by_state, places = figures.placed(rows, "state", _states(data, rows))
    ticks = {
        place: f"{_scope(data, state)}\n{extents_words(extents_of(data.notes.get(state, {})) or 0)}"
        for place, state in places.items()
    }
    y = figures.Axis.around("read bandwidth, MiB/s", rows, zero=True)
    labels = {cache: READ.get(cache, cache) for cache in rows["cache"].unique()}
    x = figures.Axis("", ticks=ticks)
    return figures.lines("Reading the file before and after", by_state, "cache", x, y, labels=labels, joined=False)


def rates(data: Data) -> Section | None:
    """The table of the states, and the rates as a figure for each cache."""
    rows = with_cache(data)
    if rows.empty:
        return None
    caches = list(rows["cache"].unique())
    heads = [f"{cache}, {what}" for what in ("MiB/s", "ratio to before") for cache in caches]
    table = [["state", "extents", "factor", "moved", "tool took", *heads]]
    table += [_row(state, data.notes.get(state, {}), rows[rows["state"] == state]) for state in _states(data, rows)]
    plots = []
    for cache, part in rows.groupby("cache", sort=False):
        by_state, ticks = figures.placed(part, "state", _states(data, part))
        x = figures.Axis("state", ticks=ticks)
        y = figures.Axis.around("read bandwidth, MiB/s", part, zero=True)
        labels = groups.params_labels(part)
        plots.append(figures.lines(f"Reading the file {cache}", by_state, "params", x, y, labels=labels, joined=False))
    text = (
        "One file, read from beginning to end with one block size throughout: cold after what was in memory was "
        "dropped and that verified, warm from memory. The fragmentation factor is (actual - ideal) / actual extents, "
        "as of xfs_db, from FIEMAP. A ratio is to the state before, the median of all pairwise ones with the "
        f"interval that inverts the exact rank-sum test. n = {groups.counts(rows)}."
    )
    return Section("The file before and after", text, plots, table=table)


def with_cache(data: Data) -> pd.DataFrame:
    """The groups with `cache`, cold before warm."""
    rows = data.table.assign(cache=dataset.unpacked(data.table, "param", cache=COLD))
    return rows.sort_values("cache", kind="stable")


def extents_of(notes: Json) -> int | None:
    """In how many extents the file lies, as the steps of a state noted."""
    done = notes.get("defragment")
    extents: int | None = done["after"]["extents"] if done else notes.get("fragmented_file", {}).get("extents")
    return extents


def _states(data: Data, rows: pd.DataFrame) -> list[str]:
    """In planned order, those that have samples."""
    measured = set(rows["state"])
    return [state for state in data.planned if state in measured]


def _row(state: str, notes: Json, rows: pd.DataFrame) -> list[str]:
    done = notes.get("defragment", {})
    extents = extents_of(notes)
    if done:
        factor = done["after"]["fragmentation_factor"]
    else:
        factor = (extents - 1) / extents if extents else None
    largest = rows.sort_values("transfer_size_bytes").drop_duplicates("cache", keep="last")
    return [
        state,
        Section.NONE if extents is None else f"{extents:,}",
        Section.NONE if factor is None else f"{factor:.4f}",
        round_size(done["moved_bytes"]) if done else Section.NONE,
        f"{done['seconds']:.1f} s ({done['tool']})" if done else Section.NONE,
        *(f"{significant(row.median, 4)}{words.bounds(row.low, row.high)}" for row in largest.itertuples()),
        *map(words.times, largest["to_clean"]),
    ]


VIEW = View((rates,), reference="the file as it was before", answer=answer)
