"""Series 1 on two targets that differ in size: tables and figures of docs/background/size.md, from two records.parquet.

Beside them stands what docs/data/series1.parquet has of target `local`, whose bitmaps are in memory.

    ./run python docs/size.py [SMALL LARGE]

SMALL and LARGE become docs/data/size_small.parquet and size_large.parquet; without them those that are there are taken.
What stands between the marks in the page is replaced, and its figures are drawn anew.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from fsage import dataset
from fsage.analysis.words import times
from fsage.statistics import ratio

ROOT = Path(__file__).resolve().parents[1]
PAGE, FIGURES = ROOT / "docs/background/size.md", ROOT / "docs/background/size"
LOCAL = ROOT / "docs/data/series1.parquet"
TABLES = [ROOT / f"docs/data/size_{size}.parquet" for size in ("small", "large")]
BLOCK = re.compile(r"(?<=<!-- made by docs/size.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
TRANSFER_BYTES, WRITE, EXTENTS = 64 << 20, "write_bw_mib_s", "measured_extents"
PAIRS = {
    "fullness alone: 80.00 over 10.00": ("80.00", "10.00"),
    "holes alone: 80.50 over 40.00": ("80.50", "40.00"),
    "few holes, nearly empty: 10.10 over 10.00": ("10.10", "10.00"),
    "few holes, full: 80.10 over 80.00": ("80.10", "80.00"),
}


def planned(path: Path) -> pd.DataFrame:
    """Valid planned cells with this transfer size; `name` is the state without its size of files."""
    frame = dataset.read(path)
    frame = frame[(frame["kind"] == "planned") & (frame["transfer_size_bytes"] == TRANSFER_BYTES)]
    return frame[frame["status"] == "valid"].assign(name=frame["state"].str.partition("@")[0])


def block(local: pd.DataFrame, both: list[pd.DataFrame]) -> str:
    """The text between the marks: what the three differ in, the findings, and a row for each state of the two."""
    states = sorted(set(both[0]["name"]) & set(both[1]["name"]))
    local, *both = (frame[frame["name"].isin(states)] for frame in (local, *both))
    names = [str(frame["target"].iloc[0]) for frame in both]
    first = both[1].iloc[0]
    about = (
        f"{len(states)} of the 64 states: `{first['study']}` on `{names[0]}` and `{names[1]}` on "
        f"{pd.to_datetime(both[1]['began']).max():%-d %B %Y}, beside `series1` on `local`.\nEach cell writes "
        f"{first['amount_mib']:.0f} MiB, {TRANSFER_BYTES >> 20} MiB at a time. Rates are medians in MiB/s, brackets "
        "have exact intervals."
    )
    rows = [("", "`local`", *(f"`{name}`" for name in names)), ("---",) * 4]
    rows += [(what, *map(of, (local, *both))) for what, of in {**FACTS, **_compared(states)}.items()]
    heads = ("state", *(f"`{name}` write" for name in names), "ratio", *(f"`{name}` extents" for name in names))
    by_state = [heads, ("---",) * 6]
    for state in states:
        small, large = (frame[frame["name"] == state] for frame in both)
        rates = [f"{part[WRITE].median():.0f}" for part in (small, large)]
        extents = [f"{part[EXTENTS].median():.0f}" for part in (small, large)]
        by_state.append((state, *rates, times(ratio(list(large[WRITE]), list(small[WRITE]))), *extents))
    tables = ["\n".join(f"| {' | '.join(row)} |" for row in table) for table in (rows, by_state)]
    figures = "\n".join(f"![write bandwidth on {name}](size/{name}.svg)" for name in names)
    return "\n\n".join([about, tables[0], figures, tables[1]]) + "\n"


def _compared(states: list[str]) -> dict[str, Callable[[pd.DataFrame], str]]:
    """The comparisons of states that were measured, with their intervals."""

    def of(state: str, against: str) -> Callable[[pd.DataFrame], str]:
        return lambda frame: times(ratio(*(list(frame.loc[frame["name"] == name, WRITE]) for name in (state, against))))

    return {what: of(*pair) for what, pair in PAIRS.items() if {*pair} <= {*states}}


def _slowest(frame: pd.DataFrame) -> str:
    medians = frame.groupby("name")[[WRITE, EXTENTS]].median()
    state = medians[WRITE].idxmin()
    return f"{state}: {medians.loc[state, WRITE]:.0f} MiB/s, {medians.loc[state, EXTENTS]:.0f} extents"


def _an_extent(frame: pd.DataFrame) -> str:
    """Least squares of the seconds of a write over the file's extents, and how close the two are."""
    slope = np.polyfit(frame[EXTENTS], frame["write_seconds"], 1)[0]
    return f"{1e3 * slope:.1f} ms (correlation {np.corrcoef(frame[EXTENTS], frame['write_seconds'])[0, 1]:.2f})"


def _span(column: str, wanted: str, digits: str) -> Callable[[pd.DataFrame], str]:
    def of(frame: pd.DataFrame) -> str:
        values = frame.loc[frame["name"].str.fullmatch(wanted), column]
        return f"{values.min():{digits}} to {values.max():{digits}}"

    return of


FACTS: dict[str, Callable[[pd.DataFrame], str]] = {
    "capacity": lambda frame: f"{frame['capacity_bytes'].iloc[0] / 2**40:.2f} TiB",
    "allocator reset": lambda frame: str(frame["allocator_reset"].iloc[0]),
    "samples of a state": lambda frame: "{} to {}".format(*frame.groupby("name").size().agg(["min", "max"])),
    "slowest state": _slowest,
    "each extent of the file costs": _an_extent,
    "extents without holes": _span(EXTENTS, r"\d\d\.00", ".0f"),
    "place of the file in 80.00, 0 to 1": _span("measured_mean_position", r"80\.00", ".4f"),
    "states whose samples differ in extents": lambda frame: "{} of {}".format(
        (frame.groupby("name")[EXTENTS].nunique() > 1).sum(), frame["name"].nunique()
    ),
}


def drawn(path: Path) -> Iterator[Path]:
    """Draw a table's figure of all states; its path, named after the target."""
    frame = dataset.read(path)
    target, study = frame["target"].iloc[0], frame["study"].iloc[0]
    with tempfile.TemporaryDirectory() as folder:
        table = dataset.write(frame[frame["study"] == study], Path(folder))[0]
        words = ["figures", study, "--table", table, "--columns", "2", "--to", f"{folder}/figures"]
        subprocess.run([sys.executable, "-m", "fsage", "--target", target, *words], check=True, cwd=ROOT)
        (svg,) = Path(folder, "figures").glob("write-bandwidth-in-mib-s*.svg")
        yield Path(shutil.copy(svg, FIGURES / f"{target}.svg"))


def main(*given: str) -> None:
    """Take the tables, write the page, draw the figures."""
    for source, table in zip(given, TABLES, strict=False):
        shutil.copy(source, table)
    text = BLOCK.sub(
        lambda _: block(planned(LOCAL), [planned(path) for path in TABLES]), PAGE.read_text(encoding="utf-8")
    )
    PAGE.write_text(text, encoding="utf-8")
    made = {figure for path in TABLES for figure in drawn(path)}
    for old in set(FIGURES.iterdir()) - made:
        old.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
