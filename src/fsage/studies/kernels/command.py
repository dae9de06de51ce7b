"""`fsage kernels`, `extents` and `image`: kernels that run as programs, and file systems that they make and fill."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from fsage.commands.layouts import PANEL
from fsage.model.message import say

app = typer.Typer()


@app.command(rich_help_panel=PANEL, epilog="./run fsage kernels --fetch bookworm --fetch sid")
def kernels(
    fetch: Annotated[
        list[str] | None, typer.Option(metavar="RELEASE", help="first unpack that release's kernel, e.g. bookworm")
    ] = None,
    program: Annotated[list[str] | None, typer.Option(metavar="PATH", help="also try this program")] = None,
) -> None:
    """List kernels that run as programs (User Mode Linux), and try each: real file systems, without root.

    A kernel is tried by what it is for: it boots, makes and mounts each file system, and reads back what it wrote.
    Exit code 1: one does not work, or there is none.
    """
    from fsage.studies.kernels.doctor import checks
    from fsage.studies.kernels.model import programs

    for release in fetch or ():
        say(f"unpacking the kernel of {release}")
        say(f"kernel {programs.fetch(release).name} is in {programs.unpacked()}")
    found = checks([programs.named(path) for path in program or ()])
    for check in found:
        say(f"{check.name}: {'; '.join([check.detail, *check.obstacles])}")
    raise typer.Exit(0 if any(check.runs for check in found) and all(check.runs for check in found) else 1)


Size = Annotated[str, typer.Option(help="of the file system: 8G")]
FileSize = Annotated[str, typer.Option(help="of the files that fill it, where a state names none")]


@app.command(rich_help_panel=PANEL, epilog="./run fsage image 80.50 -o disk.img --filesystem ext4 --seed 1")
def image(
    state: Annotated[str, typer.Argument(help="AA.BB: filled to AA%, then BB% deleted; or PAF:70.30,20.40@33M")],
    to: Annotated[Path, typer.Option("--to", "-o", help="the image that is made")],
    filesystem: Annotated[str, typer.Option(help="ext4, xfs, btrfs")] = "ext4",
    size: Size = "8G",
    seed: Annotated[int, typer.Option(min=0, help="of the layout")] = 1,
    file_size: FileSize = "33M",
    file_extents: Annotated[int, typer.Option(min=0, help="add a file `pieces` of so many extents")] = 0,
    kernel: Annotated[str | None, typer.Option(help="a release or a program; the newest that is here")] = None,
) -> None:
    """Make an image of a file system with exactly this free space, without root, and check it by its fsck.

    The same state, seed, mkfs and kernel give the same layout, whose digest is printed.
    """
    from fsage.studies.kernels import images
    from fsage.studies.kernels.model import programs
    from fsage.text.sizes import parse_size

    if to.exists():
        raise ValueError(f"{to} exists, and is left as it is: name another file")
    recipe = images.recipe(state, seed, filesystem, parse_size(size), file_size, file_extents)
    made = images.of(recipe, programs.some(kernel))
    images.put(made, filesystem, to)
    print(f"{to} layout {made.facts['digest']}")


@app.command(rich_help_panel=PANEL, epilog="./run fsage extents 80.50 --kernels 6.1,7.2 --layouts 3")
def extents(
    context: typer.Context,
    states: Annotated[list[str] | None, typer.Argument(help="PaF states [10.00 40.00 80.00 80.50]")] = None,
    kernels: Annotated[str, typer.Option(help="releases or programs, with commas; all that are here")] = "",
    filesystems: Annotated[str, typer.Option(help="of these file systems")] = "ext4,xfs,btrfs",
    mount: Annotated[
        list[str] | None, typer.Option(help="mount options to compare with none [ext4: mb_optimize_scan=0]")
    ] = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="with every bitmap in memory (ext4): then counts repeat")
    ] = False,
    layouts: Annotated[int, typer.Option(min=1, help="layouts of each state, by seeds from 1 on")] = 10,
    repeats: Annotated[int, typer.Option(min=1, help="how often the same is counted")] = 1,
    size: Size = "8G",
    file_size: FileSize = "33M",
    file: Annotated[str, typer.Option(help="size of the new file")] = "384M",
    request: Annotated[str, typer.Option(help="bytes of one write, past the cache")] = "16M",
    built_by: Annotated[str | None, typer.Option(help="the kernel that makes the images; the first")] = None,
) -> None:
    """Count the extents that a new file gets on each kernel, from the same images; without root, and nothing is timed.

    The report is results/kernels/report.md; counts are beside it, and the same command counts what is missing.
    """
    from fsage.model import filesystems as known
    from fsage.studies.kernels import counting, images, tables
    from fsage.studies.kernels.model import programs
    from fsage.text.sizes import parse_size

    chosen = [programs.named(name) for name in kernels.split(",") if name] or programs.here() or [programs.some(None)]
    builder = programs.named(built_by) if built_by else chosen[0]
    options = ["", *(["mb_optimize_scan=0"] if mount is None else mount)]
    cells = [
        counting.Cell(images.recipe(state, seed, name, parse_size(size), file_size), seed, kernel, option, warm, repeat)
        for name, state, kernel, option, warm, seed, repeat in product(
            filesystems.split(","),
            states or ["10.00", "40.00", "80.00", "80.50"],
            chosen,
            options,
            [warm],
            range(1, layouts + 1),
            range(1, repeats + 1),
        )
        if mount or not option or option.partition("=")[0] in getattr(known.get(name), "allocator_options", ())
    ]
    folder = context.obj.results / "kernels"
    written = counting.Written(parse_size(file), parse_size(request))
    rows = counting.count(cells, builder, written, folder / "cells.jsonl")
    page = tables.page(rows)
    (folder / "report.md").write_text(page, encoding="utf-8")
    print(page)
    failed = sum(1 for row in rows if row["status"] == "failed")
    raise typer.Exit(1 if failed else 0)
