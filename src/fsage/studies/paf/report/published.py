"""What was published of populate and fragment beside what was measured, and what is not alike in the two."""

from __future__ import annotations

import pandas as pd

from fsage.api.report import Data, groups, words

from .rows import axes_of, largest_transfer

SHOWN = "The PaF slides (Kaitschuck, Seagate) show a loss of 2-35%, writes more than reads"
SHARE = 11
"""Percent of the targets that the source measured: 10 GiB for each of 256 tasks, of 22.6 TiB."""


def published(data: Data) -> list[str]:
    """The loss of fullness and fragmentation together, which is what was published, and what is not alike."""
    fragmented = [name for pair in data.comparisons if (axes := axes_of(data, name := pair.state)) and axes[1]]
    together = [text for state in dict.fromkeys(fragmented) if (text := _together(data, state))]
    if not together:
        return []
    sentences = [f"Here it is {text}" for text in together]
    return [" ".join([f"{SHOWN}, of fullness and fragmentation together.", *sentences]), *_unlike(data.frame)]


def _together(data: Data, state: str) -> str:
    """'80.50 against 10.00: writes 17% slower (17 to 19%). Reads 18% slower (18 to 19%).'."""
    rows = data.of_state(largest_transfer(data.table), state)
    rows = [row for row in rows.itertuples() if row.to_clean is not None and row.to_clean.interval]
    if not rows:
        return ""
    parts = [
        f"{groups.Measure.of(row.measure).plural} {words.Finding(row.to_clean, tested=False).brief()}" for row in rows
    ]
    first, *others = parts
    clean = rows[0].clean
    if "@" not in state:
        clean = clean.partition("@")[0]
    return " ".join([f"{state} against {clean}: {first}.", *(f"{part.capitalize()}." for part in others)])


def _unlike(frame: pd.DataFrame) -> list[str]:
    """The device, and how much was measured: who writes little may find whole runs where who writes much cannot."""
    taken = frame[frame["status"] == "valid"]
    sentences = []
    if "IOCost" in " ".join(taken["device_model"].dropna().unique()):
        sentences.append(
            "This modelled device charges for bytes, requests and jumps of more than 16 MiB. It has no slower inner "
            "tracks, so fullness costs here only what the file system does about it."
        )
    shares = (100 * taken["measured_bytes"] / taken["capacity_bytes"]).dropna()
    if len(shares):
        ends = list(dict.fromkeys(f"{end:.2g}" for end in (shares.min(), shares.max())))
        sentences.append(
            f"Each sample wrote {' to '.join(ends)}% of the capacity (PaF slides: {SHARE}%). Study amount shows what "
            "that changes, and docs/howto/reading.md how to examine an unexpected result."
        )
    return sentences
