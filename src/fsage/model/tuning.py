"""What a study's `tuning:` may name: tunables by subsystem, each with a plain value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from fsage.model.message import Unacceptable, shown

PREALLOCATION = "preallocation"
"""Its key in the `tunables.json` of a target, beside those of tunables."""
OF_QUEUE = (
    "add_random",
    "discard_max_bytes",
    "io_poll",
    "io_poll_delay",
    "io_timeout",
    "iostats",
    "iostats_passthrough",
    "max_sectors_kb",
    "nomerges",
    "nr_requests",
    "read_ahead_kb",
    "rotational",
    "rq_affinity",
    "scheduler",
    "stable_writes",
    "wbt_lat_usec",
    "write_cache",
    "write_zeroes_unmap_max_bytes",
)
"""Every file there that may be written."""
OF_LUSTRE = (
    "checksums",
    "file_heat",
    "grant_shrink",
    "grant_shrink_interval",
    "hybrid_io",
    "hybrid_io_read_threshold_bytes",
    "hybrid_io_write_threshold_bytes",
    "idle_timeout",
    "max_dirty_mb",
    "max_pages_per_rpc",
    "max_read_ahead_async_active",
    "max_read_ahead_mb",
    "max_read_ahead_per_file_mb",
    "max_read_ahead_whole_mb",
    "max_rpcs_in_flight",
    "opencache_max_ms",
    "opencache_threshold_count",
    "opencache_threshold_ms",
    "parallel_dio",
    "read_ahead_async_file_threshold_mb",
    "read_ahead_range_kb",
    "read_ahead_step",
    "short_io_bytes",
    "statahead_agl",
    "statahead_batch_max",
    "statahead_max",
    "statahead_running_max",
    "tiny_write",
    "unaligned_dio",
    "xattr_cache",
)
"""What of osc.* and llite.* bears on speed and is one whole number; a version that lacks one has it unsupported.
read_ahead_step is of the published study: no version from 2.7 to 2.17 has it."""
KNOWN = {"a block queue": OF_QUEUE, "Lustre": OF_LUSTRE}
WORDS = r"[A-Za-z0-9][A-Za-z0-9 _-]{0,31}"  # as in `scheduler: mq-deadline` or `write_cache: write through`
LARGEST = 2**63 - 1


def check(tuning: Mapping[Any, object]) -> None:
    """Raise Unacceptable for a name that no subsystem has, and for what is no plain value: "tuning.NAME ..."."""
    for name, value in tuning.items():
        if why := invalid_because(name, value):
            raise Unacceptable(f"tuning.{name if isinstance(name, str) and name.isidentifier() else shown(name)} {why}")


def invalid_because(name: object, value: object) -> str | None:
    """Why a tunable cannot be set; None when it can."""
    every = [known_name for names in KNOWN.values() for known_name in names]
    if name not in every:
        near = difflib.get_close_matches(str(name)[:64], every, n=1)
        return f"is no tunable that is known;{f' did you mean {near[0]!r}?' if near else ''} there are " + "; ".join(
            f"of {kind}: {', '.join(names)}" for kind, names in KNOWN.items()
        )
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return None
    if isinstance(value, str) and re.fullmatch(WORDS, value):
        return None
    return f"is {shown(value)}: a whole number, or words of letters, digits, '_' and '-', is wanted"
