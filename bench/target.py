"""A loop-backed target for benchmarks, removed in the end."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator

from fsage.host.system import namespace
from fsage.host.verbs import claim

numbers = itertools.count(os.getpid())


@contextlib.contextmanager
def loop_target(size_gib: int, amount_mib: int = 64, **more: object) -> Iterator[dict]:
    """The declaration of a claimed target: an ext4 without a device model, unless `more` declares otherwise."""
    with namespace.entered(), tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/var/tmp") as place:
        spec = {
            "name": f"bench{next(numbers)}",
            "kind": "loop",
            "filesystem": "ext4",
            "size_gib": size_gib,
            "minimum_gib": 1,
            "image_dir": f"{place}/images",
            "mount_dir": f"{place}/mnt",
            "home": f"{place}/home",
            "amount_mib": amount_mib,
            **more,
        }
        claim.create(spec, {}, False)
        try:
            claim.claim(spec, {}, False)
            yield spec
        finally:
            claim.remove(spec, {}, False)
