"""How the free space of a mounted file system lies."""

from __future__ import annotations

from pathlib import Path

from fsage.host.stores import filesystems
from fsage.model import filesystems as model
from fsage.model.errors import Failure
from fsage.model.evidence.counting import ONCE, Counting
from fsage.model.evidence.store import OF_DEVICE, Store, without


def of_mount(filesystem: str, device: str, mount: Path, counting: Counting = ONCE) -> Store:
    """The free space of a mounted file system; what cannot be told is absent, with the reason.

    Nothing is synchronised: what the kernel has not placed yet counts as free.
    """
    system = filesystems.like(filesystem)
    try:
        if system:
            return system.free_space(device, mount, counting)
        reason = f"of {filesystem} no free space is read; only of {model.titles()}"
    except ValueError as error:  # an extent that lies in another, or before it
        reason = f"it was written to while it was read, and what was read cannot be ({error}); ask again"
    except (OSError, Failure) as error:
        reason = str(error)
    return Store(filesystem, {}, {}, without(OF_DEVICE, reason))
