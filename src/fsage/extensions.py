"""A folder of file systems, steps, recipes, workloads, tools and sections of reports beside fsage's own.

`FSAGE_EXTENSIONS` names it. Laid out as `src/fsage` is, it holds modules for the packages in EXTENSIBLE, which are then
found by their names as fsage's own are; its `model/` and `host/` go to the hosts with the agent. It is code that runs
as whoever starts fsage, and as root where the agent is root: it must be his or root's, and nobody else's to change. No
study, host or archive can name it.
"""

from __future__ import annotations

import importlib
import os
import stat
from pathlib import Path

import fsage
from fsage import seam
from fsage.model.errors import Refusal

# Of those that hosts have first: the others import what looks for names in these.
EXTENSIBLE = (
    *(f"model/{name}" for name in ("filesystems", "kinds", "steps", "tools")),
    *(f"host/{name}" for name in ("filesystems", "kinds", "steps")),
    "recipes",
    "workloads",
    "report",
)


def extend(folder: str) -> None:
    """Have the modules of a folder found. Raises SystemExit, one sentence."""
    try:
        top = Path(folder)
        if not top.is_absolute():
            raise Refusal(f"{folder} is no absolute path")
        modules = sorted(path.relative_to(top) for path in _files(top))
        for module in modules:
            _judge(top, module)
        for package in EXTENSIBLE:
            if (top / package).is_dir():
                importlib.import_module(f"fsage.{package.replace('/', '.')}").__path__.append(str(top / package))
        fsage.__path__.append(str(top))
    except (Refusal, OSError) as why:
        raise SystemExit(f"fsage: FSAGE_EXTENSIONS: {why}; unset it to go on without") from None


def _files(top: Path) -> list[Path]:
    """All files of the folder but Python's own; directories are judged as targets' are (fsage.host.system.places)."""
    found = []
    for place, folders, names in os.walk(top, onerror=_raise):
        with seam.here().opened(place):
            folders[:] = [name for name in folders if name != "__pycache__"]
            found += [Path(place, name) for name in names]
    return found


def _judge(top: Path, module: Path) -> None:
    """`Refusal` for what is no module of an extensible package, has the name of one of fsage's, or may be changed."""
    path, seen = top / module, os.lstat(top / module)
    if module.suffix != ".py" or str(module.parent) not in EXTENSIBLE or not module.stem.isidentifier():
        allowed = ", ".join(f"{package}/NAME.py" for package in EXTENSIBLE)
        raise Refusal(f"{path} is nothing that fsage looks for; allowed are {allowed}")
    if (Path(fsage.__path__[0]) / module).exists() or (Path(fsage.__path__[0]) / module.with_suffix("")).is_dir():
        raise Refusal(f"{path} has the name of fsage's own {module}: give it another")
    if not stat.S_ISREG(seen.st_mode) or seen.st_uid not in (0, os.geteuid()) or seen.st_mode & 0o22:
        raise Refusal(f"{path} is a link, or others than user {os.geteuid()} and root can change it")


def _raise(error: OSError) -> None:
    raise error
