"""Results: reports, comparisons, advice, and what travels."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fsage.base.message import say
from fsage.commands import StudyName, Where

app = typer.Typer()
PANEL = "Results"


@app.command(rich_help_panel=PANEL, epilog="./run fsage advise prealloc_quick --files sizes.csv")
def advise(
    context: typer.Context,
    study: StudyName,
    files: Annotated[
        Path | None,
        typer.Option(help="the files it is for: .yaml or .csv (size, count), a folder, sizes by line, or -"),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(help="shares of the bytes by measure, e.g. read=3,write=1; none: as the cells move them"),
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="only these values of a parameter or axis: deleted=1,2; may be repeated")
    ] = None,
    margin: Annotated[float, typer.Option(help="difference (%) below which it does not matter")] = 3,
    least_share: Annotated[
        float, typer.Option(help="minimum share of bytes (%) with measurements for every compared choice")
    ] = 90,
    cold_reads: Annotated[
        float | None, typer.Option(help="of defrag: how often a file is read; the work then counts too")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, with samples and record files")] = False,
) -> None:
    """Choose a layout, a preallocation or defragmentation for some files from a study's records; say how sure it is.

    Exit 0 with advice, or where the data do not decide, which is said.
    """
    from fsage.advise import AdviceRequest, distribution, measured, show

    request = AdviceRequest(
        files=distribution.read(str(files)) if files else None,
        at=measured.read_pairs(at or [], "--at"),
        mix=measured.read_pairs(mix.split(",") if mix else [], "--mix"),
        margin=margin / 100,
        least_share=least_share / 100,
        cold_reads=cold_reads,
    )
    show.run(context.obj.plan(study), request, as_json)


@app.command(
    rich_help_panel=PANEL,
    epilog="./run fsage compare before.parquet after.parquet --to compared",
)
def compare(
    before: Annotated[Path, typer.Argument(help="a report's folder, or its records.parquet")],
    after: Annotated[Path, typer.Argument(help="another, of another time, tuning or file system")],
    to: Annotated[Path, typer.Option(readable=False, help="folder for the page and its figures")],
    names: Annotated[tuple[str, str], typer.Option(metavar="BEFORE AFTER", help="what to call the two")] = (
        "before",
        "after",
    ),
) -> None:
    """Set two results of the same cells side by side, with differences and intervals."""
    from fsage.report.compare import compare

    say(f"report {compare(before, after, to, names)}")


@app.command(rich_help_panel=PANEL, epilog="./run fsage history may.parquet june.parquet --to history")
def history(
    tables: Annotated[list[Path], typer.Argument(help="reports' folders, or their records.parquet, of one study")],
    to: Annotated[Path, typer.Option(readable=False, help="folder for the page and its figures")],
) -> None:
    """Set many results of a study in the order of time: what changed from each to the next, and where it stayed so."""
    from fsage.report.compare import history

    say(f"report {history(tables, to)}")


@app.command(rich_help_panel=PANEL, epilog="./run fsage export quickstart --to quickstart.zip")
def export(
    context: typer.Context,
    study: StudyName,
    to: Annotated[Path, typer.Option(readable=False, help="a folder or .zip that does not exist")],
    raw: Annotated[bool, typer.Option(help="with the tools' own output")] = True,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="only what a report is made from, nothing that names")
    ] = False,
    author: Annotated[str | None, typer.Option(help="NAME, or 'NAME <https://orcid.org/0000-...>'")] = None,
    affiliation: Annotated[
        str | None, typer.Option(help="the author's organisation: NAME, or 'NAME <https://ror.org/...>'")
    ] = None,
    license_: Annotated[str | None, typer.Option("--license", help="SPDX identifier, such as CC-BY-4.0")] = None,
) -> None:
    """Write a study's results as an RO-Crate, from which anybody can make the report again; say what it discloses."""
    from fsage.archive.export import Credit, export

    where_: Where = context.obj
    plan = where_.plan(study)
    credit = Credit(author, license_, affiliation)
    written = export(plan, where_.study_file(study), plan.inventory, to, raw, anonymous, credit)
    if anonymous:
        say(
            "it holds what docs/background/security.md lists; raw output, hosts, places, ids and free text stay at home"
        )
    else:
        say("it discloses hosts, users, addresses, places, ids and command lines; --anonymous leaves them out")
    say(f"wrote {written}; `./run fsage remake {shlex.quote(str(written))} --to FOLDER` makes its report again")


@app.command(rich_help_panel=PANEL, epilog="./run fsage remake quickstart.zip --to remade")
def remake(
    crate: Annotated[Path, typer.Argument(help="what `fsage export` wrote: a folder or a .zip")],
    to: Annotated[Path, typer.Option(readable=False, help="a folder that does not exist")],
) -> None:
    """Make the report of exported results anew, and say whether it is the same."""
    from fsage.archive.export import remake

    made = remake(crate, to)
    if made.same:
        verdict = "byte for byte the one"
    else:
        verdict = f"not byte for byte the one (made by {made.made_by})"
    say(f"{made.page} is {verdict} in {crate}")
