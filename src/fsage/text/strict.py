"""What typed models of YAML files share: nothing unknown, nothing converted, errors in plain sentences."""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, NoReturn, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    TypeAdapter,
    ValidationError,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from fsage.base import Json
from fsage.base.sizes import parse_size

MOST_LEVELS = 1000
"""On one axis."""
MOST_NAMES = 100
"""In a list of states."""
SIZE_PATTERN = r"^[0-9]+ ?([KMGTkmgt]([iI][bB])?)?$"


class Strict(BaseModel):
    """A block of keys that cannot change; unknown keys are refused, values are never converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def read(cls, block: Json) -> Self:
        """The block from plain values. Raises ValueError, in plain words."""
        try:
            return cls.model_validate(block)
        except ValidationError as error:
            raise ValueError("\n".join(problem.text for problem in problems_of(error, cls))) from None


@dataclass(frozen=True)
class AnyOf:
    """Mark a block that is one of several, told apart by a key; `shapes` makes their JSON schemas when needed.

    `read` makes the value of the block; None: a validator of the field does.
    """

    shapes: Callable[[GetJsonSchemaHandler], list[Json]]
    read: Callable[[Any], object] | None = None

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        if self.read is None:
            return handler(source)
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": self.shapes(handler)}


class Problem(NamedTuple):
    """One thing that is wrong, as a sentence, at a key path."""

    loc: tuple[str | int, ...]
    text: str

    def __str__(self) -> str:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{_word(part)}" for part in self.loc)
        if path:
            return f"{path.lstrip('.')}: {self.text}"
        return self.text


def _word(key: str) -> str:
    if key.isprintable() and key:
        return key
    return repr(key)


def refuse(problems: Iterable[Problem]) -> NoReturn:
    """Raise the problems as one ValidationError; the models around add their part of the key path."""
    raise ValidationError.from_exception_data(
        "block",
        [
            InitErrorDetails(type=PydanticCustomError("problem", "{text}", {"text": text}), loc=loc, input=None)
            for loc, text in problems
        ],
    )


class Problems:
    """What is wrong with a block, collected while `with Problems() as wrong:` runs, and raised at its end.

    The models around add their part of the key path.
    """

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def __enter__(self) -> Problems:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self.found and error is None:
            refuse(self.found)

    def add(self, key: str | int | tuple[str | int, ...], text: str) -> None:
        """Note what is wrong with a key, or at a path of keys."""
        path = key if isinstance(key, tuple) else (key,)
        self.found.append(Problem(path, text))

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """While it is open, what is raised as ValueError is noted at a path of keys, and ends the block alone."""
        try:
            yield
        except ValidationError as error:
            self.found += [Problem((*path, *inner.loc), inner.text) for inner in problems_of(error)]
        except ValueError as error:
            self.found.append(Problem(path, str(error)))


def problems_of(error: ValidationError, model: type[BaseModel] = BaseModel) -> list[Problem]:
    """Return what is wrong with a `model` in plain words: the value, what is allowed, the nearest of it."""
    problems = []
    for detail in error.errors(include_url=False):
        path = tuple(part for part in detail["loc"] if part != "[key]")  # pydantic's word for a key that is wrong
        problems.append(Problem(path, _sentence(detail, model)))
    return problems


def block_of(value: object) -> Json:
    """Return `value` if it is a block of keys; raises ValueError if not."""
    if not isinstance(value, dict):
        raise ValueError(f"{show(value)} is not a block of keys, such as {{key: value}}")
    return value


def count_of(value: object) -> int:
    """Return `value` if it is a whole number from 1 to 10000; raises ValueError if not."""
    if type(value) is not int or not 1 <= value <= 10_000:  # True is an int elsewhere
        raise ValueError(f"{show(value)} is not a whole number from 1 to 10000")
    return value


def scalar_of(value: object) -> object:
    """Return `value` if it is text, a number or a truth value; raises ValueError if not."""
    if not isinstance(value, str | int | float):
        raise ValueError(f"{show(value)} is not a single value")
    return value


def names_of(value: object, least: int = 0) -> tuple[str, ...]:
    """Return `value` if it is a list of names of states, not of very many; raises ValueError if not."""
    if not isinstance(value, list) or len(value) < least or not all(isinstance(name, str) for name in value):
        raise ValueError(f'{show(value)} is not a list of states, such as ["80.00", "80.50"]')
    if len(value) > MOST_NAMES:
        raise ValueError(f"a list of {len(value):,} states; allowed are {MOST_NAMES} at most")
    return tuple(value)


def choice_of(block: Json, key: str, choices: list[str]) -> str:
    """Return the value of `key`, which must be one of the known ones; raises ValidationError if not."""
    if key not in block:
        refuse([Problem((key,), f"is missing; allowed: {', '.join(choices)}")])
    if block[key] not in choices:
        refuse([Problem((key,), unknown_value(block[key], choices))])
    return block[key]


def unknown_key(key: object, keys: Collection[str]) -> str:
    """Return the sentence for a key that a block does not have."""
    name, colon, value = str(key).partition(":")
    if colon and name in keys:
        return f"a blank is missing behind the colon: write {name}: {value}"
    return f"unknown key{_allowed(key, keys)}"


def unknown_value(value: object, values: Iterable[str]) -> str:
    """Return the sentence for a value that is none of the known ones."""
    return f"{show(value)} is not allowed{_allowed(value, values)}"


def show(value: object) -> str:
    """Return a value as it stands in YAML, shortened."""
    text = "null" if value is None else repr(value)
    if isinstance(value, bool):
        text = text.lower()
    elif isinstance(value, datetime.date):  # YAML makes one of 2026-11-25
        text = f"the date {value}"
    if len(text) <= 60:
        return text
    return f"{text[:57]}..."


def nearest(value: object, choices: Iterable[str]) -> str:
    """Return ' did you mean ...?' with the known word that is most like `value`, or nothing."""
    known = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(str(value).lower(), known, n=1)
    if close:
        return f" did you mean {known[close[0]]!r}?"
    return ""


def _allowed(value: object, choices: Iterable[str]) -> str:
    choices = list(choices)
    return f";{nearest(value, choices)} allowed: {', '.join(choices)}"


_KINDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "text (quote what looks like a number)",
    "bool_type": "true or false",
    "list_type": "a list, such as [a, b]",
    "tuple_type": "a list, such as [a, b]",
    "dict_type": "a block of keys",
    "model_type": "a block of keys",
}


def _sentence(detail: Any, model: type[BaseModel]) -> str:
    kind = detail["type"]
    value = detail["input"]
    ctx = detail.get("ctx", {})
    if kind == "int_type" and (percent := _percent(value)):
        return f"{show(value)} is not a whole number: write {percent}"
    if kind in _KINDS:
        return f"{show(value)} is not {_KINDS[kind]}"
    match kind:
        case "problem":
            return ctx["text"]
        case "value_error":
            return str(ctx["error"])
        case "missing":
            return "is missing"
        case "extra_forbidden" | "invalid_key":
            return unknown_key(detail["loc"][-1], _keys_at(model, detail["loc"][:-1]))
        case "literal_error":
            return unknown_value(value, re.findall(r"'([^']*)'", ctx["expected"]))
        case "greater_than_equal":
            return f"{show(value)} is too small; allowed: at least {ctx['ge']}"
        case "less_than_equal":
            return f"{show(value)} is too large; allowed: at most {ctx['le']}"
        case "greater_than":
            return f"{show(value)} is too small; allowed: above {ctx['gt']}"
        case "less_than":
            return f"{show(value)} is too large; allowed: below {ctx['lt']}"
    return f"{show(value)}: {detail['msg']}"


def _percent(value: object) -> str | None:
    """A whole number of percent that was written otherwise: '60%' and 0.6 are 60."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d{1,3}) ?%", value)
        return match[1] if match else "it in digits, such as 60"
    if isinstance(value, float) and 0 < value < 1 and value * 100 == round(value * 100):
        return f"{value * 100:.0f}, if percent are meant"
    return None


