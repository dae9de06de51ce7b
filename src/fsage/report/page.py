"""The page: sections, tables and provenance put together, and all files written.

Provenance is how it was measured: what records, the claim and the code that made the report say of it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import fsage
from fsage import dataset
from fsage.analysis import validity
from fsage.analysis.comparisons import stamp
from fsage.analysis.conditions import basis, conditions, reduced, settings
from fsage.analysis.groups import samples, summarise
from fsage.base import JsonView, in_words
from fsage.base.message import write_whole
from fsage.base.sizes import counted
from fsage.dataset import unpacked
from fsage.dataset.families import NOT_IN_FORCE, names_of, word, words
from fsage.figures import Figure, Lines
from fsage.plan.target import Target
from fsage.report import caveats, evidence, layout, render, requests, targets
from fsage.report.evidence import Evidence
from fsage.report.parts import Data, Section, figures_of
from fsage.report.render import draw, template
from fsage.report.view import NO_ANSWER, NO_HEADLINE, NOTHING, Answer, view_of
from fsage.study import Study
from fsage.study.comparisons import any_means

if TYPE_CHECKING:
    from fsage.figures.style import Panel

LEAST_POINTS = 3


@dataclass(frozen=True)
class Page:
    """A report before anything is drawn: its answer, its sections, and what else the template shows."""

    answer: Answer
    sections: list[Section]
    stamp: str
    rest: Mapping[str, object]

    @property
    def figures(self) -> list[Figure]:
        """All of them, in the order of the page."""
        on_top = [self.answer.figure] if self.answer.figure else []
        return on_top + figures_of(self.sections)

    def html(self, panels: Mapping[str, Panel]) -> str:
        """The page, with the drawing of each figure by its name."""
        shown = {"answer": self.answer, "sections": self.sections, "panels": panels, "stamp": self.stamp, **self.rest}
        return template("page.html.j2").render(shown)


def build(page: Page, frame: pd.DataFrame, out_dir: Path) -> Path:
    """Write `index.html`, the tables and figures it links to into `out_dir`; return the page's path.

    `page`: the `contents` of the report of these records.
    """
    dataset.write(frame, out_dir)
    path = out_dir / "index.html"
    write_whole(path, page.html(draw(page.figures, page.stamp, out_dir / "figures")))
    return path


def contents(
    study: Study,
    target: Target,
    frame: pd.DataFrame,
    *,
    plan_cells: Iterable[tuple[str, Any]],
    states: Mapping[str, Path],
    claim: Mapping[str, object] | None,
    comparison: pd.DataFrame | None = None,
    traced: Iterable[Path] = (),
    config: Path | None = None,
    more: Iterable[Section] = (),
) -> Page:
    """What the report of a study says and shows, from its records.

    `plan_cells`: (state, cell) of everything planned, cells with name and kind. `states`: where each state's evidence
    lies. `comparison`: records of another study, only set beside, never pooled. `traced`: records of traced cells.
    `config`: the study's file. `more`: sections that do not come from its records.
    """
    cells = [(state, cell.name, cell.kind) for state, cell in plan_cells]
    planned = list(dict.fromkeys(state for state, _, kind in cells if kind == "planned"))
    layout_evidence = evidence.read(states, _digests(frame))
    table = summarise(frame)
    data = _data(study, frame, table, planned, comparison)
    view = view_of(frame)
    rest = {
        "reference": view.reference,
        "study": study,
        "target": target,
        "doubts": _gaps(frame),
        "verdicts": [*view.published(data), *_notes(frame)],
        "counts": validity.counts_of_cells(frame, cells),
        "extras": validity.extras(frame),
        "states": evidence.states(frame, planned, layout_evidence),
        "undigested": render.undigested(frame),
        "groups": render.groups(table),
        "cells": render.cells(frame, cells),
        "gaps": validity.gaps(frame, cells),
        "outliers": render.outliers(table),
        "again": validity.commands(study, target),
        "short": validity.short_samples(frame),
        "facts": _facts(study, target, frame, layout_evidence, claim),
        "tunables": _tunables(frame),
        "examples": _example_commands(frame),
        "config": config.read_text(encoding="utf-8") if config else None,
    }
    return Page(answer_of(data), _parts(study, data, layout_evidence, traced, more), stamp(frame), rest)


def answer_of(data: Data) -> Answer:
    """The study's answer, as its recipe's view gives it."""
    if samples(data.frame).empty:
        return Answer([NOTHING])
    found = view_of(data.frame).answer(data) or Answer([])
    if found.sentences:
        return found
    return replace(found, sentences=[NO_ANSWER if data.headline else NO_HEADLINE])


def answer_lines(
    frame: pd.DataFrame, study: Study, planned: list[str], comparison: pd.DataFrame | None = None
) -> list[str]:
    """The answer for the terminal: a line a sentence, and the conditions of its samples."""
    answer = answer_of(_data(study, frame, summarise(frame), planned, comparison))
    if samples(frame).empty:
        return answer.sentences
    return [*answer.sentences, *_gaps(frame), *_warnings(frame), f"Taken on: {stamp(frame)}."]


def _data(
    study: Study, frame: pd.DataFrame, table: pd.DataFrame, planned: list[str], comparison: pd.DataFrame | None
) -> Data:
    if study.compare and "file_size" in study.compare.levels:
        sizes = [study.compare.levels["file_size"]]
    else:
        sizes = []
    if comparison is not None:
        beside = summarise(comparison)
    else:
        beside = table.iloc[:0]
    nominal = {state.name: state.nominal for state in study.expanded}
    return Data(table[table["main"]], planned, beside[beside["main"]], sizes, frame, nominal, study.headline)


def _notes(frame: pd.DataFrame) -> list[str]:
    """Which states are not what they were to be, what the intervals are over, and which samples are kept apart."""
    valid_rows = samples(frame)
    if valid_rows.empty:
        return []
    return [*_warnings(frame), basis(valid_rows)]


def _gaps(frame: pd.DataFrame) -> list[str]:
    """What keeps samples out of the answer: cells that failed, and conditions that are not alike."""
    valid_rows = samples(frame)
    apart = conditions(valid_rows) if len(valid_rows) else []
    return [*validity.failures(frame), *caveats.doubts(frame), *apart]


def _warnings(frame: pd.DataFrame) -> list[str]:
    """What the answer leaves open, for the first screen of the terminal and of the page."""
    return [*targets.warnings(frame), *validity.of_references(frame), *reduced(samples(frame))]


def _digests(frame: pd.DataFrame) -> dict[str, list[str]]:
    """State -> digests of the layouts in which its records were taken; states without any record are left out."""
    readable = frame[frame["status"] != "unreadable"]
    by_state = readable.groupby("state")["layout_digest"]
    return {str(state): list(digests.dropna().unique()) for state, digests in by_state}


def _parts(study: Study, data: Data, seen: Evidence, traced: Iterable[Path], more: Iterable[Section]) -> list[Section]:
    """What the recipe's view says, and what every report has."""
    headline = [state for pair in study.headline for state in (pair.against, pair.state)]
    all_sections = [
        targets.section(data.frame, study),
        *(section(data) for section in view_of(data.frame).sections),
        *more,
        layout.charges(data.at_largest_transfer, headline),
        requests.latencies(
            data.labelled, [name for name in data.labelled["state"].unique() if any_means(headline, name)]
        ),
        layout.section(seen, data.planned, headline, data.frame),
        requests.traced(traced),
        caveats.drift_section(data.frame),
        caveats.signs_section(data.frame),
        caveats.absent_section(data.frame),
    ]
    return list(filter(None, map(_shown, filter(None, all_sections))))


