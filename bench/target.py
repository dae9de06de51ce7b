"""A loop-backed target for benchmarks, removed in the end, and its states."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Iterator, Sequence

from fsage.host import states
from fsage.host.system import namespace
from fsage.host.verbs import claim
from fsage.model.structure import Step

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


def build(spec: dict, request: dict, steps: Sequence[Step]) -> dict[str, float]:
    """Bring a target into the state of these steps; seconds of processor time of the work of each that is due."""
    request = {"study": "bench", **request, "steps": steps}
    took = {}
    states.scrub(spec, request, False)
    for step in steps:
        if not states.begin(step.kind, spec, request, False):
            continue
        began = time.process_time()
        states.work(spec, request, step)
        took[step.kind] = time.process_time() - began
        states.end(spec, request, step)
    return took
