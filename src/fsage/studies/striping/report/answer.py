"""Which layout is fastest, and by what factor over the default one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from fsage.analysis.groups import compared, measure_label
from fsage.analysis.headline import comparisons
from fsage.figures import Axis, Level, Lines, series
from fsage.model.striping import Segment
from fsage.report.answer import Answer, cards_of
from fsage.report.section import Data
from fsage.report.words import DOING, TWICE, Finding, doing
from fsage.studies.striping.report.rows import layouts_axis, rows_of, stripes_of
from fsage.study.study import Study
from fsage.text.sizes import round_size

MARGIN = 0.08


def answer(data: Data, study: Study) -> Answer | None:
    """The best layout of each phase over the default; whether it grows with the file, or the best that does."""
    rows = compared(rows_of(data), "value")
    if rows.empty:
        return None
    words = layouts_in_words(data)
    default = str(rows["reference"].iloc[0])
    than = f"in the default layout, {words.get(default, default)}" if default in words else f"in {default}"
    sentences = [f"Fastest here, {_best(rows, words, than)}."]
    if (growing := rows[rows["kind"] == "dynamic"]).size and (rows["kind"] == "static").any():
        sentences.append(
            f"Among the layouts that grow with the file, {_best(growing, words, 'in the default layout')}."
        )
    codes = "; ".join(f"{state}: {text}" for state, text in words.items())
    return Answer(
        sentences, _figure(data, rows, default), cards_of(comparisons(data.frame, study)), codes and f"{codes}."
    )


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
    return list(DOING).index(name) if name in DOING else len(DOING)


def _best(rows: pd.DataFrame, words: Mapping[str, str], than: str) -> str:
    """'16 stripes of 1 MiB (IOR.3): writing is 3.96 times as fast as in ... (3.87 to 3.97), reading ...', by layout.

    Where one layout is the best by far in all ways of sharing the work out, these are a range.
    """
    best: dict[str, list[str]] = {}
    sentences = 0
    for measure in sorted(rows["measure"].unique(), key=_order):
        found_of = {
            rest: part.loc[part["to_clean"].map(lambda factor: factor.value).idxmax()]
            for rest, part in rows[rows["measure"] == measure].groupby("rest", sort=False)
        }
        factors = sorted(float(row["to_clean"].value) for row in found_of.values())
        states = {str(row["state"]) for row in found_of.values()}
        if len(found_of) > 1 and len(states) == 1 and factors[0] >= TWICE:
            text = f"{factors[0]:.3g} to {factors[-1]:.3g} times" + f" as fast as {than}" * (not sentences)
            best.setdefault(states.pop(), []).append(f"{doing(str(measure))} {'is ' * (not sentences)}{text}")
            sentences += 1
            continue
        for rest, row in found_of.items():
            finding = Finding(row["to_clean"], tested=False)
            how = f" ({rest.removeprefix('distribution ')})" if rest else ""
            what = f"{doing(str(measure))}{how}"
            text = f"{what} {finding.brief().replace(' as fast', '')}" if sentences else finding.said(what, than)
            best.setdefault(str(row["state"]), []).append(text)
            sentences += 1
    return "; ".join(
        f"{words[state]} ({state})" * (state in words) + state * (state not in words) + f": {', '.join(parts)}"
        for state, parts in best.items()
    )


def _figure(data: Data, rows: pd.DataFrame, default: str) -> Lines:
    held = [row.interval for row in rows["to_clean"]]
    shown = rows.assign(
        median=[row.value for row in rows["to_clean"]],
        low=[interval.low if interval else float("nan") for interval in held],
        high=[interval.high if interval else float("nan") for interval in held],
        samples=[[] for _ in held],
        phase=[
            ", ".join(filter(None, [doing(str(measure)), rest.removeprefix("distribution ")]))
            for measure, rest in zip(rows["measure"], rows["rest"], strict=True)
        ],
    )
    highest = max(1.0, shown[["median", "high"]].max().max())
    return Lines(
        f"Speed-up of each layout over {default}",
        tuple(series(str(phase), part, joined=False) for phase, part in shown.groupby("phase", sort=False)),
        layouts_axis(shown, data),
        Axis("times", (0.0, highest * (1 + MARGIN))),
        (Level(1.0),),
    )