def _shown(section: Section) -> Section | None:
    """A section with the figures that tell something; None where its text spoke of figures that all tell nothing."""
    figures = [figure for figure in section.figures if _tells(figure)]
    if not section.figures or figures or section.table[1:] or section.warnings:
        return replace(section, figures=figures)
    if section.answer:
        return replace(section, figures=[], text="")
    return None


def _tells(figure: Figure) -> bool:
    """Whether a figure shows more than a sentence: at least LEAST_POINTS points."""
    return not isinstance(figure, Lines) or sum(len(line.points) for line in figure.series) >= LEAST_POINTS


OF_RECORDS = {
    "device model": "device_model",
    "file system": "filesystem",
    "mount options": "mount_options",
    "allocator reset": "allocator_reset",
    "names and inodes of measured files": "metadata",
    "source of the amount": "amount_source",
    "launch": "launch",
    "tools": "tools",
    "container images": "images",
    "kernel": "kernel",
    "host": "host",
}


def _facts(
    study: Study, target: Target, frame: pd.DataFrame, seen: Evidence, claim: JsonView | None
) -> dict[str, list[str]]:
    """Each distinct value that the records hold, and what the claim says."""
    claim = claim or {}
    taken = frame[frame["status"].isin(["valid", "failed"])]
    texts = settings(taken).assign(host=taken["host"], amount_source=taken["amount_source"])
    first_and_last = (taken["began"].min(), taken["began"].max())
    steps = [step for state_evidence in seen.known.values() for step in state_evidence["steps"]]
    turns = "state by state"
    if study.turns:
        turns = "states in turns, every second time in the reverse order (ABBA)"
    order = (
        f"{turns} as {study.state_order}; within a state in random order (column `order_in_state`), drawn with the "
        f"seed {study.order_seed}"
    )
    facts = {
        "target": [f"{target.name} ({target.spec['kind']}); files {target.file_scale:g} x their nominal size"],
        **{label: _distinct(texts[column]) for label, column in OF_RECORDS.items()},
        "first and last": [text for text in first_and_last if isinstance(text, str)],
        "seeds of the layouts": sorted({str(step["seed"]) for step in steps if "seed" in step}),
        "one layout, the same for all seeds": [state.name for state in study.expanded if state.built_once],
        "order": [order],
        "capacity, bytes": [word(claim.get("capacity_bytes"))],
        "amount per task, MiB": [word(claim.get("amount_mib"))],
        "calibration": [words({**(claim.get("calibration") or {}), "commands": None})],
        "report made by": [f"fsage {fsage.__version__}, {commit()}"],
    }
    return {label: values for label, values in facts.items() if any(values)}


