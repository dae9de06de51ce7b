"""What `fsage doctor` says of kernels."""

from __future__ import annotations

from collections.abc import Sequence

from fsage.api.model import Failure, Refusal, filesystems
from fsage.api.study import Check

from .model import programs
from .model.boot import Kernel


def checks(more: Sequence[Kernel] = ()) -> list[Check]:
    """A row for each kernel, tried."""
    kernels = [*programs.here(), *more]
    if not kernels:
        return [Check("kernel", "real file systems without root", [f"none is here: {programs.HOW}"])]
    return list(map(_tried, kernels))


def _tried(kernel: Kernel) -> Check:
    try:
        release, reasons = programs.attempt(kernel)
    except (Refusal, Failure) as why:
        return Check(f"kernel {kernel.name}", str(kernel.program), [str(why)])
    good = ", ".join(name for name, why in reasons.items() if why is None)
    time = "computed rates" if programs.why_not_virtual(kernel) else "virtual seconds"
    details = [f"{good or 'no file system'} in a process, {time} of a modelled disk ({kernel.program})"]
    lacking: list[str] = []
    for name, reason in reasons.items():
        if reason:
            noted = details if filesystems.named(name).guests_only else lacking  # few kernels have those
            noted.append(f"{name}: {reason}")
    return Check(f"kernel {release}", "; ".join(details), lacking)
