"""A target's device model: what it may do to a target, and the model that does nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from fsage.model.claim import ClaimedStore, Image

MIB = 1 << 20


class Model:
    """No model: each store's loop device is attached to the image itself."""

    kind: ClassVar[str] = "none"
    defaults: ClassVar[dict[str, Any]] = {}
    """What a declaration may say of it, and what it has where that says nothing."""
    may_be_zero: ClassVar[tuple[str, ...]] = ()
    may_be_negative: ClassVar[tuple[str, ...]] = ()
    charges_all = False  # whether what fsage itself reads costs as much as what measured commands read
    required = False  # whether a target that declares it is refused where it cannot be had

    def __init__(self, home: Path, name: str, claimed: dict[str, Any]) -> None:
        """Of the target `name` whose home this is; `claimed` are the parameters that its claim fixed."""
        self.home, self.name, self.claimed = home, name, claimed

    @staticmethod
    def why_wrong(declared: dict[str, Any]) -> str | None:
        """What is wrong with its parameters beside their types and signs, beginning with the key; None: nothing."""
        return None

    @staticmethod
    def why_not(declared: dict[str, Any]) -> str | None:
        """Why this machine cannot have it; None when it can."""
        return None

    @staticmethod
    def label(parameters: dict[str, Any]) -> str:
        """What every figure says of numbers that were taken under it."""
        return "no device model"

    @staticmethod
    def reach_s(parameters: dict[str, Any], span_bytes: int) -> float:
        """What it takes, on average, to reach another place within so many bytes of a store."""
        return 0.0

    def disk(self, store: ClaimedStore) -> Image:
        """The file that the store's loop device is attached to, made to be there: path, dev, ino and bytes."""
        return {**store["image_id"], "image": store["image"]}

    def put(self, devices: list[str]) -> dict[str, Any] | None:
        """Have it in place on each loop device; its parameters and what was read back, or None without a model."""
        return None

    def charged(self) -> AbstractContextManager[None]:
        """What is started while the block runs is measured under the model."""
        return nullcontext()
