"""`fsage age`: what the age of a file system costs on this machine's target."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from fsage.api.command import Where, say
from fsage.api.model import Misuse

app = typer.Typer()


@app.command(epilog="./run fsage age /data --at 80,90")
def age(
    context: typer.Context,
    sources: Annotated[list[Path], typer.Argument(help="mounts, devices, images or saved texts; several are ranked")],
    samples: Annotated[
        int | None,
        typer.Option(
            min=1, max=99, help="sample a layout larger than the target, so many times, instead of laying it whole"
        ),
    ] = None,
    at: Annotated[str, typer.Option(help="also filled further by the same pattern: percent full, e.g. 80,90")] = "",
    delete: Annotated[str, typer.Option(help="also after so much of it was deleted, e.g. 10% or 10%,20%")] = "",
    after: Annotated[str, typer.Option(help="defragment: also say what that would bring at best")] = "",
    only_prepare: Annotated[bool, typer.Option("--prepare", help="write the study, and do not measure")] = False,
) -> None:
    """Say what the age of a file system costs: its free space, block by block, on a replica that is made as it is.

    The source is only read. fsage measures a replica on a target, mostly a modelled disk, not on the source's device.
    It measures with the copied free space, with as much in one run, and empty.
    """
    from . import age as ages
    from .whole import Base, measures_on

    where: Where = context.obj.on_one_target(None)
    folder = where.results / "age"
    target = where.target()
    if after not in ("", "defragment"):
        raise Misuse(f"--after {after!r}: allowed is defragment")
    what_if = ages.WhatIf(percents(at, "--at"), percents(delete, "--delete"), bool(after))
    base = Base(target, where.inventory, where.claim(target))
    study, sentences = ages.prepare(list(map(str, sources)), where.studies, folder, samples, what_if, base)
    plan = ages.planned(study, folder, where)
    for line in (*sentences, measures_on(plan.target)):
        say(line)
    for line in ages.amount_line(plan):
        say(line)
    if only_prepare:
        say(f"`{plan.commands.measure}` measures it")
        return
    for line in ages.measured_again(plan):
        say(line)
    where.start(plan)


def percents(text: str, option: str) -> tuple[float, ...]:
    """The numbers in '80,90' or '10%'. Raises ValueError for what are none."""
    if text:
        words = [word.strip().removesuffix("%") for word in text.split(",")]
    else:
        words = []
    if not all(re.fullmatch(r"\d{1,2}(\.\d{1,2})?", word) for word in words) or len(set(words)) < len(words):
        raise Misuse(f"{option} {text!r}: percents below 100 are wanted, each once, such as 10% or 80,90")
    return tuple(map(float, words))
