"""How modules are found by their names: those of a study lie in its folder, `fsage.studies.<study>`.

There is no list of them. An extension is a study's folder that lies elsewhere: in a clone's `extensions/`, or where
`FSAGE_EXTENSIONS` names it (fsage.extensions).
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Collection, Iterable
from functools import cache
from importlib.util import find_spec
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from fsage.base import Refusal

T = TypeVar("T")
STUDIES = "fsage.studies"
HELPER = "helper"
"""The folder of a study that root's helper has too (fsage.api.helper)."""
OF_HOSTS = ("host", "model", "instruments", HELPER)
"""Parts of a study that hosts have too."""
EXTENSIONS: dict[str, str] = {}
"""Study -> path of its folder, for the studies that `FSAGE_EXTENSIONS` names."""


@cache
def studies() -> list[str]:
    """Names of the studies' folders. Raises Refusal for a name that a clone's extension cannot have."""
    names = [*modules_of(STUDIES), *EXTENSIONS]
    own, *more = importlib.import_module(STUDIES).__path__
    for place in Path(more[0]).glob("[!._]*") if more else ():
        if place.is_file() and place.suffix != ".py":
            continue
        if not place.name.isidentifier() or Path(own, place.name).exists():
            raise Refusal(f"{place} is no folder with the name of a study, or has the name of a built-in one")
        names.append(place.name)  # it needs no __init__.py
    return sorted(set(names))


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
        inside = [f"{core}.{name}" for name in modules_of(core)]
        modules += map(importlib.import_module, inside or [core])
    return [cls for module in modules for cls in subclasses(base, module)]


def by_name(named: Iterable[tuple[Any, T]]) -> dict[Any, T]:
    """What is declared, by its name. Raises Refusal where a study takes the name of another."""
    found: dict[Any, T] = {}
    for name, value in named:
        if name in found:
            both = f"{found[name].__module__} and {value.__module__}"
            raise Refusal(f"{both} both declare {name!r}, so a study must name one otherwise")
        found[name] = value
    return found


def subclasses(base: type[T], module: ModuleType) -> list[type[T]]:
    """Subclasses of `base` that a module declares; one that lacks a method is a base of others."""
    own = [cls for cls in vars(module).values() if isinstance(cls, type) and cls.__module__ == module.__name__]
    return [cls for cls in own if issubclass(cls, base) and cls is not base and not isabstract(cls)]


@cache
def _places(core: str, part: str) -> dict[str, list[str]]:
    """Name -> modules, mostly one, of those in fsage's own package `core` and in the folder `part` of each study.

    A study that has a module in place of this folder has one: its NAME says how it is called, else as the study.
    A package in `core` is a folder of such modules.
    """
    places: dict[str, list[str]] = {}
    for study in having(part):
        package = of_study(study, part)
        names = modules_of(package.__name__)
        for name in names:
            places.setdefault(name, []).append(f"{package.__name__}.{name}")
        if not names:
            places.setdefault(getattr(package, "NAME", study), []).append(package.__name__)
    for each in pkgutil.walk_packages(importlib.import_module(core).__path__, f"{core}."):
        if not each.ispkg:
            places.setdefault(each.name.rpartition(".")[2], []).append(each.name)
    return places


def names(core: str, part: str) -> list[str]:
    """Names of the modules of one kind: in `core`, and in the part `part` of each study."""
    return sorted(_places(core, part))


def module(core: str, part: str, name: str, offers: Collection[str] = ()) -> ModuleType:
    """The module of this name, one of `names`, which `offers` this. Raises Refusal."""
    places = _places(core, part)[name]
    if len(places) > 1:
        raise Refusal(f"{' and '.join(places)} are all called {name!r}, so a study must name one otherwise")
    found = importlib.import_module(places[0])
    lacks = [each for each in offers if not hasattr(found, each)]
    if lacks:
        raise Refusal(f"{found.__file__} has no {', '.join(lacks)}; docs/adding.md says what it offers")
    return found


def blamed(error: BaseException) -> str | None:
    """What went wrong in the code of an extension, and where; None for an error that is not of it."""
    folders = tuple(f"{folder}/" for folder in (*EXTENSIONS.values(), *importlib.import_module(STUDIES).__path__[1:]))
    frames = list(traceback.extract_tb(error.__traceback__))
    if isinstance(error, SystemExit):  # which a command may raise, and no module while it is imported
        frames = [frame for frame in frames if frame.name == "<module>"]
    places = [(frame.filename, frame.lineno) for frame in frames]
    if isinstance(error, SyntaxError):
        places.append((error.filename or "", error.lineno))
    if isinstance(error, AttributeError):  # its module lacks a name, or a class in it
        lacking = getattr(error, "obj", None)
        module_name = getattr(lacking, "__module__", None) or getattr(lacking, "__name__", "")
        places.append((getattr(sys.modules.get(str(module_name)), "__file__", ""), None))
    own = [place for place in places if str(place[0]).startswith(folders)]
    if not own:
        return None
    file, line = own[-1]
    at = f", line {line}" if line else ""
    return f"the code of an extension is wrong: {file}{at}: {type(error).__name__}: {error}"


def modules_of(package: str) -> list[str]:
    """Names of its modules; none where it is a module itself."""
    folders = getattr(importlib.import_module(package), "__path__", [])
    return [module.name for module in pkgutil.iter_modules(folders)]


def beside(step: object, part: str) -> ModuleType:
    """The module `part` in the folder of the study whose model declares what `step` is."""
    return of_study(type(step).__module__.split(".")[2], part)
