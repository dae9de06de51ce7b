"""A clean target: caches are dropped before a phase, and files removed after a cell.

Before a phase the caches are cold as a rule, on every host, and verified; warm where a phase wants that.
"""

from __future__ import annotations

import errno
import mmap
import os
import time
from pathlib import Path

from fsage.base import Failure, Json, Refusal, in_words
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.states.inspection import remove_measured
from fsage.host.system import caches, commands
from fsage.host.targets import Target, claims
from fsage.host.targets.directories import measured_files
from fsage.model.caches import WARM
from fsage.model.claim import READY, Token
from fsage.model.request import Phase

WARM_ATTEMPTS = 3


def made_warm(phase: Phase) -> Json:
    """Have all pages of what is read in memory. Raises Failure where some do not stay there."""
    began = time.monotonic()
    paths = list(map(Path, phase["reads_files"]))
    whole = sum(path.stat().st_size for path in paths) // mmap.PAGESIZE
    for _ in range(WARM_ATTEMPTS):
        cached = caches.cached_pages(paths)
        if cached >= whole:
            warm = {"method": "none: from memory", "metadata": WARM, "cached_names": len(paths)}
            return {**warm, "seconds": time.monotonic() - began, "cached_pages": cached}
        caches.bring_in(paths)
    raise Failure(f"{cached} of {whole} pages of what it reads are in memory, so it would not be read warm")


def made_cold(target: Target, hosts: Hosts, phase: Phase) -> Json:
    """Make the target cold on every host; what of the measured files stayed in memory (caches.left_of).

    Where umount and mount reset the allocator, they drop all that the kernel has of the file system: data, names,
    inodes, maps of extents, bitmaps. Nobody else's caches are lost, for the kernel lets a file system go only when
    nobody uses it. No file is touched from then on until the phase runs.
    """
    if phase.get("allocator") == "kept":
        kept = caches.left_of(measured_files(target.mounts))
        return {**kept, "method": "none: as the phase before left it", "seconds": 0.0}
    began = time.monotonic()
    # caches.known wants paths without symbolic links: to follow one the kernel would have to read it.
    of_state = [Path(os.path.realpath(path)) for path in phase.get("reads_files", ())]
    warm = {"cold": False, "warm": True}.get(phase.get("allocator", ""))
    if target.allocator_reset == "none" and warm is None:
        dropped = hosts.drop(target, of_state)
    else:
        try:
            files = [*measured_files(target.mounts), *of_state]
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            files = of_state  # an XFS that the phase before shut down tells no names
        mounting = target.remount(phase.get("mount_options", ""), warm)
        dropped = {**caches.left_of(files), "method": "umount and mount", "mounting": mounting}
    return {**dropped, "seconds": time.monotonic() - began}


def refuse_warm(phase: Phase, dropped: Json) -> None:
    """Raise Failure where something of what is read stayed in memory."""
    if phase.get("warm"):
        return
    if phase.get("reads") and dropped["cached_pages"]:
        raise Failure(f"{dropped['cached_pages']} pages of its files stayed in the cache")
    if dropped["metadata"] == WARM:
        raise Failure(f"{dropped['cached_names']} names of its files stayed in memory")


def remove_files(target: Target, now: Token, failed: bool) -> Token:
    """Remove the files of a cell and note that on the target; its token. Raises Failure: then the state is lost.

    Processes of a cell that failed are ended first. A file system that shut itself down after an I/O error is mounted
    anew. A client of Lustre that was evicted gets EIO once more, at the next fsync.
    """
    try:
        if failed:
            commands.end_leftover([Path(os.path.realpath(mount)) / "measured" for mount in target.mounts])
        return _removed(target, now)
    except OSError:
        try:
            target.remount()
            return _removed(target, now)
        except (OSError, Refusal) as error:
            raise Failure(in_words(error)) from error


def _removed(target: Target, now: Token) -> Token:
    remove_measured(target, now)
    return claims.token_changed(target.mounts[0], now, status=READY, cell=None)
