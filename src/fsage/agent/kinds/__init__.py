"""The kinds of target. One module each, found by its name: `fsage.agent.kinds.<name>`.

Each offers `TARGET`, a class of fsage.agent.target.Target: what can be asked of the kind before there is a target, such
as whether this host can hold one, and what can be done with one that is opened.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Any

from fsage.agent.errors import Refusal

if TYPE_CHECKING:
    from fsage.agent.target import Target


@cache
def names() -> list[str]:
    """Names of the kinds there are."""
    return sorted(found.name for found in pkgutil.iter_modules(__path__))


def get(name: Any) -> type[Target] | None:
    """The kind of this name; None where there is none."""
    if name not in names():
        return None
    found: type[Target] = importlib.import_module(f"{__name__}.{name}").TARGET
    return found


def of(name: Any) -> type[Target]:
    """The kind of this name. Raises Refusal where there is none."""
    if not (found := get(name)):
        raise Refusal(f"no target is of kind {name!r:.100}: there are {', '.join(names())}")
    return found
