"""Layouts for monitoring: read within a time limit and at low priority, written for the node exporter's collector.

`fsage evidence --openmetrics` calls it, on servers too (fsage.evidence.server).
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fsage import seam
from fsage.evidence import metrics
from fsage.model.errors import Failure
from fsage.model.evidence.counting import Counting
from fsage.model.message import printable


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


def _read(source: str, limit_s: float, files: int) -> dict[str, object]:
    """The store's summary. Raises ValueError, one sentence."""
    try:
        with _limited(limit_s):
            (store,) = seam.here().inspect(source, files, Counting(bins=1))["stores"]  # no metric is of places
    except TimeUp:
        raise ValueError(f"{source}: not read within {limit_s:g} s (--time-limit)") from None
    if not store["free_extents"]:
        raise ValueError(f"{source}: how free space lies is not known: {store['absent']['free_extents']}")
    found: dict[str, object] = store
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
