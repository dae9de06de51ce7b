"""Files of studies: read, validated, and each problem named with its file, its key and what is allowed."""

from __future__ import annotations

import codecs
import os
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fsage.base import Json, message
from fsage.statistics import reachable
from fsage.study import Study, StudyError
from fsage.text import yaml_text
from fsage.text.strict import nearest, problems_of


def schema() -> dict[str, object]:
    """The JSON schema of a study file, as editors read it, with every recipe and workload there is."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Study.model_json_schema()}


def load_study(path: Path | str, turns: bool = False) -> Study:
    """Return the study in a file; StudyError lists each problem: file, key path, value, what is allowed.

    `turns`: each iteration in a visit of its own, of all states one after the other, every second time in the reverse
    order (ABBA): what changes slowly meanwhile meets all states alike. Other studies stay as they are: those that
    draw a seed, that have one state, whose states take long to build (data are written),
    or of which no comparison could become significant.
    """
    path = Path(path)
    block = _read_study(path)
    if block is None:
        needed = [name for name, field in Study.model_fields.items() if field.is_required()]
        raise StudyError(
            f"{path}: it is empty; a study has the keys {', '.join(needed)} at least, as config/quickstart.yaml"
        )
    study = _validated(path, block)
    repeated = _repeated(block, study) if turns else None
    if repeated:
        return _validated(path, repeated).in_turns() or study
    return study


def _repeated(block: Any, study: Study) -> Json | None:
    """The block of a study with as many structures as it has iterations, of one each; None where that cannot be."""
    states = study.states
    cells = study.cells
    structures = getattr(states, "structures", None)
    if not isinstance(structures, int) or states.seed is None or cells.stop:
        return None
    visits = max(structures, cells.iterations)
    if not reachable(visits, visits, family=1):
        return None
    if len(study.expanded) < 2:
        return None
    for state in study.expanded:
        if any(step.writes_bytes(1 << 30) for step in state.parts):
            return None
    return {
        **block,
        "states": {**block["states"], "structures": visits},
        "cells": {**block["cells"], "iterations": 1, "places": 1},
    }


def _validated(path: Path, block: Any) -> Study:
    try:
        study = Study.model_validate(block)
    except ValidationError as error:
        raise StudyError("\n".join(f"{path}: {problem}" for problem in problems_of(error, Study))) from None
    if study.name != path.stem:
        raise StudyError(f"{path}: name: {study.name!r} is not what the file is called; allowed: {path.stem}")
    if study.compare and not path.with_stem(study.compare.study).exists():
        raise StudyError(f"{path}: compare.study: {_no_study(study.compare.study, path.parent)}")
    return study


def usual_target(path: Path) -> str | None:
    """The target that a study names, or several with commas, read without the rest of it; None for what is no study."""
    return _text_at(path, "target")


def workload_of(path: Path) -> str | None:
    """The workload of a study's cells, read without the rest of it; None for what is no study."""
    return _text_at(path, "cells", "workload")


def _text_at(path: Path, *keys: str) -> str | None:
    try:
        found = _read_study(path)
    except StudyError:
        return None  # loading it says why
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    if isinstance(found, str):
        return found
    return None


def check_alone(study: str) -> None:
    """Raise StudyError for a file in place of a study's name."""
    path = Path(study)
    if "/" in study or path.suffix in (".yaml", ".yml"):
        raise StudyError(f"{study!r}: a study is named without folder and ending: write {path.stem or 'quickstart'}")


def read_yaml(path: Path) -> Any:
    """What a YAML file holds. Raises StudyError naming the file and the place in it, and FileNotFoundError."""
    try:
        content = message.read_file(path, yaml_text.MOST_BYTES)
        why = _no_text(content)
        if why:
            raise StudyError(f"{path}: {why}")
        return yaml_text.load(content.decode("utf-8"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StudyError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise StudyError(f"{path}: line {line}: not UTF-8, but Latin-1 or alike: save the file as UTF-8") from None
    except message.NotTaken as error:
        raise StudyError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise StudyError(f"{path}: {yaml_text.explain(error)}") from None


def _no_text(content: bytes) -> str | None:
    """Why a file is no text in UTF-8, by its bytes of 0; None where it has none."""
    zeros = content[::2].count(0), content[1::2].count(0)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or min(zeros) == 0 < max(zeros):
        return "line 1: not UTF-8, but UTF-16: save the file as UTF-8"
    if any(zeros):
        return "it is no text, where YAML is expected"
    return None


def _read_study(path: Path) -> object:
    try:
        return read_yaml(path)
    except FileNotFoundError:
        raise StudyError(_no_study(path.stem, path.parent)) from None


def in_folder(folder: Path) -> dict[str, Path]:
    """The studies of a folder, name -> file, by name. Raises StudyError where it is there and cannot be read."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".yaml") and not name.startswith("."))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StudyError(f"{folder}: which studies it has cannot be read: {error.strerror}") from None
    return {name.removesuffix(".yaml"): folder / name for name in names}


def _no_study(name: str, directory: Path) -> str:
    present = list(in_folder(directory))
    listed = ", ".join(present) or "none"
    return f"there is no study {name!r} in {directory};{nearest(name, present)} there are: {listed}"
