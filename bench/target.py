"""A loop-backed target for benchmarks, removed in the end."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

from fsage.host.system import namespace
from fsage.host.verbs import claim, create


@contextlib.contextmanager
def loop_target(size_gib: int, amount_mib: int = 64) -> Iterator[dict]:
    """The declaration of a claimed ext4 target without a device model."""
    with namespace.entered(), tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/var/tmp") as place:
        spec = {
            "name": f"bench{os.getpid()}",
            "kind": "loop",
            "filesystem": "ext4",
            "size_gib": size_gib,
            "minimum_gib": 1,
            "image_dir": f"{place}/images",
            "mount_dir": f"{place}/mnt",
            "home": f"{place}/home",
            "amount_mib": amount_mib,
        }
        create.create(spec, {}, False)
        try:
            claim.claim(spec, {}, False)
            yield spec
        finally:
            create.remove(spec, {}, False)
