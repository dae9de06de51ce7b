"""`fsage kernels`: kernels that run as programs."""

from __future__ import annotations

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
    from fsage.studies.kernels import programs
    from fsage.studies.kernels.doctor import checks

    for release in fetch or ():
        say(f"unpacking the kernel of {release}")
        say(f"kernel {programs.fetch(release).name} is in {programs.unpacked()}")
    found = checks([programs.named(path) for path in program or ()])
    for check in found:
        say(f"{check.name}: {'; '.join([check.detail, *check.obstacles])}")
    raise typer.Exit(0 if any(check.runs for check in found) and all(check.runs for check in found) else 1)
