"""Defragmenting with each file system's own tool (xfs_fsr, e4defrag, `btrfs filesystem defragment`) or by ranges.

The tool gets one file at a time, that with most extents first, so that a time limit can be kept. The file's extents
before and after show the result, for xfs_fsr ends with status 0 whatever it did. xfs_fsr and e4defrag copy a file into
a temporary one, whose name they remove at once, and have the kernel exchange the extents of both. btrfs writes the
file anew in place. A kill at any moment does not change the content of a file.

Ranges of a file are made contiguous by the file system's own call, each atomically. A contiguous range stays where it
is. Each call moves or exchanges extents under the file system's journal; btrfs writes them anew, and never overwrites
data. So a kill at any moment leaves the content as it was. The donor of new blocks is a file without a name, which
ends with its process. The calls are the file systems' own (Mover).
"""

from __future__ import annotations

import contextlib
import errno
import os
import pty
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fsage.api.host import Mover, caches, filesystems, kernel
from fsage.api.model import BLOCK_BYTES, Failure, Json, Refusal
from fsage.api.model import filesystems as known
from fsage.layouts import fiemap, fragmentation, machine
from fsage.layouts.filesystems import Defragmenter
from fsage.layouts.fragmentation import Extent, Fragmentation
from fsage.layouts.freespace import Counting
from fsage.layouts.machine import regular_files

Range = tuple[int, int]
CLOCK_S = 0.02  # by which a file's times may lag behind the clock
TERMINAL_CODES = re.compile(r"\033\[[0-9;]*[A-Za-z]")


def tool_of(filesystem: str) -> Defragmenter:
    """The tool that defragments files of this file system. Raises Refusal without one, or if it is not installed."""
    system = filesystems.get(filesystem)
    if not system or not (tool := system.defragmenter):
        able = ", ".join(name for name in known.names() if filesystems.named(name).defragmenter)
        raise Refusal(f"files of {filesystem} cannot be defragmented; those of {able} can")
    if not shutil.which(tool.command[0]):
        raise Refusal(
            f"{tool.command[0]}: no such program on {os.uname().nodename}; install {tool.package} (apt or dnf)"
        )
    return tool


def version_of(tool: Defragmenter) -> str:
    """The tool's own version line."""
    output = _call(tool.version_command, None).stdout
    if output.strip():
        return output.strip().splitlines()[0]
    return "unknown"


def defragment(paths: Sequence[Path], filesystem: str, time_limit_s: float) -> dict[str, object]:
    """Defragment chosen files, and all below directories (a mount: the whole file system), worst first.

    Returns filesystem, tool, version, time_limit_s, seconds (in all), and:

    - `largest_free_bytes`: the longest free run before it began; None where it cannot be read;
    - `before` and `after`: Fragmentation.summary of all files;
    - `moved_bytes`;
    - `files`: `of_file` of each file that had more extents than it needs;
    - `left`: a sentence for each file that still has.

    The time limit holds for the tools, not for reading extents before and after. A tool that reaches it is killed, and
    ends when the kernel has completed its present call (ext4: moved an extent). Raises Refusal, Failure.
    """
    tool = tool_of(filesystem)
    began = time.monotonic()
    total = fragmentation.NONE
    fragmented = []
    for path, pieces in _pieces(paths):
        counted = fragmentation.of_file(pieces)
        total = total.plus(counted)
        if counted.excess:
            fragmented.append((counted, path))
    fragmented.sort(key=lambda file: (-file[0].excess, file[1]))
    largest = largest_free_bytes(filesystem, paths[0]) if fragmented else None
    deadline = time.monotonic() + time_limit_s
    files = [of_file(path, filesystem, deadline - time.monotonic(), largest) for _, path in fragmented]
    after = total
    for file, (was, _) in zip(files, fragmented):
        after = after.plus(was, -1).plus(was._replace(extents=file["extents_after"]))
    return {
        "filesystem": filesystem,
        "tool": tool.command[0],
        "version": version_of(tool),
        "time_limit_s": time_limit_s,
        "seconds": time.monotonic() - began,
        "largest_free_bytes": largest,
        "before": total.summary(),
        "after": after.summary(),
        "moved_bytes": sum(file["moved_bytes"] for file in files),
        "files": files,
        "left": [f"{file['path']}: {file['left']}" for file in files if file["left"]],
    }


