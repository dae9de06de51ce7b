"""What a step that copies a layout needs: the list of its free extents, or of a sample of them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fsage.api.model import in_words, kinds
from fsage.api.study import Plan, StudyError
from fsage.layouts import extents
from fsage.layouts.store import NotThisText

from .model import Replica

if TYPE_CHECKING:
    from fsage.api.evidence import Free

MOST_EXTENTS = 20_000_000
"""Most extents of a layout as large as its target."""
LONG_BYTES = 1 << 20
"""A packed list of so many bytes or more does not travel in requests."""


def needed(plan: Plan, step: Replica) -> tuple[str, str]:
    """(SHA-256 of the list's text, the text packed by zlib, in Base64). Raises StudyError.

    A long list that is laid whole is named instead: (SHA-256 of its file, the absolute path).
    """
    path = _long_list(plan, step)
    if path:
        with open(path, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest(), str(path)
    free = _layout(plan, step)
    text = b"".join(extents.written(free.head, free.pairs()))
    return hashlib.sha256(text).hexdigest(), base64.b64encode(zlib.compress(text)).decode()


def file_of(step: Replica) -> str:
    """The file in the folder layouts/ beside the study."""
    return step.layout


def layout_of(step: Replica) -> Replica:
    """The step that copies the layout as it lies: the same for all steps of one layout."""
    return replace(step, joined=False)


def free_bytes(plan: Plan, step: Replica) -> int:
    """How much is free in the layout that a step copies. Raises StudyError."""
    path = _long_list(plan, step)
    if path:
        try:
            with gzip.open(path) as lines:  # a quarter of the time that counting all of it takes
                return sum(end - start for start, end in extents.read(lines)[1])
        except (OSError, EOFError, zlib.error, NotThisText) as error:
            raise StudyError(f"study {plan.study.name}: layout {step.layout}: {in_words(error)}") from error
    from .free import size_of

    return size_of(_layout(plan, step).places)


def _long_list(plan: Plan, step: Replica) -> Path | None:
    """The file of a layout where it is a long list of free extents, packed by gzip, of a device that is laid whole."""
    path = (plan.layouts / step.layout).absolute()
    try:
        if path.stat().st_size < LONG_BYTES or not (device_bytes := _laid_bytes(plan)):
            return None
        with gzip.open(path) as lines:
            head, _ = extents.read(lines)
    except (OSError, EOFError, zlib.error, NotThisText):
        return None
    if head.device_bytes <= device_bytes:
        return path
    return None


def _laid_bytes(plan: Plan) -> int | None:
    if plan.claim:
        return kinds.kind_of(plan.claim).laid_bytes(plan.claim)
    return None


def _layout(plan: Plan, step: Replica) -> Free:
    device_bytes = _laid_bytes(plan)
    if not device_bytes:
        raise StudyError(
            f"target {plan.target.name}: a layout is copied onto one claimed file system that fsage made (kind loop), "
            "or onto one OST of a Lustre that fsage has alone (docs/background/replica.md)"
        )
    from fsage.api.evidence import read_free  # numpy, scipy and what else a plan does without

    from .free import Windows, size_of

    where = f"study {plan.study.name}: layout {step.layout}"
    try:
        seed = step.seed or 0, step.draw
        free = read_free(os.fspath(plan.layouts / step.layout), seed)
        why = free.head.why_no_copy()
        if why:
            raise ValueError(why)
        if free.head.device_bytes > device_bytes:
            free = Windows(free, step.window_groups).sample(device_bytes, step.seed or 0, step.draw)
        elif len(free.places) > MOST_EXTENTS:
            raise ValueError(f"it has {len(free.places):,} free extents; a replica has at most {MOST_EXTENTS:,}")
    except ValueError as error:
        raise StudyError(f"{where}: {error}") from error
    free_bytes = size_of(free.places)
    if not free_bytes:
        raise StudyError(f"{where}: nothing is free in it, so nothing could be written to its replica")
    if free_bytes == free.head.device_bytes:
        raise StudyError(f"{where}: all of it is free: it tells of no file system that anything was written to")
    return free
