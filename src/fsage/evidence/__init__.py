"""What `fsage evidence` adds to a layout (fsage.layouts): free extents to save, a page, a command between two looks.

Free extents are had of whatever `fsage evidence` reads, as a text of fsage and as arrays. Where a text has sizes by
class only, sizes within the classes and places are drawn. Each draw is a layout that the text could be of. What it says
is kept: how many extents each class has, and of how many bytes. Where it does not say how large the device is, that is
drawn too, from half full to 95% full.

A command between two looks is a line of JSON, whose keys stay (SCHEMA): schema, fsage, began (UTC), seconds, what,
command, exit_code, kernel, before, after, allocator. Both `before` and `after` have KEYS and verdict (the numbers that
--fail-on knows). `allocator` has by how much the file system's own counters rose. What is not known is null or left
out, and `absent` has the reason.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import fsage
from fsage import interrupt, seam
from fsage.base import Json, in_words
from fsage.base.message import check_place, printable, say, whole_file
from fsage.base.sizes import format_size
from fsage.layouts import extents
from fsage.layouts.extents import Head
from fsage.layouts.freespace import Counting
from fsage.layouts.inspect import inspect
from fsage.layouts.terminal import extents_per_file, tables, title
from fsage.layouts.verdict import verdicts

if TYPE_CHECKING:
    from fsage.figures import Figure

BUFFERED = 1 << 16
Places = npt.NDArray[np.int64]


@dataclass
class _Spool:
    """Free extents as they are read, on disk: their number does not count in memory."""

    file: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def keep(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """Take many."""
        self.file.write(np.array((starts, ends), dtype=np.int64).T.tobytes())

    def places(self) -> Places:
        """All of them, a row each: start and end."""
        self.file.flush()
        if not self.file.tell():
            return np.empty((0, 2), dtype=np.int64)
        return np.memmap(self.file, dtype=np.int64, mode="r").reshape(-1, 2)


@dataclass(frozen=True)
class Free:
    """Where a device is free: `places` has a row for each free extent, its start and end in bytes, ascending."""

    head: Head
    places: Places
    store: Json

    def pairs(self) -> Iterator[tuple[int, int]]:
        """The free extents as Python's integers."""
        for first in range(0, len(self.places), BUFFERED):
            yield from map(tuple, self.places[first : first + BUFFERED].tolist())


def read_free(what: str, seed: Sequence[int] | None = None) -> Free:
    """The free extents of a device, an image, a mount or a saved text. Raises ValueError, one sentence.

    `seed`: draw what a text of sizes does not say (`lay`); None: such a text is refused.
    """
    spool = _Spool()
    layout = inspect(what, 0, Counting(keep=spool.keep))
    (store,) = layout["stores"]
    if store["unknown_bytes"]:
        raise ValueError(f"{what}: {' '.join(store['warnings'])} Nothing of it is copied before it is repaired")
    if store["free_extents"] and not store["bitmap"] and seed:
        return Free(*lay(store, seed), store)
    if not store["free_extents"] or not store["bitmap"]:
        why = store["absent"].get("free_extents") or store["absent"].get("bitmap")
        raise ValueError(f"{what}: where free extents lie is not known: {why}")
    groups = store["groups"] or {}
    head = Head(
        store["device_bytes"],
        store["block_bytes"],
        groups.get("group_bytes") or store["device_bytes"],
        store["filesystem"],
        store["source"]["free"],
        geometry=store["geometry"],
        unlike=store["unlike"],
    )
    return Free(head, spool.places(), store)


def save_free(what: str, path: Path, seed: Sequence[int] | None = None) -> Free:
    """Write the free extents of `what` to a file, packed if its name ends so, or nothing. Raises ValueError.

    Of a text of sizes, with a `seed`, the text itself: each state draws from it anew.
    """
    check_place(path)
    free = read_free(what, seed)
    if free.head.drawn:
        if not os.path.isfile(what):
            raise ValueError(f"{what}: a text of sizes is read again for each draw: save it in a file, and name that")
        with open(what, "rb") as text, whole_file(path) as out:
            shutil.copyfileobj(text, out)
    else:
        write_free(free, path)
    return free


