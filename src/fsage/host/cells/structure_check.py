"""Whether a target's structure is as a visit expects it: by all of its files, or, after that, by what the kernel tells.

To look at each file costs 6 to 25 µs, and far more over a network. So between two cells the kernel is asked whether
anybody else did anything to one (fsage.host.system.fanotify), and how much is free; where it cannot tell, a sample of
the files is looked at, all directories, and what is free. What they tell is no verdict: then all files are looked at.
They are, too, where the watch was lost, or where events were; and when a visit begins and ends.
"""

from __future__ import annotations

from typing import Literal

from fsage.host.lustre import space
from fsage.host.states.fingerprint import digest, fingerprint
from fsage.host.states.sample import Sample
from fsage.host.states.state import differs
from fsage.host.system.fanotify import FileWatch
from fsage.host.targets.target import Target
from fsage.model.token import Token

Looked = Literal["files", "events", "sample"]


class StructureCheck:
    """What a visit looks at between its cells; after it `hash` is that of the files when they were looked at last.

    `why_unwatched`: why the kernel does not tell what others do; None where it does.
    """

    def __init__(self, target: Target) -> None:
        self.target, self.hash = target, ""
        self.counted: list[str | None] = []
        self.sample: Sample | None = None
        self.why_unwatched = target.why_unwatched
        if not self.why_unwatched:
            try:
                # what is measured lies in the directory `measured`, and its events are not for us
                mounts = dict(zip(target.devices, target.mounts))
                target.watch = FileWatch(mounts, "measured")
            except OSError as error:
                self._unwatched(error)

    def differs(self, now: Token) -> tuple[str | None, Looked]:
        """What is not as the token `now` has it, and what was looked at to know."""
        if self.target.watch and self.target.watch.quiet() and self._free() == self.counted:
            return None, "events"
        if not self.target.watch and self.sample and self.sample.unseen_share and self._sample_agrees(now):
            return None, "sample"
        return self._files_differ(now), "files"

    @property
    def unseen_share(self) -> float:
        """Of the files, what a sample leaves out; 0 where there is none, or it has all."""
        return self.sample.unseen_share if self.sample else 0.0

    def whole_differs(self, now: Token) -> str | None:
        """The same of all files and of where they lie."""
        if why := self._files_differ(now):
            return why
        return None if digest(self.target.mounts)["hash"] == now.digest else "files lie elsewhere (extent digest)"

    def close(self) -> None:
        """Watch no more."""
        if self.target.watch:
            self.target.watch.close()
        self.target.watch = None

    def _files_differ(self, now: Token) -> str | None:
        if self.target.watch and self._may_watch():
            try:
                self.target.watch.arm()  # before they are looked at, so that nothing is missed
            except OSError as error:
                self._unwatched(error)
        self.sample = None if self.target.watch else Sample(now.epoch)
        prints = fingerprint(self.target, self.sample)
        if self.sample:
            self.sample.freeze(self.target.mounts)
        self.hash, self.counted = prints["hash"], prints["counted"]
        return differs(self.target, now, prints)

    def _may_watch(self) -> bool:
        """Whether a watch that begins now tells all. Where a stranger was, he may store into what he has still open.

        Not so once the file system was unmounted, as it is before each cell where that resets the allocator.
        """
        return not self.counted or self.target.allocator_reset == "remount"

    def _free(self) -> list[str | None]:
        return [self.target.free(mount).counted for mount in self.target.mounts]

    def _sample_agrees(self, now: Token) -> bool:
        """Whether nothing of what is looked at in place of all files is other than it was."""
        assert self.sample
        free = [self.target.free(mount) for mount in self.target.mounts]
        osts = {name: used for store in free for name, used in (store.osts or {}).items()}
        moved = osts and space.moved(now.osts or {}, osts, self.target.tolerance_bytes)
        return not moved and [store.counted for store in free] == self.counted and not self.sample.differs()

    def _unwatched(self, error: OSError) -> None:
        self.why_unwatched = f"fanotify: {error.strerror}"
        self.close()
