"""Any file system: how free space and files lie, and files put into one piece. No target is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fsage.base import Misuse
from fsage.base.message import say, write_whole
from fsage.commands import CALLED_FROM, check_writable

app = typer.Typer()
PANEL = "Any file system"
MOST_FILES = 1_000_000_000_000
Files = Annotated[
    int | None,
    typer.Option(
        min=0, max=MOST_FILES, help="of a directory, look at so many files at most [100000; 0 of --openmetrics]"
    ),
]
Beside = Annotated[
    Path | None,
    typer.Option(
        readable=False, help="run the command behind --, and add a JSON line on before and after to this file"
    ),
]


@app.command(rich_help_panel=PANEL, epilog="./run fsage evidence /data --html evidence.html")
def evidence(
    source: Annotated[
        Path,
        typer.Argument(help="a device, an image, a directory, a saved text, or - for standard input"),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
    html: Annotated[
        Path | None, typer.Option(readable=False, help="write a page with plots, which opens offline")
    ] = None,
    files: Files = None,
    save: Annotated[
        Path | None, typer.Option(readable=False, help="write its list of free extents, e.g. ost0012.gz")
    ] = None,
    fail_on: Annotated[
        str,
        typer.Option(help="exit 3 from these numbers on: full=90,extents_64M=12 (also inodes, extents_1M, extents_1G)"),
    ] = "",
    openmetrics: Annotated[bool, typer.Option("--openmetrics", help="print metrics for Prometheus instead")] = False,
    to: Annotated[
        Path | None, typer.Option(readable=False, help="with --openmetrics: write the metrics to this file atomically")
    ] = None,
    time_limit: Annotated[float, typer.Option(min=0.001, help="with --openmetrics: most seconds to read")] = 600,
    nice: Annotated[int, typer.Option(min=0, max=19, help="with --openmetrics: the niceness to read at")] = 0,
    beside: Beside = None,
    command: Annotated[list[str] | None, typer.Argument(help="of --beside: a command, e.g. a benchmark")] = None,
) -> None:
    """Show how free space and files lie on any file system, or in saved text of the tools that list them.

    Read-only, and no target is needed. For a directory: the free space of its file system, and the files below it.
    Exit code 3: a limit of --fail-on is reached.
    """
    what = str(source)
    if command and not beside:
        raise Misuse(
            f"one source is read at a time; behind {what} stands {command[0]}, a command without --beside FILE"
        )
    if beside and not command:
        raise Misuse("--beside FILE needs a command: evidence DIR --beside FILE -- COMMAND ...")
    shown = as_json or html or save or fail_on
    if beside and (shown or openmetrics):
        raise Misuse("--beside stands alone: leave out --json, --html, --save, --fail-on and --openmetrics")
    if beside and command:
        from fsage.evidence import run_beside

        raise typer.Exit(run_beside(what, command, beside, files or 0, CALLED_FROM))
    if openmetrics:
        if shown:
            raise Misuse("--openmetrics stands alone: leave out --json, --html, --save and --fail-on")
        from fsage.layouts.monitoring import export

        failed = export([what], to, time_limit, nice, files or 0)
        if failed:
            raise ValueError(failed[0])
        return
    if to:
        raise Misuse("--to is where the metrics go: give --openmetrics with it")
    raise typer.Exit(_shown(what, as_json, html, 100_000 if files is None else files, save, fail_on))


def _shown(what: str, as_json: bool, html: Path | None, files: int, save: Path | None, fail_on: str) -> int:
    """Show how a source lies, and write what is to be written of it; the exit code."""
    from fsage.layouts import terminal, verdict
    from fsage.layouts.inspect import inspect

    limits = verdict.parse_limits(fail_on, verdict.NAMES)
    check_writable("--html", html)
    check_writable("--save", save)
    if save:
        from fsage.evidence import save_free

        save_free(what, save)
        say(f"free extents {save}")
        what = str(save) if what == "-" else what  # it is read once
    layout = inspect(what, files)
    if html:
        from fsage.evidence import page

        write_whole(html, page(layout))
        say(f"page {html}")
    return terminal.show(layout, as_json, limits)


@app.command(rich_help_panel=PANEL, epilog="./run fsage fragments /data --worst 10")
def fragments(
    paths: Annotated[list[Path], typer.Argument(help="files, folders or mounts, of any file system")],
    worst: Annotated[int, typer.Option(min=0, max=MOST_FILES, help="list so many files")] = 20,
    by: Annotated[str, typer.Option(help="worst by: extents, or ratio (of reading times)")] = "extents",
    seek_ms: Annotated[float | None, typer.Option(help="what a seek costs; measured by reading if not given")] = None,
    rate_mb_s: Annotated[float | None, typer.Option(help="transfer rate, 10^6 bytes; likewise")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
    files: Annotated[int, typer.Option(min=1, max=MOST_FILES, help="look at so many files at most")] = 1_000_000,
    fail_on: Annotated[
        str,
        typer.Option(help="exit 3 from these numbers on: fragmented=5 (percent of the files), full=90, extents_64M=12"),
    ] = "",
) -> None:
    """Show the most fragmented files, what defragmenting them would gain at most, and the command that does it.

    Read-only, and no target is needed. The gain is a bound, not a forecast: each extent counted as a whole seek.
    Exit code 3: a limit of --fail-on is reached.
    """
    from fsage.layouts import terminal

    raise typer.Exit(terminal.fragments(paths, worst, by, seek_ms, rate_mb_s, as_json, files, fail_on))
