"""What runs in a guest, on its own kernel.

Its modules are loaded here: file systems and schedulers that the distribution does not build in.
"""

from __future__ import annotations

import ctypes
import errno
import lzma
import os
from pathlib import Path

from fsage.api.model import Failure

from ..model.programs import module_files

PLACES: list[Path] = []
"""Folders with modules of the kernel that runs this process; none where it is no guest."""
LIBRARY = ctypes.CDLL(None, use_errno=True)
INIT_MODULE = 175  # init_module(2) on x86_64


def provide(name: str) -> None:
    """Load a module with those that it needs, where the kernel came with it. Raises Failure."""
    for place in PLACES:
        for path in module_files(place, name):
            content = path.read_bytes()
            if path.suffix == ".xz":
                content = lzma.decompress(content)
            if LIBRARY.syscall(INIT_MODULE, content, len(content), b""):
                error = ctypes.get_errno()
                if error != errno.EEXIST:  # it is loaded
                    raise Failure(f"Linux {os.uname().release} does not load {path}: {os.strerror(error)}")
