"""The layout of a target's stores, as evidence of a state."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fsage.agent import filesystems
from fsage.agent.errors import Failure
from fsage.agent.evidence import fiemap
from fsage.agent.evidence.files import FileLayouts
from fsage.agent.evidence.freespace import ONCE, Counting
from fsage.agent.evidence.store import OF_DEVICE, Store, without
from fsage.agent.structure import fillers
from fsage.agent.target import Target

SCHEMA = 1


def layout(target: Target, osts: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """How free space and filler files lie on every store: {"schema", "seconds", "stores": [Store.summary]}.

    What cannot be told is absent, with the reason. The caller has synchronised the target. On Lustre `osts` are the
    first stores, as their servers saw them; the last one has the files.
    """
    began = time.monotonic()
    stores = list(osts)
    for number, mount in enumerate(target.mounts):
        store = target.free_space(number)
        try:
            found = of_files((entry.path for entry in fillers(mount)), os.statvfs(mount).f_frsize)
            store.found["files"] = {"filler": found.summary()}
            store.source["files"] = "FIEMAP"
        except OSError as error:
            store.absent["files"] = target.why_no_extents(error)
        stores.append(store.summary(len(stores)))
    return {"schema": SCHEMA, "seconds": time.monotonic() - began, "stores": stores}


def of_mount(filesystem: str, device: str, mount: Path, counting: Counting = ONCE) -> Store:
    """The free space of a mounted file system; what cannot be told is absent, with the reason.

    Nothing is synchronised: what the kernel has not placed yet counts as free.
    """
    found = filesystems.like(filesystem)
    try:
        if found:
            return found.free_space(device, mount, counting)
        reason = f"of {filesystem} no free space is read; only of {filesystems.titles()}"
    except (OSError, ValueError, Failure) as error:
        reason = str(error)
    return Store(filesystem, {}, {}, without(OF_DEVICE, reason))


def of_files(paths: Iterable[str], block_bytes: int) -> FileLayouts:
    """How files lie, asked file by file. Raises OSError."""
    layouts = FileLayouts(block_bytes)
    for path in paths:
        layouts.add(fiemap.extents(path))
    return layouts
