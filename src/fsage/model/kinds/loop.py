"""Kind `loop`: file systems in image files that fsage makes."""

from __future__ import annotations

from typing import ClassVar

from fsage.base import GIB
from fsage.model.claim import Claim
from fsage.model.filesystems import takes
from fsage.model.kinds import Kind
from fsage.model.target import Spec


class Loop(Kind):
    """Its images, or a device model's disks, are attached to loop devices."""

    kind = "loop"
    own_stores = of_one_host = takes_layouts = True
    meaningless: ClassVar[tuple[str, ...]] = ("directory",)  # where it is not declared it is another for each user

    @classmethod
    def laid_bytes(cls, claim: Claim) -> int | None:
        return claim["stores"][0]["image_id"]["bytes"]

    @classmethod
    def most_bytes(cls, spec: Spec) -> int | None:
        return int(spec["size_gib"] * GIB)

    @classmethod
    def destroys(cls, spec: Spec, claimed: bool) -> str:
        made = f"{'the' if claimed else 'a new'} image of up to {spec['size_gib']} GiB"
        if spec["sparse"]:
            made = f"{'the' if claimed else 'a new'} sparse image of {spec['size_gib']} GiB ({takes(spec).words()})"
        return f"all that is in {made} below {spec['image_dir'] or 'the roomiest place'}; no device or file of others"
