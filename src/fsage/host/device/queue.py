"""Tunables of a block queue, /sys/block/<device>/queue (kernel: Documentation/ABI/stable/sysfs-block).

They belong to the device: a loop device is taken away and made again when its target is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fsage.model.errors import Failure, Refusal
from fsage.model.message import below
from fsage.model.tuning import OF_QUEUE

OF_BFQ = "iosched/low_latency"
"""And one of BFQ's, which no study names."""


def values(queues: list[Path], name: str) -> list[str]:
    """What a tunable is at every queue that has it."""
    return [_value(_knob(queue, name)) for queue in queues if (queue / name).exists()]


def tune(
    queues: list[Path], name: str, value: object, before: Sequence[str], check: bool
) -> tuple[dict[str, object], bool, str]:
    """Set a tunable of every queue and read it back: the note for it, whether anything changed, and a sentence.

    `before`: what it was before fsage set it first.
    """
    knobs = [_knob(queue, name) for queue in queues if (queue / name).exists()]
    if not knobs:
        why = "no block queue of the target has it"
        return {"asked": value, "unsupported": why}, False, f"unsupported, {why}"
    held = [_value(knob) for knob in knobs]
    changed = False
    for knob, was_set in zip(knobs, held):
        if was_set != str(value) and not check:
            set_knob(knob, value)
            changed = True
    now = [_value(knob) for knob in knobs]
    if not check and any(text != str(value) for text in now):
        raise Failure(f"{knobs[0]}: requested {value}, reads back {now}")
    was = ", ".join(sorted(set(held)))
    sentence = f"{was} (unchanged)" if was == str(value) else f"{was} -> {value}"
    return {"asked": value, "before": before, "now": now}, changed, sentence


def put_back(queues: list[Path], name: str, before: Sequence[str], check: bool) -> list[str]:
    """Restore the former value of every queue; a sentence for each that changes."""
    sentences = []
    for queue, value in zip(queues, before):
        knob = _knob(queue, name)
        if (held := _value(knob)) != value:
            sentences.append(f"{knob}: {held} -> {value}")
            if not check:
                set_knob(knob, value)
    return sentences


def _knob(queue: Path, name: str) -> Path:
    knob = queue / name
    if name not in OF_QUEUE or not below(queue, knob):
        raise Refusal(f"{knob} is no tunable of a block queue; nothing was touched")
    return knob


def _value(knob: Path) -> str:
    text = knob.read_text().strip()
    return text.partition("[")[2].partition("]")[0] if "[" in text else text


def set_knob(knob: Path, value: object) -> None:
    """Write a tunable. Raises Refusal where the kernel refuses the value."""
    try:
        knob.write_text(str(value))
    except OSError as error:
        raise Refusal(
            f"{knob}: {value!r} was refused ({error.strerror}); it holds {knob.read_text().strip()!r}"
        ) from error