def write_free(free: Free, path: Path) -> None:
    """Write free extents to a file, packed if its name ends so, or nothing. Raises OSError."""
    with whole_file(path) as out:
        # The same bytes for the same layout: no name and no time in them.
        packed = gzip.GzipFile("", "wb", 1, fileobj=out, mtime=0) if path.suffix == ".gz" else out
        packed.writelines(extents.written(free.head, free.pairs()))
        packed.close()


FULL_PERCENT = (50.0, 95.0)
GROUP_BYTES = 128 << 20
DRAWS = 5
"""The fewest that give an interval."""


def lay(store: Json, seed: Sequence[int]) -> tuple[Head, Places]:
    """A device with the free extents of a Store.summary, and their starts and ends in bytes, ascending.

    Raises ValueError where so many extents do not fit on it.
    """
    random = np.random.default_rng(seed)
    block = store["block_bytes"]
    classes = [row for row in store["free_extents"]["histogram"] if row["extents"]]
    sizes = np.concatenate([_sizes(row, block, random) for row in classes])
    free = int(sizes.sum())
    blocks = (store["device_bytes"] or 0) // block
    if not blocks:
        blocks = int(free / (1 - random.uniform(*FULL_PERCENT) / 100)) + len(sizes)
    if blocks - free < len(sizes) - 1:
        raise ValueError(f"{len(sizes):,} free extents cannot lie apart in {blocks - free:,} blocks in use")
    random.shuffle(sizes)
    # Blocks in use before each extent: at least one between two, the rest cut at random.
    cuts = np.sort(random.integers(0, blocks - free - len(sizes) + 2, size=len(sizes)))
    ends = cuts + np.arange(len(sizes)) + np.cumsum(sizes)
    drawn = {"from_sizes": store["source"]["free"], "size_known": store["device_bytes"] is not None}
    head = Head(
        blocks * block, block, min(blocks * block, GROUP_BYTES), store["filesystem"], store["source"]["free"], drawn
    )
    return head, np.stack([ends - sizes, ends], axis=1) * block


