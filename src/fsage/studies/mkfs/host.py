"""What hosts do for the step `mkfs`."""

from __future__ import annotations

import re
from collections.abc import Callable

from fsage.base import Failure, Refusal
from fsage.host.states.inspection import remove_measured
from fsage.host.structure import Work
from fsage.host.targets import claims
from fsage.host.targets.target import Target
from fsage.model.structure import Shard, Step
from fsage.studies.mkfs.model import Mkfs

USAGE = re.compile(r"^usage:", re.IGNORECASE | re.MULTILINE)
"""What an mkfs prints after its reason: all options that it has."""


def mkfs(step: Mkfs, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Make the file system anew; where mkfs or the kernel does not take the options, without them, and note why."""
    now = claims.read_token(target.mounts[0])
    notes = {"options": step.options}
    try:
        target.format(step.options)
    except (Failure, Refusal) as why:
        target.format()
        notes["unsupported"] = f"mkfs with {step.options}: {USAGE.split(str(why))[0].strip()}"
    remove_measured(target)
    if now:
        claims.write_token(target.mounts[0], now)
    return Work(0, notes)
