"""The commands `fsage fragments` and `fsage defragment`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.text import Text

from fsage.agent.defragmentation import defragment
from fsage.agent.errors import Failure, Refusal
from fsage.agent.stores import filesystems
from fsage.agent.system import mounting
from fsage.defrag import guard
from fsage.defrag.bound import Device
from fsage.defrag.look import ORDERS, Look, summary
from fsage.defrag.rewrite import Outcome, rewrite, verify
from fsage.defrag.tables import of_look
from fsage.evidence.terminal import drawn
from fsage.text.printable import lines, printable
from fsage.text.sizes import round_size
from fsage.text.terminal import Terminal

LONGEST_S = 1_000_000


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


def rewrite_files(paths: Sequence[Path], folder: Path, time_limit_s: float, in_earnest: bool) -> int:
    """Defragment files, or say what would be done; the exit status: 0 when all of it was done. Raises ValueError."""
    if not 0 <= time_limit_s <= LONGEST_S:
        raise ValueError(f"--time-limit-s {time_limit_s}: allowed are 0 to {LONGEST_S} seconds")
    try:
        for path in paths:
            if path.exists() and (why := guard.of_place(path)):
                raise ValueError(f"{path} {why}")
        look = Look(paths, files_at_most=1 << 62)
        for one in look.in_pieces[:1]:
            defragment.tool_of(mounting.mount_of(one.path).type)
        if look.unmapped:
            print(
                f"fsage: not looked at: {look.unmapped} files, the last {printable(str(look.unmapped_last))}",
                file=sys.stderr,
            )
        if not look.in_pieces:
            print(f"nothing to do: none of {look.all.files} files is in more extents than it has to be")
        for mount in sorted({mounting.mount_of(one.path) for one in look.in_pieces}):
            if (found := filesystems.get(mount.type)) and (risk := found.risk(mount.point)):
                print(f"fsage: warning: {lines(risk)}", file=sys.stderr)
        if look.in_pieces and not in_earnest:
            _say_what_would_be_done(look)
            return 1
        good = _say(rewrite(look, folder, time_limit_s))
    except (Refusal, Failure) as error:
        raise ValueError(str(error)) from error
    except OSError as error:
        raise ValueError(f"{error.filename or folder}: {error.strerror}") from error
    if look.in_pieces:
        print(f"fsage: journal in {folder}; `fsage defragment --verify` reads its files again", file=sys.stderr)
    return 0 if good and not look.unmapped else 1


def verify_files(folder: Path) -> int:
    """Judge the files of the newest run; the exit status: 0 when all are whole. Raises ValueError."""
    try:
        return 0 if _say(verify(folder)) else 1
    except (Failure, OSError) as error:
        raise ValueError(str(error)) from error


def _say_what_would_be_done(look: Look) -> None:
    touched, largest = 0, {}
    for one in look.in_pieces:
        path = one.path.absolute()
        if why := guard.why_not(path):
            print(f"{printable(str(path))}: would not be touched: it {why}")
            continue
        touched += 1
        mount = mounting.mount_of(path)
        if mount not in largest:
            largest[mount] = defragment.largest_free_bytes(mount.type, path)
        command = " ".join(defragment.tool_of(mount.type).command)
        print(f"{printable(str(path))}: {one.file.extents} extents, {round_size(one.file.bytes)}: `{command}`")
        if (longest := largest[mount]) is not None and longest < one.file.bytes:
            print(f"  the longest free run has {round_size(longest)}: it will stay in several extents")
    print(
        f"fsage: nothing was changed. With --yes-rewrite-my-data {touched} files are rewritten in place, one after "
        "another, each compared with itself before (SHA-256)",
        file=sys.stderr,
    )


def _say(outcomes: Iterable[Outcome]) -> bool:
    """Print outcomes as they come; whether all are good."""
    good = True
    for outcome in outcomes:
        print(f"{printable(str(outcome.path))}: {lines(outcome.words)}", flush=True)
        good = good and outcome.good
    return good
