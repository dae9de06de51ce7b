"""Two result sets in one report: before and after a change, or two file systems, cell by cell.

What is compared are groups of the same name in the same state under the same parameters; whatever else differs between
the two sets is listed. Nothing is pooled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fsage import dataset, statistics
from fsage.analysis.comparisons import ALIKE, changed_between, paired, stamp
from fsage.analysis.conditions import SETTING, settings
from fsage.analysis.groups import Measure, labelled_samples, params_labels, plotted, samples, summarise
from fsage.analysis.words import bounds, few, sentences
from fsage.base.message import write_whole
from fsage.base.sizes import counted, ratio_text, round_size
from fsage.figures import Axis, Figure, Level, Place, Plane, lines, placed
from fsage.report.parts import Section
from fsage.report.render import check_folder, draw, template

ORDER = ["capacity_percent_after", "fragmentation_percent_after", "state", "transfer_size_bytes_after", "params"]
MOST_SAMPLES = 200
"""Most samples of a group: the exact test takes seconds with so many, and hours with a thousand."""
SHOWN = 10
OF_CELL = ["state", "params"]
AT = [*OF_CELL, "structure", "place"]
ORIGIN = {"study": "study", "target": "target", "host": "host"}
SIZES = {"capacity_bytes": "capacity", "measured_file_bytes": "a measured file"}
"""What the scale of a target decides: medians, as sizes."""


class CompareError(ValueError):
    """Two tables have nothing in common; the message says what each has."""


def compare(before: Path, after: Path, to: Path, names: tuple[str, str] = ("before", "after")) -> Path:
    """Write the report of `after` against `before` into the folder `to`; return the page.

    Each is a report's folder or its records.parquet. Raises DatasetError and CompareError.
    """
    check_folder(to)
    frames = list(map(dataset.read, (before, after)))
    tables = list(map(main_groups, frames))
    for path, table in zip((before, after), tables, strict=True):
        most = int(table["n"].max() if len(table) else 0)
        if most > MOST_SAMPLES:
            raise CompareError(f"{path} has {most:,} samples of one cell; at most {MOST_SAMPLES} are compared")
    common = tables[0].merge(tables[1], on=ALIKE)
    if common.empty:
        states = [", ".join(table["state"].unique()[:SHOWN]) or "no valid sample" for table in tables]
        raise CompareError(
            f"nothing to compare: no state and cell is in both. {before} has {states[0]}; {after} has {states[1]}"
        )
    rows, whole = compared(*frames)
    on = _stamp(frames, names)
    section = _section(rows, names)
    panels = draw(section.figures, on, to / "figures")
    page = template("compare.html.j2").render(
        before=names[0],
        after=names[1],
        stamp=on,
        rows=rows.astype(object).where(rows.notna(), None).to_dict("records"),
        verdicts=verdicts(rows, whole, names),
        warnings=_alone(tables, names),
        differences=differences(frames),
        sections=[section],
        panels=panels,
    )
    path = to / "index.html"
    write_whole(path, page)
    return path


def main_groups(frame: pd.DataFrame) -> pd.DataFrame:
    """The groups that figures show: of several conditions in one set, the usual ones."""
    table = summarise(frame)
    return table[table["main"]]


def compared(before: pd.DataFrame, after: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, float]]:
    """A row a group of both: the factor `median` with its interval, both medians, `same` layouts or not, and p.

    Beside these p by measure that the whole did not change. All p are of one family: of the groups that both measured
    in the same blocks (`fsage.analysis.comparisons`). Other layouts have neither p nor verdict.
    """
    pairs = paired(before, after)
    latter = main_groups(_in_both(after, pairs))
    both = main_groups(_in_both(before, pairs)).merge(latter, on=ALIKE, suffixes=("_before", "_after"))
    both = both.sort_values(ORDER, kind="stable", ignore_index=True)
    ps, whole = changed_between(pairs)
    p = pd.Series(list(map(ps.get, both[ALIKE].itertuples(index=False, name=None))), both.index, "float64")
    groups = zip(both["units_after"], both["units_before"], p.notna(), strict=True)
    ratios = [statistics.factor(in_state, reference, same) for in_state, reference, same in groups]
    factors = pd.DataFrame(map(plotted, ratios), both.index)
    rows = pd.DataFrame(
        {
            **{name: both[name] for name in ALIKE},
            "capacity_percent": both["capacity_percent_after"],
            "fragmentation_percent": both["fragmentation_percent_after"],
            "transfer_size_bytes": both["transfer_size_bytes_after"],
            "cell": both["params"].map(params_labels(latter[latter["params"].isin(both["params"])])),
            "rate": [" ".join(Measure.of(name)) for name in both["measure"]],
            **{f"{what}_{when}": both[f"{what}_{when}"] for what in ("median", "n") for when in ("before", "after")},
            **{name: factors[name] for name in ("median", "low", "high", "level", "samples")},
            "n": [min(ratio.n, ratio.n_reference) for ratio in ratios],
            "same": p.notna(),
            "p": p,
        }
    ).astype(dict.fromkeys(("median", "low", "high", "level"), "float64"))
    return rows, whole


def _in_both(frame: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """The records without those at layouts and places of a cell that `pairs` has at others only."""
    rows = labelled_samples(frame)[AT]
    known = [rows.merge(pairs[keys].drop_duplicates(), how="left", on=keys, indicator="side") for keys in (OF_CELL, AT)]
    of_cell, at_place = (sides["side"].eq("both").to_numpy() for sides in known)
    return frame.drop(index=rows.index[of_cell & ~at_place])


def verdicts(rows: pd.DataFrame, whole: Mapping[str, float], names: tuple[str, str]) -> list[str]:
    """A sentence for each rate, and the test of the whole."""
    same = rows[rows["same"]]
    sure = same[same["p"] <= statistics.ALPHA].sort_values("p", kind="stable")
    return sentences(
        "compare",
        before=names[0],
        after=names[1],
        rates=[(Measure.of(rate).plural, part["median"]) for rate, part in rows.groupby("measure", sort=False)],
        groups=len(rows),
        same=len(same),
        least_p=f"{min([same['p'].min(), *whole.values()]):.2g}",
        sure=[f"{_short(row)} {ratio_text(row.median, 3)}x" for row in sure.itertuples()],
        shown=SHOWN,
        moved=[Measure.of(rate).plural for rate, p in whole.items() if p <= statistics.ALPHA],
    )


def _short(row: Any) -> str:
    """'80.50 write, 64 MiB'."""
    return f"{row.state.split('@')[0]} {Measure.of(row.measure).name}, {row.cell}"


def _alone(tables: list[pd.DataFrame], names: tuple[str, str]) -> list[str]:
    """What only one of the two has."""
    keys = [table.set_index(ALIKE).index for table in tables]
    alone = []
    for name, own, others in zip(names, keys, reversed(keys), strict=True):
        groups = own.difference(others)
        if len(groups):
            states = list(groups.unique("state"))
            alone.append(f"Only {name} has {counted(len(groups), 'group')}, in states {few(states, SHOWN)}.")
    return alone


def differences(frames: list[pd.DataFrame]) -> list[dict[str, str]]:
    """Conditions that are not the same in both."""
    rows = []
    taken = list(map(samples, frames))
    settings_of = [settings(frame).join(frame[list(ORIGIN)]) for frame in taken]
    for column, what in {**ORIGIN, **SETTING}.items():
        values = [sorted(texts[column].dropna().unique()) for texts in settings_of]
        if values[0] != values[1]:
            before, after = (", ".join(some) or "not known" for some in values)
            rows.append({"what": what, "before": before, "after": after})
    for column, what in SIZES.items():
        before, after = (_size(frame, column) for frame in taken)
        if before != after:
            rows.append({"what": what, "before": before, "after": after})
    return rows


def _size(valid_rows: pd.DataFrame, column: str) -> str:
    """The median of one of SIZES, in words."""
    measured = valid_rows.assign(measured_file_bytes=valid_rows["measured_bytes"] / valid_rows["measured_files"])
    size = measured[column].median()
    return "not known" if pd.isna(size) else round_size(int(size))


def _stamp(frames: list[pd.DataFrame], names: tuple[str, str]) -> str:
    before, after = map(stamp, frames)
    if before == after:
        return before
    return f"{names[0]}: {before}; {names[1]}: {after}"


def _section(rows: pd.DataFrame, names: tuple[str, str]) -> Section:
    """The factors at the largest transfer: over the plane where the states lie on one, else state by state."""
    largest = rows[rows["transfer_size_bytes"] == rows["transfer_size_bytes"].max()]
    rows = largest if len(largest) else rows
    figures = [_figure(str(measure), part, names) for measure, part in rows.groupby("measure", sort=False)]
    return Section("Factors", f"What {names[1]} reaches of {names[0]}, at the largest transfer.", figures)


def _figure(measure: str, part: pd.DataFrame, names: tuple[str, str]) -> Figure:
    title = f"{Measure.of(measure).name.capitalize()}s of {names[1]} relative to {names[0]}"
    if part["capacity_percent"].nunique() > 1 and part["fragmentation_percent"].nunique() > 1:
        places = part.drop_duplicates(["capacity_percent", "fragmentation_percent"])
        return Plane(
            title,
            tuple(map(_place, places.itertuples())),
            Axis("capacity AA, % of the empty target (nominal)"),
            Axis("fragmentation BB, % of files deleted (nominal)"),
            empty="not in both",
            factor=True,
        )
    by_state, ticks = placed(part, "state")
    y = Axis.around("factor", part, 1.0)
    return lines(title, by_state, "cell", Axis("state", ticks=ticks), y, joined=False, levels=[Level(1.0)])


def _place(row: Any) -> Place:
    says = f"{row.state}: {ratio_text(row.median, 3)}{bounds(row.low, row.high)}, n = {row.n}"
    return Place(row.capacity_percent, row.fragmentation_percent, row.median, row.n, row.low, row.high, says=says)
