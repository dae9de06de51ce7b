"""Evidence of states, as hosts leave it (`results/states/…json`): read and checked, and the table of states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from fsage import dataset
from fsage.analysis.groups import samples
from fsage.analysis.words import NONE
from fsage.base import MIB, in_words
from fsage.base.message import Unacceptable
from fsage.base.sizes import round_size
from fsage.layouts.store import StoresLayout
from fsage.model.observation import StateEvidence
from fsage.records import messages
from fsage.report.view import view_of

AGAIN = "move the file away and run the study again"


@dataclass(frozen=True)
class Evidence:
    """What is left of the states' evidence after the checks.

    `known`: by state; `without`: states with records that have none; `refused`: a sentence for each file that cannot be
    used.
    """

    known: dict[str, StateEvidence] = field(default_factory=dict)
    without: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def layouts(self) -> dict[str, StoresLayout]:
        """The layout of each state."""
        return {state: evidence["layout"] for state, evidence in self.known.items()}


def read(paths: Mapping[str, Path], digests: Mapping[str, Iterable[str]]) -> Evidence:
    """Evidence by state from `paths`; `digests`, by state, are the layouts in which its records were taken."""
    evidence = Evidence()
    for state, path in paths.items():
        try:
            evidence.known[state] = _checked(state, path.read_bytes(), set(digests.get(state, ())))
        except FileNotFoundError:
            if state in digests:
                evidence.without.append(state)
        except (OSError, ValueError) as error:
            evidence.refused.append(f"{in_words(error, path)}.")
    return evidence


def layout_digest(evidence: StateEvidence) -> str:
    """What tells its layout from others, as in the table of records."""
    return evidence["digest"] or evidence["token"]["instance"]


def _checked(state: str, content: bytes, digests: set[str]) -> StateEvidence:
    """The evidence, if it is of `state` and of the layout of its records. Raises ValueError with what is wrong."""
    try:
        evidence = messages.read_evidence(content)
    except Unacceptable as why:
        raise ValueError(f"the evidence of {state} {why}; {AGAIN}") from None
    if evidence["state"] != state:
        raise ValueError(f"this is evidence of the state {evidence['state']}, not of {state}; it is not used")
    if digests and layout_digest(evidence) not in digests:
        raise ValueError(
            f"the evidence of {state} is of another layout (digest {layout_digest(evidence)}) than its records "
            f"({', '.join(sorted(digests))}); it is not used"
        )
    return evidence


def first_problem(error: ValidationError) -> str:
    """Where the first of the problems is, and what: 'stores.0.bitmap: Field required'."""
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


@dataclass(frozen=True)
class Column:
    """A column of the table, below its group's heading."""

    group: str
    label: str
    number: bool
    cells: list[str]


@dataclass(frozen=True)
class States:
    """The table: names of the states, the columns, and by state the digests of its layouts and if it was made anew."""

    names: list[str]
    columns: list[Column]
    digests: dict[str, list[str]] = field(default_factory=dict)
    rebuilt: set[str] = field(default_factory=set)

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Headings over the columns, and how many each spans."""
        return [(name, len(list(columns))) for name, columns in groupby(self.columns, lambda column: column.group)]


def _number(digits: int, of: float = 1.0) -> Callable[[Any], str]:
    return lambda value: f"{value / of:,.{digits}f}".replace(",", "\u202f")


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


COLUMNS: tuple[tuple[str, str, str, Callable[[Any], str]], ...] = (
    ("nominal", "fullness, %", "capacity_percent", _number(0)),
    ("nominal", "deleted, %", "fragmentation_percent", _number(0)),
    ("nominal", "files of", "file_size_bytes", round_size),
    ("achieved", "filled, %", "capacity_percent_achieved", _number(2)),
    ("achieved", "deleted, % of files", "deleted_share_files", _percent),
    ("achieved", "deleted, % of bytes", "deleted_share_bytes", _percent),
    ("achieved", "real fullness, %", "real_fullness_percent", _number(2)),
    ("filler", "files", "filler_files", _number(0)),
    ("filler", "extents", "filler_extents", _number(0)),
    ("filler", "mean extent, MiB", "mean_extent_bytes", _number(3, MIB)),
    ("filler", "layout score", "layout_score", _number(4)),
    ("free extents", "count", "free_extents", _number(0)),
    ("free extents", "largest, MiB", "largest_free_bytes", _number(3, MIB)),
    ("measured files", "extents (median)", "measured_extents", _number(0)),
    ("measured files", "mean extent, MiB", "measured_mean_extent_bytes", _number(3, MIB)),
    ("measured files", "layout score", "measured_layout_score", _number(4)),
    ("measured files", "mean position", "measured_mean_position", _number(4)),
)
"""A column's heading over its group and its own; its name in records, or in a layout (`_layout`); and its text."""


