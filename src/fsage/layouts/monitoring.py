"""Layouts as metrics of Prometheus: how large, how full, and how free space lies; no name of any file.

They are read within a time limit and at low priority, and written for the node exporter's collector.
`fsage evidence --openmetrics` calls it, on servers too (fsage.layouts.__main__).
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from fsage.base import Failure, Json, JsonView
from fsage.base.message import check_place, printable
from fsage.layouts import machine
from fsage.layouts.freespace import Counting
from fsage.layouts.inspect import inspect


class TimeUp(Exception):
    """The time limit is over. No error of a file system, which readers take for an answer."""


def export(sources: Sequence[str], to: Path | None, limit_s: float, niceness: int, files: int) -> list[str]:
    """Print or write the metrics of mounts, devices or other sources; return a sentence for each that was not read.

    `limit_s`: for each source. `files`: look at so many files below a mount; 0, and none is. Raises ValueError where
    the file cannot be written.
    """
    if to:
        check_place(to)
    os.nice(max(0, niceness - os.getpriority(os.PRIO_PROCESS, 0)))
    stores = []
    failed = []
    labels: Counter[str] = Counter()
    for source in sources:
        began = time.monotonic()
        store = None
        device = device_of(source)
        labels[device] += 1
        if labels[device] > 1:  # the collector refuses what has the labels of another
            device = f"{device} ({labels[device]})"
        try:
            store, unread = _read(source, limit_s, files)
            if unread:
                failed.append(unread)
        except ValueError as error:
            failed.append(str(error))
        stores.append(Watched(device, store, time.monotonic() - began, time.time()))
    content = text(stores)
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
            return printable(machine.mount_of(Path(source)).source)
    except (OSError, Failure):
        if source.startswith("/dev/"):
            return printable(source)
        return "none"
    if stat.S_ISBLK(kind):
        return printable(source)
    return "file"


def _read(source: str, limit_s: float, files: int) -> tuple[Json, str | None]:
    """The store's summary, and why none of its files could be read. Raises ValueError, one sentence."""
    try:
        with _limited(limit_s):
            layout = inspect(source, files, Counting(bins=1))  # no metric is of places
    except TimeUp:
        raise ValueError(f"{source}: not read within {limit_s:g} s (--time-limit)") from None
    (store,) = layout["stores"]
    if store["unknown_bytes"]:
        raise ValueError(f"{source}: {' '.join(store['warnings'])}")
    if not store["free_extents"]:
        raise ValueError(f"{source}: how free space lies is not known: {store['absent']['free_extents']}")
    return store, layout["unread"]


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


LABELS = ("device", "fstype")  # as the node exporter has them, so that its metrics can be joined
# The same bounds everywhere, or histograms could not be added up. A bucket holds what is at most its bound, and free
# extents are counted from each power of two up to below the next.
EXTENT_BOUNDS = tuple((1 << power + 1) - 1 for power in range(10, 40))
FILE_BOUNDS = tuple(1 << power for power in range(15))
BOUNDLESS = "+Inf"


class Watched(NamedTuple):
    """A store that was looked at: `found` is its Store.summary, None where it could not be read; `at` since 1970."""

    device: str
    found: JsonView | None
    seconds: float
    at: float


def text(stores: Sequence[Watched]) -> bytes:
    """All of them as OpenMetrics, which is the classic text format too: it has gauges and histograms alone."""
    content: bytes = generate_latest(_Families(stores))
    return content


class _Families(Collector):
    """What `generate_latest` asks for."""

    def __init__(self, stores: Sequence[Watched]) -> None:
        self.stores = stores

    def collect(self) -> Iterator[Metric]:
        """A family for each metric, whichever stores have it."""
        success = GaugeMetricFamily("fsage_evidence_success", "1 where the layout could be read", labels=["device"])
        seconds = GaugeMetricFamily("fsage_evidence_duration_seconds", "How long that took", labels=["device"])
        when = GaugeMetricFamily("fsage_evidence_timestamp_seconds", "When it was read", labels=["device"])
        for store in self.stores:
            success.add_metric([store.device], 0.0 if store.found is None else 1.0)
            seconds.add_metric([store.device], store.seconds)
            when.add_metric([store.device], store.at)
        yield from (success, seconds, when)
        size = GaugeMetricFamily("fsage_device_size_bytes", "Size of the device", labels=LABELS)
        unused = GaugeMetricFamily("fsage_free_bytes", "Bytes of free blocks", labels=LABELS)
        largest = GaugeMetricFamily("fsage_free_extent_largest_bytes", "The largest free extent", labels=LABELS)
        says = "Free extents by size, as they are now (no rate)"
        extents = HistogramMetricFamily("fsage_free_extent_size_bytes", says, labels=LABELS)
        says = "Files by number of extents, of the first files that were found"
        files = HistogramMetricFamily("fsage_file_extents", says, labels=LABELS)
        says = "Share of free bytes in free aligned chunks"
        chunks = GaugeMetricFamily("fsage_free_aligned_ratio", says, labels=(*LABELS, "chunk_bytes"))
        says = "Block or allocation groups by the share of each that is free"
        groups = GaugeMetricFamily("fsage_groups", says, labels=(*LABELS, "free"))
        for watched in self.stores:
            values = watched.found
            if not values:
                continue
            at = (watched.device, values["filesystem"] or "")
            free = values["free_extents"]
            if values["device_bytes"]:
                size.add_metric(at, values["device_bytes"])
            unused.add_metric(at, values["free_bytes"])
            largest.add_metric(at, free["largest_bytes"])
            sizes = {2 * size_class["from_bytes"] - 1: size_class["extents"] for size_class in free["histogram"]}
            extents.add_metric(at, _buckets(sizes, EXTENT_BOUNDS), values["free_bytes"])
            for chunk, share in (values["aligned_free_share"] or {}).items():
                if share is not None:
                    chunks.add_metric([*at, chunk], share)
            for bucket in (values["groups"] or {}).get("buckets", ()):
                groups.add_metric([*at, bucket["label"]], bucket["groups"])
            for store in (values["files"] or {}).values():
                if not store["files"]:  # none was looked at
                    continue
                numbers = {int(number): count for number, count in store["extents_per_file"].items()}
                files.add_metric(at, _buckets(numbers, FILE_BOUNDS), store["extents"])
        of_space = (size, unused, largest, extents, chunks, groups, files)
        yield from (family for family in of_space if family.samples)


def _buckets(counted: Mapping[int, int], bounds: Iterable[int]) -> list[tuple[str, float]]:
    """How many are at most each bound, and all."""
    buckets = []
    for bound in bounds:
        buckets.append((floatToGoString(bound), sum(count for at, count in counted.items() if at <= bound)))
    return [*buckets, (BOUNDLESS, sum(counted.values()))]
