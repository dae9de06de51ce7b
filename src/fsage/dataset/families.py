"""Columns `FAMILY.NAME`: a record's blocks as flat columns, and their values by name.

A block's keys follow the name, parted by a dot. A list stands as its items, parted by a comma; lists in it, by `; `.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from fsage.base import Json
from fsage.dataset.columns import ANY, FAMILIES, column_of

NOT_IN_FORCE = (".asked", ".before")
"""Ends of names of tunables that say what else is known of them."""
INFERRED = {"boolean": "boolean", "integer": "Int64", "floating": "float64", "mixed-integer-float": "float64"}
"""What pandas calls plain values, and a column of them; all else is text."""


def flat(name: str, value: object) -> Iterator[tuple[str, Any]]:
    """The columns of a value, with what stands in them; none for what is null."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from flat(f"{name}.{key}", part)
    elif isinstance(value, list):
        yield name, word(value)
    elif value is not None:
        yield name, value


def word(value: object) -> str:
    """A value as it stands in a text."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return ""
    if isinstance(value, list):
        nested = any(isinstance(item, list) for item in value)
        return ("; " if nested else ",").join(map(word, value))
    if isinstance(value, dict):
        return words(value)
    return str(value)


def lists(text: str) -> list[list[Any]]:
    """The lists of numbers that stand in a cell: '0,1; 2,3.5' -> [[0, 1], [2, 3.5]]; what is not known is None."""
    return [[_number(item) for item in items.split(",")] for items in text.split("; ")]


def _number(text: str) -> float | None:
    if text.lstrip("-").isdigit():
        return int(text)
    return float(text) if text else None


def words(values: Json) -> str:
    """`NAME=VALUE NAME=VALUE`, by name, of what is not null or empty."""
    return " ".join(f"{name}={word(value)}" for name, value in sorted(values.items()) if value not in (None, []))


def type_of(name: str, values: Iterable[object]) -> str:
    """The type of a column, as pandas calls it: as declared, or as all its values have it."""
    column = column_of(name)
    if not column:
        return "float64"
    if column.type != ANY:
        return column.type
    return inferred(values)


def inferred(values: Iterable[object]) -> str:
    """The type that all these values have, as pandas calls it."""
    return INFERRED.get(pd.api.types.infer_dtype(list(values), skipna=True), "str")


def metrics(frame: pd.DataFrame, *ends: str) -> list[str]:
    """Columns of no family whose names end so."""
    return [name for name in frame.columns if name.endswith(ends) and name.partition(".")[0] not in FAMILIES]


def names_of(frame: pd.DataFrame, family: str) -> list[str]:
    """The names of a family that a table has."""
    begin = f"{family}."
    return [column.removeprefix(begin) for column in frame.columns if column.startswith(begin)]


def values_of(frame: pd.DataFrame, family: str, names: Iterable[str] | None = None) -> list[Json]:
    """What each row has of a family, by name, as plain values."""
    names = names_of(frame, family) if names is None else names
    part = frame.reindex(columns=[f"{family}.{name}" for name in names]).set_axis(names, axis="columns")
    rows = part.astype(object).where(part.notna(), None).to_dict("records")
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def unpacked(frame: pd.DataFrame, family: str, *names: str, **usual: object) -> pd.DataFrame:
    """Columns of a family by their names alone. `usual`: names with what stands where a row has nothing."""
    rows = [{**usual, **row} for row in values_of(frame, family, [*names, *usual])]
    return pd.DataFrame(rows, frame.index).reindex(columns=[*names, *usual])


def texts_of(frame: pd.DataFrame, family: str, *without: str) -> pd.Series:
    """What each row has of a family as one text, without these names."""
    names = [name for name in names_of(frame, family) if name not in without and not name.endswith(NOT_IN_FORCE)]
    return pd.Series(list(map(words, values_of(frame, family, names))), frame.index, "str")


def without(frame: pd.DataFrame, *names: str) -> pd.Series:
    """Column `params` without these parameters."""
    return texts_of(frame, "param", *names)


def parameters(frame: pd.DataFrame) -> dict[str, Json]:
    """The sets of parameters that a table has, by their text."""
    first = frame.drop_duplicates("params")
    return dict(zip(first["params"], values_of(first, "param"), strict=True))


def levels(frame: pd.DataFrame) -> dict[str, Json]:
    """State -> its levels on the axes of its recipe."""
    return _by_state(frame, "axis")


def notes(frame: pd.DataFrame) -> dict[str, Json]:
    """State -> step -> what it noted, of states with any notes."""
    return {state: _nested(noted) for state, noted in _by_state(frame, "note").items() if noted}


def _by_state(frame: pd.DataFrame, family: str) -> dict[str, Json]:
    """State -> the first row with anything of a family; {} where none has."""
    by_state: dict[str, Json] = {}
    for state, row in zip(frame["state"], values_of(frame, family), strict=True):
        if not by_state.get(state):
            by_state[str(state)] = row
    return by_state


def _nested(row: Json) -> Json:
    """{'replica.found.files': 3} -> {'replica': {'found': {'files': 3}}}."""
    nested: Json = {}
    for name, value in row.items():
        *blocks, last = name.split(".")
        block = nested
        for key in blocks:
            inner = block.get(key)
            if not isinstance(inner, dict):  # a record's, so that it may be anything
                inner = {}
                block[key] = inner
            block = inner
        block[last] = value
    return nested
