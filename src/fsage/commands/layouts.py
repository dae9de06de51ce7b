"""Any file system: how free space and files lie, and files put into one piece. No target is needed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from fsage.commands.common import say

app = typer.Typer()
PANEL = "Any file system"


@app.command(rich_help_panel=PANEL)
def evidence(
    what: Annotated[str, typer.Argument(help="a device, an image, a directory, a saved text, or - for standard input")],
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
    html: Annotated[Path | None, typer.Option(help="write a page with plots, which opens offline")] = None,
    files: Annotated[
        int | None,
        typer.Option(min=0, help="of a directory, look at so many files at most [100000; 0 of --openmetrics]"),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="write its list of free extents, e.g. ost0012.gz")] = None,
    openmetrics: Annotated[bool, typer.Option("--openmetrics", help="print metrics for Prometheus instead")] = False,
    to: Annotated[Path | None, typer.Option(help="of --openmetrics: write them to this file, at once")] = None,
    time_limit: Annotated[float, typer.Option(min=0.001, help="of --openmetrics: give up after so many seconds")] = 600,
    nice: Annotated[int, typer.Option(min=0, max=19, help="of --openmetrics: the niceness to read at")] = 0,
) -> None:
    """Show how free space and files lie on any file system, or in saved text of the tools that list them.

    Read-only, and no target is needed. Of a directory: the free space of its file system, and the files below it.
    """
    if openmetrics:
        if as_json or html or save:
            raise ValueError("--openmetrics stands alone: leave out --json, --html and --save")
        from fsage.evidence.exporter import export

        if failed := export([what], to, time_limit, nice, files or 0):
            raise ValueError(failed[0])
        return
    if to:
        raise ValueError("--to is where the metrics go: give --openmetrics with it")
    from fsage import seam
    from fsage.evidence import terminal

    if save:
        from fsage.evidence import free

        free.save(what, save)
        say(f"free extents {save}")
        what = str(save) if what == "-" else what  # it is read once
    layout = seam.here().inspect(what, 100_000 if files is None else files)
    if html:
        from fsage.evidence.page import page  # what draws takes a second to load

        html.write_text(page(layout), encoding="utf-8")
        say(f"page {html}")
    terminal.show(layout, as_json)


@app.command(rich_help_panel=PANEL)
def age(
    context: typer.Context,
    sources: Annotated[list[str], typer.Argument(help="mounts, devices, images or saved texts; several are ranked")],
    samples: Annotated[int, typer.Option(min=1, max=99, help="of a layout larger than the target, so many")] = 1,
    at: Annotated[str, typer.Option(help="also filled further by the same pattern: percent full, e.g. 80,90")] = "",
    delete: Annotated[str, typer.Option(help="also after so much of it was deleted, e.g. 10% or 10%,20%")] = "",
    after: Annotated[str, typer.Option(help="defragment: also say what that would bring at best")] = "",
    only_prepare: Annotated[bool, typer.Option("--prepare", help="write the study, and do not measure")] = False,
) -> None:
    """Say what the age of a file system costs here: its free space, block by block, on this machine's target.

    The source is only read. The target is emptied and measured: with its free space, with as much in one run, empty.
    """
    from fsage.plan.results import Results
    from fsage.run import age as ages

    where = context.obj.of(None)
    folder = where.results / "age"
    target = where.target().name
    if after not in ("", "defragment"):
        raise ValueError(f"--after {after!r}: allowed is defragment")
    what_if = ages.WhatIf(percents(at, "--at"), percents(delete, "--delete"), bool(after))
    copy = Results(where.results, target, "").claim
    study, said = ages.prepare(sources, where.studies, folder, samples, copy, what_if)
    for line in said:
        say(line)
    plan = ages.planned(study, folder, where.inventory, where.results)
    for line in ages.amount_line(plan):
        say(line)
    if only_prepare:
        say(f"`{plan.commands.measure}` measures it")
        return
    for line in ages.measured_again(plan):
        say(line)
    words = plan.commands.measure_words
    os.execvp(words[0], words)


def percents(text: str, option: str) -> tuple[float, ...]:
    """The numbers in '80,90' or '10%'. Raises ValueError for what are none."""
    words = [word.strip().removesuffix("%") for word in text.split(",")] if text else []
    if not all(re.fullmatch(r"\d{1,2}(\.\d{1,2})?", word) for word in words) or len(set(words)) < len(words):
        raise ValueError(f"{option} {text!r}: percents below 100 are wanted, each once, such as 10% or 80,90")
    return tuple(map(float, words))


@app.command(rich_help_panel=PANEL)
def fragments(
    paths: Annotated[list[Path], typer.Argument(help="files, folders or mounts, of any file system")],
    worst: Annotated[int, typer.Option(min=0, help="list so many files")] = 20,
    by: Annotated[str, typer.Option(help="worst by: extents, or ratio (of reading times)")] = "extents",
    seek_ms: Annotated[float | None, typer.Option(help="what a seek costs; measured by reading if not given")] = None,
    rate_mb_s: Annotated[float | None, typer.Option(help="transfer rate, 10^6 bytes; likewise")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
    files: Annotated[int, typer.Option(min=1, help="look at so many files at most")] = 1_000_000,
) -> None:
    """Show which files lie in most pieces, what defragmenting them would gain at most, and the command that does it.

    Read-only, and no target is needed. The gain is a bound, not a forecast: each extent counted as a whole seek.
    """
    from fsage.evidence import terminal

    terminal.fragments(paths, worst, by, seek_ms, rate_mb_s, as_json, files)
