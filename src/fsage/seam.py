"""The one way from the launcher's code to the host side of its own machine, where that is no verb of a target.

What a function needs is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from fsage.base import Failure, Json, Refusal
from fsage.layouts.machine import mount_of
from fsage.model.answers import Able, HeldTarget, Obstacle
from fsage.model.counting import Job
from fsage.model.target import Spec


def allocator_counts(directory: Path) -> dict[str, int]:
    """What the allocator of a directory's file system has done, by its own counters; {}: it has none.

    Raises ValueError where they cannot be read, OSError.
    """
    from fsage.host import filesystems

    try:
        mount = mount_of(directory)
        system = filesystems.like(mount.type)
        if system:
            return system.allocator_counts(mount.source)
        return {}
    except Failure as why:
        raise ValueError(str(why)) from why


def capabilities() -> list[Able]:
    """All that fsage may need of a machine, each tried once a process."""
    from fsage.host.device import models
    from fsage.host.device.capabilities import CAPABILITIES, obstacle

    every = [*CAPABILITIES, *(model.needs for model in models.every() if model.needs)]
    return [Able(capability.name, capability.purpose, obstacle(capability)) for capability in every]


def fio() -> str:
    """The fio of this machine, with its place and version. Raises Refusal where it does not work."""
    from fsage.host import containers

    why = containers.why_unusable(None)
    if why:
        raise Refusal(why)
    return containers.found()


def held(homes: Sequence[Path], declared: Sequence[Spec]) -> list[HeldTarget]:
    """The targets that this machine notes in these homes, and declared ones that have a mark without a note."""
    from fsage.host.verbs import checks

    return checks.held(homes, declared)


def why_no_loops() -> list[Obstacle]:
    """Why this process cannot have file systems of its own; empty when it can."""
    from fsage.host.device.capabilities import LOOP_TARGET, obstacles

    return obstacles(LOOP_TARGET)


def lacking(spec: Spec) -> list[str]:
    """What this machine lacks for a target; capabilities are only named."""
    from fsage.host.device import capabilities
    from fsage.host.targets import kinds

    needs = [needed.name for needed in capabilities.LOOP_TARGET if capabilities.obstacle(needed)]
    no_loops = capabilities.why_no_loops()
    missing = kinds.named(spec["kind"]).lacking(spec).missing
    return [f"needs {', '.join(needs)}" if why == no_loops else why for why in missing]


def why_not_made(spec: Spec, memory_bytes: int) -> str | None:
    """Why a target cannot be made on this machine as it is now; None where it can, or is there.

    `memory_bytes`: of memory that must be available to lay something on it.
    """
    from fsage.host.system import space
    from fsage.host.verbs import claim

    if memory_bytes > (available := space.available_bytes()):
        return f"laying it takes {memory_bytes >> 20} MiB of memory, and {available >> 20} MiB are available here"
    try:
        claim.create(spec, {}, True)
    except (Refusal, Failure) as why:
        return str(why)
    return None


def count(job: Job) -> Iterator[Json]:
    """Build a job's states in memory and count files there, each as it is written. Raises Refusal, Failure.

    Of each: the keys of Wanted, `state`, `place`, `extents` or `why` there are none, what the allocator did and
    what decides how it looks, and the digest, capacity and free bytes of the state.
    """
    from fsage.host.verbs import count

    return count.count(job)


def why_no_model(kind: str) -> str | None:
    """Why this machine cannot have a device model of this kind, as it is by default; None when it can."""
    from fsage.host.device import models

    model = models.named(kind)
    return model.unavailable_because(model.defaults)


def images_missing(folder: str | None) -> list[str]:
    """What this machine lacks for making reports in an image of the folder."""
    from fsage.host import containers
    from fsage.model.tools import ANALYSIS

    return containers.missing(folder, ANALYSIS)


def check_images(folder: str) -> None:
    """Raise Refusal where this machine cannot make reports in an image of the folder."""
    from fsage.host import containers
    from fsage.model.tools import ANALYSIS

    containers.check(folder, ANALYSIS)


def machine() -> str:
    """What tells this machine from others that share a home, until it starts again."""
    from fsage.host.targets import lease

    return lease.machine()


def start_of(pid: int) -> int | None:
    """When a process began, in the kernel's ticks; None: there is no such process."""
    from fsage.host.targets import lease

    return lease.start_of(pid)


def look_in() -> None:
    """Be where this machine's loop targets are mounted. Raises Refusal, Failure."""
    from fsage.host.system import namespace

    namespace.look_in()


def dead(holder: Mapping[str, object]) -> bool:
    """Whether the process that holds a target was one of this machine's and is gone."""
    from fsage.host.targets import lease

    return lease.dead_here(holder)


def opened(place: Path | str, make: int | None = None, sticky: bool = False) -> AbstractContextManager[int]:
    """A descriptor of a directory that only this user can write (fsage.host.system.places). Raises Refusal."""
    from fsage.host.system import places

    return places.opened(place, make, sticky)


def flush(place: Path) -> None:
    """Write out all that is dirty on the file system of a place (syncfs(2)). Raises OSError."""
    from fsage.host.system import caches

    caches.flush(place)


def check_place(place: Path) -> None:
    """Raise Refusal for a path that others than this user and root could have prepared."""
    from fsage.host.system import places

    places.check(place)


def boot() -> tuple[str, bytes]:
    """What `python3 -c` runs on another host before it imports what hosts run, and what it then reads first."""
    from fsage.host.system import library

    return library.BOOT, library.sent(library.packed())


def helper() -> bytes:
    """The program that root installs for users who measure without being root."""
    from fsage.host import sudoers

    return sudoers.program()


def sudo_rules(user: str, spec: Spec, role: str) -> str:
    """Rules of sudoers(5) that suffice for a user on the hosts of one role, `clients` or `servers`, of a target."""
    from fsage.host import helper, sudoers
    from fsage.host.targets import kinds

    of_kind = kinds.named(spec["kind"]).granted(spec, role == helper.SERVERS)
    return sudoers.rules(user, of_kind, role)
