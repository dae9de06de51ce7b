"""`fsage kernels` and `image`: kernels that run as programs, and file systems that they make and fill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fsage.api.command import Where, say
from fsage.api.model import Misuse

app = typer.Typer()


@app.command(epilog="./run fsage kernels --fetch bookworm --fetch sid")
def kernels(
    fetch: Annotated[
        list[str] | None, typer.Option(metavar="RELEASE", help="first unpack that release's kernel, e.g. bookworm")
    ] = None,
    build: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE", help="first build: a linux-source-VERSION, a tarball, a folder or TREE@COMMIT"),
    ] = None,
    program: Annotated[list[str] | None, typer.Option(metavar="PATH", help="also try this program")] = None,
) -> None:
    """List kernels that run as programs (User Mode Linux), and try each: real file systems, without root.

    A kernel is tried by what it is for: it boots, makes and mounts each file system, and reads back what it wrote.
    Exit code 1: one does not work, or there is none.
    """
    from . import building
    from .doctor import checks
    from .model import programs

    for release in fetch or ():
        say(f"unpacking the kernel of {release}")
        say(f"kernel {programs.fetch(release).name} is in {programs.unpacked()}")
    for package in programs.fetch_mkfs() if fetch else ():
        say(f"{package} is in {programs.unpacked().parent}")
    for source in build or ():
        say(f"building {source}: 10 to 30 minutes")
        say(f"kernel {building.build(source).name} is in {programs.unpacked()}")
    found = checks(list(map(programs.named, program or ())))
    for check in found:
        say(f"{check.name}: {'; '.join([check.detail, *check.obstacles])}")
    raise typer.Exit(0 if all(check.runs for check in found) else 1)


@app.command(
    epilog="./run fsage bisect kernels --state S --tree linux --good v6 --bad v7",
)
def bisect(
    context: typer.Context,
    study: Annotated[str, typer.Argument(help="a study: config/<study>.yaml", autocompletion=Where.study_names)],
    state: Annotated[str, typer.Option(help="a state of the study", autocompletion=Where.state_names)],
    tree: Annotated[Path, typer.Option(metavar="DIR", help="a git tree of Linux")],
    good: Annotated[str, typer.Option(metavar="COMMIT", help="an older commit")],
    bad: Annotated[str, typer.Option(metavar="COMMIT", help="a newer one, which gives other counts")],
    cell: Annotated[str | None, typer.Option(metavar="NAME", help="of the state; one with bitmaps in memory")] = None,
) -> None:
    """Name the commit of Linux since which a new file lies in other extents: builds kernels, and counts one cell each.

    Kernels that were built are kept, so the same command continues where it was stopped.
    """
    from .bisection import Bisection

    where: Where = context.obj
    found = Bisection(where.plan(study), state, tree, say, cell).find(good, bad)
    print(f"{found.commit} {found.subject}")
    print(f"With it a new file lies in {found.after}, before in {found.before}; {found.tried} kernels were tried.")


Size = Annotated[str | None, typer.Option(help="of the file system: 8G, or as large as the layout", show_default=False)]
FileSize = Annotated[str, typer.Option(help="of the files that fill it, where a state names none")]
System = Annotated[str | None, typer.Option(help="ext4, xfs, btrfs or f2fs; that of a layout", show_default=False)]


@app.command(epilog="./run fsage image 80.50 -o disk.img --filesystem ext4 --seed 1")
def image(
    state: Annotated[
        str,
        typer.Argument(
            metavar="STATE|PATH", help="AA.BB: filled to AA%, then BB% deleted; PAF:70.30,20.40@33M; or a saved layout"
        ),
    ],
    to: Annotated[Path, typer.Option("--to", "-o", readable=False, help="the image that is made")],
    filesystem: System = None,
    size: Size = None,
    seed: Annotated[int, typer.Option(min=0, help="of the layout")] = 1,
    file_size: FileSize = "33M",
    file_extents: Annotated[int, typer.Option(min=0, help="add a file `pieces` of so many extents")] = 0,
    kernel: Annotated[
        str | None, typer.Option(metavar="RELEASE|PATH", help="a release or a program; the newest that is here")
    ] = None,
) -> None:
    """Make an image of a file system with exactly this free space, without root, and check it by its fsck.

    The same state, seed, mkfs and kernel give the same layout, whose digest is printed. A saved layout is any file that
    `fsage evidence` reads.
    """
    from fsage.api.model import parse_size

    from . import images
    from .model import programs

    images.check_new(to)
    if "/" in state or Path(state).is_file():
        if filesystem or size:
            raise Misuse(f"{state} is a layout, which has a file system and a size: leave --filesystem and --size")
        recipe = images.recipe_of(state, seed, file_extents)
    else:
        try:
            size_bytes = parse_size(size or "8G")
        except ValueError as error:
            raise Misuse(f"--size {size}: {error}") from None
        recipe = images.recipe(state, seed, filesystem or "ext4", size_bytes, file_size, file_extents)
    made = images.of(recipe, programs.some(kernel))
    images.put(made, recipe.filesystem, to)
    agreed = made.facts["agree_share"]
    if agreed is not None:
        say(f"{100 * agreed:.2f}% of the free bytes lie as in {state}")
    print(f"{to} layout {made.facts['digest']}")
