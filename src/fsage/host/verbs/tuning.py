"""What a study's `tuning:` may name: tunables by subsystem, each with a plain value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from fsage.host.device import queue
from fsage.host.lustre import granted
from fsage.model.message import Unacceptable, shown

KNOWN = {"a block queue": queue.KNOWN, "Lustre": granted.KNOWN}
WORDS = r"[A-Za-z0-9][A-Za-z0-9 _-]{0,31}"  # as in `scheduler: mq-deadline` or `write_cache: write through`
LARGEST = 2**63 - 1


def check(tuning: Mapping[Any, Any]) -> None:
    """Raise Unacceptable for a name that no subsystem has, and for what is no plain value: "tuning.NAME ..."."""
    for name, value in tuning.items():
        if why := why_not(name, value):
            raise Unacceptable(f"tuning.{name if isinstance(name, str) and name.isidentifier() else shown(name)} {why}")


def why_not(name: Any, value: Any) -> str | None:
    """Why a tunable cannot be set; None when it can."""
    every = [known for names in KNOWN.values() for known in names]
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
