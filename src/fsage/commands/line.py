"""The form of all commands: what a help page has, and the options of all commands, taken before and after a name."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

EXIT_CODES = "Exit codes: 0 done; 1 refused or failed, with a message; 2 wrong options or arguments; 130 stopped."
COMMON = {"target": "target_name", "results_root": "results", "studies": "studies", "inventories": "inventories"}
"""Options of all commands, and what `Where` calls them."""
VALUES = {"str": "TEXT", "path": "PATH", "int": "N", "int range": "N", "float": "NUMBER", "float range": "NUMBER"}
"""What a help page calls a value, by its type."""


def _name_values(context: Any, parameter: Any) -> None:
    """A flag has no value, and an argument's name says what it is: neither has its type beside it."""
    if isinstance(parameter, TyperArgument):
        if parameter.nargs == -1:
            name = parameter.name.removesuffix("s")
        else:
            name = parameter.name
        parameter.metavar = parameter.metavar or name.upper()
        vars(parameter)["display_type_rich"] = lambda ctx: None
    elif parameter.is_flag:
        parameter.metavar = ""
    elif parameter.metavar is None:
        kind = parameter.display_type(context).strip("<>").removeprefix("list[").rstrip("]")
        parameter.metavar = VALUES.get(kind, kind.upper())


def _refuse_empty(context: Any, words: Iterable[str]) -> None:
    """An empty word would be the current folder where a path is expected."""
    if "" in words and not context.resilient_parsing:
        context.fail("A word of the command line is empty: is a variable of the shell not set?")


class Command(TyperCommand):
    """A command whose page has an example (its `epilog`) and exit codes, and that takes COMMON behind its name too."""

    def __init__(self, *words: Any, epilog: str | None = None, **more: Any) -> None:
        super().__init__(*words, epilog=f"Example: {epilog}\n\n{EXIT_CODES}", **more)
        self._common: list[TyperOption] | None = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read its words."""
        if ctx.allow_interspersed_args:
            _refuse_empty(ctx, takewhile(lambda word: word != "--", args))
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, those of all commands, and --help."""
        if self._common is None:
            own = [option for option in ctx.find_root().command.params if option.name in COMMON]
            self._common = [self._behind(option) for option in own if ctx.parent]
        *parameters, help_option = super().get_params(ctx)
        shown = [*parameters, *self._common, help_option]
        for parameter in shown:
            _name_values(ctx, parameter)
        return shown

    def _behind(self, option: TyperOption) -> TyperOption:
        """The same option behind the name of the command."""
        here = copy.copy(option)
        where = COMMON[option.name]
        here.name = f"behind_{option.name}"
        here.envvar = here.default = None
        here.expose_value = here.show_envvar = False
        here.hidden = option.name != "target" or "context" not in inspect.signature(_called(self)).parameters

        def take(context: Any, parameter: object, value: object) -> None:
            if value is not None and context.obj is not None:
                context.obj = replace(context.obj, **{where: value})

        here.callback = take
        return here

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Names of arguments alone, where Typer has {name}."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


def _called(command: TyperCommand) -> Callable[..., object]:
    assert command.callback
    return command.callback


class Group(TyperGroup):
    """All commands. The name of a study in place of a command has a hint."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words before the name of a command."""
        _refuse_empty(ctx, takewhile(lambda word: word not in self.commands, args))
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options."""
        parameters = super().get_params(ctx)
        for parameter in parameters:
            _name_values(ctx, parameter)
        return parameters

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called."""
        name = args[0]
        studies = [path.stem for path in Path(ctx.params["studies"]).glob("*.yaml")]
        near = get_close_matches(name, [*studies, *self.commands], n=1)
        if name not in self.commands and not ctx.resilient_parsing and set(near) & set(studies):
            ctx.fail(f"No such command {name!r}. To measure study {near[0]}: ./run fsage run {near[0]}")
        return super().resolve_command(ctx, args)
