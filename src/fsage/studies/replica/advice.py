"""An aged file system: its free space as it lies, or in one run; what joining it gains at most."""

from __future__ import annotations

from functools import partial

from fsage.api.model import round_size
from fsage.api.report import AdviceRequest, Choice, Measured, Options

from .recipe import COPIED, EMPTY, JOINED, States

WORDS = {COPIED: "leave its free space as it lies", JOINED: "have its free space in one run"}


def options(measured: Measured, declared: States, request: AdviceRequest) -> Options:
    """Both choices for one file system: over its samples, equally likely, where only windows of it were copied.

    Raises ValueError where several were measured, or one in one of the two ways alone.
    """
    axes = {state: measured.axes[state] for state in measured.seconds_per_mib}
    layouts = sorted({axis["layout"] for axis in axes.values()} - {EMPTY})
    if len(layouts) != 1:
        raise ValueError(
            f"{', '.join(layouts) or 'no layout'} was measured: say which with --at layout=NAME, one at a time"
        )
    states: dict[str, list[str]] = {holes: [] for holes in WORDS}
    for state, axis in axes.items():
        if axis["layout"] == layouts[0]:
            states[axis["holes"]].append(state)
    choices = []
    for holes, of in states.items():
        if not of:
            raise ValueError(f"layout {layouts[0]}: nothing valid was measured to {WORDS[holes]}")
        choices.append(Choice(holes, partial(_of_size, dict.fromkeys(of, 1 / len(of))), says=WORDS[holes]))
    return Options(
        "free space",
        COPIED,
        measured.moved_bytes,
        choices,
        assumes=(
            f"a file of {round_size(measured.moved_bytes)} was measured: others count at the same time for a byte. "
            "What it costs to join free space, nobody measured"
        ),
    )


def _of_size(parts: dict[str, float], size_bytes: int) -> dict[str, float]:
    return parts
