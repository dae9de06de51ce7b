"""fsage: what does age do to a file system, and what can be done about it?"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NoReturn

import typer

import fsage
from fsage import interrupt
from fsage.base import Failure, Misuse, Refusal, in_words
from fsage.base.message import say, whole_output
from fsage.commands import EXIT_CODES, Command, Group, Where, answers, jobs, layouts, studies, target_names, targets
from fsage.model import plugins

DENIED = (errno.EROFS, errno.EACCES, errno.EPERM)
app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help=__doc__,
    epilog=f"Example: ./run fsage run quickstart\n\n{EXIT_CODES}",
    context_settings={"help_option_names": ["-h", "--help"]},
)
of_studies = [plugins.of_study(study, "command") for study in plugins.having("command")]
for part in (studies, targets, answers, layouts, *of_studies, jobs):
    for command in part.app.registered_commands:
        command.cls = Command
        command.rich_help_panel = command.rich_help_panel or layouts.PANEL
    app.add_typer(part.app)


def _version(asked: bool) -> None:
    if asked:
        print(f"fsage {fsage.__version__}")
        raise typer.Exit


@app.callback()
def where(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Option(
            envvar="FSAGE_TARGET",
            metavar="NAME",
            help="a folder of inventories/, or several with commas; none: the study's, else this machine's",
            autocompletion=target_names,
        ),
    ] = None,
    results_root: Annotated[
        Path, typer.Option("--results", envvar="FSAGE_RESULTS", help="folder of records, reports, claims and logs")
    ] = Path("results"),
    studies: Annotated[Path, typer.Option(envvar="FSAGE_STUDIES", help="folder of the studies")] = Path("config"),
    inventories: Annotated[Path, typer.Option(envvar="FSAGE_INVENTORIES", help="folder of the inventories")] = Path(
        "inventories"
    ),
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version and end")
    ] = False,
) -> None:
    """Options of all commands, before their names or behind them; a path is relative to where it is called."""
    context.obj = Where(target, inventories, results_root, studies)


def _complain(text: str, code: int = 1) -> NoReturn:
    is_said = False
    if interrupt.TOLD_BY_THE_RUN in os.environ:
        from fsage.run import runs

        is_said = runs.told_before(text)
    if not is_said:
        say(text)
    sys.exit(code)


def _of_a_file(error: OSError) -> str:
    """What failed, and where: of a full disk Python often does not name the file."""
    of_results = str(error.filename).startswith(str(Where.last_results))
    if error.errno in DENIED and of_results:
        return f"{in_words(error)}; `--results FOLDER` takes another folder"
    if error.errno not in (errno.ENOSPC, errno.EDQUOT) or (error.filename and not of_results):
        return in_words(error)
    places = (str(Where.last_results), os.getcwd(), tempfile.gettempdir(), *_named_outputs(sys.argv))
    full = [place for place in dict.fromkeys(places) if _is_full(place)]
    return (
        f"{' or '.join(full or places[:1])}: {os.strerror(error.errno)}. Free some space there and give the same "
        "command again; what was measured is kept"
    )


def _named_outputs(words: list[str]) -> list[str]:
    """The folders that the command line names for what is written."""
    named = [Path(after) for word, after in pairwise(words) if word in ("--to", "-o")]
    return [str(path if path.is_dir() else path.parent) for path in named]


def _is_full(place: str) -> bool:
    """Whether less than 1 MiB can be written below a folder."""
    try:
        space = os.statvfs(place)
    except OSError:
        return False
    return space.f_bavail * space.f_frsize < 1 << 20


def main() -> None:
    """Run a command; what is wrong is said in a sentence, never by a traceback."""
    try:
        with whole_output():
            app()
    except Misuse as error:
        _complain(str(error), 2)
    except (Refusal, Failure, ValueError) as error:
        _complain(str(error))
    except OSError as error:
        _complain(_of_a_file(error))
    except KeyboardInterrupt:
        sys.exit(interrupt.CODE)
