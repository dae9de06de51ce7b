"""What the launcher can ask of the host side of its own machine, where that is no verb of a target (fsage.seam)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from fsage.model.counting import Job
from fsage.model.evidence.freespace import ONCE, Counting
from fsage.model.target import Spec
from fsage.model.typed import Json


class Obstacle(NamedTuple):
    """Why a capability cannot be had here: what failed, the name of its errno where there is one, what helps."""

    reason: str
    errno: str | None
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}"


class Able(NamedTuple):
    """A capability that fsage needs of a machine, what for, and why this process has it not; None: it has."""

    name: str
    purpose: str
    obstacle: Obstacle | None


class HeldTarget(NamedTuple):
    """A target that a machine holds. `what`: in words; `inventory`: its own, with which it is given back anywhere.

    `take_over`: the id of its claim, where that is known by the mark in the target alone.
    """

    name: str
    kind: str
    home: Path
    what: str
    inventory: Path | None
    take_over: str | None = None


class Local(Protocol):
    """The module fsage.host.local."""

    def inspect(self, what: str, files_at_most: int, counting: Counting = ONCE) -> Json:
        """Of a device, image, directory, text, `-`: schema, what, seconds, mounted, unread, stores: [Store.summary].

        Of a directory: the free space of the file system that it is on, and the files below it, `files_at_most` of
        them. Nothing is synchronised: what the kernel has not placed yet counts as free. `counting`: who is given each
        free extent. `mounted`: what statvfs(2) tells (bytes, free_bytes, available_bytes, inodes, free_inodes) where it
        is mounted, else None. `unread`: why no file of a directory could be read, else None. Raises ValueError.
        """

    def fragments(
        self,
        paths: Sequence[Path],
        files_at_most: int,
        worst: int,
        order: str,
        seek_ms: float | None,
        rate_mb_s: float | None,
    ) -> Json:
        """How files lie, and what defragmenting would gain (fsage.host.defragmentation.look). Raises ValueError."""

    def regular_files(self, directory: Path) -> Iterator[Path]:
        """Regular files below a directory, on its own file system only; links are not followed."""

    def source_of(self, path: Path) -> str:
        """The source of the mount on which a path lies. Raises Failure."""

    def allocator_counts(self, directory: Path) -> dict[str, int]:
        """What the allocator of a directory's file system has done, by its own counters; {}: it has none.

        Raises ValueError where they cannot be read, OSError.
        """

    def capabilities(self) -> list[Able]:
        """All that fsage may need of a machine, each tried once a process."""

    def fio(self) -> str:
        """The fio of this machine, with its place and version. Raises Refusal where it does not work."""

    def held(self, homes: Sequence[Path], declared: Sequence[Spec]) -> list[HeldTarget]:
        """The targets that this machine notes in these homes, and declared ones that have a mark without a note."""

    def why_no_loops(self) -> list[Obstacle]:
        """Why this process cannot have file systems of its own; empty when it can."""

    def lacking(self, spec: Spec) -> list[str]:
        """What this machine lacks for such a target; capabilities are only named."""

    def why_not_made(self, spec: Spec, memory_bytes: int) -> str | None:
        """Why a target cannot be made on this machine as it is now; None where it can, or is there.

        `memory_bytes`: of memory that must be available to lay something on it.
        """

    def count(self, job: Job) -> Iterator[Json]:
        """Build a job's states in memory and count files there, each as it is written. Raises Refusal, Failure.

        Of each: the keys of Wanted, `state`, `place`, `extents` or `why` there are none, what the allocator did and
        what decides how it looks, and the digest, capacity and free bytes of the state.
        """

    def why_no_model(self, kind: str) -> str | None:
        """Why this machine cannot have a device model of this kind, as it is by default; None when it can."""

    def images_missing(self, folder: str | None) -> list[str]:
        """What this machine lacks for making reports in an image of the folder."""

    def check_images(self, folder: str) -> None:
        """Raise Refusal where this machine cannot make reports in an image of the folder."""

    def machine(self) -> str:
        """What tells this machine from others that share a home, until it starts again."""

    def start_of(self, pid: int) -> int | None:
        """When a process began, in the kernel's ticks; None: there is no such process."""

    def look_in(self) -> None:
        """Be where this machine's loop targets are mounted. Raises Refusal, Failure."""

    def dead(self, holder: Mapping[str, object]) -> bool:
        """Whether the process that holds a target was one of this machine's and is gone."""

    def opened(self, place: Path | str, make: int | None = None, sticky: bool = False) -> AbstractContextManager[int]:
        """A descriptor of a directory that only this user can write (fsage.host.system.places). Raises Refusal."""

    def check_place(self, place: Path) -> None:
        """Raise Refusal for a path that others than this user and root could have prepared."""

    def packed(self) -> bytes:
        """What hosts run, as one zip."""

    def boot(self) -> tuple[str, bytes]:
        """What `python3 -c` runs on another host before it imports what hosts run, and what it then reads first."""

    def helper(self) -> bytes:
        """The program that root installs for users who measure without being root."""

    def sudo_rules(self, user: str, fsname: str | None, role: str) -> str:
        """Rules of sudoers(5) that suffice for a user on `clients` or `servers`; `fsname`: on that Lustre."""