def _keys_at(model: Any, loc: tuple[str | int, ...]) -> list[str]:
    """Return the keys of the block at `loc` inside `model`."""
    for part in loc:
        if isinstance(part, str) and part in model.model_fields:
            model = next(_models_in(model.model_fields[part].annotation), model)
    return list(model.model_fields)


def _models_in(annotation: object) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def read_size(value: object) -> int:
    """Return the bytes of a size written as text; a bare number is refused: its unit would be a guess."""
    if not isinstance(value, str):
        raise ValueError(f"{show(value)} is not a size; write it with its unit, such as 64M")
    return parse_size(value)


Size = Annotated[int, PlainValidator(read_size, json_schema_input_type=Annotated[str, Field(pattern=SIZE_PATTERN)])]
"""A size in bytes, written as text: 264M."""


@dataclass(frozen=True)
class Spelled:
    """Mark a field of text that all of a `pattern` must match: `words` say to people what that is."""

    pattern: str
    words: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "pattern": f"^{self.pattern}$"}

    def _check(self, text: str | None) -> str | None:
        if text is not None and not re.fullmatch(self.pattern, text):
            raise ValueError(f"{show(text)} is not {self.words}")
        return text


@dataclass(frozen=True)
class Levels:
    """Mark a field `tuple[item, ...]` as an axis: written as one item or as a list of different ones."""

    least: int = 1

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        item = get_args(source)[0]
        read = TypeAdapter(item).validate_python
        written = handler.generate_schema(item)
        return core_schema.no_info_plain_validator_function(
            lambda value: read_levels(value, read, self.least),
            json_schema_input_schema=core_schema.union_schema([written, core_schema.list_schema(written)]),
        )


@dataclass(frozen=True)
class OrBlock:
    """Mark a field `item | dict[str, item]`: one value for all, or a block with one for each name.

    They are told apart before they are read, so what is wrong has one sentence.
    """

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        item, block = map(TypeAdapter, get_args(source))
        return core_schema.no_info_plain_validator_function(
            lambda value: (block if isinstance(value, dict) else item).validate_python(value),
            json_schema_input_schema=handler.generate_schema(source),
        )


def read_levels(value: object, read: Callable[[object], object], least: int = 1) -> tuple[object, ...]:
    """Return the levels of an axis, each through `read`; every bad or repeated one is reported."""
    if not isinstance(value, list):
        return (read(value),)
    if len(value) < least:
        raise ValueError("an empty list; allowed: one value or a list of at least one")
    if len(value) > MOST_LEVELS:
        raise ValueError(f"a list of {len(value):,} levels; allowed are {MOST_LEVELS:,} at most")
    levels: list[object] = []
    with Problems() as wrong:
        for index, level in enumerate(value):
            with wrong.at(index):
                read_level = read(level)
                if read_level in levels:
                    raise ValueError(f"{show(level)} is there twice")
                levels.append(read_level)
    return tuple(levels)
