"""What a study's `tuning:` may name: tunables by subsystem, each with a plain value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from fsage.base.message import Unacceptable, shown

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
SWITCH = (0, 1)
OF_LUSTRE = {
    "checksums": SWITCH,
    "file_heat": SWITCH,
    "grant_shrink": SWITCH,
    "grant_shrink_interval": (1, 86400),
    "hybrid_io": SWITCH,
    "hybrid_io_read_threshold_bytes": (0, 1 << 30),
    "hybrid_io_write_threshold_bytes": (0, 1 << 30),
    "idle_timeout": (0, 3600),
    "max_dirty_mb": (1, 2047),
    "max_pages_per_rpc": (1, 16384),
    "max_read_ahead_async_active": (0, 256),
    "max_read_ahead_mb": (0, 4096),
    "max_read_ahead_per_file_mb": (0, 2048),
    "max_read_ahead_whole_mb": (0, 2048),
    "max_rpcs_in_flight": (1, 256),
    "opencache_max_ms": (0, 3_600_000),
    "opencache_threshold_count": (0, 1_000_000),
    "opencache_threshold_ms": (0, 3_600_000),
    "parallel_dio": SWITCH,
    "read_ahead_async_file_threshold_mb": (0, 4096),
    "read_ahead_range_kb": (0, 1 << 20),
    "read_ahead_step": (0, 4096),
    "short_io_bytes": (0, 65536),
    "statahead_agl": SWITCH,
    "statahead_batch_max": (0, 1024),
    "statahead_max": (0, 8192),
    "statahead_running_max": (0, 256),
    "tiny_write": SWITCH,
    "unaligned_dio": SWITCH,
    "xattr_cache": SWITCH,
}
"""The tunables of osc.* and llite.* that bear on speed and are one whole number, with the least and the most that
root's helper sets for a user. A version that lacks one has it unsupported. read_ahead_step is of the published study:
no version from 2.7 to 2.17 has it."""
KNOWN = {"a block queue": OF_QUEUE, "Lustre": OF_LUSTRE}
NAMES = (*OF_QUEUE, *OF_LUSTRE)
WORDS = r"[A-Za-z0-9][A-Za-z0-9 _-]{0,31}"  # as in `scheduler: mq-deadline` or `write_cache: write through`
LARGEST = 2**63 - 1


def check(tuning: Mapping[Any, object]) -> None:
    """Raise Unacceptable for a name that no subsystem has, and for what is no plain value: "tuning.NAME ..."."""
    for name, value in tuning.items():
        why = invalid_because(name, value)
        if why:
            raise Unacceptable(f"tuning.{name if isinstance(name, str) and name.isidentifier() else shown(name)} {why}")


def invalid_because(name: object, value: object) -> str | None:
    """Why a tunable cannot be set; None when it can."""
    if name not in NAMES:
        near = difflib.get_close_matches(str(name)[:64], NAMES, n=1)
        return f"is no tunable that is known;{f' did you mean {near[0]!r}?' if near else ''} there are " + "; ".join(
            f"of {kind}: {', '.join(names)}" for kind, names in KNOWN.items()
        )
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return None
    if isinstance(value, str) and re.fullmatch(WORDS, value):
        return None
    return f"is {shown(value)}: a whole number, or words of letters, digits, '_' and '-', is wanted"
