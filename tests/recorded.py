"""Studies that were measured on this project's own targets, as `fsage export` left them (data/studies/README.md)."""

import json
from functools import cache
from pathlib import Path
from zipfile import ZipFile

from fsage.study.files import load_study

CONFIG = Path(__file__).parents[1] / "config"
FOLDER = Path(__file__).parent / "data" / "studies"
STUDIES = sorted(path.stem for path in FOLDER.glob("*.zip"))


def archive(study):
    """The archive of a study."""
    return FOLDER / f"{study}.zip"


def file_of(name):
    """A study as it was when it was measured."""
    own = FOLDER.parent / "plain" / f"{name}.yaml"
    return own if own.exists() else CONFIG / f"{name}.yaml"


def measured(name):
    """The same, read."""
    return load_study(file_of(name))


def taken(study):
    """Its records in the order of measuring; a test may change them."""
    records = [json.loads(text) for text in _texts(study, "records").values()]
    return sorted(records, key=lambda record: record["began"])


def taken_states(study, root):
    """Evidence files of its states, written below `root`, by state."""
    root.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, text in _texts(study, "states").items():
        path = paths[Path(name).stem] = root / Path(name).name
        path.write_bytes(text)
    return paths


@cache
def _texts(study, kind):
    with ZipFile(archive(study)) as whole:
        names = [name for name in whole.namelist() if name.startswith(f"results/{kind}/")]
        return {name: whole.read(name) for name in names}
