"""What launcher and hosts both need of kernels that are programs: which are here, starting one, and keeping images."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import ClassVar

from fsage.api.model import Device, Failure, Refusal, Spec, filesystems, kinds

TAIL = 8
TASK = "new_file.json"
"""Input of a phase that writes one new file: its size, how it is written, and the declared device."""
DEFAULTS = "defaults"
"""The mount option that changes nothing (mount(8)); the kernel does not know it."""


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


MOUNTS = "/dev/state"
HOME = "/dev/fsage"
"""In a guest's own /dev: all else that it sees belongs to whoever runs fsage."""


def is_virtual(spec: Spec) -> bool:
    """Whether its disk waits inside the guests, so that what they time are a disk's seconds."""
    declared = spec["device_model"]
    return declared is not None and Device.of(declared).is_virtual


class Uml(kinds.Loop):
    """Its file systems are mounted by a kernel that runs as a program (User Mode Linux); no root is needed.

    Its one file system is an image: made once for each state, never changed, and copied for each cell.
    """

    kind = "uml"
    takes_layouts = False
    guests = True
    drifts = False
    counts = ("allocator", "file_requests", "limits", "metadata", "new_file", "sequential")
    computes = ("file_requests", "new_file")
    """Those of them that have no seconds at all."""
    meaningless: ClassVar[tuple[str, ...]] = ("directory", "image_dir", "mount_dir", "minimum_gib", "sparse")

    @classmethod
    def filesystems(cls) -> list[str]:
        return filesystems.names(guests=True)

    @classmethod
    def complete(cls, spec: dict[str, object]) -> None:
        super().complete(spec)
        spec["stores"] = 1
        spec["sparse"] = True
        spec["mount_dir"] = MOUNTS
        declared = spec["device_model"]
        if isinstance(declared, dict) and not Device.of(declared).is_computable:
            raise Refusal(
                "fsage_target.device_model has noise or drift: where kind is uml, what a disk costs follows from where "
                "files lie; leave out noise_cov and drift_percent_per_hour"
            )

    @classmethod
    def tells_nothing(cls, spec: Spec, workload: str) -> str | None:
        if is_virtual(spec):
            if workload in cls.computes:
                return f"workload {workload} counts, and computes a rate: virtual seconds are for those that are timed"
            return None
        if workload in cls.counts:
            return None
        return (
            f"workload {workload} is timed, and a guest's seconds are not a disk's. What is counted: "
            f"{', '.join(cls.counts)}. With device_model virtual a target has a disk's seconds: --target virtual"
        )

    @classmethod
    def why_no_kernel(cls, spec: Spec, names: Collection[str]) -> str | None:
        from . import programs  # it needs what stands above

        return programs.why_absent(names, is_virtual(spec))

    @classmethod
    def destroys(cls, spec: Spec, claimed: bool) -> str:
        return "nothing: each state is an image of its own in ~/.cache/fsage/images, and no file of others is touched"
