"""The page: sections, tables and provenance put together, and all files written."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from fsage import dataset, recipes
from fsage.report import evidence, missing, provenance, tables
from fsage.report.conditions import basis, conditions
from fsage.report.drawing import draw
from fsage.report.evidence import Evidence
from fsage.report.groups import samples, summarise
from fsage.report.headline import comparisons, layout_sentences, published_sentences, stamp
from fsage.report.render import template
from fsage.report.section import Data, Section


def build(
    study: Any,
    target: Any,
    frame: pd.DataFrame,
    plan_cells: Iterable[tuple[str, Any]],
    states: Mapping[str, Path],
    claim: Mapping[str, Any] | None,
    out_dir: Path,
    comparison: pd.DataFrame | None = None,
    traced: Iterable[Path] = (),
    config: Path | None = None,
) -> Path:
    """Write `index.html`, the tables and figures it links to into `out_dir`; return the page's path.

    `plan_cells`: (state, cell) of everything planned, cells with name and kind. `states`: where each state's evidence
    lies. `comparison`: records of another study, only set beside, never pooled. `traced`: records of traced cells.
    `config`: the study's file.
    """
    cells = [(state, cell.name, cell.kind) for state, cell in plan_cells]
    planned = list(dict.fromkeys(state for state, _, kind in cells if kind == "planned"))
    known = evidence.read(states, _digests(frame))
    table = summarise(frame)
    on = stamp(frame)
    sizes = [study.compare.levels["file_size"]] if study.compare and "file_size" in study.compare.levels else []
    beside = summarise(comparison) if comparison is not None else table.iloc[:0]
    data = Data(table[table["main"]], planned, beside[beside["main"]], sizes, on, frame)
    sections = _sections(study, data, known, traced)
    compared = comparisons(frame, study)
    page = template("page.html.j2").render(
        study=study,
        target=target,
        stamp=on,
        compared=compared,
        verdicts=[*layout_sentences(frame, study), *published_sentences(frame, compared), *_notes(frame)],
        counts=missing.counts(frame, cells),
        extras=missing.extras(frame),
        sections=sections,
        states=tables.states(frame, planned, known),
        undigested=tables.undigested(frame),
        groups=tables.groups(table),
        cells=tables.cells(frame, cells),
        gaps=missing.gaps(frame, cells),
        outliers=tables.outliers(table),
        again=missing.commands(study, target),
        short=missing.short_samples(frame),
        facts=provenance.facts(study, target, frame, known, claim),
        tunables=provenance.tunables(frame),
        examples=provenance.example_commands(frame),
        config=config.read_text(encoding="utf-8") if config else None,
    )
    dataset.write(frame, out_dir)
    write_figures(sections, out_dir / "figures")
    path = out_dir / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


def _notes(frame: pd.DataFrame) -> list[str]:
    """What the intervals are over, and which samples are kept apart."""
    mine = samples(frame)
    return [] if mine.empty else [basis(mine), *conditions(mine)]


def _digests(frame: pd.DataFrame) -> dict[str, list[str]]:
    """State -> digests of the layouts in which its records were taken; states without any record are left out."""
    readable = frame[frame["status"] != "unreadable"]
    return {str(state): list(found.dropna().unique()) for state, found in readable.groupby("state")["layout_digest"]}


def _sections(study: Any, data: Data, known: Evidence, traced: Iterable[Path]) -> list[Section]:
    """All that is drawn. What draws is imported here: it takes a second, and the terminal needs no figures."""
    from fsage.report import drift, layout, traces

    recipe = next(iter(data.frame["recipe"].dropna()), None)
    # A recipe may have a package here of its name, whose SECTIONS draw it; any other has the tables only. The name is
    # a record's: no other module is taken by it.
    drawn = recipe in recipes.names() and importlib.util.find_spec(f"fsage.report.{recipe}") is not None
    of_recipe = importlib.import_module(f"fsage.report.{recipe}").SECTIONS if drawn else ()
    headline = [state for pair in study.headline for state in (pair.state, pair.against)]
    return draw(
        [
            *(partial(section, data) for section in of_recipe),
            partial(layout.section, known, data.planned, headline, data.frame, data.stamp),
            partial(traces.section, traced, data.stamp),
            partial(drift.section, data.frame, data.stamp),
        ]
    )


def write_figures(sections: Iterable[Section], folder: Path) -> None:
    """Each figure as SVG and PDF; what an earlier report left there goes."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in [*folder.glob("*.svg"), *folder.glob("*.pdf")]:
        path.unlink()
    for panel in (panel for section in sections for panel in section.panels):
        panel.write(folder)
