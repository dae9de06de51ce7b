"""What is declared of a target (`fsage_target`), complete.

Each key has its type, its limits, what is used where it is not declared, and what an edit of it needs once claimed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, get_args

from fsage.base import Json, JsonView, Refusal
from fsage.base.message import Unacceptable, shown
from fsage.base.typed import Check, hints, read

Launcher = Literal["openmpi", "mpich", "srun"]

ANOTHER = "another target: it has a claim of its own, or none"
LIVE = "read anew whenever it is used, and on record with each cell"
NOTED = "applied from the next cell on, noted in the claim and on record with each cell, so that samples are not pooled"
CLAIMED = "release it and claim it again: fsage release, then fsage claim"
MADE = "remove it and make it again: fsage release --images, then fsage claim"


class Key(NamedTuple):
    """`usual`: what is used where the key is not declared. `edit`: what an edit of it needs, in words."""

    usual: Any
    edit: str


def matching(pattern: str, wanted: str) -> Check:
    """A text that matches all of a pattern."""
    return Check(lambda text: re.fullmatch(pattern, text) is not None, wanted)


NAME = matching(
    r"[a-z][a-z0-9_-]{0,31}",
    "at most 32 of a-z, 0-9, '_' and '-', a letter first (directories and a control group get this name),",
)
USER = matching(r"[a-z_][a-z0-9_.-]{0,31}", "the name of a user")
POSITIVE = Check(lambda number: number > 0, "a positive number")
COUNT = Check(lambda count: count > 0, "a positive whole number")
SHARE = Check(lambda number: 0 < number <= 1, "a number above 0, at most 1,")
HOURS = matching(r"(([01]\d|2[0-3]):[0-5]\d)-(?!\1)([01]\d|2[0-3]):[0-5]\d", "hours such as 22:00-06:00")
NOT_NEGATIVE = Check(lambda number: number >= 0, "a number of 0 or more")


class Scale(TypedDict):
    """How the studies' nominal sizes shrink on a small target; transfer sizes never do."""

    # The layout that it gives is on record, and another layout is never pooled.
    file_size: Annotated[float, SHARE, Key(1, LIVE)]
    # On each client. What a task moves was found, or declared, for so many.
    tasks: Annotated[int, COUNT, Key(1, CLAIMED)]


class Limits(TypedDict):
    """What a site allows, whatever a study asks; None: no limit. Rates are those of all clients together."""

    bandwidth_mib_s: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    operations_s: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    clients: Annotated[int | None, COUNT, Key(None, LIVE)]
    hours: Annotated[str | None, HOURS, Key(None, LIVE)]  # local time of the launcher host
    gib_a_day: Annotated[float | None, POSITIVE, Key(None, LIVE)]


class Spec(TypedDict):
    """A complete declaration, as fsage.model.declaration makes it. Sizes in GiB and MiB as named."""

    name: Annotated[str, NAME, Key("local", ANOTHER)]
    kind: Annotated[str, Key("loop", CLAIMED)]
    filesystem: Annotated[str, Key("ext4", CLAIMED)]
    stores: Annotated[int, COUNT, Key(1, MADE)]
    size_gib: Annotated[float, POSITIVE, Key(16, MADE)]
    sparse: Annotated[bool, Key(False, MADE)]
    geometry: Annotated[Json | None, Key(None, MADE)]  # fsage.layouts.geometry; decides what the target takes below
    minimum_gib: Annotated[float, POSITIVE, Key(2, MADE)]
    image_dir: Annotated[str | None, Key(None, MADE)]
    mount_dir: Annotated[str, Key("/run/fsage/mnt", CLAIMED)]
    home: Annotated[str, Key(None, ANOTHER)]
    scale: Scale
    allocator_reset: Annotated[Literal["remount", "cold", "none"], Key("remount", LIVE)]
    amount_mib: Annotated[int | None, COUNT, Key(None, CLAIMED)]  # striped files and databases are of its size
    launcher: Annotated[Launcher, Key("openmpi", NOTED)]
    launcher_options: Annotated[list[str], Key([], NOTED)]
    device_model: Annotated[Json | None, Key(None, CLAIMED)]
    directory: Annotated[str, Key(None, CLAIMED)]
    budget_gib: Annotated[float, POSITIVE, Key(2, CLAIMED)]
    containers: Annotated[str | None, Key(None, CLAIMED)]
    run_as: Annotated[str | None, USER, Key(None, CLAIMED)]
    limits: Limits
    stop_if: Annotated[Json | None, Key(None, LIVE)]  # fsage.model.declaration


BLOCKS: dict[str, type] = {"scale": Scale, "limits": Limits}
"""Keys that have keys of their own, whatever the kind of target (fsage.model.kinds.blocks)."""


@cache
def keys(block: type) -> dict[str, Key]:
    """The keys of a block, but for those that are blocks themselves."""
    found = {}
    for name, hint in hints(block).items():
        for part in get_args(hint):
            if isinstance(part, Key):
                found[name] = part
    return found


def usual(block: type) -> Json:
    """What is used where a block's keys are not declared; another one for each who asks."""
    return {name: list(key.usual) if isinstance(key.usual, list) else key.usual for name, key in keys(block).items()}


def declared(block: type, given: object, where: str, more: Iterable[str] = ()) -> Json:
    """What is declared of a block, each key as its type says. `Refusal` for what is not known or not allowed.

    `more`: keys that are taken as they are.
    """
    if not isinstance(given, Mapping):
        raise Refusal(f"{where} is {shown(given)}: a block of keys is wanted")
    types: Json = hints(block)
    known_keys(where, given, [*types, *more])
    try:
        return {
            key: read(types[key], value, f"{where}.{key}") if key in keys(block) else value
            for key, value in given.items()
            if value is not None
        }
    except Unacceptable as why:
        raise Refusal(str(why)) from why


def known_keys(where: str, given: JsonView, allowed: Collection[str]) -> None:
    for key in given:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, 1, 0)
            raise Refusal(f"{where} has no key {key!r}; did you mean {near[0]!r}? Known: {', '.join(allowed)}")
