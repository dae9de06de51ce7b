"""Series 1 counted: what docs/background/counts.md says of docs/data/series1_counts.parquet, and of three file systems.

    ./run python docs/counts.py [COUNTS FILESYSTEMS]

COUNTS and FILESYSTEMS become docs/data/series1_counts.parquet and filesystems_counts.parquet, and the `pieces.parquet`
beside each becomes one too; without them those that are there are taken. What stands between the marks in the page is
replaced.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/background/counts.md"
TABLES = [ROOT / f"docs/data/{name}_counts.parquet" for name in ("series1", "filesystems")]
ADDED, DELETED, LOSS = "capacity_percent", "fragmentation_percent", "computed_loss_percent"
FEW_POINTS = 3


def spread(values: pd.Series, form: str = "{:.2g}") -> str:
    """'18 (10 to 22)': median, smallest to largest; one number where all are alike."""
    middle, low, high = (form.format(value) for value in (values.median(), values.min(), values.max()))
    return middle if low == high else f"{middle} ({low} to {high})"


def plane(counts: pd.DataFrame) -> str:
    """The computed loss of each state, a row an AA, a column a BB."""
    columns = sorted(counts[DELETED].unique())
    rows = [["AA \\ BB", *map(str, columns)], ["---"] * (len(columns) + 1)]
    for added, of_added in counts.groupby(ADDED):
        cells = [spread(of_added.loc[of_added[DELETED] == deleted, LOSS]) for deleted in columns]
        rows.append([str(added), *cells])
    return table(rows)


def claims(counts: pd.DataFrame) -> str:
    """What one layout said, and what of it survives in all."""
    losses = by_layout(counts, LOSS)
    slowest = losses.idxmax()
    of_80 = losses[losses.index.get_level_values(ADDED) == 80].idxmax().map(lambda state: f"80.{state[1]}")
    commonest = ", ".join(f"{state} in {count}" for state, count in of_80.value_counts().items())
    medians = losses.median(axis=1)
    fullest = medians[80]
    whole = counts.loc[counts[DELETED] == 0, LOSS]
    few = counts[(counts[ADDED] == 10) & (counts[DELETED] == 10)]
    rows = [
        ["claim of one layout", f"in {losses.shape[1]} layouts"],
        ["---"] * 2,
        ["80.50 costs 18%", f"{spread(losses.loc[(80, 50)])} percent by layout"],
        ["fullness costs nothing", f"0 to {whole.max():.1f}% in all states without deleted files"],
        [
            "the worst case is between few and many deleted files",
            f"of the first file at 80% full the largest median is {fullest.max():.0f}% at 80.{fullest.idxmax()}; it is "
            f"{fullest[0]:.0f}% at 80.00 and {fullest[70]:.0f}% at 80.70",
        ],
        [
            "one state is the slowest",
            f"{slowest.nunique()} different states are the slowest of some layout; at 80% full it is {commonest}",
        ],
        ["each further extent costs 9 ms", f"{spread(slopes(counts), '{:.1f}')} ms by layout"],
        [
            "writing at 10.10 is slower than at 10.00",
            f"by {spread(few[LOSS])} percent, in {spread(few['extents'], '{:.0f}')} extents",
        ],
        [
            "the order of two states",
            f"a single layout has the other sign in {other_signs(losses):.0%} of the pairs whose medians differ by "
            f"more than {FEW_POINTS} points",
        ],
    ]
    return table(rows)


def by_layout(counts: pd.DataFrame, column: str) -> pd.DataFrame:
    """A row a state, a column a layout; a state of one layout has the same in all."""
    return counts.pivot_table(index=[ADDED, DELETED], columns="layout", values=column).ffill(axis=1)


def slopes(counts: pd.DataFrame) -> pd.Series:
    """Least squares of the computed time over extents, ms, in each layout."""
    seconds, extents = (by_layout(counts, column) for column in ("computed_seconds", "extents"))
    return pd.Series({layout: 1000 * np.polyfit(extents[layout], seconds[layout], 1)[0] for layout in seconds})


def other_signs(losses: pd.DataFrame) -> float:
    """Of pairs of states and layouts, the share in which one layout contradicts the medians."""
    medians = losses.median(axis=1).to_numpy()
    less, more = np.where(medians[:, None] - medians[None, :] > FEW_POINTS)
    values = losses.to_numpy()
    return float((values[less] < values[more]).mean())


def filesystems(counts: pd.DataFrame) -> str:
    """A row a state, of each file system pieces and computed loss."""
    names = list(counts["filesystem"].unique())
    heads = ["state", *(f"{name}: {what}" for name in names for what in ("pieces", "loss, %"))]
    rows = [heads, ["---"] * len(heads)]
    for state, of_state in counts.groupby("state"):
        row = [str(state).partition("@")[0]]
        for name in names:
            of_system = of_state[of_state["filesystem"] == name]
            row += [spread(of_system["extents"], "{:.0f}"), spread(of_system[LOSS])]
        rows.append(row)
    return table(rows)


def table(rows: list[list[str]]) -> str:
    """As Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def page(text: str, series: pd.DataFrame, several: pd.DataFrame) -> str:
    """The page with what stands between its marks made anew."""
    made = {"plane": plane(series), "claims": claims(series), "filesystems": filesystems(several)}
    for name, block in made.items():
        mark, end = f"<!-- {name}: made by docs/counts.py -->\n", "<!-- end -->"
        before, after = text.split(mark)
        text = f"{before}{mark}\n{block}\n\n{end}{after.partition(end)[2]}"
    return text


def main(*given: str) -> None:
    """Take the tables, write the page."""
    for source, kept in zip(map(Path, given), TABLES, strict=False):
        shutil.copy(source, kept)
        shutil.copy(source.with_name("pieces.parquet"), kept.with_name(kept.name.replace("counts", "pieces")))
    series, several = map(pd.read_parquet, TABLES)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), series, several), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
