"""Slurm's partitions: whether those that a profile names are there."""

from __future__ import annotations

import subprocess

from fsage.study.study import StudyError


def check(names: str) -> None:
    """Raises StudyError unless Slurm has all partitions of `names` (separated by commas)."""
    known = _known()
    if unknown := [name for name in names.split(",") if name not in known]:
        raise StudyError(
            f"Slurm has no partition {', '.join(unknown)}; it has {', '.join(known) or 'none'}: name one as "
            "slurm_partition in profiles/slurm/config.yaml; nothing was touched"
        )


def _known() -> list[str]:
    command = ["sinfo", "--noheader", "--all", "--format=%R"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise StudyError("sinfo: no such program here: --profile slurm is for a host that submits to Slurm") from None
    if ran.returncode:
        raise StudyError(f"`{' '.join(command)}`: {ran.stderr.strip()}; nothing was touched")
    return sorted(set(ran.stdout.split()))
