"""A loop-backed target for benchmarks, in a mount namespace of its own, removed in the end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fsage.agent import claim, filesystems, images

CLONE_NEWNS, MS_REC_PRIVATE = 0x20000, (1 << 14) | (1 << 18)


@contextlib.contextmanager
def loop_target(size_gib: int, amount_mib: int = 64) -> Iterator[dict]:
    """The declaration of a claimed ext4 target without a device model."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC_PRIVATE), None):
        raise SystemExit("bench: a mount namespace of its own needs root")
    for mount in reversed(filesystems.mounts()):
        if mount.source.startswith("/dev/loop"):  # a copy would pin another target's mount
            filesystems.unmount(Path(mount.point))
    with tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/var/tmp") as place:
        spec = {
            "name": f"bench{os.getpid()}",
            "kind": "loop",
            "filesystem": "ext4",
            "size_gib": size_gib,
            "minimum_gib": 1,
            "image_dir": f"{place}/images",
            "mount_dir": f"{place}/mnt",
            "home": f"{place}/home",
            "amount_mib": amount_mib,
        }
        images.create(spec, {}, False)
        try:
            claim.claim(spec, {}, False)
            yield spec
        finally:
            images.remove(spec, {}, False)
