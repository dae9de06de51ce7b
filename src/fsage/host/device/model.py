"""A target's device model: what it may do to a target, and the model that does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fsage.base import Json
from fsage.host.system.settings import Undo
from fsage.model import device as facts

if TYPE_CHECKING:
    from fsage.model.claim import ClaimedStore, Image


class Model(facts.Model):
    """No model: each store's loop device is attached to the image itself.

    `changes`: how entries of these kinds in a target's journal, which it notes before it sets anything, are undone.
    """

    changes: ClassVar[Mapping[str, Undo]] = {}

    def __init__(self, home: Path, name: str, claimed: Json) -> None:
        """The model of the target `name` whose home this is; `claimed` are the parameters that its claim fixed."""
        super().__init__(claimed)
        self.home = home
        self.name = name

    @staticmethod
    def unavailable_because(declared: Json) -> str | None:
        """Why this machine cannot have it; None when it can."""
        return None

    def disk(self, store: ClaimedStore) -> Image:
        """The file that the store's loop device is attached to, made to be there: path, dev, ino and bytes."""
        return {**store["image_id"], "image": store["image"]}

    def put(self, devices: list[str]) -> Json | None:
        """Have it in place on each loop device; its parameters and what was read back, or None without a model."""
        return None

    @staticmethod
    def disks(home: Path) -> list[Image]:
        """The files of this target's mounted disks that its journal names, also where the process has ended."""
        return []

    @staticmethod
    def end_disks(home: Path) -> list[str]:
        """End these disks, to which nothing is attached any more; a sentence for each. Raises Failure."""
        return []

    @staticmethod
    def undo_shared() -> list[str]:
        """Undo what all targets of this machine share, when none needs it any more; a sentence for each thing."""
        return []

    @staticmethod
    def end_in_guest() -> None:
        """End every disk of this guest, whose file systems are unmounted."""

    def charged(self) -> AbstractContextManager[None]:
        """What is started while the block runs is measured under the model."""
        return nullcontext()
