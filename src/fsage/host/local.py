"""What the launcher asks of the host side of its own machine (fsage.model.local); each is imported when it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from fsage.model.evidence.counting import ONCE, Counting

if TYPE_CHECKING:
    from fsage.host import local
    from fsage.model.local import Able, Local, Obstacle
    from fsage.model.target import Spec


def inspect(what: str, files_at_most: int, counting: Counting = ONCE) -> dict[str, object]:
    """As Local.inspect."""
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
    """As Local.fragments."""
    from fsage.host.defragmentation import look

    return look.fragments(paths, files_at_most, worst, order, seek_ms, rate_mb_s)


def regular_files(directory: Path) -> Iterator[Path]:
    """As Local.regular_files."""
    from fsage.host.system import files

    return files.regular_files(directory)


def source_of(path: Path) -> str:
    """As Local.source_of."""
    from fsage.host.system import mounting

    return mounting.mount_of(path).source


def capabilities() -> list[Able]:
    """As Local.capabilities."""
    from fsage.host.device.capabilities import CAPABILITIES, obstacle
    from fsage.model.local import Able

    return [Able(name, capability.purpose, obstacle(name)) for name, capability in CAPABILITIES.items()]


def why_no_loops() -> list[Obstacle]:
    """As Local.why_no_loops."""
    from fsage.host.device.capabilities import LOOP_TARGET, obstacles

    return obstacles(LOOP_TARGET)


def lacking(spec: Spec) -> list[str]:
    """As Local.lacking."""
    from fsage.host.device import capabilities
    from fsage.host.targets import kinds

    needs = [name for name in capabilities.LOOP_TARGET if capabilities.obstacle(name)]
    no_loops = capabilities.why_no_loops()
    missing = kinds.named(spec["kind"]).lacking(spec).missing
    return [f"needs {', '.join(needs)}" if why == no_loops else why for why in missing]


def why_no_model(kind: str) -> str | None:
    """As Local.why_no_model."""
    from fsage.host.device.models import KINDS

    return KINDS[kind].unavailable_because(KINDS[kind].defaults)


def images_missing(folder: str | None) -> list[str]:
    """As Local.images_missing."""
    from fsage.host import containers
    from fsage.model.tools import ANALYSIS

    return containers.missing(folder, ANALYSIS)


def check_images(folder: str) -> None:
    """As Local.check_images."""
    from fsage.host import containers
    from fsage.model.tools import ANALYSIS

    containers.check(folder, ANALYSIS)


def machine() -> str:
    """As Local.machine."""
    from fsage.host.targets import lease

    return lease.machine()


def start_of(pid: int) -> int | None:
    """As Local.start_of."""
    from fsage.host.targets import lease

    return lease.start_of(pid)


def look_in() -> None:
    """As Local.look_in."""
    from fsage.host.system import namespace

    namespace.look_in()


def dead(holder: Mapping[str, object]) -> bool:
    """As Local.dead."""
    from fsage.host.targets import lease

    return lease.dead_here(holder)


def opened(place: Path | str, make: int | None = None, sticky: bool = False) -> AbstractContextManager[int]:
    """As Local.opened."""
    from fsage.host.system import places

    return places.opened(place, make, sticky)


def check_place(place: Path) -> None:
    """As Local.check_place."""
    from fsage.host.system import places

    places.check(place)


def packed() -> bytes:
    """As Local.packed."""
    from fsage.host.system import library

    return library.packed()


def boot() -> tuple[str, bytes]:
    """As Local.boot."""
    from fsage.host.system import library

    return library.BOOT, library.sent(library.packed())


def helper() -> bytes:
    """As Local.helper."""
    from fsage.host import sudoers

    return sudoers.program()


def sudo_rules(user: str) -> str:
    """As Local.sudo_rules."""
    from fsage.host import sudoers

    return sudoers.rules(user)


if TYPE_CHECKING:
    CONFORMS: Local = local
