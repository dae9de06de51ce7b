"""The commands of fsage: a module for each purpose, and here what all of them share.

They share the form of a help page, common options, where things lie, and names that a shell completes. A command
imports what it works with when it is called, so its module has what its help needs, and nothing more.
"""

from __future__ import annotations

import copy
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from fsage import interrupt
from fsage.base import Misuse, in_words
from fsage.base.message import check_place, say

EXIT_CODES = "Exit codes: 0 done; 1 refused or failed, with a message; 2 wrong options or arguments; 130 stopped."
COMMON = {"target": "target_name", "results_root": "results", "studies": "studies", "inventories": "inventories"}
"""Options of all commands, and what `Where` calls them."""
VALUES = {"str": "TEXT", "path": "PATH", "int": "N", "int range": "N", "float": "NUMBER", "float range": "NUMBER"}
"""What a help page calls a value, by its type."""
STANDARD_INPUT = Path("-")
WRITTEN = ("to", "html", "save", "beside")
"""Options that name what is written, never on standard output; Typer, unasked, wants to read it (`readable`)."""
CALLED_FROM = Path(os.environ.pop("FSAGE_CALLED_FROM", ""))
"""Where `./run fsage` was called; it works in the project's root, and so do the jobs that it starts."""


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


def _from_where_called(value: Any, may_be_path: bool = False) -> Any:
    """A path of the command line as it is from the project's root; what else a parameter can be, and `-`, unchanged.

    `may_be_path`: a text that is a name or a path; it is a path where something is there.
    """
    if isinstance(value, list):
        return [_from_where_called(path, may_be_path) for path in value]
    if isinstance(value, Path) and value != STANDARD_INPUT:
        return CALLED_FROM / value
    if isinstance(value, str) and may_be_path and (CALLED_FROM / value).exists():
        return str(CALLED_FROM / value)
    return value


def _find_paths(context: Any) -> None:
    """Have the paths that somebody gave found from where the command was called."""
    if not CALLED_FROM.parts:
        return
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if source and source.name == "COMMANDLINE" and parameter.name in context.params:
            value = context.params[parameter.name]
            context.params[parameter.name] = _from_where_called(value, "PATH" in (parameter.metavar or ""))


class Command(TyperCommand):
    """A command whose page has an example (its `epilog`) and exit codes, and that takes COMMON behind its name too."""

    def __init__(self, *words: Any, epilog: str | None = None, **more: Any) -> None:
        super().__init__(*words, epilog=f"Example: {epilog}\n\n{EXIT_CODES}", **more)
        self._common: list[TyperOption] | None = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read its words."""
        if ctx.allow_interspersed_args:
            _refuse_empty(ctx, takewhile(lambda word: word != "--", args))
        try:
            rest = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            from fsage.text.strict import problems_of

            if isinstance(error.__cause__, ValidationError):  # its sentence does not have the value
                error.message = str(problems_of(error.__cause__)[0])
            raise
        for option in self.params:
            if ctx.params.get(option.name) == STANDARD_INPUT and option.name in WRITTEN:
                ctx.fail(f"--{option.name} - is no file or folder: name one")
        _find_paths(ctx)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run it, after a look at the results, which `evidence` and `fragments` have none of."""
        from fsage.plan import results

        results.check(ctx.obj.results if self._uses_where() else None)
        return super().invoke(ctx)

    def _uses_where(self) -> bool:
        assert self.callback
        return "context" in inspect.signature(self.callback).parameters

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, those of all commands, and --help."""
        if self._common is None:
            self._common = []
            if ctx.parent:
                options = [option for option in ctx.find_root().command.params if option.name in COMMON]
                self._common = list(map(self._behind, options))
        *parameters, help_option = super().get_params(ctx)
        shown = [*parameters, *self._common, help_option]
        for parameter in shown:
            _name_values(ctx, parameter)
        return shown

    def _behind(self, option: TyperOption) -> TyperOption:
        """The same option behind the name of the command."""
        copied = copy.copy(option)
        where = COMMON[option.name]
        copied.name = f"behind_{option.name}"
        copied.envvar = copied.default = None
        copied.expose_value = copied.show_envvar = False
        copied.hidden = option.name != "target" or not self._uses_where()

        def take(context: Any, parameter: object, value: object) -> None:
            if value is not None and context.obj is not None:
                context.obj = replace(context.obj, **{where: _from_where_called(value)})

        copied.callback = take
        return copied

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Names of arguments alone, where Typer has {name}."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


class Group(TyperGroup):
    """All commands. The name of a study in place of a command has a hint."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words before the name of a command."""
        _refuse_empty(ctx, takewhile(lambda word: word not in self.commands, args))
        rest = super().parse_args(ctx, args)
        _find_paths(ctx)
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options."""
        parameters = super().get_params(ctx)
        for parameter in parameters:
            _name_values(ctx, parameter)
        return parameters

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called."""
        name = args[0]
        if name not in self.commands and not ctx.resilient_parsing:
            studies = [path.stem for path in Path(ctx.params["studies"]).glob("*.yaml")]
            near = get_close_matches(name, [*studies, *self.commands], n=1)
            if near and near[0] in studies:
                ctx.fail(f"No such command {name!r}. To measure study {near[0]}: ./run fsage run {near[0]}")
        return super().resolve_command(ctx, args)


