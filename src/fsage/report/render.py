"""Templates, the tables in them (rows in, plain dictionaries out), how numbers stand there, and files of pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import jinja2
import pandas as pd

from fsage.analysis.groups import Measure, measures, params_labels
from fsage.analysis.validity import PlannedCell, missing
from fsage.analysis.words import NONE
from fsage.base.message import write_whole
from fsage.base.sizes import counted, ratio_text, round_size
from fsage.dataset import unpacked
from fsage.dataset.tables import PARQUET
from fsage.figures import Figure
from fsage.report.parts import Section, figures_of
from fsage.text.shown import code

if TYPE_CHECKING:
    from fsage.figures.style import Panel, Size

OWN = b"<title>fsage"
"""In each page of this program."""
CAPTIONS = "captions.txt"
"""Beside figures for a paper: what each is called, and on what it was taken."""


def check_folder(to: Path) -> None:
    """Raise ValueError where a page and figures cannot go, or would take the place of others."""
    if to.exists() and not to.is_dir():
        raise ValueError(f"{to} is no folder: name one for the page and its figures")
    page = to / "index.html"
    if page.exists():
        own = OWN in page.read_bytes() and not (to / PARQUET).exists()
    else:
        own = not any((to / "figures").glob("[!.]*"))
    if not own:
        raise ValueError(f"{to} has a report, or a page or figures of others, which would go: name another folder")


def write_page(to: Path, page: str, sections: Sequence[Section], stamp: str, **more: object) -> Path:
    """Draw the sections' figures, and write the page that a template makes of these and of `more`; its path."""
    panels = draw(figures_of(sections), stamp, to / "figures")
    path = to / "index.html"
    write_whole(path, template(page).render(sections=sections, stamp=stamp, panels=panels, **more))
    return path


def draw_for_paper(
    figures: Sequence[Figure], stamp: str, folder: Path, columns: int, plain: bool, progress: Callable[[int], None]
) -> None:
    """Figures as wide as so many columns of a paper, with captions as text; `plain`: without title and stamp."""
    from fsage.figures.drawing import caption
    from fsage.figures.style import COLUMNS

    draw(figures, stamp, folder, COLUMNS[columns]._replace(plain=plain), progress)
    sentences = [f"{figure.name}: {caption(figure, stamp)}\n" for figure in figures]
    write_whole(folder / CAPTIONS, "\n".join(sentences))


def draw(
    figures: Sequence[Figure],
    stamp: str,
    folder: Path,
    size: Size | None = None,
    progress: Callable[[int], None] = lambda count: None,
) -> dict[str, Panel]:
    """Each figure by its name, drawn with the stamp inside, and written into `folder`; no size: for a page.

    What was left there goes: `check_folder` before, where somebody named the folder.
    """
    from fsage.figures.drawing import draw_all  # a second to import, which only those who draw pay
    from fsage.figures.style import PAGE

    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".", dir=folder) as place:  # until all are there, those before stay
        made = Path(place)
        for figure in figures:
            pd.DataFrame(figure.table()).to_csv(made / f"{figure.name}.csv", index=False, header=False)
        panels = {panel.name: panel for panel in draw_all(figures, stamp, size or PAGE, progress)}
        for panel in panels.values():
            panel.write(made)
        for ending in ("svg", "pdf", "csv"):
            for path in list(folder.glob(f"[!.]*.{ending}")):
                path.unlink()
        for path in made.iterdir():
            path.rename(folder / path.name)
    return panels


def template(name: str) -> jinja2.Template:
    """A template of this package, by its file name."""
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fsage.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(number=_number, percent=_percent, mib=_mib, size=round_size, ratio=_ratio, code=code)
    environment.filters["counted"] = counted
    return environment


def _number(value: Any, digits: int = 1) -> str:
    """Fixed digits, below 1 those of two figures at least, or a dash for what is not known."""
    if pd.isna(value):
        return NONE
    if 0 < value < 1:
        digits = max(digits, 1 - math.floor(math.log10(value)))
    return f"{value:,.{digits}f}".replace(",", "\u202f")


def _percent(share: Any, digits: int = 1) -> str:
    if pd.isna(share):
        return NONE
    return f"{share:.{digits}%}"


def _ratio(value: Any) -> str:
    """Three digits, of which the last is never rounded onto 1."""
    if pd.isna(value):
        return NONE
    return f"{ratio_text(value, 3)}\u00d7"


def _mib(size_bytes: Any) -> str:
    if pd.isna(size_bytes):
        return NONE
    return f"{size_bytes / (1 << 20):,.6g}".replace(",", "\u202f")


OF_A_CELL = ("state", "cell", "kind", "status", "transfer_size_bytes", "order_in_state", "attempt", "began", "why")


def undigested(frame: pd.DataFrame) -> list[str]:
    """A sentence for each reason why states have no digest of extents."""
    reasons = unpacked(frame, "note", "digest.absent")["digest.absent"]
    own = "Each layout instance counts as a layout of its own."
    return [
        f"No digest of extents: {', '.join(sorted(set(states)))}. {why}. {own}"
        for why, states in frame["state"].groupby(reasons)
    ]


def groups(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A block for each set of parameters, a row a state, the measures side by side."""
    if table.empty:
        return []
    blocks = []
    for params, label in reversed(params_labels(table).items()):
        part = table[table["params"] == params]
        names = list(part["measure"].unique())
        by_kind: dict[str, dict[str, Any]] = {}
        for row in part.to_dict("records"):
            state = f"{row['state']} ({row['condition']})" if row["condition"] else row["state"]
            by_kind.setdefault(state, {})[row["measure"]] = row
        rows = []
        for state, by_name in by_kind.items():
            layouts = max(entry["layouts"] for entry in by_name.values())
            rows.append({"state": state, "layouts": layouts, "cells": list(map(by_name.get, names))})
        blocks.append({"label": label, "measures": list(map(Measure.of, names)), "rows": rows})
    return blocks


def outliers(table: pd.DataFrame) -> list[dict[str, object]]:
    """Samples that lie far off their group, and why; they stay in it."""
    found: list[dict[str, object]] = []
    for row in table.itertuples():
        for flag in row.flags:
            found.append({"state": row.state, "measure": Measure.of(row.measure).name, "flag": flag})
    return found


def cells(frame: pd.DataFrame, plan_cells: list[PlannedCell]) -> dict[str, object]:
    """Every record, and every planned cell without one: the columns of OF_A_CELL and `rates`, one a measure.

    `commands`: what ran, each text once; `ran`: the place of a cell's there.
    """
    names = measures(frame)
    commands = list(dict.fromkeys(frame["commands"].dropna()))
    places = {text: place for place, text in enumerate(commands)}
    shown = frame[[*OF_A_CELL, *names, "commands"]].astype(object)
    rows = []
    for row in shown.where(shown.notna(), None).to_dict("records"):
        rates = [row.pop(name) for name in names]
        ran = places.get(row.pop("commands"))
        rows.append({**row, "rates": rates, "ran": ran})
    nothing = {**dict.fromkeys(OF_A_CELL), "status": "missing", "rates": [None] * len(names), "ran": None}
    for state, cell, kind in missing(frame, plan_cells):
        rows.append({**nothing, "state": state, "cell": cell, "kind": kind})
    return {"measures": list(map(Measure.of, names)), "rows": rows, "commands": commands}
