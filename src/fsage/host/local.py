"""What the launcher calls on the host side of its own machine (fsage.model.local); each is imported when called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from fsage.model.evidence.freespace import ONCE, Counting

if TYPE_CHECKING:
    from fsage.host import local
    from fsage.model.counting import Job
    from fsage.model.local import Able, HeldTarget, Local, Obstacle
    from fsage.model.target import Spec
    from fsage.model.typed import Json


def inspect(what: str, files_at_most: int, counting: Counting = ONCE) -> dict[str, object]:
    from fsage.host import inspect

    return inspect.inspect(what, files_at_most, counting)


def fragments(
    paths: Sequence[Path],
    files_at_most: int,
    worst: int,
    order: str,
    seek_ms: float | None,
    rate_mb_s: float | None,
) -> dict[str, object]:
    from fsage.host.defragmentation import look

    return look.fragments(paths, files_at_most, worst, order, seek_ms, rate_mb_s)


def regular_files(directory: Path) -> Iterator[Path]:
    from fsage.host.system import files

    return files.regular_files(directory)


def source_of(path: Path) -> str:
    from fsage.host.system import mounting

    return mounting.mount_of(path).source


def allocator_counts(directory: Path) -> dict[str, int]:
    from fsage.host.stores import filesystems
    from fsage.host.system import mounting
    from fsage.model.errors import Failure

    try:
        mount = mounting.mount_of(directory)
        system = filesystems.like(mount.type)
        return system.allocator_counts(mount.source) if system else {}
    except Failure as why:
        raise ValueError(str(why)) from why


def capabilities() -> list[Able]:
    from fsage.host.device.capabilities import CAPABILITIES, obstacle
    from fsage.model.local import Able

    return [Able(name, capability.purpose, obstacle(name)) for name, capability in CAPABILITIES.items()]


def fio() -> str:
    from fsage.host import containers
    from fsage.model.errors import Refusal

    if why := containers.why_unusable(None):
        raise Refusal(why)
    return containers.found()


def held(homes: Sequence[Path], declared: Sequence[Spec]) -> list[HeldTarget]:
    from fsage.host.verbs import held

    return held.held(homes, declared)


def why_no_loops() -> list[Obstacle]:
    from fsage.host.device.capabilities import LOOP_TARGET, obstacles

    return obstacles(LOOP_TARGET)


def lacking(spec: Spec) -> list[str]:
    from fsage.host.device import capabilities
    from fsage.host.targets import kinds

    needs = [name for name in capabilities.LOOP_TARGET if capabilities.obstacle(name)]
    no_loops = capabilities.why_no_loops()
    missing = kinds.named(spec["kind"]).lacking(spec).missing
    return [f"needs {', '.join(needs)}" if why == no_loops else why for why in missing]


def why_not_made(spec: Spec, memory_bytes: int) -> str | None:
    from fsage.host.system import memory
    from fsage.host.verbs import create
    from fsage.model.errors import Failure, Refusal

    if memory_bytes > (available := memory.available_bytes()):
        return f"laying it takes {memory_bytes >> 20} MiB of memory, and {available >> 20} MiB are available here"
    try:
        create.create(spec, {}, True)
    except (Refusal, Failure) as why:
        return str(why)
    return None


def count(job: Job) -> Iterator[Json]:
    from fsage.host.verbs import count

    return count.count(job)


def why_no_model(kind: str) -> str | None:
    from fsage.host.device.models import KINDS

    return KINDS[kind].unavailable_because(KINDS[kind].defaults)


def images_missing(folder: str | None) -> list[str]:
    from fsage.host import containers
    from fsage.model.tools import ANALYSIS

    return containers.missing(folder, ANALYSIS)


def check_images(folder: str) -> None:
    from fsage.host import containers
    from fsage.model.tools import ANALYSIS

    containers.check(folder, ANALYSIS)


def machine() -> str:
    from fsage.host.targets import lease

    return lease.machine()


def start_of(pid: int) -> int | None:
    from fsage.host.targets import lease

    return lease.start_of(pid)


def look_in() -> None:
    from fsage.host.system import namespace

    namespace.look_in()


def dead(holder: Mapping[str, object]) -> bool:
    from fsage.host.targets import lease

    return lease.dead_here(holder)


def opened(place: Path | str, make: int | None = None, sticky: bool = False) -> AbstractContextManager[int]:
    from fsage.host.system import places

    return places.opened(place, make, sticky)


def check_place(place: Path) -> None:
    from fsage.host.system import places

    places.check(place)


def packed() -> bytes:
    from fsage.host.system import library

    return library.packed()


def boot() -> tuple[str, bytes]:
    from fsage.host.system import library

    return library.BOOT, library.sent(library.packed())


def helper() -> bytes:
    from fsage.host import sudoers

    return sudoers.program()


def sudo_rules(user: str, fsname: str | None, role: str) -> str:
    from fsage.host import sudoers

    return sudoers.rules(user, fsname, role)


if TYPE_CHECKING:
    CONFORMS: Local = local
