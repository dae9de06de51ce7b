"""What tells this session's targets, mounts and files from those of any other."""

from __future__ import annotations

import os

PREFIX = f"t{os.getpid()}-"
