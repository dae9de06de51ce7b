"""The command `fsage fragments`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from fsage.defrag.bound import Device
from fsage.defrag.look import ORDERS, Look, summary
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
    if order not in ORDERS:
        raise ValueError(f"--by {order}: no such order; there are {', '.join(ORDERS)}")
    look = Look(paths, files_at_most)
    found = summary(look, _device(look, seek_ms, rate_mb_s), worst, order)
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


def _device(look: Look, seek_ms: float | None, rate_mb_s: float | None) -> Device | str:
    """The model's two numbers: given, or measured; or why there are none."""
    for name, value in (("--seek-ms", seek_ms), ("--rate-mb-s", rate_mb_s)):
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"{name} {value}: allowed is a number above 0")
    if seek_ms is not None and rate_mb_s is not None:
        return Device(seek_ms / 1e3, rate_mb_s * 1e6, "given")
    if not look.in_pieces:
        return "no file is in more extents than it has to be"
    try:
        device = look.longest.measure()
    except ValueError as error:
        return f"{error}; give --seek-ms and --rate-mb-s"
    if seek_ms is not None:
        return Device(seek_ms / 1e3, device.bytes_per_s, f"seek given; transfer {device.source}")
    if rate_mb_s is not None:
        return Device(device.seek_s, rate_mb_s * 1e6, f"transfer given; seek {device.source}")
    return device
