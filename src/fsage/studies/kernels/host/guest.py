"""The guest's first and only process: `python -m fsage.studies.kernels.host.guest FOLDER KERNEL`.

It does each piece of work in FOLDER/work.json, adds a line to FOLDER/answers.jsonl, and halts the kernel. As it is
process 1 in every guest, what ext4 chooses by the process id is the same each time (ext4_inode_to_goal_block). KERNEL
is the program that runs, beside which its modules may be.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from fsage.api.host import guests
from fsage.api.model import Failure, Json, in_words

from ..model import MOUNTS
from ..model.programs import module_places
from . import PLACES, provide
from .uml import Uml

IMAGES = Path("/dev/images")
"""Where a guest sees images as files: they may lie in the /dev/shm of this machine, which its own /dev hides."""
GUEST = guests.Guest(Uml, Path(MOUNTS))


def device_of(job: Json) -> str:
    """The disk of a piece of work: one of the guest's, or where time is virtual the image itself, from this machine."""
    if "image" not in job:
        return f"/dev/ubd{'abcdefgh'[job['disk']]}"
    image = Path(job["image"])
    if not IMAGES.exists():
        GUEST.see(str(image.parent), IMAGES)
    return str(IMAGES / image.name)


def answer_to(job: Json) -> Json:
    """Do a piece of work, with the modules that it needs."""
    try:
        provide(job["filesystem"])
        device = device_of(job)
    except (Failure, OSError) as why:
        return {"error": in_words(why)}
    return GUEST.do(job, device)


def main(folder: Path, kernel: Path) -> None:
    """Do all, and halt."""
    GUEST.begin()
    PLACES.extend(module_places(kernel, os.uname().release))
    for job in json.loads((folder / "work.json").read_text(encoding="utf-8")):
        answer = answer_to(job)
        with open(folder / "answers.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"kernel": os.uname().release, **answer}) + "\n")
    GUEST.end()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