def _tunables(frame: pd.DataFrame) -> list[dict[str, str]]:
    """The tunables: value requested, value before, and value read back."""
    taken = frame[frame["status"].isin(["valid", "failed"])]
    rows = []
    for name in names_of(taken, "tunable"):
        if name.endswith(NOT_IN_FORCE):
            continue
        columns = unpacked(taken, "tunable", name, *(f"{name}{end}" for end in NOT_IN_FORCE))
        values = columns.dropna(how="all").astype("str").fillna("none").set_axis(["now", "asked", "before"], axis=1)
        counts = values.value_counts(sort=False).reset_index(name="cells").astype("str")
        rows += [{"name": name, **row} for row in counts.to_dict("records")]
    return rows


def _example_commands(frame: pd.DataFrame) -> list[str]:
    """The command lines of one cell: the first valid one at the largest transfer."""
    valid_rows = samples(frame)
    if valid_rows.empty:
        return []
    valid_rows = valid_rows.sort_values("transfer_size_bytes", ascending=False, kind="stable")
    return valid_rows["commands"].iloc[0].split("; ")


def commit() -> str:
    """The commit of this code, `-dirty` where files differ from it; or that it is not known."""
    folder = Path(__file__).parent
    try:
        asked = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return "commit " + subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except subprocess.CalledProcessError as error:
        return f"commit not known ({(error.stderr.strip() or 'git says nothing').splitlines()[0]})"
    except (OSError, subprocess.SubprocessError) as error:
        return f"commit not known ({in_words(error)})"


def _distinct(column: pd.Series) -> list[str]:
    """Each distinct value in words; with several, how many cells each has: their groups are kept apart."""
    counts = column.dropna().value_counts().sort_index()
    if len(counts) < 2:
        return list(counts.index)
    return [f"{text} ({counted(number, 'cell')})" for text, number in counts.items()]
