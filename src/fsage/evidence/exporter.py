"""Layouts for monitoring: read within a time limit and at low priority, written for the node exporter's collector.

`fsage evidence --openmetrics` calls it; on servers, which have nothing of fsage, it runs from a file (`program`):

    python3 fsage-evidence.pyz --to FILE.prom --time-limit 600 --nice 19 SOURCE ...
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fsage import seam
from fsage.evidence import metrics
from fsage.model.errors import Failure
from fsage.model.evidence.counting import Counting
from fsage.model.message import printable

NICEST = 19


class TimeUp(Exception):
    """The time limit is over. No error of a file system, which readers take for an answer."""


def export(sources: Sequence[str], to: Path | None, limit_s: float, niceness: int, files: int) -> list[str]:
    """Print or write the metrics of mounts, devices or other sources; return a sentence for each that was not read.

    `limit_s`: for each source. `files`: look at so many files below a mount; 0, and none is. Raises ValueError where
    the file cannot be written.
    """
    os.nice(max(0, niceness - os.getpriority(os.PRIO_PROCESS, 0)))
    found, failed = [], []
    for source in sources:
        began, store = time.monotonic(), None
        device = device_of(source)
        try:
            store = _read(source, limit_s, files)
        except ValueError as error:
            failed.append(str(error))
        found.append(metrics.Watched(device, store, time.monotonic() - began, time.time()))
    content = metrics.text(found)
    if to is None:
        sys.stdout.write(content.decode())
    else:
        _write(to, content)
    return failed


def device_of(source: str) -> str:
    """The label of a source: the device behind a mount, a device itself, what else there is by its kind.

    Names of folders and files stay here.
    """
    try:
        kind = os.stat(source).st_mode
        if stat.S_ISDIR(kind):
            return printable(seam.here().source_of(Path(source)))
    except (OSError, Failure):
        return printable(source) if source.startswith("/dev/") else "none"
    return printable(source) if stat.S_ISBLK(kind) else "file"


def _read(source: str, limit_s: float, files: int) -> dict[str, Any]:
    """The store's summary. Raises ValueError, one sentence."""
    try:
        with _limited(limit_s):
            (store,) = seam.here().inspect(source, files, Counting(bins=1))["stores"]  # no metric is of places
    except TimeUp:
        raise ValueError(f"{source}: not read within {limit_s:g} s (--time-limit)") from None
    if not store["free_extents"]:
        raise ValueError(f"{source}: how free space lies is not known: {store['absent']['free_extents']}")
    found: dict[str, Any] = store
    return found


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise TimeUp in the middle of whatever is done after so long."""

    def over(*_: object) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _write(path: Path, content: bytes) -> None:
    """Put a file in its place at once: the collector sees the one before or this one. Raises ValueError."""
    temporary = None
    try:
        # Made anew under a name that nobody knows before, and that is no *.prom: no link of others is followed.
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".fsage-", delete=False) as file:
            temporary = file.name
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise ValueError(f"{path}: {error.strerror}; the metrics were not written") from error


def main(words: Sequence[str] | None = None) -> int:
    """The program. Exit code 1: a source was not read, or nothing could be written."""
    parser = argparse.ArgumentParser(prog="fsage-evidence", description=__doc__, allow_abbrev=False)
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="a mount or a device")
    parser.add_argument("--to", type=Path, help="the file, *.prom in the collector's folder; default: print")
    parser.add_argument("--time-limit", type=float, default=600, metavar="S", help="for each source")
    parser.add_argument("--nice", type=int, default=NICEST, choices=range(NICEST + 1))
    parser.add_argument("--files", type=int, default=0, help="look at so many files; default: at none")
    given = parser.parse_args(words)
    if given.time_limit <= 0 or given.files < 0:
        parser.error("--time-limit is a number of seconds above 0, and --files a number of files from 0 on")
    try:
        failed = export(given.sources, given.to, given.time_limit, given.nice, given.files)
    except ValueError as error:
        failed = [str(error)]
    for one in failed:
        print(printable(f"fsage: {one}"), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
