"""How files that fill a target get their blocks: it decides where holes are left, and with them the result."""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypedDict

from pydantic import Field

from fsage.api.model import MIB, format_size
from fsage.api.study import SizeInBlocks, Strict

from .model import Method

FilesAtOnce = Annotated[int, Field(ge=1, le=1024, strict=True)]

METHOD: Method = "fallocate"
REQUEST_BYTES = 4 * MIB
"""Lustre's client gathers what the study wrote, in 512 KiB, to RPCs of max_pages_per_rpc=1024 pages."""
FILES_AT_ONCE = 16
"""The threads of one of the study's 12 clients; how many of its 192 met on one OST is not known."""

METHOD_HELP = "how files get their blocks: fallocate; write: past the cache; buffered: through it"
REQUEST_HELP = "bytes of one request for blocks, or of one write; the target's scale does not apply"
AT_ONCE_HELP = "files that grow at once on each store, in turns, one request each"


class Laying(TypedDict):
    """Fields of a step `populate`."""

    method: Method
    request_bytes: int
    files_at_once: int


class Filler(NamedTuple):
    """One way of making them. Its fields are axes of a study."""

    filler: Method
    request_size: int
    files_at_once: int

    def __str__(self) -> str:
        return f"{self.filler}.{format_size(self.request_size)}x{self.files_at_once}"

    def step(self) -> Laying:
        """The fields of a step `populate` that say so."""
        return {"method": self.filler, "request_bytes": self.request_size, "files_at_once": self.files_at_once}

    def nominal(self) -> dict[str, object]:
        """What records keep of it, as numbers for figures."""
        return {
            "filler": self.filler,
            "request_size_bytes": self.request_size,
            "files_at_once": self.files_at_once,
        }


class FilledOneWay(Strict):
    """The keys of a block `states:` whose filler is laid in one way."""

    filler: Method = Field(METHOD, description=METHOD_HELP)
    request_size: SizeInBlocks = Field(REQUEST_BYTES, description=REQUEST_HELP)
    files_at_once: FilesAtOnce = Field(FILES_AT_ONCE, description=AT_ONCE_HELP)

    def laying(self) -> Laying:
        """The fields of a step `populate`."""
        return Filler(self.filler, self.request_size, self.files_at_once).step()
