"""Which layout is fastest, and by what factor over the default one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from fsage.analysis.comparisons import comparisons
from fsage.analysis.groups import factors, measure_label
from fsage.analysis.words import DOING, TWICE, Finding, doing
from fsage.figures import Axis, Level, limits_from_zero
from fsage.model.striping import Segment
from fsage.report.parts import Answer, Data, View, cards_of
from fsage.studies.striping.report.layouts import by_line, layouts, results, rows_of, server_cache, stripes_of
from fsage.studies.striping.report.rates import phase_times, scaling, speed_up, throughput
from fsage.study.study import Study
from fsage.text.sizes import round_size


def answer(data: Data, study: Study) -> Answer | None:
    """The best layout of each phase over the default; whether it grows with the file, or the best that does."""
    rows = factors(rows_of(data))
    if rows.empty:
        return None
    words = layouts_in_words(data)
    default = str(rows["reference"].iloc[0])
    if default in words:
        than = "in the default layout"
    else:
        than = f"in {default}"
    sentences = [_best(rows, words, "fastest here", than)]
    growing = rows[rows["kind"] == "dynamic"]
    if growing.size and (rows["kind"] == "static").any():
        sentences.append(_best(growing, words, "fastest of what grows with the file", than))
    phases = zip(rows["measure"].map(doing), rows["rest"].str.removeprefix("distribution "), strict=True)
    figure = by_line(
        f"Speed-up of each layout over {default}",
        rows.assign(phase=[", ".join(filter(None, words)) for words in phases]),
        data,
        Axis("times", limits_from_zero(rows, least=1.0)),
        by="phase",
        levels=[Level(1.0)],
    )
    codes = " ".join(f"Layout {state}: {text}." for state, text in words.items())
    return Answer(sentences, figure, cards_of(comparisons(data.frame, study)), codes)


def layouts_in_words(data: Data) -> dict[str, str]:
    """'4 stripes of 1 MiB, from 80 MiB on 8 of 1 MiB', by state, of those that the target has."""
    return {state: _in_words(segments) for state, segments in stripes_of(data).items()}


def _in_words(segments: Sequence[Segment]) -> str:
    first, *rest = segments
    begins = [segment.end_bytes for segment in segments]
    grown = [
        f"from {round_size(begin)} on {segment.stripes} of {round_size(segment.stripe_bytes)}"
        for begin, segment in zip(begins, rest, strict=False)
    ]
    plural = "stripe" if first.stripes == 1 else "stripes"
    return ", ".join([f"{first.stripes} {plural} of {round_size(first.stripe_bytes)}", *grown])


def _order(measure: str) -> int:
    """Writes before reads, indexing before what rests on it."""
    name = measure_label(measure)[0]
    if name in DOING:
        return list(DOING).index(name)
    return len(DOING)


def _best(rows: pd.DataFrame, words: Mapping[str, str], what: str, than: str) -> str:
    """'Layout IOR.3 is WHAT. Writing is 3.96 times as fast (3.87 to 3.97). ...', and what IOR.3 has; by layout.

    Where one layout is the best by far in all ways of sharing the work out, these are a range.
    """
    best: dict[str, list[str]] = {}
    for measure in sorted(rows["measure"].unique(), key=_order):
        of_measure = rows[rows["measure"] == measure]
        fastest = of_measure.loc[of_measure.groupby("rest", sort=False)["median"].idxmax()]
        states = set(fastest["state"])
        if len(fastest) > 1 and len(states) == 1 and fastest["median"].min() >= TWICE:
            range_of = f"{fastest['median'].min():.3g} to {fastest['median'].max():.3g}"
            best.setdefault(states.pop(), []).append(f"{doing(str(measure))} is {range_of} times as fast")
            continue
        for row in fastest.to_dict("records"):
            finding = Finding(row["to_clean"], tested=False)
            if row["rest"]:
                how = f" ({row['rest'].removeprefix('distribution ')})"
            else:
                how = ""
            said = finding.said(f"{doing(str(measure))}{how}", over=False)
            best.setdefault(str(row["state"]), []).append(said)
    sentences: list[str] = []
    for state, parts in best.items():
        sentences += [f"Layout {state} is {what}.", *(f"{part[:1].upper()}{part[1:]}." for part in parts)]
    sentences += [f"Layout {state} has {words[state]}." for state in best if state in words]
    return " ".join([*sentences, f"The reference is the rate {than}."])


VIEW = View(
    (throughput, speed_up, phase_times, scaling, server_cache, results, layouts),
    reference="the default layout",
    answer=answer,
)
