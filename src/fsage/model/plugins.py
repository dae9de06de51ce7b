"""How modules are found by their names: those of a study lie in its folder, `fsage.studies.<study>`.

There is no list of them. An extension is a study's folder that lies elsewhere: in a clone's `extensions/`, or where
`FSAGE_EXTENSIONS` names it (fsage.extensions).
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.util import find_spec
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")
STUDIES = "fsage.studies"
OF_HOSTS = ("host", "model", "instruments")
"""Parts of a study that hosts have too."""
EXTENSIONS: dict[str, str] = {}
"""Study -> path of its folder, for the studies that `FSAGE_EXTENSIONS` names."""


@cache
def studies() -> list[str]:
    """Names of the studies' folders."""
    return sorted({*_names(STUDIES), *EXTENSIONS})


def folder(study: str) -> Path:
    """Where its modules are."""
    return Path(importlib.import_module(f"{STUDIES}.{study}").__path__[0])


@cache
def having(part: str) -> list[str]:
    """Studies that have a module or package of this name: recipe, model, host, workloads, report, advice ..."""
    return [study for study in studies() if find_spec(f"{STUDIES}.{study}.{part}")]


def of_study(study: str, part: str) -> ModuleType:
    """That module; `study` is one of `having(part)`."""
    return importlib.import_module(f"{STUDIES}.{study}.{part}")


def declared(base: type[T], core: str | None = None) -> list[type[T]]:
    """Subclasses of `base` that are declared in fsage's module or package `core` and in each study's `model`."""
    modules = [of_study(study, "model") for study in having("model")]
    if core:
        inside = [f"{core}.{name}" for name in _names(core)]
        modules += map(importlib.import_module, inside or [core])
    return [cls for module in modules for cls in subclasses(base, module)]


def subclasses(base: type[T], module: ModuleType) -> list[type[T]]:
    """Subclasses of `base` that a module declares; one that lacks a method is a base of others."""
    own = [cls for cls in vars(module).values() if isinstance(cls, type) and cls.__module__ == module.__name__]
    return [cls for cls in own if issubclass(cls, base) and cls is not base and not isabstract(cls)]


@cache
def _places(core: str, part: str) -> dict[str, str]:
    """Name -> module, of those in fsage's own package `core` and in the folder `part` of each study.

    A study that has a module in place of this folder has one: its NAME says how it is called, else as the study.
    A package in `core` is a folder of such modules.
    """
    places: dict[str, str] = {}
    for study in having(part):
        package = of_study(study, part)
        names = _names(package.__name__)
        places |= {name: f"{package.__name__}.{name}" for name in names}
        if not names:
            places[getattr(package, "NAME", study)] = package.__name__
    inside = pkgutil.walk_packages(importlib.import_module(core).__path__, f"{core}.")
    return places | {each.name.rpartition(".")[2]: each.name for each in inside if not each.ispkg}


def names(core: str, part: str) -> list[str]:
    """Names of the modules of one kind: in `core`, and in the part `part` of each study."""
    return sorted(_places(core, part))


def module(core: str, part: str, name: str) -> ModuleType:
    """The module of this name, one of `names`."""
    return importlib.import_module(_places(core, part)[name])


def _names(package: str) -> list[str]:
    """Names of its modules; none where it is a module itself."""
    folders = getattr(importlib.import_module(package), "__path__", [])
    return [module.name for module in pkgutil.iter_modules(folders)]


def beside(step: object, part: str) -> ModuleType:
    """The module `part` in the folder of the study whose model declares what `step` is."""
    return of_study(type(step).__module__.split(".")[2], part)
