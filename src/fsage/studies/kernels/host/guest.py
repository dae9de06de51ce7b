"""The guest's first and only process: `python -m fsage.studies.kernels.host.guest FOLDER`.

It does each piece of work in FOLDER/work.json, adds a line to FOLDER/answers.jsonl, and halts the kernel. As it is
process 1 in every guest, what ext4 chooses by the process id is the same each time (ext4_inode_to_goal_block).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

from fsage.host.kinds.loop import HASH_SEED
from fsage.host.stores import filesystems
from fsage.host.system import libc, mounting
from fsage.model.errors import Failure, Refusal
from fsage.model.typed import Json

POWER_OFF = 0x4321FEDC  # reboot(2)
TRIAL_BYTES = 4 << 20


def tried(job: Json, device: str, point: Path) -> Json:
    """Whether a file system can be made and mounted, and gives back what was written."""
    name = job["filesystem"]
    if not filesystems.is_known_here(name):
        return {"why_not": "the kernel does not know it"}
    filesystems.make(name, device, str(uuid.uuid4()), HASH_SEED, sparse=True)
    content = os.urandom(TRIAL_BYTES)
    filesystems.mount(name, device, point)
    with open(point / "file", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    filesystems.remount(name, device, point)
    good = (point / "file").read_bytes() == content
    return {"why_not": None if good else "it gave back other bytes than were written"}


WORK: dict[str, Callable[[Json, str, Path], Json]] = {"try": tried}


def main(folder: Path) -> None:
    """Do all, and halt."""
    for kind, place in (("proc", "/proc"), ("sysfs", "/sys")):
        mounting.mount_call(kind, place, kind, 0, "")
    point = folder / "mnt"
    point.mkdir()
    for job in json.loads((folder / "work.json").read_text(encoding="utf-8")):
        try:
            answer = WORK[job["do"]](job, f"/dev/ubd{'abcdefgh'[job['disk']]}", point)
        except (Failure, Refusal, OSError, ValueError) as why:
            answer = {"error": str(why)}
        with contextlib.suppress(Failure):
            mounting.unmount(point)
        with open(folder / "answers.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"kernel": os.uname().release, **answer}) + "\n")
    os.sync()
    libc.library.reboot(POWER_OFF)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