def states(frame: pd.DataFrame, planned: list[str], evidence: Evidence) -> States:
    """Every planned state."""
    readable = frame[frame["status"] != "unreadable"]
    layouts = pd.DataFrame([_layout(evidence, name) for name in planned], planned)
    keys = [key for *_, key, _ in COLUMNS]
    medians = readable.groupby("state")[[key for key in keys if key in readable]].median().reindex(planned)
    values = medians.join(layouts).reindex(columns=keys)
    valid = samples(frame)["state"].value_counts()
    headings = view_of(readable).headings
    columns = _requested(readable, planned)
    for group, label, key, text in COLUMNS:
        cells = [NONE if pd.isna(value) else text(value) for value in values[key]]
        columns.append(Column(group, headings.get(label, label), True, cells))
    columns.append(Column("cells", "valid", True, [str(valid.get(name, 0)) for name in planned]))
    columns = [column for column in columns if set(column.cells) - {NONE}]
    digests = readable.groupby("state")["layout_digest"].unique()
    of_state = {}
    for name in planned:
        seen = [layout_digest(evidence.known[name])] if name in evidence.known else []
        of_state[name] = sorted(digests.get(name, pd.Series()).dropna()) or seen
    rebuilt = readable.groupby("state")["rebuilt"].any()
    return States(planned, columns, of_state, {name for name in planned if rebuilt.get(name, False)})


def _requested(frame: pd.DataFrame, planned: list[str]) -> list[Column]:
    """The levels of the states on the axes of their recipe, sizes as sizes; those of PaF have columns of their own."""
    first = frame[frame["capacity_percent"].isna() | frame["fragmentation_percent"].isna()]
    axes = dataset.levels(first)
    columns = []
    for name in dict.fromkeys(name for levels in axes.values() for name in levels):
        cells = [level_text(name, axes.get(state, {}).get(name)) for state in planned]
        columns.append(Column("requested", axis_label(name), False, cells))
    return columns


def axis_label(name: str) -> str:
    """'preallocation_bytes' -> 'preallocation'."""
    return name.removesuffix("_bytes").replace("_", " ")


def level_text(name: str, level: Any) -> str:
    """A level in words."""
    if level is None:
        return NONE
    if name.endswith("_bytes"):
        return round_size(level)
    return str(level)


def _layout(evidence: Evidence, state: str) -> dict[str, float | None]:
    """A state's layout in a few numbers, over all its stores; None for what no store knows."""
    stores = evidence.layouts[state].stores if state in evidence.layouts else []
    free = [store.free_extents for store in stores if store.free_extents]
    filler = [store.files["filler"] for store in stores if store.files and "filler" in store.files]
    extents = sum(summary.extents for summary in filler)
    in_extents = [summary.bytes for summary in filler if summary.bytes is not None]
    scores = [summary.layout_score for summary in filler if summary.layout_score is not None]
    return {
        "free_extents": sum(summary.count for summary in free) if free else None,
        "largest_free_bytes": max((summary.largest_bytes for summary in free), default=None),
        "mean_extent_bytes": sum(in_extents) / extents if extents and in_extents else None,
        "layout_score": min(scores, default=None),
    }
