"""Populate and fragment: which files a structure has, and making them so.

Everything follows from (percent, sizes, capacity) and (seed, generation, index), so any host can work on
its shard alone and anyone can compute afterwards what must be there.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from fsage.agent import filesystems
from fsage.agent.errors import Failure

WRITE_BYTES = 1 << 20


def fate(seed: int, generation: int, index: int) -> float:
    """The uniform number u in [0, 1) that decides over one file: it is deleted when u < BB/100."""
    key = f"{seed}:{generation}:{index}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=7).digest(), "big") / 2**56


@lru_cache(maxsize=8)
def file_sizes(percent: int, sizes_bytes: tuple[int, ...], capacity_bytes: int) -> tuple[int, ...]:
    """Sizes of the files of one generation by index: as many as fit into `percent` of the capacity.

    Several sizes are mixed in equal byte shares: the next file has the size that lags most (the first of
    equals). The sum falls short of the goal by less than one file.
    """
    goal = capacity_bytes * percent // 100
    given = [0] * len(sizes_bytes)
    made: list[int] = []
    total = 0
    while True:
        lagging = min(range(len(sizes_bytes)), key=given.__getitem__)
        size = sizes_bytes[lagging]
        if total + size > goal:
            return tuple(made)
        made.append(size)
        given[lagging] += size
        total += size


def doomed(seed: int, generation: int, percent: int, count: int) -> set[int]:
    """Indices among `count` files of a generation that `percent` fragmentation deletes."""
    return {index for index in range(count) if fate(seed, generation, index) < percent / 100}


def path_of(mounts: list[Path], generation: int, index: int) -> Path:
    """Where file `index` lies: round robin over the stores."""
    return mounts[index % len(mounts)] / "filler" / f"g{generation}" / f"{index:07d}"


def populate(
    mounts: list[Path], step: dict, capacity_bytes: int, shard: dict, go_on: Callable[[], None] = lambda: None
) -> int:
    """Make this shard's files of a populate step; return how many. Raises Failure (no space, I/O error).

    `go_on` is called before each file; what it raises ends the step.
    """
    generation = step["generation"]
    sizes = file_sizes(step["percent"], tuple(step["file_bytes"]), capacity_bytes)
    for mount in mounts:
        (mount / "filler" / f"g{generation}").mkdir(parents=True, exist_ok=True)
    make = {"fallocate": _fallocate, "write": _write}[step["method"]]
    mine = range(shard["index"], len(sizes), shard["count"])
    threads = shard.get("threads", 1)

    def work(thread: int) -> None:
        for index in mine[thread::threads]:
            go_on()
            path = path_of(mounts, generation, index)
            try:
                make(path, sizes[index])
            except OSError as error:
                raise Failure(
                    f"populating stopped at file {index + 1} of {len(sizes)} ({path}, {sizes[index]} bytes): "
                    f"{error.strerror}; asked were {step['percent']}% of {capacity_bytes} bytes"
                ) from error

    if threads == 1:
        with filesystems.one_cpu():
            work(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
    return len(mine)


def _fallocate(path: Path, size: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.posix_fallocate(fd, 0, size)
    finally:
        os.close(fd)


def _write(path: Path, size: int) -> None:
    buffer = mmap.mmap(-1, WRITE_BYTES)  # page-aligned, as O_DIRECT asks
    buffer.write(os.urandom(4096) * (WRITE_BYTES // 4096))
    whole = memoryview(buffer)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o644)
    try:
        done = 0
        while done < size:
            done += os.write(fd, whole[: min(WRITE_BYTES, size - done)])
    finally:
        os.close(fd)


def fragment(mounts: list[Path], step: dict, count: int, shard: dict, go_on: Callable[[], None] = lambda: None) -> int:
    """Delete this shard's doomed files of a generation of `count`; return how many went now. `go_on` as above."""
    gone = 0
    for index in sorted(doomed(step["seed"], step["generation"], step["percent"], count)):
        if index % shard["count"] != shard["index"]:
            continue
        go_on()
        try:
            path_of(mounts, step["generation"], index).unlink()
            gone += 1
        except FileNotFoundError:
            pass  # a smaller BB of the same generation took it before
    return gone


def expected(done: list[dict], capacity_bytes: int) -> dict[tuple[int, int], int]:
    """(generation, index) -> bytes of every file that must be there after the steps `done`."""
    files: dict[tuple[int, int], int] = {}
    for step in done:
        generation = step["generation"]
        if step["kind"] == "populate":
            sizes = file_sizes(step["percent"], tuple(step["file_bytes"]), capacity_bytes)
            files.update({(generation, index): size for index, size in enumerate(sizes)})
        else:
            count = sum(1 for key in files if key[0] == generation)
            for index in doomed(step["seed"], generation, step["percent"], count):
                files.pop((generation, index), None)
    return files


def verify(mounts: list[Path], done: list[dict], capacity_bytes: int) -> None:
    """Compare what lies on the stores with what `done` asks, by name and size; Failure names the first differences."""
    wanted = {
        path_of(mounts, generation, index): size for (generation, index), size in expected(done, capacity_bytes).items()
    }
    present = {Path(entry.path): entry.stat().st_size for mount in mounts for entry in fillers(mount)}
    missing = sorted(set(wanted) - set(present))
    extra = sorted(set(present) - set(wanted))
    wrong = sorted(path for path in set(wanted) & set(present) if wanted[path] != present[path])
    if missing or extra or wrong:
        shown = ", ".join(str(path) for path in (missing + extra + wrong)[:3])
        raise Failure(
            f"the structure is not what was asked: {len(missing)} files missing, {len(extra)} too many, "
            f"{len(wrong)} of another size; first: {shown}"
        )


def fillers(mount: Path) -> list[os.DirEntry]:
    """Directory entries of all filler files of one store, by generation and name."""
    root = mount / "filler"
    if not root.is_dir():
        return []
    return [
        entry
        for generation in sorted(os.scandir(root), key=lambda e: e.name)
        for entry in sorted(os.scandir(generation.path), key=lambda e: e.name)
    ]


def achieved(done: list[dict], capacity_bytes: int) -> list[dict]:
    """Nominal beside achieved shares of every generation, in files and in bytes."""
    shares = []
    for step in done:
        if step["kind"] == "populate":
            sizes = file_sizes(step["percent"], tuple(step["file_bytes"]), capacity_bytes)
            shares.append(
                {
                    "generation": step["generation"],
                    "capacity_percent": step["percent"],
                    "capacity_percent_achieved": 100 * sum(sizes) / capacity_bytes,
                    "files": len(sizes),
                    "bytes": sum(sizes),
                    "fragmentation_percent": 0,
                    "deleted_files": 0,
                    "deleted_share_files": 0.0,
                    "deleted_share_bytes": 0.0,
                }
            )
            made = {step["generation"]: sizes}
        else:
            sizes = made[step["generation"]]
            lost = doomed(step["seed"], step["generation"], step["percent"], len(sizes))
            shares[-1].update(
                fragmentation_percent=step["percent"],
                deleted_files=len(lost),
                deleted_share_files=len(lost) / len(sizes) if sizes else 0.0,
                deleted_share_bytes=sum(sizes[i] for i in lost) / sum(sizes) if sizes else 0.0,
            )
    return shares