def of_file(path: Path, filesystem: str, time_limit_s: float, largest_free_bytes: int | None) -> Json:
    """Defragment one file within a time limit. Raises Failure where the file has vanished.

    Returns path, bytes (that have a place), extents_before, ideal_extents, extents_after, moved_bytes, command,
    seconds, `said` (the tool's output), and:

    - `status`: the tool's exit status; negative: the signal that killed it; None: there was no time to call it;
    - `left`: why the file still has more extents than it needs; None when it has not.
    """
    command = [*tool_of(filesystem).command, os.path.abspath(path)]  # or a name with a dash would be an option
    try:
        before = fiemap.extents(path)
        done = None
        began = time.monotonic()
        if time_limit_s > 0 and fragmentation.of_file(before).excess:
            # With the pages in memory the kernel (6.18) moves ext4's extents page by page, with a commit of the journal
            # for each: 2 MiB a second instead of 70, and nothing ends that call before it has moved a whole extent of
            # up to 128 MiB.
            caches.give_up(path)
            since_s = time.time()
            try:
                done = _call(command, time_limit_s)
            finally:
                if done is None or done.returncode < 0:
                    clear_temporaries(path, filesystem, since_s)
        seconds = time.monotonic() - began
        after = fiemap.extents(path) if done else before
    except OSError as error:
        raise Failure(f"{path}: its extents cannot be told: {error.strerror}") from error
    was = fragmentation.of_file(before)
    now = fragmentation.of_file(after)
    output = _words(done)
    return {
        "path": str(path),
        "bytes": was.bytes,
        "extents_before": was.extents,
        "ideal_extents": was.ideal_extents,
        "extents_after": now.extents,
        "moved_bytes": fragmentation.moved_bytes(before, after),
        "command": command,
        "status": done.returncode if done else None,
        "seconds": seconds,
        "said": output,
        "left": _left(now, done, output, largest_free_bytes, time_limit_s),
    }


def largest_free_bytes(filesystem: str, path: Path) -> int | None:
    """The longest run of free bytes in the file system that holds `path`; None where it cannot be read."""
    mount = machine.mount_of(path)
    store = filesystems.named(filesystem).of_mount(mount.source, Path(mount.point), Counting(bins=1))
    extents = store.found.get("free_extents")
    if extents:
        return extents["largest_bytes"]
    return None


def clear_temporaries(path: Path, filesystem: str, since_s: float) -> list[str]:
    """Remove what the tool left beside a file if it was killed between making a temporary file and removing its name.

    That is an empty file of a certain name, made since `since_s` (seconds of Unix time). Returns what was removed.
    """
    system = filesystems.get(filesystem)
    removed = []
    for name in map(path.with_name, system.temporaries(path) if system else ()):
        with contextlib.suppress(FileNotFoundError):
            stat = os.lstat(name)
            if not stat.st_size and stat.st_ctime >= since_s - CLOCK_S:
                os.unlink(name)
                removed.append(str(name))
    return removed


def _pieces(paths: Sequence[Path]) -> Iterator[tuple[Path, list[Extent]]]:
    """Each file once, with its extents: the given files, and all below given directories. Raises Failure, OSError."""
    seen: set[tuple[int, int]] = set()
    for given in paths:
        below = given.is_dir()
        for path in regular_files(given) if below else (given,):
            try:
                stat = os.stat(path)
                if (stat.st_dev, stat.st_ino) not in seen:
                    seen.add((stat.st_dev, stat.st_ino))
                    yield path, fiemap.extents(path)
            except OSError as error:
                if not (below and error.errno == errno.ENOENT):
                    raise Failure(f"{path}: its extents cannot be told: {error.strerror}") from error


def _call(argv: Sequence[str], time_limit_s: float | None) -> subprocess.CompletedProcess[str]:
    """Run a tool, which is killed when its time is over.

    Its standard input is a terminal: without one xfs_fsr speaks to syslog alone. Descriptors that are inheritable go
    along, so that a lock that the caller has made so is held until the tool has ended too.
    """
    ours, its = pty.openpty()
    with kernel.closing(ours), kernel.closing(its):
        process = subprocess.Popen(
            argv,
            stdin=its,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
            close_fds=False,
        )
        try:
            output, _ = process.communicate(timeout=time_limit_s)
        except BaseException as error:
            process.kill()
            output, _ = process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
    return subprocess.CompletedProcess(argv, process.returncode, output)


def _words(done: subprocess.CompletedProcess[str] | None) -> str:
    """The tool's output, without codes that move a cursor."""
    if done:
        lines = TERMINAL_CODES.sub("\n", done.stdout).splitlines()
    else:
        lines = []
    return "; ".join(line.strip() for line in lines if line.strip())