if TYPE_CHECKING:
    from fsage.model.claim import Claim
    from fsage.plan import Plan
    from fsage.plan.pool import Pool
    from fsage.plan.target import Target


@dataclass(frozen=True)
class Where:
    """What the options of all commands say. Raises ValueError for a place that is none."""

    target_name: str | None
    inventories: Path
    results: Path
    studies: Path
    last_results: ClassVar[Path] = Path("results")
    """Where this process writes: a full disk is named after it."""

    def __post_init__(self) -> None:
        from fsage.plan.settings import PLACES

        if self.target_name == "":
            raise Misuse("--target is empty: give the name of a folder in inventories/, such as --target local")
        for option in ("results", "studies", "inventories"):
            folder: Path = getattr(self, option)
            if option != "results" and str(folder) != PLACES[option] and not folder.exists():
                raise ValueError(f"--{option} {folder}: there is no such folder")
            if folder.exists() and not folder.is_dir():
                raise ValueError(f"--{option} {folder} is no folder")
            if folder.exists() and not os.access(folder, os.R_OK | os.X_OK):
                raise ValueError(f"--{option} {folder} cannot be read by this user: name another, or run as its owner")
        if self.target_name:
            for inventory in self.inventory_folders:
                if not inventory.exists():
                    from fsage.plan.target import load_target

                    load_target(inventory)  # raises, and names those that are there
        Where.last_results = self.results

    def settings(self) -> list[str]:
        """What of it is not the usual, as Snakemake's --config takes it."""
        from fsage.plan.settings import unusual

        places = unusual(self.results, self.studies, self.inventories)
        if self.target_name:
            return [f"target={self.target_name}", *places]
        return places

    def on_one_target(self, study: str | None) -> Where:
        """These options with one target: the named one, else the study's own, else this machine's."""
        if self.target_name:
            return self
        from fsage.plan.target import target_of

        return replace(self, target_name=target_of([self.study_file(study)] if study else []))

    @property
    def inventory(self) -> Path:
        """The folder of the one target's inventory. Raises StudyError where several are named."""
        first, *others = self.on_one_target(None).inventory_folders
        if others:
            from fsage.study import StudyError

            raise StudyError(
                f"target: {self.target_name!r} are several, and this is for one: name it with --target NAME"
            )
        return first

    @property
    def inventory_folders(self) -> list[Path]:
        """Those of all targets that are named. Raises StudyError."""
        from fsage.plan.pool import names_of

        return [self.inventories / name for name in names_of(str(self.target_name))]

    def plan(self, study: str) -> Plan:
        """The plan of a study on one target. Raises StudyError."""
        from fsage.plan import load_plan
        from fsage.run import runs

        run = runs.current()
        inventory = self.on_one_target(study).inventory
        plan = load_plan(self.study_file(study), inventory, self.results, run.only)
        parts = run.parts.get(study)
        if parts:
            return replace(plan, part=tuple(parts[inventory.name]))
        return plan

    def others(self, plan: Plan) -> list[Plan]:
        """Plans of its study on the other targets of the run that this process belongs to. Raises StudyError."""
        from fsage.run import runs

        study = plan.study.name
        names = [name for name in runs.current().parts.get(study, ()) if name != plan.target.name]
        return [replace(self, target_name=name).plan(study) for name in names]

    def pool(self, study: str) -> Pool:
        """The plans of a study on one target or several. Raises StudyError."""
        from fsage.plan.pool import load_pool
        from fsage.run import runs

        run = runs.current()
        folders = self.on_one_target(study).inventory_folders
        return load_pool(self.study_file(study), folders, self.results, run.only, run.lost, run.parts.get(study))

    def study_file(self, study: str) -> Path:
        """Where a study is written down. Raises StudyError for the name of a file."""
        from fsage.study.files import check_alone

        check_alone(study)
        return self.studies / f"{study}.yaml"

    def plans(self, studies: list[str]) -> list[Plan]:
        """The plans of some studies, or of all that can be planned. Raises StudyError for one that is named."""
        if studies:
            return list(map(self.plan, studies))
        from fsage.study.files import in_folder

        return list(_readable(in_folder(self.studies), lambda path: self.plan(path.stem)).values())

    def target(self) -> Target:
        """The target's declaration. Raises StudyError."""
        from fsage.plan.target import load_target

        return load_target(self.inventory)

    def claim(self, target: Target) -> Claim | None:
        """The copy of a target's claim; None before there is one. Raises ValueError for another release's."""
        from fsage.plan.results import Results
        from fsage.records.store import claim_of

        return claim_of(Results(self.results, target.name, "").claim)

    @staticmethod
    def amount_of(plan: Plan) -> Claim:
        """The claim of a plan with the amount that all its states have room for. Raises StudyError for too little."""
        from fsage.plan.amount import fitting_amount

        assert plan.claim
        return fitting_amount(plan, plan.claim)

    @staticmethod
    def set_aside(plan: Plan, statuses: set[str]) -> int:
        """Have the cells of a plan that have one of these statuses measured again; how many they are."""
        from fsage.records.store import quarantine

        return quarantine(plan, lambda state, cell: True, statuses)

    def start(self, plan: Plan) -> NoReturn:
        """Measure what a plan has, in place of this process."""
        start_snakemake(plan.commands.measure_words)

    def other_targets(self) -> dict[str, Target]:
        """The declarations of the other inventories, by folder; one that cannot be read is said and left out."""
        from fsage.plan.target import inventories_in, load_target

        beside = inventories_in(self.inventory.parent)
        others = {folder.name: folder for folder in beside if folder.name != self.inventory.name}
        return _readable(others, load_target)

    @staticmethod
    def study_names(context: typer.Context, incomplete: str) -> list[str]:
        """For a shell: the studies whose names begin so."""
        folder = Path((context.find_root().params or {}).get("studies") or "config")
        return sorted(path.stem for path in folder.glob(f"{incomplete}*.yaml"))

    @staticmethod
    def state_names(context: typer.Context, incomplete: str) -> list[str]:
        """For a shell: the states of the study named before, in planned order."""
        given = context.find_root().params or {}
        where = Where(
            given.get("target"),
            Path(given.get("inventories") or "inventories"),
            Path(given.get("results") or "results"),
            Path(given.get("studies") or "config"),
        )
        try:
            states = where.plan(context.params["study"]).states
        except Exception:  # nobody who completes a word wants to read why it cannot be
            return []
        return [name for name in states if name.startswith(incomplete)]


