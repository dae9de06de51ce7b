"""Studies that were measured on this project's own targets, as `fsage export` left them (data/studies/README.md)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from fsage.study.files import load_study
from fsage.study.study import Study

CONFIG = Path(__file__).parents[1] / "config"
FOLDER = Path(__file__).parent / "data" / "studies"
STUDIES = sorted(path.stem for path in FOLDER.glob("*.zip"))


def archive(study: str) -> Path:
    """The archive of a study."""
    return FOLDER / f"{study}.zip"


def file_of(name: str) -> Path:
    """A study as it was when it was measured."""
    own = FOLDER.parent / "plain" / f"{name}.yaml"
    return own if own.exists() else CONFIG / f"{name}.yaml"


def measured(name: str) -> Study:
    """The same, read."""
    return load_study(file_of(name))


def taken(study: str) -> list[dict[str, Any]]:
    """Its records in the order of measuring; a test may change them."""
    records = [json.loads(text) for text in _texts(study, "records").values()]
    return sorted(records, key=lambda record: record["began"])


def taken_states(study: str, root: Path) -> dict[str, Path]:
    """Evidence files of its states, written below `root`, by state."""
    root.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, text in _texts(study, "states").items():
        path = paths[Path(name).stem] = root / Path(name).name
        path.write_bytes(text)
    return paths


@cache
def _texts(study: str, kind: str) -> dict[str, bytes]:
    with ZipFile(archive(study)) as whole:
        names = [name for name in whole.namelist() if name.startswith(f"results/{kind}/")]
        return {name: whole.read(name) for name in names}
