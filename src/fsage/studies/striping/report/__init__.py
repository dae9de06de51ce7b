"""Which layout is fastest, and by what factor over the default one.

Throughput and time of each phase in each layout, the speed-up over the default one, and the time over nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from fsage.api.model import Segment, round_size
from fsage.api.report import Answer, Data, Section, View, dataset, figures, groups, words

from .layouts import by_line, described, layouts, one_count_of_nodes, results, rows_of, server_cache, stripes_of

PUBLISHED = {
    "IOR.": "Reed et al. (ORNL), on 16 nodes on a large Lustre: IOR.4 to IOR.6 read faster than IOR.1 to IOR.3. IOR.4 "
    "writes at least as fast as IOR.1, IOR.5 as IOR.2, and IOR.6 as IOR.3. ",
    "blast.": "Reed et al. (ORNL), with 64 processes on 8 nodes of a large Lustre: static layouts reach 1.22 to "
    "1.26 times blast.1. Exceptions are blast.6 and blast.7, blamed on other load. From blast.10 to blast.12 the "
    "factor falls from 1.26 to 1.22. ",
}
WORK = {
    "striped_file": "One shared file is written, then read. Each object has its own task, and tasks of all segments "
    "run at once.",
    "netflow": "A file of flow records is indexed in a scan; then the records of some models are read at random, by "
    "the offsets in the index. Only the records count, not the blocks that contain them. Work is assigned before "
    "the start (synchronous), or to the next idle task (asynchronous). Where IOCost is the model, only jumps "
    "of more than 16 MiB are charged as random, and small objects have few.",
    "blast": "blastn searches a database. Its volumes are shared out to processes that run at once, each with all "
    "queries. Each volume is mapped whole: on a target with OSTs, it lies on one OST. The volumes of a "
    "segment go round the segment's OSTs; the width of stripes has no effect.",
}
PUBLISHED_SCALING = (
    "Reed et al. (ORNL), on 16 to 512 nodes: more stripes lengthen the run at scale, and the dynamic layout always "
    "beats 128 OSTs. "
)
ORDER = ("write", "read", "index", "models", "search")
"""The order of measures in sentences."""
RATE = "_bw_mib_s"
ENDING = "_seconds"


def throughput(data: Data) -> Section | None:
    """Medians with their intervals, a figure for each phase."""
    rows = rows_of(data)
    if rows.empty:
        return None
    plots = [
        by_line(f"{name} throughput", part, data, figures.Axis.around("MiB/s", part, zero=True))
        for name, part in _phases(rows)
    ]
    workloads = sorted(dataset.unpacked(rows, "param", "workload")["workload"].unique())
    each = sorted(rows["n"].unique())
    text = (
        "All bytes by the time from the first task's start to the last one's end. Static layouts have one stripe "
        "count and size throughout, dynamic ones change it at watermarks. The model of the device is of each OST. "
        + "".join(text for prefix, text in PUBLISHED.items() if rows["state"].str.startswith(prefix).any())
        + f"n = {', '.join(map(str, each))}."
    )
    work = " ".join(WORK[name] for name in workloads if name in WORK)
    return Section("Throughput of each layout", text, plots, answer=work)


def speed_up(data: Data) -> Section | None:
    """Ratios to the default layout with their intervals, and in words what was best."""
    rows = groups.factors(rows_of(data))
    if rows.empty:
        return None
    default = rows["reference"].iloc[0]
    y = figures.Axis.from_zero("times", rows, least=1.0)
    equal = [figures.Level(1.0)]
    plots = [by_line(f"{name} speed-up over {default}", part, data, y, levels=equal) for name, part in _phases(rows)]
    text = (
        f"The median of all pairwise ratios to {default}, the default layout, with the interval that inverts the exact "
        "rank-sum test."
    )
    return Section("Speed-up over the default layout", text, plots, answer=_best_rates(rows))


def _phases(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(groups.Measure.of(name).name.capitalize(), part) for name, part in rows.groupby("measure", sort=False)]


def _best_rates(rows: pd.DataFrame) -> str:
    """The fastest static and dynamic layout of each phase, in words; whether one beats the other is the headline's."""
    texts = []
    for measure, part in rows.groupby("measure", sort=False):
        fastest = []
        for kind, of_kind in part.groupby("kind", sort=False):
            best = of_kind.loc[of_kind["median"].idxmax()]
            fastest.append(f"{best['state']} ({kind}, {best['median']:.3g}x)")
        texts.append(f"{groups.Measure.of(measure).plural}: {', '.join(fastest)}")
    return f"Fastest here, {'; '.join(texts)}."


def phase_times(data: Data) -> Section | None:
    """A figure for each phase, its layouts side by side."""
    rows = one_count_of_nodes(_times(data))
    if rows.empty:
        return None
    plots = [
        by_line(f"{_phase(str(name))} time", part, data, figures.Axis.from_zero("s", part))
        for name, part in rows.groupby("measure", sort=False)
    ]
    text = f"From the first task's first I/O to the last one's last; shorter is better. n = {groups.counts(rows)}."
    return Section("Time of each phase", text, plots)


