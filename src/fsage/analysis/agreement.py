"""Whether what cells computed is the same in every layout: metrics `<phase>_checksum`, whole numbers below 2**48."""

from __future__ import annotations

import json
from typing import NamedTuple

import pandas as pd

ENDING = "_checksum"
HOW = (
    "iteration",
    "nodes",
    "distribution",
    "processes",
    "read_eviction_file",
    "server_cache",
    "transfer_size",
    "direct",
    "tool",
)
"""Parameters that say how work is done: what comes out of it must not depend on them."""
SHOWN = 5


class Result(NamedTuple):
    """What the valid cells that were to compute the same did compute; `cells` by checksum, the commonest first."""

    phase: str
    params: str
    cells: dict[int, list[str]]


def results(frame: pd.DataFrame) -> list[Result]:
    """One for each phase with a checksum, and each set of parameters that its result may depend on."""
    valid = frame[frame["status"] == "valid"]
    what = valid["params"].map({text: _what(text) for text in valid["params"].unique()})
    agreements = []
    for name in [name for name in frame.columns if name.endswith(ENDING)]:
        for params, part in valid.dropna(subset=name).groupby(what, sort=True):
            cells: dict[int, list[str]] = {}
            for value, state, cell in zip(part[name], part["state"], part["cell"], strict=True):
                cells.setdefault(int(value), []).append(f"{state} {cell}")
            commonest = dict(sorted(cells.items(), key=lambda item: -len(item[1])))
            agreements.append(Result(name.removesuffix(ENDING).replace("_", " "), str(params), commonest))
    return agreements


def disagreements(frame: pd.DataFrame) -> list[str]:
    """A sentence for each result that is not the same in all cells: which of them have another."""
    sentences = []
    for result in results(frame):
        (value, most), *others = result.cells.items()
        for other, cells in others:
            more = f" and {len(cells) - SHOWN} more" if len(cells) > SHOWN else ""
            sentences.append(
                f"results differ: {result.phase} has checksum {other} in {', '.join(cells[:SHOWN])}{more}, and {value} "
                f"in {len(most)} other cells: one of them read or computed something else, and no timing of it counts"
            )
    return sentences


def _what(params: str) -> str:
    values = json.loads(params)
    return json.dumps({key: value for key, value in values.items() if key not in HOW}, sort_keys=True)
