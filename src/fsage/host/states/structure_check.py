"""Whether a target is still in its state, between two cells: by the cheapest evidence that tells.

All files are examined when a session begins and ends. That costs 6 to 25 µs a file, and far more over a network, so
between two cells cheaper evidence is used. The kernel tells whether anybody else touched a file
(fsage.host.system.fanotify), and how much space is free. Where the kernel cannot tell, the check reads a sample of the
files, all directories and the free space. A difference in any of these is no verdict: all files are examined then. So
they are after events, and after a watch that was lost.

The sample: while all files are examined, some are drawn at random and kept in memory with their stat. Later each check
examines another part of these, and every directory. A directory shows files that were made, deleted, renamed or
replaced. A file that was changed in place is missed until it is in the part that is examined.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from fsage.host.states.inspection import Seen, differs, digest, fingerprint, seen
from fsage.host.system.fanotify import FileWatch
from fsage.host.targets import Target, budget, claims
from fsage.model.claim import Token
from fsage.model.observation import Check

SIZE = 256
"""Files that one check examines: some milliseconds."""
LOOKS = 64
"""Number of parts that are kept; then the first is examined again."""

Looked = Literal["files", "events", "sample"]


class Sample:
    """A sample of all files that were added (`add`), and their directories (`freeze`)."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self.files = 0
        self._kept: list[tuple[str, Seen]] = []
        self._folders: list[tuple[str, Seen]] = []
        self._next = 0

    def add(self, path: str, state: Seen) -> None:
        """Add a file. Each is kept with the same chance (Vitter 1985, algorithm R)."""
        self.files += 1
        if len(self._kept) < SIZE * LOOKS:
            self._kept.append((path, state))
        elif (place := self._draw.randrange(self.files)) < SIZE * LOOKS:
            self._kept[place] = (path, state)

    def freeze(self, mounts: Iterable[Path]) -> None:
        """Note the directories, when all files were added."""
        self._draw.shuffle(self._kept)
        folders: list[str] = []
        for mount in mounts:
            top = mount / "filler"
            if top.is_dir():
                folders.append(str(top))
                folders += [entry.path for entry in os.scandir(top) if entry.is_dir()]
        self._folders = [(folder, seen(os.stat(folder))) for folder in folders]

    @property
    def unseen_share(self) -> float:
        """The share of the files that one check leaves out: the chance to miss a file that was changed in place."""
        if self.files:
            return max(0.0, 1 - SIZE / self.files)
        return 0.0

    def differs(self) -> bool:
        """Whether a directory, or a file of the next part, changed."""
        looked = self._kept[self._next : self._next + SIZE]
        self._next = (self._next + SIZE) % max(1, len(self._kept))
        if self._next < SIZE:
            self._next = 0
        return any(_stat_now(path) != before for path, before in (*self._folders, *looked))


def _stat_now(path: str) -> Seen | None:
    try:
        return seen(os.stat(path, follow_symlinks=False))
    except OSError:
        return None


