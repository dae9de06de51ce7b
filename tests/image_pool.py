"""Images that were written once and are lent to one target after another: most tests take less time than that.

A release wipes what was on an image, so the next target finds it as `create` leaves a new one.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from session import PREFIX

from fsage.host.device import loops
from fsage.host.targets import claims
from fsage.host.verbs import create
from fsage.model import GIB

Spec = dict[str, Any]
_numbers = itertools.count(1)


class Pool:
    """Images of this session's process, each of one GiB."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"fsage-test-{PREFIX}pool-", dir="/var/tmp"))

    def lend(self, spec: Spec) -> None:
        """Have the target created, as far as its images go: as after a reboot, no loop device is attached."""
        waiting = next(self.folder.iterdir(), None)
        if not waiting:
            create.create(spec, {}, False)
            for image in noted(spec)["images"]:
                loops.detach(image)
            return
        image = Path(spec["image_dir"], f"fsage-{spec['name']}-0.{waiting.name}.img")
        image.parent.mkdir()
        waiting.rename(image)
        identity = loops.identity(str(image))
        notes = {
            **{"schema": 1, "target": spec["name"], **claims.here(), "declared": {"stores": 1, "size_gib": 1}},
            "images": [{"image": str(image), "status": "written", "nocow": False, **(identity or {})}],
        }
        home = Path(spec["home"], spec["name"])
        home.mkdir(parents=True, mode=0o700)
        (home / "images.json").write_text(json.dumps(notes))

    def keep(self, spec: Spec) -> None:
        """Keep an image that the release of its target has left, under a second name."""
        for image in (noted(spec) or {"images": []})["images"]:
            path = Path(image["image"])
            if image.get("status") != "written" or image["bytes"] != GIB or not path.is_file():
                continue
            if path.stat().st_ino == image["ino"] and not loops.devices_of(image):
                os.link(path, self.folder / f"{next(_numbers):08x}")

    def end(self) -> None:
        """Delete them."""
        shutil.rmtree(self.folder)


def noted(spec: Spec) -> Any:
    """images.json of a target; None where it has none."""
    path = Path(spec["home"], spec["name"], "images.json")
    return json.loads(path.read_text()) if path.exists() else None
