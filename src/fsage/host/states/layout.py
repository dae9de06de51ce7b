"""The layout of a target's stores, as evidence of a state."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from fsage.host.evidence import fiemap
from fsage.host.structure import fillers
from fsage.host.targets.target import Target
from fsage.model.evidence.files import FileLayouts
from fsage.model.evidence.store import SCHEMA


def layout(target: Target, osts: Sequence[dict[str, object]] = ()) -> dict[str, object]:
    """The layout of free space and filler files on every store: {"schema", "seconds", "stores": [Store.summary]}.

    What cannot be read is absent, with the reason. The caller has synchronised the target. On Lustre the first stores
    are `osts`, as their servers read them, and the last one has the files.
    """
    began = time.monotonic()
    stores = list(osts)
    for number, mount in enumerate(target.mounts):
        store = target.free_space(number)
        try:
            layouts = FileLayouts(os.statvfs(mount).f_frsize)
            for entry in fillers(mount):
                layouts.add(fiemap.extents(entry.path))
            store.found["files"] = {"filler": layouts.summary()}
            store.source["files"] = "FIEMAP"
        except OSError as error:
            store.absent["files"] = target.why_no_extents(error)
        stores.append(store.summary(len(stores)))
    return {"schema": SCHEMA, "seconds": time.monotonic() - began, "stores": stores}
