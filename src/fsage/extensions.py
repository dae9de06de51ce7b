"""A study's folder of one's own: `FSAGE_EXTENSIONS` names it, and it is found as those of `fsage.studies` are.

It is laid out as they are (MODULES, FOLDERS, TEMPLATE), and its recipe has the folder's name. Its `model`, `kinds`,
`host`, `instruments` and `helper` go to the hosts with the agent. It is code that runs as whoever starts fsage, and as
root where the agent is root, or its helper. So it must belong to that user or to root, and nobody else may change it.
No study, host or archive can name it.
"""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

from fsage import seam
from fsage.base import Refusal, in_words
from fsage.model import plugins

MODULES = (
    "__init__",
    "model",
    "host",
    "recipe",
    "workloads",
    "instruments",
    "report",
    "advice",
    "inputs",
    "command",
    "doctor",
    "site",
)
FOLDERS = ("model", "kinds", "host", "instruments", "helper", "workloads", "report")
TEMPLATE = ".j2"
"""How a file of sentences ends, which a report fills in (fsage.analysis.words); it lies beside the modules."""
NO_PART = ("__pycache__", ".git")
"""Folders that Python and version control make."""


def extend(folder: str) -> None:
    """Have the study in a folder found. Raises SystemExit, one sentence."""
    try:
        top = Path(folder)
        if not top.is_absolute():
            raise Refusal(f"{folder} is no absolute path")
        for path in sorted(_files(top)):
            _judge(path, path.relative_to(top))
        for name in FOLDERS:
            if (top / name).is_dir() and (top / f"{name}.py").exists():
                raise Refusal(f"{top / name}.py would be hidden by the folder {top / name}: keep one of them")
        if not top.name.isidentifier() or top.name in plugins.studies():
            raise Refusal(
                f"a study is named after its folder: {top.name!r} is not a name, or is the name of a built-in study"
            )
        name = f"{plugins.STUDIES}.{top.name}"
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(top)]
        sys.modules[name] = importlib.util.module_from_spec(spec)
        plugins.EXTENSIONS[top.name] = str(top)
        plugins.studies.cache_clear()
    except (Refusal, OSError) as error:
        raise SystemExit(f"fsage: FSAGE_EXTENSIONS: {in_words(error)}; unset it to work without") from None


def _files(top: Path) -> list[Path]:
    """All files of the folder but Python's own; directories are judged as targets' are (fsage.host.system.places)."""
    files: list[Path] = []
    for place, folders, names in os.walk(top, onerror=_raise):
        with seam.opened(place):
            folders[:] = sorted(name for name in folders if name not in NO_PART)
            for name in folders:
                if place == str(top) and name not in FOLDERS:
                    raise Refusal(
                        f"{top / name} is a folder that no study has; allowed are {', '.join(FOLDERS)}. "
                        f"If it is the study itself: FSAGE_EXTENSIONS={top / name}"
                    )
            files += [Path(place, name) for name in names]
    return files


def _judge(path: Path, module: Path) -> None:
    """`Refusal` for what is no part of a study, or may be changed by others. `module`: its place in the study."""
    seen = os.lstat(path)
    in_a_folder = len(module.parts) > 1
    if module.suffix == TEMPLATE:
        named = not in_a_folder
    elif in_a_folder:
        named = module.suffix == ".py" and module.parts[0] in FOLDERS
    else:
        named = module.suffix == ".py" and module.stem in MODULES
    if not named or not all(part.isidentifier() for part in module.with_suffix("").parts):
        allowed = [f"{name}.py" for name in MODULES] + [f"NAME{TEMPLATE}"] + [f"{name}/NAME.py" for name in FOLDERS]
        raise Refusal(f"{path} is nothing that fsage looks for; allowed are {', '.join(allowed)}")
    if not stat.S_ISREG(seen.st_mode) or seen.st_uid not in (0, os.geteuid()) or seen.st_mode & 0o22:
        raise Refusal(f"{path} is a link, or others than user {os.geteuid()} and root can change it")


def _raise(error: OSError) -> None:
    raise error
