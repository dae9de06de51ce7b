"""What is added by a module in a folder: each is found by its name, and there is no list of them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType


@cache
def names(package: str) -> list[str]:
    """Names of the modules in a package of fsage's, and in the same folder of an extension (fsage.extensions)."""
    return sorted(found.name for found in pkgutil.iter_modules(importlib.import_module(package).__path__))


def module(package: str, name: str) -> ModuleType:
    """The module of this name, one of `names`."""
    return importlib.import_module(f"{package}.{name}")