def scaling(data: Data) -> Section | None:
    """Time against the number of nodes, a line for each layout, where there are several numbers."""
    rows = _times(data)
    if rows["nodes"].nunique() < 2:
        return None
    rows = rows.dropna(subset="nodes")
    layout = rows["state"] + " (" + rows["kind"] + ")"
    drawn, ticks = figures.doubling(rows.assign(layout=layout).drop(columns="state"), "nodes", "{:g}".format)
    x = figures.Axis("nodes", ticks=ticks)
    plots = []
    for name, part in drawn.groupby("measure", sort=False):
        if part["rest"].nunique() > 1:
            part = part.assign(layout=part["layout"] + ", " + part["rest"])
        y = figures.Axis.from_zero("s", part)
        plots.append(figures.lines(f"{_phase(str(name))} time over nodes", part, "layout", x, y))
    text = (
        "The same file, worked at by more nodes: a line for each layout, static ones with one stripe count throughout, "
        "dynamic ones with more from each watermark on. "
        + (PUBLISHED_SCALING if rows["state"].str.startswith("scaling.").any() else "")
        + f"n = {groups.counts(rows)}."
    )
    return Section("Time over the number of nodes", text, plots)


def _times(data: Data) -> pd.DataFrame:
    """Medians of the seconds of each phase, as rows.described has them; those under the commonest conditions."""
    frame = data.frame
    names = []
    for name in frame.columns:
        seconds = name.removesuffix(RATE) + ENDING
        if name.endswith(RATE) and frame[name].notna().any() and seconds in frame:
            names.append(seconds)
    rows = described(data.medians(names), data.planned)
    return rows[rows["main"]].join(dataset.unpacked(rows, "param", "nodes"))


def _phase(measure: str) -> str:
    return measure.removesuffix(ENDING).replace("_", " ").capitalize()


def answer(data: Data) -> Answer | None:
    """The best layout of each phase over the default; whether it grows with the file, or the best that does."""
    rows = groups.factors(rows_of(data))
    if rows.empty:
        return None
    texts = layouts_in_words(data)
    default = str(rows["reference"].iloc[0])
    if default in texts:
        than = "in the default layout"
    else:
        than = f"in {default}"
    said = [_best(rows, texts, "fastest here", than)]
    growing = rows[rows["kind"] == "dynamic"]
    if growing.size and (rows["kind"] == "static").any():
        said.append(_best(growing, texts, "fastest of what grows with the file", than))
    phases = zip(
        [groups.Measure.of(measure).doing for measure in rows["measure"]],
        rows["rest"].str.removeprefix("distribution "),
        strict=True,
    )
    figure = by_line(
        f"Speed-up of each layout over {default}",
        rows.assign(phase=[", ".join(filter(None, texts)) for texts in phases]),
        data,
        figures.Axis.from_zero("times", rows, least=1.0),
        by="phase",
        levels=[figures.Level(1.0)],
    )
    codes = " ".join(f"Layout {state}: {text}." for state, text in texts.items())
    return Answer(said, figure, data.cards, codes)


def layouts_in_words(data: Data) -> dict[str, str]:
    """'4 stripes of 1 MiB, from 80 MiB on 8 of 1 MiB', for each state that the target has."""
    return {state: _in_words(segments) for state, segments in stripes_of(data.notes).items()}


def _in_words(segments: Sequence[Segment]) -> str:
    first, *rest = segments
    begins = [segment.end_bytes for segment in segments]
    grown = [
        f"from {round_size(begin)} on {segment.stripes} of {round_size(segment.stripe_bytes)}"
        for begin, segment in zip(begins, rest, strict=False)
    ]
    noun = "stripe" if first.stripes == 1 else "stripes"
    return ", ".join([f"{first.stripes} {noun} of {round_size(first.stripe_bytes)}", *grown])


def _order(measure: str) -> int:
    """Writes before reads, indexing before what rests on it."""
    name = groups.Measure.of(measure).name
    if name in ORDER:
        return ORDER.index(name)
    return len(ORDER)


def _best(rows: pd.DataFrame, texts: Mapping[str, str], what: str, than: str) -> str:
    """'Layout IOR.3 is WHAT. Writing is 3.96 times as fast (3.87 to 3.97). ...', and what IOR.3 has; by layout.

    Where one layout is the best by far in all ways of sharing the work out, these are a range.
    """
    best: dict[str, list[tuple[str, str | words.Finding]]] = {}
    for measure in sorted(rows["measure"].unique(), key=_order):
        of_measure = rows[rows["measure"] == measure]
        fastest = of_measure.loc[of_measure.groupby("rest", sort=False)["median"].idxmax()]
        states = set(fastest["state"])
        doing = groups.Measure.of(measure).doing.capitalize()
        if len(fastest) > 1 and len(states) == 1 and fastest["median"].min() >= 2.0:
            range_of = f"{fastest['median'].min():.3g} to {fastest['median'].max():.3g}"
            best.setdefault(states.pop(), []).append((doing, f"is {range_of} times as fast"))
            continue
        for row in fastest.to_dict("records"):
            how = row["rest"].removeprefix("distribution ")
            subject = f"{doing} ({how})" if how else doing
            best.setdefault(str(row["state"]), []).append((subject, words.Finding(row["to_clean"], tested=False)))
    [said] = words.sentences("striping/best", best=best, what=what, words=texts, than=than)
    return said


VIEW = View(
    (throughput, speed_up, phase_times, scaling, server_cache, results, layouts),
    reference="the default layout",
    answer=answer,
)
