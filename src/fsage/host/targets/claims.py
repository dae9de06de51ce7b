"""Reading what this host keeps of a target, its claim and its images, and believing it only where it was written.

A loop target is of one host, so that its notes name that host: a copy of them elsewhere, or a home that several hosts
share, would have another host's devices and images taken for ours. The home of a directory or a Lustre target may be
shared by its clients. What a claim of these names is proved each time by the target itself: the directory's identity
and the mark in it, on Lustre also the mark of the file system.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

from fsage.host.system import files
from fsage.host.targets import kinds
from fsage.model.claim import Claim, Here, Images
from fsage.model.errors import Refusal

MACHINE_ID = Path("/etc/machine-id")
KEPT = "database"
"""The folder of a target's home in which a step keeps what it made until the target is released."""


def here() -> Here:
    """What names this host in its notes: its name, and a digest of its machine-id (machine-id(5)) where it has one."""
    named: Here = {"host": os.uname().nodename}
    with contextlib.suppress(OSError):
        # As machine-id(5) asks: what is passed on is a digest of it that is of this application alone.
        named["machine"] = hashlib.sha256(b"fsage " + MACHINE_ID.read_bytes().strip()).hexdigest()[:16]
    return named


def read(home: Path) -> Claim | None:
    """The claim of the target whose home this is, or None. `Refusal` where it was written on another host."""
    noted: Claim | None = _believed(home / "claim.json")
    return noted


def images(home: Path) -> Images | None:
    """The images that were made for it, or None. `Refusal` where another host noted them."""
    noted: Images | None = _believed(home / "images.json")
    return noted


def _believed(path: Path) -> Any:
    noted, ours = files.read_json(path), here()
    # Only targets of one host have images, and these name no kind.
    of_one_host = noted and ("kind" not in noted or kinds.named(noted["kind"]).of_one_host)
    if of_one_host and {key: noted.get(key) for key in ours} != ours:
        written = (
            " ".join(str(noted[key]) for key in ("host", "machine") if noted.get(key)) or "a host that is not named"
        )
        raise Refusal(
            f"{path} was written on {written}, and this is {' '.join(map(str, ours.values()))}; it is believed only "
            "there, and nothing was touched. Release the target there. If the file was copied here, remove it; if the "
            "home is shared by several hosts, declare one on each host's own disk as fsage_target.home"
        )
    return noted
