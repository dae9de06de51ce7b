"""What is known of the layout of one store, in the shape that evidence files and `fsage evidence` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OF_EXTENTS = ("free_extents", "bitmap", "aligned_free_share")  # what only a list of free extents can give
OF_FREE_SPACE = ("used_bytes", "free_bytes", "fullness_percent", *OF_EXTENTS)
OF_DEVICE = ("device_bytes", "block_bytes", *OF_FREE_SPACE, "groups")
KEYS = (*OF_DEVICE, "files")


class NotThisText(ValueError):
    """A text is not what its reader reads, or not all of it; the message says where and why."""


@dataclass
class Store:
    """One store as an input shows it.

    `source`: {"free": what told the free extents, "files": what told the extents of files}. `found`: of KEYS what the
    input has; `absent`: of KEYS what it cannot give, and why.
    """

    filesystem: str | None
    source: dict[str, str]
    found: dict[str, Any]
    absent: dict[str, str] = field(default_factory=dict)

    def summary(self, number: int) -> dict[str, Any]:
        """All KEYS, None where `absent` has the reason, with store (number), filesystem, source and absent.

        Shapes and units of the larger ones: FreeSpace.summary, Groups.summary, FileLayouts.summary; `files` holds one
        of the latter for each named set of files.
        """
        known = {key: self.found.get(key) for key in KEYS}
        return {
            "store": number,
            "filesystem": self.filesystem,
            "source": self.source,
            **known,
            "absent": {key: self.absent[key] for key in KEYS if known[key] is None},
        }


def without(keys: tuple[str, ...], reason: str) -> dict[str, str]:
    """`absent` of several keys for one reason."""
    return dict.fromkeys(keys, reason)
