"""Kind `uml`: file systems that a kernel mounts which runs as a program (User Mode Linux); no root is needed."""

from __future__ import annotations

from typing import ClassVar

from fsage.model import filesystems
from fsage.model.device import Iocost
from fsage.model.errors import Refusal
from fsage.model.kinds.loop import Loop
from fsage.model.target import Spec

MOUNTS = "/dev/state"
HOME = "/dev/fsage"
"""In a guest's own /dev: all else that it sees belongs to whoever runs fsage."""


class Uml(Loop):
    """Its one file system is an image: made once for each state, never changed, and copied for each cell."""

    kind = "uml"
    takes_layouts = False
    counts = ("file_requests", "limits", "new_file", "sequential")
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
        declared = spec["device_model"] or {"kind": Iocost.kind}
        if isinstance(declared, dict) and declared["kind"] != Iocost.kind:
            raise Refusal(
                f"fsage_target.device_model.kind is {declared['kind']!r}: where kind is uml, costs are computed for "
                f"{Iocost.kind} alone"
            )

    @classmethod
    def destroys(cls, spec: Spec, claimed: bool) -> str:
        return "nothing: each state is an image of its own in ~/.cache/fsage/images, and no file of others is touched"


KIND = Uml