def check_writable(option: str, path: Path | None) -> None:
    """Raise ValueError, before the work begins, where the file of an option cannot be written at its end."""
    if path is None:
        return
    check_place(path)
    if not path.parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"{option} {path}: this user cannot write there")


T = TypeVar("T")


def _readable(paths: dict[str, Path], read: Callable[[Path], T]) -> dict[str, T]:
    """What is read of each path, by name. A command about something else leaves out what cannot be read."""
    from fsage.study import StudyError

    found = {}
    for name, path in paths.items():
        try:
            found[name] = read(path)
        except (StudyError, OSError) as why:
            say(f"{in_words(why)}. {name} is left out")
    return found


def start_snakemake(words: list[str]) -> NoReturn:
    """Print a command line of Snakemake, and become it."""
    say(shlex.join(["./run", *words]))
    with interrupt.deferred():
        os.execv(sys.executable, [sys.executable, "-P", "-m", "fsage.start", *words[1:]])


def target_names(context: typer.Context, incomplete: str) -> list[str]:
    """For a shell: the inventories whose names begin so."""
    folder = Path((context.params or {}).get("inventories") or "inventories")
    return sorted(path.parents[2].name for path in folder.glob(f"{incomplete}*/group_vars/all/target.yml"))


StudyName = Annotated[str, typer.Argument(help="a study: config/<study>.yaml", autocompletion=Where.study_names)]
StateName = Annotated[
    str, typer.Argument(help="a state of the study, e.g. 70.30@264M", autocompletion=Where.state_names)
]
