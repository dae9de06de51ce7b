"""What runs in a guest, on its own kernel.

Its modules are loaded here: file systems and schedulers that the distribution does not build in.
"""

from __future__ import annotations

import errno
import lzma
import os
from pathlib import Path

from fsage.base import Failure
from fsage.host.system import libc
from fsage.studies.kernels.model import modules

PLACES: list[Path] = []
"""Folders with modules of the kernel that runs this process; none where it is no guest."""
INIT_MODULE = 175  # init_module(2) on x86_64


def provide(name: str) -> None:
    """Load a module with those that it needs, where the kernel came with it. Raises Failure."""
    for place in PLACES:
        for path in modules.files(place, name):
            content = path.read_bytes()
            if path.suffix == ".xz":
                content = lzma.decompress(content)
            if libc.library.syscall(INIT_MODULE, content, len(content), b""):
                error = libc.error()
                if error.errno != errno.EEXIST:  # it is loaded
                    raise Failure(f"Linux {os.uname().release} does not load {path}: {error.strerror}")
