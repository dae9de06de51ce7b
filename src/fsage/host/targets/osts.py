"""What a target does with the OSTs that its files lie on, and with the servers of its file system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fsage.host.targets.kinds import Servers
from fsage.model.hosts import Host
from fsage.model.typed import Json


class NoOsts:
    """Of a target without any: nothing. A kind of target that has OSTs has a subclass."""

    tolerance_bytes = 0
    """Bytes by which others may change the used space of each OST."""

    def __init__(self) -> None:
        self.servers: list[Host] = []  # from the request: they free what was deleted
        self.session: Servers | None = None  # which has connections to them

    def ask_servers(self, **what: object) -> dict[str, Json]:
        """The answer of each server, by name. Raises Failure."""
        return {}

    def layouts(self, answers: Sequence[Json]) -> list[dict[str, object]]:
        """The OSTs in the servers' `answers` to the verb `osts`: stores before those that are mounted."""
        return []

    def fullness(self) -> dict[str, object]:
        """What evidence has beside the layout: {"osts": how full each is}."""
        return {}

    def spread(self, folder: Path) -> None:
        """Stripe the files that will be made in a directory over all OSTs."""
        return

    def spread_files(self, folder: Path) -> dict[str, Path]:
        """An empty or older file in a directory for each OST that is used, by the OST's name; without any, one file.

        Raises Failure.
        """
        return {"": folder / "file"}

    def is_used(self, name: str) -> bool:
        """Whether files of the target lie on a server's target of this name, as far as can be known."""
        return True

    def verify_fillers(self) -> None:
        """Raise Failure where files of the structure lie on other OSTs than declared."""
        return
