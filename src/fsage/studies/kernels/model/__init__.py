"""What launcher and hosts both need of kernels that are programs: which are here, starting one, and keeping images."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from fsage.base import Failure

TAIL = 8
TASK = "new_file.json"
"""Input of a phase that writes one new file: its size, how it is written, and the declared device."""


def run(words: Sequence[str], place: Path | None = None) -> str:
    """What a program prints. Raises Failure with the last lines where it fails or is not here."""
    try:
        done = subprocess.run(
            words, cwd=place, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, check=False
        )
    except FileNotFoundError as error:
        raise Failure(f"{words[0]} is not here") from error
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise Failure(f"`{' '.join(words)}` ended with status {done.returncode}: {'; '.join(said[-TAIL:])}")
    return done.stdout