class StructureCheck:
    """The checks of one session.

    `hash`: the fingerprint of all files when they were last examined. `why_unwatched`: why the kernel does not report
    what others do; None where it does. `osts_changed_bytes`: on Lustre, by how much the used space of any OST had
    changed since the state was built, at the last check; None where it was not looked at.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.hash = ""
        self.why: str | None = None  # how the state differed at the last check
        self.counted: list[str | None] = []
        self.osts_changed_bytes: int | None = None
        self.sample: Sample | None = None
        self.why_unwatched = target.why_unwatched
        if not self.why_unwatched:
            try:
                # the cell's own files are in the directory `measured`, whose events do not matter
                mounts = dict(zip(target.devices, target.mounts))
                target.watch = FileWatch(mounts, "measured")
            except OSError as error:
                self._unwatched(error)

    def check(self, now: Token) -> Check:
        """Compare token, epoch and structure with those of the token `now`; `why` says how they differ."""
        began = time.monotonic()
        status = claims.read_token(self.target.mounts[0])
        self.why, looked_at = self.differs(now)
        if status != now:
            self.why = "its token was replaced"
        checked: Check = {
            "state": now.state,
            "epoch": now.epoch,
            "status": status.status if status else None,
            "fingerprint": self.hash,
            "looked_at": looked_at,
            "agreed": self.why is None,
            "instance": now.instance,
            "rebuilt": False,
            "emptied_because": now.emptied_because,
            "seconds": time.monotonic() - began,
        }
        if looked_at == "sample":
            checked["unseen_share"] = self.unseen_share
        if self.osts_changed_bytes is not None:
            checked["osts_changed_bytes"] = self.osts_changed_bytes
            checked["tolerance_bytes"] = self.target.osts.tolerance_bytes
        return checked

    def differs(self, now: Token) -> tuple[str | None, Looked]:
        """How the target differs from the token `now` (None: it does not), and which evidence told that."""
        if self.target.watch and self.target.watch.quiet() and self._free() == self.counted:
            return None, "events"
        if not self.target.watch and self.sample and self.sample.unseen_share and self._sample_agrees(now):
            return None, "sample"
        return self._files_differ(now), "files"

    @property
    def unwatched(self) -> str | None:
        """Why the kernel does not report what others do to the target, and what is checked instead; None: it does."""
        why = self.why_unwatched
        if not why:
            return None
        share = self.unseen_share
        if not share:
            return f"all files were examined before each cell: {why}"
        return (
            f"a sample of the files and all directories were examined before each cell: {why}. A change of one file "
            f"is missed there with a chance of {share:.1%}; all files were examined at the end"
        )

    @property
    def unseen_share(self) -> float:
        """The share of the files that the sample leaves out; 0 without a sample, or where it has all files."""
        if self.sample:
            return self.sample.unseen_share
        return 0.0

    def whole_differs(self, now: Token) -> str | None:
        """How all files and their extents differ from the token `now`; None where they do not."""
        why = self._files_differ(now)
        if why:
            return why
        if digest(self.target.mounts)["hash"] == now.digest:
            return None
        return "files lie elsewhere (extent digest)"

    def close(self) -> None:
        """End the watch."""
        if self.target.watch:
            self.target.watch.close()
        self.target.watch = None

    def _files_differ(self, now: Token) -> str | None:
        if self.target.watch and self._may_watch():
            try:
                self.target.watch.arm()  # before the files are examined, so that no change is missed
            except OSError as error:
                self._unwatched(error)
        self.sample = None if self.target.watch else Sample(now.epoch)
        if self.sample:
            prints = fingerprint(self.target, self.sample.add)
            self.sample.freeze(self.target.mounts)
        else:
            prints = fingerprint(self.target)
        self.hash = prints["hash"]
        self.counted = prints["counted"]
        self._note(now, prints.get("osts", {}))
        return differs(self.target, now, prints)

    def _may_watch(self) -> bool:
        """Whether a watch that begins now reports every change.

        A process that had a file open before may still store into it through a mapping, which no event reports. After
        an unmount there is none: a target whose allocator is reset by a remount is unmounted before each cell.
        """
        return not self.counted or self.target.allocator_reset != "none"

    def _free(self) -> list[str | None]:
        return [self.target.free(mount).counted for mount in self.target.mounts]

    def _sample_agrees(self, now: Token) -> bool:
        """Whether the sample of files, the directories and the free space are unchanged."""
        assert self.sample
        free = list(map(self.target.free, self.target.mounts))
        osts: dict[str, int] = {}
        for store in free:
            osts |= store.osts or {}
        self._note(now, osts)
        moved = osts and budget.moved(now.osts or {}, osts, self.target.osts.tolerance_bytes)
        return not moved and [store.counted for store in free] == self.counted and not self.sample.differs()

    def _note(self, now: Token, osts: dict[str, int]) -> None:
        then = now.osts or {}
        self.osts_changed_bytes = max((abs(osts[name] - then[name]) for name in osts if name in then), default=None)

    def _unwatched(self, error: OSError) -> None:
        self.why_unwatched = f"fanotify: {error.strerror}"
        self.close()
