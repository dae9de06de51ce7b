"""The command `fsage fragments`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from fsage import seam
from fsage.defrag.tables import of_look
from fsage.evidence.terminal import drawn
from fsage.text.terminal import Terminal


def fragments(
    paths: Sequence[Path],
    worst: int,
    order: str,
    seek_ms: float | None,
    rate_mb_s: float | None,
    as_json: bool,
    files_at_most: int,
) -> None:
    """Look at files and print what was found. Raises ValueError."""
    found = seam.here().fragments(paths, files_at_most, worst, order, seek_ms, rate_mb_s)
    if as_json:
        print(json.dumps(found, indent=1))
        return
    console = Terminal()
    for table in of_look(found):
        console.print(Text(table.title, "bold"))
        console.print(drawn(table))
    for one in found["commands"]:
        gain = "" if one["gain_s_at_most"] is None else f", which would gain {one['gain_s_at_most']:.3g} s at most"
        console.print(f"To defragment {one['files']} of these files on {one['filesystem']}{gain}; nothing was changed:")
        if one["risk"]:
            console.print(f"Warning: {one['risk']}")
        console.print(one["command"], soft_wrap=True)