def _left(
    now: Fragmentation,
    done: subprocess.CompletedProcess[str] | None,
    output: str,
    largest_free_bytes: int | None,
    time_limit_s: float,
) -> str | None:
    """Why a file still has more extents than it needs."""
    if not now.excess:
        return None
    still = f"in {now.extents} extents, of {now.ideal_extents} that it needs"
    if done is None:
        return f"{still}: not begun, the time was over"
    if done.returncode < 0:
        return f"{still}: stopped after {time_limit_s:.1f} s, when the time was over"
    if largest_free_bytes is not None and largest_free_bytes < now.bytes:
        return f"{still}: of {now.bytes} bytes, and no free run was longer than {largest_free_bytes}"
    return f"{still}; the tool ended with status {done.returncode} and said: {output or 'nothing'}"


def hot(size: int, hot_bytes: int, every_bytes: int) -> list[Range]:
    """The ranges of a file of which the first `hot_bytes` of each `every_bytes` are read."""
    return [(begin, min(begin + hot_bytes, size)) for begin in range(0, size, every_bytes)]


def defragment_ranges(path: Path, filesystem: str, ranges: Sequence[Range], time_limit_s: float) -> dict[str, object]:
    """Make each fragmented range contiguous.

    Returns the keys of `defragment` except `files`, and ranges, ranges_moved, range_bytes,
    `ranges_before` and `ranges_after` (extents of the ranges, added up). Raises Refusal where the file system or the
    kernel has no such call, and Failure.
    """
    mover = _mover_of(filesystem)
    began = time.monotonic()
    left = []
    moved = 0
    try:
        caches.give_up(path)
        before = fiemap.extents(path)
        with kernel.opened(path, os.O_RDWR) as descriptor:
            for part in ranges:
                within = _within(before, part)
                if not within.excess:
                    continue
                if time.monotonic() - began > time_limit_s:
                    left.append(f"{path}: from byte {part[0]} on not begun, the time was over")
                    break
                why = _move(mover, path, descriptor, part, within.extents)
                if why:
                    left.append(f"{path}: {why}")
                else:
                    moved += 1
            os.fsync(descriptor)
        after = fiemap.extents(path)
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EOPNOTSUPP):
            raise Refusal(_lacking_for_ranges(mover)) from error
        raise Failure(f"{mover.name} of {path}: {error.strerror}") from error
    return {
        "filesystem": filesystem,
        "tool": mover.name,
        "version": f"Linux {os.uname().release}",
        "time_limit_s": time_limit_s,
        "seconds": time.monotonic() - began,
        "before": fragmentation.of_file(before).summary(),
        "after": fragmentation.of_file(after).summary(),
        "moved_bytes": fragmentation.moved_bytes(before, after),
        "left": left,
        "ranges": len(ranges),
        "ranges_moved": moved,
        "range_bytes": sum(end - begin for begin, end in ranges),
        "ranges_before": sum(_within(before, part).extents for part in ranges),
        "ranges_after": sum(_within(after, part).extents for part in ranges),
    }


def _within(extents: Sequence[Extent], part: Range) -> Fragmentation:
    """The fragmentation of a range of a file."""
    begin, end = part
    inside = []
    for extent in extents:
        first = max(extent.logical, begin)
        last = min(extent.logical + extent.length, end)
        if first < last:
            place = extent.physical + first - extent.logical
            inside.append(Extent(first, place, last - first, extent.unwritten))
    return fragmentation.of_file(inside)


def _move(mover: Mover, path: Path, descriptor: int, part: Range, extents: int) -> str | None:
    """Move a range; why it was not moved, where free space has no longer run. Raises OSError."""
    if not mover.donor:
        mover.move(descriptor, -1, part)
        return None
    begin = part[0]
    length = -(-(part[1] - begin) // BLOCK_BYTES) * BLOCK_BYTES
    with kernel.opened(path.parent, os.O_RDWR | os.O_TMPFILE) as donor:
        os.posix_fallocate(donor, begin, length)
        offered = fragmentation.of_file(fiemap.extents(f"/proc/self/fd/{donor}")).extents
        if offered >= extents:
            return f"bytes {begin} to {part[1]} stay in {extents} extents: free space would give {offered}"
        mover.move(descriptor, donor, (begin, begin + length))
    return None


def _mover_of(filesystem: str) -> Mover:
    system = filesystems.get(filesystem)
    if not system or not system.mover:
        able = ", ".join(name for name in known.names() if filesystems.named(name).mover)
        raise Refusal(f"{filesystem} has no call that moves a range of a file; {able} have")
    return system.mover


def _lacking_for_ranges(mover: Mover) -> str:
    uname = os.uname()
    return f"{mover.name} is not to be had on {uname.nodename} (Linux {uname.release}): {mover.wants}"
