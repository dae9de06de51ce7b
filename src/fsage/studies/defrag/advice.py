"""To defragment, in which scope, or to leave a file as it is; and after how many reads the work is earned back."""

from __future__ import annotations

from functools import partial

from fsage.api.model import MIB, Json, round_size
from fsage.api.report import AdviceRequest, Choice, Measured, Options, statistics, words

from .recipe import BEFORE, States

COLD_READS = True  # how often a file is read cold decides whether its defragmentation pays
UNTIMED = "nothing says how long its defragmentation took"
WORDS = {BEFORE: "leave the file as it is", "file": "defragment the file", "filesystem": "defragment all files"}


def options(measured: Measured, declared: States, request: AdviceRequest) -> Options:
    """A choice for each scope, and `before`. With `request.cold_reads` the work counts, and each byte is read so often.

    Raises ValueError where the file was measured in several numbers of extents, or not before it was defragmented.
    """
    axes = {state: measured.axes[state] for state in measured.seconds_per_mib}
    several = sorted({axis["extents"] for axis in axes.values()})
    if len(several) > 1:
        raise ValueError(
            f"files in {', '.join(map(str, several))} extents were measured: say which yours are like with "
            "--at extents=NUMBER (`fsage fragments` shows how yours lie)"
        )
    before = next((state for state, axis in axes.items() if axis["scope"] == BEFORE), None)
    if before is None:
        raise ValueError("no valid sample of the file before it is defragmented is there")
    notes = measured.notes
    piece_bytes = notes[before]["fragmented_file"]["piece_bytes"]
    choices = []
    absent = {}
    earned = []
    for state, axis in axes.items():
        work = _work(notes.get(state, {}))
        if work is not None:
            earned.append(_earned(state, work, measured, before))
        of_size = partial(_of_size, piece_bytes, {state: 1.0})
        says = WORDS[axis["scope"]]
        if request.cold_reads is None:
            choices.append(Choice(state, of_size, says=says))
        elif state == before or work is not None:
            choices.append(Choice(state, of_size, times=request.cold_reads, once_s=work or 0.0, says=says))
        else:
            absent[state] = UNTIMED
    if request.cold_reads is None:
        earned.append("Reads alone are compared; with --cold-reads NUMBER the work counts too.")
    return Options(
        "defragmentation",
        before,
        measured.moved_bytes,
        choices,
        absent=absent,
        assumes=(
            f"files lie as the measured one of {round_size(measured.moved_bytes)} did, in extents of "
            f"{round_size(piece_bytes)}, and are read cold from beginning to end"
        ),
        not_covered=f"they fit into one piece of {round_size(piece_bytes)}: there is nothing to gain",
        notes=earned,
    )


def _of_size(piece_bytes: int, parts: dict[str, float], size_bytes: int) -> dict[str, float]:
    if size_bytes > piece_bytes:
        return parts
    return {}


def _work(notes: Json) -> float | None:
    """Seconds of defragmentation for a MiB that was moved; none where nothing is noted or moved."""
    done = notes.get("defragment", {})
    if done.get("moved_bytes"):
        return done["seconds"] / done["moved_bytes"] * MIB
    return None


def _earned(state: str, work_s: float, measured: Measured, before: str) -> str:
    """After how many cold reads of a file its defragmentation has saved the time that it took."""
    was = statistics.summarise(list(measured.seconds_per_mib[before].values()))
    now = statistics.summarise(list(measured.seconds_per_mib[state].values()))
    found = {"state": state, "work_s": work_s, "gain_s": (was.median or 0.0) - (now.median or 0.0), "level": None}
    if was.interval and now.interval:
        found["least_gain_s"] = was.interval.low - now.interval.high
        found["most_gain_s"] = was.interval.high - now.interval.low
        found["level"] = was.interval.level + now.interval.level - 1
    return words.sentences("defrag/earned", **found)[0]
