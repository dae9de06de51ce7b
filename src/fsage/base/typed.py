"""JSON that must be as a type says: read strictly, or refused in a sentence (place, value, what is wanted).

The type is a dataclass or a TypedDict of the standard library, declared where what it describes belongs; its
annotations are all that is known of a field. `Annotated[int, Check(...)]` says more. A dataclass takes no other keys
than its fields; a TypedDict keeps other keys as they are, for who sends may be newer. Nothing is converted, but for a
dataclass' own blocks and tuples, which JSON has as lists. Annotations may be of Python 3.10 (`int | None`), also where
Python is 3.9.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import math
import sys
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union

from fsage.base.message import NAME, Unacceptable, is_name, shown

T = TypeVar("T")
LARGEST = 2**63 - 1  # bytes of anything
WORD = 1000  # characters


class Check(NamedTuple):
    """What a value must be beside its type, and the words for that: "{wanted} is wanted"."""

    good: Callable[[Any], bool]
    wanted: str


def between(least: float, most: float, what: str) -> Check:
    """A number within limits."""
    return Check(lambda value: least <= value <= most, f"{what} from {least} to {most}")


Name = Annotated[str, Check(is_name, f"a name ({NAME})")]
Word = Annotated[str, Check(lambda text: len(text) <= WORD and text.isprintable(), "a line of text")]
Printable = Annotated[str, Check(str.isprintable, "a line of text")]
Count = Annotated[int, Check(lambda value: 0 <= value <= LARGEST, "a whole number, 0 or more,")]
Positive = Annotated[int, Check(lambda value: 0 < value <= LARGEST, "a whole number above 0")]
Signed = Annotated[int, Check(lambda value: -LARGEST <= value <= LARGEST, "a whole number")]
Seconds = Annotated[float, Check(lambda value: 0 <= value < 1e9, "a number of seconds")]
Attempt = Annotated[int, between(1, 10**6, "a whole number")]


def read(kind: type[T], value: object, where: str = "") -> T:
    """`value`, out of JSON, as a `kind`. Raises Unacceptable: "{place} is {value}: {what} is wanted"."""
    checked: T = _read(kind, value, where)
    return checked


def to_json(value: object) -> Any:
    """A dataclass, or what holds some, as it is written to JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if hasattr(value, "to_json"):
            return value.to_json()
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(to_json, value))
    return value


@cache
def hints(kind: type) -> dict[str, object]:
    """The fields of a dataclass or TypedDict and their types."""
    if not dataclasses.is_dataclass(kind):  # the others know what they inherit
        return {name: _resolved(hint, kind.__module__) for name, hint in kind.__annotations__.items()}
    types = {}
    for field in dataclasses.fields(kind):
        declaring = next(base for base in kind.__mro__ if field.name in vars(base).get("__annotations__", {}))
        types[field.name] = _resolved(field.type, declaring.__module__)
    return types


class _Unions(ast.NodeTransformer):
    """`a | b` as Python 3.9 knows it."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        names = ast.Tuple([node.left, node.right], ast.Load())
        return ast.Subscript(ast.Name("Union", ast.Load()), names, ast.Load())


def _resolved(hint: object, module: str) -> object:
    """The type that an annotation names, in the words of the module where it stands."""
    if isinstance(hint, typing.ForwardRef):
        module = getattr(hint, "__forward_module__", None) or module
        hint = hint.__forward_arg__
    if not isinstance(hint, str):
        return hint
    if "|" not in hint:
        return eval(hint, vars(sys.modules[module]))
    tree = ast.fix_missing_locations(_Unions().visit(ast.parse(hint, mode="eval")))
    return eval(compile(tree, module, "eval"), {**vars(sys.modules[module]), "Union": Union})


def _read(kind: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if kind in (Any, object):
        return value
    if origin is Annotated:
        plain, *checks = typing.get_args(kind)
        checked = _read(plain, value, where)
        for check in checks:
            if checked is not None and isinstance(check, Check) and not check.good(checked):
                raise _refusal(where, value, check.wanted)
        return checked
    if origin is Literal:
        *others, last = typing.get_args(kind)
        for choice in (*others, last):
            if type(value) is type(choice) and value == choice:
                return value
        wanted = f"{', '.join(map(str, others))} or {last}" if others else str(last)
        raise _refusal(where, value, wanted)
    if origin is Union:
        return _read_any(typing.get_args(kind), value, where)
    if origin in (list, tuple):
        return _read_list(origin, typing.get_args(kind), value, where)
    if origin is dict:
        of_key, of_value = typing.get_args(kind)
        _must(isinstance(value, dict), where, value, "a block of keys")
        return {_read(of_key, key, where): _read(of_value, entry, _below(where, key)) for key, entry in value.items()}
    if kind in PLAIN:
        good = isinstance(value, bool) == (kind is bool)
        if kind is float:
            good &= isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        else:
            good &= isinstance(value, kind)
        _must(good, where, value, PLAIN[kind])
        return value
    if hasattr(kind, "from_json"):
        return kind.from_json(value, where)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return kind(*_read_list(tuple, tuple(hints(kind).values()), value, where))
    return read_block(kind, value, where)


def _read_any(kinds: tuple[object, ...], value: object, where: str) -> object:
    """A value of one of some types; what the first that is not None says where it is none of them."""
    if value is None and type(None) in kinds:
        return None
    why: Unacceptable | None = None
    for kind in kinds:
        if kind is not type(None):
            try:
                return _read(kind, value, where)
            except Unacceptable as error:
                why = why or error
    assert why
    raise why


def _read_list(origin: Any, kinds: tuple[object, ...], value: Any, where: str) -> Any:
    """A list; for a tuple of so many types, of so many values."""
    _must(isinstance(value, (list, tuple)), where, value, "a list")
    if origin is tuple and kinds[-1] is not Ellipsis:
        _must(len(value) == len(kinds), where, value, f"a list of {len(kinds)}")
    else:
        kinds = (kinds[0],) * len(value)
    return origin(_read(kinds[number], entry, f"{where}[{number}]") for number, entry in enumerate(value))


def read_block(kind: Any, value: Any, where: str) -> Any:
    """Read the block of a dataclass or TypedDict itself, without its own `from_json`."""
    _must(isinstance(value, dict), where, value, "a block of keys")
    types = hints(kind)
    made: Any = dict
    if dataclasses.is_dataclass(kind):
        made = kind
        needed = [field.name for field in dataclasses.fields(kind) if field.default is field.default_factory]
        for key in value:
            if key not in types:
                near = difflib.get_close_matches(str(key), types, 1, 0)
                raise Unacceptable(f"{_below(where, key)} is no key here; did you mean {near[0]!r}?")
    else:
        needed = sorted(kind.__required_keys__)
    for key in needed:
        if key not in value:
            raise Unacceptable(f"{_below(where, key)} is missing")
    return made(**{key: _read(types.get(key, object), entry, _below(where, key)) for key, entry in value.items()})


def _below(where: str, key: Any) -> str:
    name = key if is_name(key) else shown(key)
    if where:
        return f"{where}.{name}"
    return name


def _must(good: bool, where: str, value: Any, wanted: str) -> None:
    if not good:
        raise _refusal(where, value, wanted)


def _refusal(where: str, value: object, wanted: str) -> Unacceptable:
    return Unacceptable(f"{where or 'all of it'} is {shown(value)}: {wanted} is wanted")


PLAIN = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "a block of keys",
    list: "a list",
    type(None): "nothing",
}
