"""Signs of trouble during cells, as records have them: on top of the report, and each in a table."""

from __future__ import annotations

import pandas as pd

from fsage.report.section import Section
from fsage.text.sizes import duration

SHOWN = 50


def sentences(frame: pd.DataFrame) -> list[str]:
    """A sentence for the first screen; none where no sample has a warning."""
    warned = frame[(frame["status"] == "valid") & frame["warnings"].notna()]
    if warned.empty:
        return []
    first = warned.iloc[0]
    return [
        f"{len(warned)} of {int((frame['status'] == 'valid').sum())} valid samples have signs of trouble, the first "
        f"{first['state']} {first['cell']}: {first['warnings'].removesuffix('.')}."
    ]


def waits(frame: pd.DataFrame) -> list[str]:
    """A sentence on how often and how long the run waited for others; none where it never did."""
    waited = frame[frame["waits"].fillna(0) > 0]
    if waited.empty:
        return []
    first = waited.iloc[0]
    return [
        f"The run waited {int(waited['waits'].sum())} times, {duration(waited['wait_seconds'].sum())} in all, because "
        f"others suffered (stop_if): the first time before {first['state']} {first['cell']}."
    ]


def section(frame: pd.DataFrame) -> Section | None:
    """All warnings, a row a cell."""
    warned = frame[frame["warnings"].notna()]
    if warned.empty:
        return None
    rows = warned[["state", "cell", "status", "warnings"]].head(SHOWN).to_numpy().tolist()
    text = (
        "Hosts are looked at before and after each phase: their connections to servers, what was sent again, errors in "
        "the kernel's log. A sample with a sign of trouble stays valid, unless a server evicted its client."
    )
    if len(warned) > SHOWN:
        more = [f"{len(warned) - SHOWN} more cells are in records.csv."]
    else:
        more = []
    return Section("Signs of trouble", text, [], warnings=more, table=[["state", "cell", "status", "what"], *rows])
