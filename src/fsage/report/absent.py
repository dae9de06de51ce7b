"""What could not be had or known, with its reason: on top of the report, and each in a table."""

from __future__ import annotations

import json

import pandas as pd

from fsage.report.section import Section
from fsage.text.sizes import counted

FIRST = 3
"""Reasons on the first screen."""


def sentences(frame: pd.DataFrame) -> list[str]:
    """Sentences for the first screen, a reason each; none where nothing is absent."""
    by_reason: dict[str, list[str]] = {}
    for what, why, _ in _rows(frame):
        by_reason.setdefault(why, []).append(what)
    shown = [f"Not had or known: {', '.join(whats)}: {why.removesuffix('.')}." for why, whats in by_reason.items()]
    return shown[:FIRST] + ([f"{len(shown) - FIRST} more reasons are below."] if len(shown) > FIRST else [])


def section(frame: pd.DataFrame) -> Section | None:
    """All that is absent, a row each."""
    rows = _rows(frame)
    if not rows:
        return None
    text = "A cell that cannot run here is unsupported. What could not be read or set beside others is absent."
    table = [["what", "why", "cells"], *([what, why, str(count)] for what, why, count in rows)]
    return Section("What could not be had or known", text, [], table=table)


def _rows(frame: pd.DataFrame) -> list[tuple[str, str, int]]:
    """What is absent, why, and in how many cells; unsupported cells first."""
    unsupported = frame[frame["status"] == "unsupported"]
    counts: dict[tuple[str, str], int] = {}
    for (workload, why), cells in unsupported.groupby(["workload", "why"], dropna=False, sort=False):
        counts[f"{counted(len(cells), 'cell')} of workload {workload}", str(why)] = len(cells)
    for text in frame["absent"].dropna():
        for what, why in json.loads(text).items():
            counts[what, str(why)] = counts.get((what, str(why)), 0) + 1
    return [(what, why, count) for (what, why), count in counts.items()]
