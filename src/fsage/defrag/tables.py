"""What was found, as tables of words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fsage.evidence.tables import Table
from fsage.text.sizes import round_size


def of_look(found: dict[str, Any]) -> Iterator[Table]:
    """The tables of `fsage fragments`, from `look.summary`."""
    yield _all(found)
    yield Table(
        "Files by extents",
        ["extents", "files", "bytes"],
        [[_class(one["from_extents"]), f"{one['files']:,}", round_size(one["bytes"])] for one in found["histogram"]],
    )
    if found["worst"]:
        title = f"The worst {len(found['worst'])} of {found['files_in_pieces']:,} files in more extents than need be"
        yield Table(title, ["file", "extents", "bytes", "gain ≤", "times as fast ≤"], _worst(found))


def _all(found: dict[str, Any]) -> Table:
    every = found["all"]
    rows = [
        ["files", f"{every['files']:,}"],
        ["bytes", round_size(every["bytes"])],
        ["extents", f"{every['extents']:,}"],
        ["extents that they need", f"{every['ideal_extents']:,}"],
        ["fragmentation factor", f"{100 * every['fragmentation_factor']:.2f}%"],
    ]
    if device := found["device"]:
        rows += [
            ["a seek", f"{1000 * device['seek_s']:.3g} ms"],
            ["transfer", f"{device['bytes_per_s'] / 1e6:.4g} MB/s ({device['source']})"],
            ["reading all cold takes", f"{every['read_s_at_most']:.3g} s at most"],
            ["defragmenting would gain", f"{every['gain_s_at_most']:.3g} s at most"],
            ["", f"{device['statement']}; no forecast"],
        ]
    else:
        rows.append(["no gain is told", found["device_absent"]])
    if found["unmapped"]["files"]:
        rows.append(["not seen", f"{found['unmapped']['files']:,} files, the last {found['unmapped']['last']}"])
    if found["truncated"]:
        rows.append(["not seen", "there are more files (--files)"])
    return Table("All files", ["", ""], rows, numbers=False)


def _worst(found: dict[str, Any]) -> list[list[str]]:
    return [
        [
            one["path"],
            f"{one['extents']:,}",
            round_size(one["bytes"]),
            "-" if one["gain_s_at_most"] is None else f"{one['gain_s_at_most']:.3g} s",
            "-" if one["speedup_at_most"] is None else f"{one['speedup_at_most']:.3g}",
        ]
        for one in found["worst"]
    ]


def _class(low: int) -> str:
    return str(low) if low < 2 else f"{low}-{2 * low - 1}"
