"""The results of a study as its public columns alone: what a report is made from, and no names.

Each column of the table says what of its texts leaves (fsage.dataset.columns); any other text reads `withheld`. A
column of a family leaves where its name is made of known words.
Records, evidence of states, the claim and raw output stay at home. The names of study, target, states and of what a
study varies leave: who publishes results publishes these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from fsage import dataset
from fsage.archive.crate import TABLE, CrateError
from fsage.base import Json
from fsage.dataset.columns import NAME, NOTES, NUMBER, OPTIONS, PLAIN, PRIVATE, VERSION, WORDED, column_of
from fsage.model import structure, tools, tuning
from fsage.plan import Plan, load_plan
from fsage.plan.target import Target
from fsage.text import yaml_text

WITHHELD = "withheld"
NAMING = ["study", "target", "state", "cell", "reference"]
"""Columns whose texts tell rows apart."""
WORDS = re.compile(r"(?!/)(?!.*[\s=:(,]/)([\w .,:;+%()=<>\u00d7/-]|@(?=\d)){1,300}")
PATH = re.compile(r"[\w./+@-]+")
NUMBERS = re.compile(r"[\d., ;+-]*")
MOUNT_OPTION = re.compile(r"[a-z_]{2,20}(=\d+[kKmMgG]?)?")


def _matching(text: str, pattern: re.Pattern[str]) -> str:
    if pattern.fullmatch(text):
        return text
    return WITHHELD


def _last_part(text: str) -> str:
    if PATH.fullmatch(text):
        text = text.rpartition("/")[2]
    return _matching(text, WORDS)


def _version(text: str) -> str:
    version = re.search(r"\d+(\.\d+)+", text)
    if version:
        return version[0]
    return WITHHELD


def _options(text: str) -> str:
    of_stores = [filter(MOUNT_OPTION.fullmatch, options.split(",")) for options in text.split("; ")]
    return "; ".join(map(",".join, of_stores))


RULES: Mapping[str, Callable[[str], str]] = {
    PLAIN: lambda text: _matching(text, WORDS),
    NUMBER: lambda text: _matching(text, NUMBERS),
    NAME: _last_part,
    VERSION: _version,
    OPTIONS: _options,
    PRIVATE: lambda text: WITHHELD,
}


def public(frame: pd.DataFrame) -> pd.DataFrame:
    """What may leave of a table. Raises CrateError where rows could not be told apart by that."""
    known = {
        "note": {*structure.kinds(), *NOTES.split()},
        "tool": {*tools.names()},
        "tunable": {*tuning.NAMES, "asked", "before"},
    }
    columns = {}
    for name, values in frame.items():
        family, _, rest = str(name).partition(".")
        column = column_of(str(name))
        names = rest.split(".")
        if family in known and not known[family].issuperset(names):
            continue
        columns[name] = values
        if column and pd.api.types.is_string_dtype(values.dtype):
            rule = PLAIN if family == "note" and names[-1] in WORDED else column.public
            columns[name] = values.map(RULES[rule], na_action="ignore").astype(values.dtype)
    left = pd.DataFrame(columns)
    left["params"] = left["params"].mask(left["params"].notna(), dataset.texts_of(left, "param"))
    lost = [name for name in NAMING if not left[name].equals(frame[name])]
    if lost or left["params"].nunique() != frame["params"].nunique():
        raise CrateError(f"the {(lost or ['parameter'])[0]} of a cell is no plain words: --anonymous leaves it")
    return left


def studies_of(plan: Plan, study_file: Path) -> list[Path]:
    """The study's file, and that of the study it is compared with."""
    compare = plan.study.compare
    if compare:
        return [study_file, study_file.with_stem(compare.study)]
    return [study_file]


def copy(plan: Plan, study_file: Path, inventory: Path, to: Path) -> tuple[Plan, Path, Path]:
    """What may leave of a study and its results, below `to`: plan, study's file, inventory; the table is TABLE.

    Raises CrateError where the study cannot be told without a text that stays.
    """
    study = to / "config" / study_file.name
    for path in studies_of(plan, study_file):
        _write_yaml(study.with_name(path.name), _study(yaml_text.load(path.read_text(encoding="utf-8"))))
    place = to / "inventories" / inventory.name
    _write_yaml(place / "group_vars/all/target.yml", {"fsage_target": _declaration(plan.target)})
    dataset.write(public(dataset.load([*plan.files(), *map(Path, plan.compared_records())])), (to / TABLE).parent)
    anonymous = load_plan(study, place, to / "results")
    if {state: [cell.name for cell in cells] for state, cells in anonymous.cells.items()} != {
        state: [cell.name for cell in cells] for state, cells in plan.cells.items()
    }:
        raise CrateError(
            f"{study_file}: its states or cells have names that are no plain words: --anonymous leaves them"
        )
    return anonymous, study, place


def _study(study: Json) -> Json:
    """A study without words of its author's own."""
    headline = [
        {**comparison, "label": f"{comparison.get('state')} to {comparison.get('against')}"}
        for comparison in study.get("headline", [])
    ]
    return {**_reduced({**study, "headline": headline}), "title": study["name"], "question": WITHHELD}


def _reduced(value: Any) -> Any:
    """A value of a study with the texts that may leave."""
    if isinstance(value, dict):
        return {key: _reduced(part) for key, part in value.items()}
    if isinstance(value, list):
        return list(map(_reduced, value))
    if isinstance(value, str):
        return _last_part(value)
    return value


def _declaration(target: Target) -> dict[str, object]:
    """A target's declaration without places, hosts and users."""
    kept = {"name", "kind", "filesystem", "stores", "size_gib", "sparse", "minimum_gib", "budget_gib", "scale"}
    kept |= {"allocator_reset", "amount_mib", "launcher", "device_model"}
    declared = {key: value for key, value in target.spec.items() if key in kept}
    declared["directory"] = f"/{WITHHELD}/{target.name}"
    return {**declared, **target.of_kind.anonymous(target.spec)}


def _write_yaml(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