def _sizes(row: Json, block: int, random: np.random.Generator) -> Places:
    """Sizes of a class in blocks: of its mean, between its bounds, and of its sum."""
    number = row["extents"]
    total = row["bytes"] // block
    low = -(-row["from_bytes"] // block)
    room = max(0, -(-2 * row["from_bytes"] // block) - 1 - low)
    share = min(1.0, max(0.0, (total / number - low) / room)) if room else 0.0
    above = random.random(number) ** ((1 - share) / share) if share else np.zeros(number)
    sizes = low + np.floor(room * above).astype(np.int64)
    while missing := total - int(sizes.sum()):
        sign = 1 if missing > 0 else -1
        own_room = low + room - sizes if missing > 0 else sizes - low
        if not own_room.any():
            own_room = np.full(number, abs(missing))
        able = random.permutation(np.flatnonzero(own_room > 0))
        step = max(1, abs(missing) // len(able))
        able = able[: abs(missing) // step]
        sizes[able] += sign * np.minimum(step, own_room[able])
    return sizes


def page(layout: Json) -> str:
    """HTML of what `fsage.layouts.inspect` found, the verdict first; the same bytes each time for the same layout."""
    import jinja2

    from fsage.figures.drawing import draw  # a second to import
    from fsage.text.shown import code

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["code"] = code
    stores = [
        {
            "title": title(store),
            "says": verdict.sentences,
            "panels": [draw(figure, f"{layout['what']}: {title(store)}").svg for figure in _figures(store)],
            "tables": list(tables(store)),
        }
        for store, verdict in zip(layout["stores"], verdicts(layout), strict=True)
    ]
    template = environment.get_template("page.html.j2")
    return template.render(what=layout["what"], seconds=layout["seconds"], stores=stores, version=fsage.__version__)


def _figures(store: Json) -> Iterator[Figure]:
    """Each plot that the store's summary is enough for."""
    from fsage.figures import Axis, Bars, Strips

    bitmap = store["bitmap"]
    if bitmap:
        yield Strips("Free space", {"": tuple(bitmap["free_share"])}, store["device_bytes"])
    if store["free_extents"] and store["free_bytes"]:
        classes = store["free_extents"]["histogram"]
        yield Bars(
            "Free space by size of its extents",
            tuple(format_size(size_class["from_bytes"]) for size_class in classes),
            {"": tuple(100 * size_class["bytes"] / store["free_bytes"] for size_class in classes)},
            Axis("size of a free extent, from (each class up to twice that)"),
            Axis("share of free bytes, %"),
        )
    groups = store["groups"]
    if groups:
        yield Bars(
            f"{groups['kind'].capitalize()}s by free share",
            tuple(bucket["label"] for bucket in groups["buckets"]),
            {"": tuple(100 * bucket["groups"] / groups["count"] for bucket in groups["buckets"])},
            Axis(f"free share of each {groups['kind']}"),
            Axis(f"share of all {groups['count']:,} groups, %"),
        )
    for name, files in (store["files"] or {}).items():
        counts = extents_per_file(files)
        yield Bars(
            f"Extents of files {name}",
            tuple(counts),
            {"": tuple(counts.values())},
            Axis("extents of a file"),
            Axis("files"),
        )


SCHEMA = 1
KEYS = ("filesystem", "device_bytes", "fullness_percent", "free_bytes", "free_extents", "files", "warnings")
NOT_FOUND = 127
NOT_RUN = "the command was not run"


def run_beside(what: str, command: Sequence[str], out: Path, files: int, folder: Path) -> int:
    """Run a command in a folder with evidence beside it, add the line to `out`, and return the command's own exit code.

    Raises ValueError before the command runs where the file system or `out` cannot be read and written.
    """
    absent: dict[str, str] = {}
    try:
        before = _look(what, files)
        counted = _counts(what, absent)
        with open(out, "a", encoding="utf-8"):  # before the command, for what it does cannot be had again
            pass
    except ValueError as why:
        raise ValueError(f"{why}; {NOT_RUN}") from why
    except OSError as error:
        raise ValueError(f"{out}: {error.strerror}; {NOT_RUN}") from error
    began = datetime.now(UTC)
    clock = time.monotonic()
    try:
        with interrupt.left_to_what_runs():
            code = subprocess.run(list(command), check=False, cwd=folder).returncode
    except OSError as error:
        absent["exit_code"] = f"{command[0]}: {error.strerror}"
        say(absent["exit_code"])
        code = NOT_FOUND
    seconds = time.monotonic() - clock
    after = None
    try:
        after = _look(what, files)
    except ValueError as why:
        absent["after"] = str(why)
    rose = {name: count - counted.get(name, 0) for name, count in _counts(what, absent).items()} if counted else None
    line = {
        "schema": SCHEMA,
        "fsage": fsage.__version__,
        "began": began.isoformat(timespec="milliseconds"),
        "seconds": seconds,
        "what": printable(what),
        "command": [printable(word) for word in command],
        "exit_code": code,
        "kernel": os.uname().release,
        "before": before,
        "after": after,
        "allocator": rose,
        "absent": absent,
    }
    text = json.dumps(line) + "\n"
    try:
        _append(out, text.encode())
    except OSError as error:
        print(text, end="", flush=True)  # what the command did cannot be had again
        ended = f"the command ended with exit code {code}, and its line stands on standard output"
        raise ValueError(f"{out}: {error.strerror}; {ended}") from error
    if code >= 0:
        return code
    return 128 - code


def _append(out: Path, line: bytes) -> None:
    """Add a line to a file, or nothing. Raises OSError."""
    with open(out, "ab", buffering=0) as file:
        written = file.write(line)
        if written < len(line):
            if os.fstat(file.fileno()).st_size == file.tell():  # nobody added a line behind it
                file.truncate(file.tell() - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _look(what: str, files: int) -> Json:
    """The layout, after what was written has been given its place."""
    os.sync()
    layout = inspect(what, files)
    (store,) = layout["stores"]
    (judged,) = verdicts(layout)
    return {**{key: store[key] for key in KEYS}, "verdict": judged.as_json()["values"]}


def _counts(what: str, absent: dict[str, str]) -> dict[str, int]:
    try:
        return seam.allocator_counts(Path(what))
    except (OSError, ValueError) as why:
        absent["allocator"] = in_words(why)
        return {}
