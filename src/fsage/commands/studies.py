"""Studies: what one is, what of it is missing, its end."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsage.base import Misuse
from fsage.base.message import lines, say
from fsage.base.sizes import counted
from fsage.commands import StudyName, Where, start_snakemake

if TYPE_CHECKING:
    from fsage.plan.pool import Pool
    from fsage.report.parts import Section

app = typer.Typer()
PANEL = "Studies"


@app.command(rich_help_panel=PANEL, epilog="./run fsage run quickstart --target local --budget 45m")
def run(
    context: typer.Context,
    studies: Annotated[
        list[str],
        typer.Argument(metavar="STUDY", help="studies: config/<study>.yaml", autocompletion=Where.study_names),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="show the plan, and measure nothing")] = False,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="how long it may take, e.g. 45m: it measures what tells most, and predicts"),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="how well rates are to be known, e.g. 3%; it predicts the rest"),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="LEVELS", help="a part of the study, e.g. '{capacity: 80, fragmentation: 0}'")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="when the last cell must have ended, e.g. 18:00")
    ] = None,
    lost: Annotated[
        str | None, typer.Option(metavar="NAMES", help="targets that do not come back; the others take their states")
    ] = None,
    batch_states: Annotated[int | None, typer.Option(min=1, help="how many states one job visits")] = None,
    profile: Annotated[str | None, typer.Option(metavar="PATH", help="a Snakemake profile, e.g. slurm")] = None,
) -> None:
    """Measure what is missing of studies and make their reports: start Snakemake, and print its command line.

    The same command resumes a run that was stopped. Other options of Snakemake can be added to the printed line.
    """
    given = _settings(only=only, until=until, budget=budget, precision=precision)
    settings = context.obj.settings()
    for key, value in {**given, "lost": lost, "batch_states": batch_states}.items():
        if value is not None:
            settings.append(f"{key}={value}")
    words = ["snakemake"]
    if dry_run:
        words.append("--dry-run")
    if profile:
        words += ["--profile", profile]
    if settings:
        words += ["--config", *settings]
    start_snakemake([*words, "--", *studies])


def _settings(**options: str | None) -> dict[str, str]:
    """Those that are given. Raises Misuse for one that is wrong in itself, before anything is read for it."""
    from fsage.plan import settings

    given = {key: value for key, value in options.items() if value is not None}
    try:
        settings.precision(given)
        settings.until(given, datetime.now().astimezone())
    except ValueError as error:
        raise Misuse(str(error)) from None
    _block("--only", given.get("only", ""))
    return given


@app.command(rich_help_panel=PANEL, epilog="./run fsage plan series1 --budget 8h")
def plan(
    context: typer.Context,
    study: StudyName,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="also say what fits into this time, e.g. 8h or 45m")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="PERCENT", help="how well rates are to be known, e.g. 3%")
    ] = None,
) -> None:
    """Summarise a study and its remaining work; with --budget, also what fits into that time."""
    from fsage.plan import settings

    given = _settings(budget=budget, precision=precision)
    pool = context.obj.pool(study)
    plan_lines = pool.lines()
    wanted = settings.precision(given)
    seconds = None if budget is None else settings.length(budget.strip()).total_seconds()
    if wanted is not None:
        from fsage.run import adaptive

        for plan in pool.at_work:
            adaptive.check(plan, wanted, seconds)
            plan_lines.append(adaptive.forecast(plan, wanted, seconds))
    print(lines("\n".join(plan_lines)))


@app.command(rich_help_panel=PANEL, epilog="./run fsage count quickstart --layouts 10")
def count(
    context: typer.Context,
    study: StudyName,
    layouts: Annotated[
        int | None, typer.Option(min=1, max=1000, help="layouts of each state [the study's, 30]")
    ] = None,
    places: Annotated[int | None, typer.Option(min=1, max=99, help="files that are left in a layout [1]")] = None,
    only: Annotated[
        str | None, typer.Option(metavar="LEVELS", help="a part of the study, e.g. '{capacity: 80, fragmentation: 0}'")
    ] = None,
    every_transfer: Annotated[
        bool, typer.Option("--every-transfer", help="count a file for each size of transfer, not for the largest alone")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="whose cost is computed: what `device_model` of a target may be, as YAML"),
    ] = None,
    to: Annotated[Path | None, typer.Option(readable=False, help="a folder; none: one in results/counts")] = None,
    filesystem: Annotated[
        str, typer.Option(metavar="NAMES", help="also count on these file systems, with commas: ext4, xfs, btrfs")
    ] = "",
) -> None:
    """Count where a new file lies in many layouts of each state, and compute what that costs a declared device.

    Nothing is timed, so other work on this machine does not matter. The file systems are made in memory, as root. The
    same command resumes with what is counted already.
    """
    import pandas as pd

    from fsage import count as counting
    from fsage import dataset
    from fsage.report.render import check_folder

    if to:
        check_folder(to)
    plan = context.obj.plan(study)
    if only:
        plan = replace(plan, study=plan.study.narrowed(_block("--only", only)))
    counted = counting.Counted.of(
        plan, layouts, places, _block("--device", device) if device else None, to, every_transfer
    )
    every = [counted]
    for name in dict.fromkeys(filesystem.replace(" ", "").split(",")):
        other = counted.on(name) if name else None
        if other and other.filesystem:
            every.append(other)
    for of in every:
        counting.count(of, lambda done, whole: say(f"{done} of {whole} layouts counted"))
    frame, *others = map(counting.table, every)
    beside = {of.title: other for of, other in zip(every[1:], others, strict=True)}
    pieces = pd.concat([counting.pieces(of) for of in every])
    counting.write_tables(pd.concat([frame, *others]), pieces, counted.folder)
    page = counting.write_page(counted, frame, dataset.load(plan.files()), beside)
    print(lines("\n".join(counting.answer(counted, frame, beside))))
    say(f"counts {page}")


def _block(option: str, text: str) -> object:
    """A block of YAML as an option. Raises Misuse."""
    import yaml

    from fsage.text import yaml_text

    try:
        return yaml_text.load(text)
    except yaml.YAMLError as error:
        raise Misuse(f"{option} {text}: {yaml_text.explain(error)}") from error


@app.command(rich_help_panel=PANEL, epilog="./run fsage remeasure quickstart --failed")
def remeasure(
    context: typer.Context,
    study: StudyName,
    state: Annotated[str | None, typer.Option(help="only this state")] = None,
    cell: Annotated[str | None, typer.Option(help="only cells of this name")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="only those that failed")] = False,
    skipped: Annotated[bool, typer.Option("--skipped", help="only those that were skipped")] = False,
) -> None:
    """Quarantine records, so that the next run measures those cells again. Raw output stays.

    When no record of a state is left, its evidence is quarantined too: the rebuilt state may differ.
    """
    from fsage.records.store import quarantine, quarantine_folder
    from fsage.study import StudyError

    pool = context.obj.pool(study)
    wanted: set[str] = set()
    if failed:
        wanted |= {"failed", "stopped"}
    if skipped:
        wanted.add("skipped")
    if not (wanted or state or cell):
        raise StudyError(
            "say which: --failed, --skipped, --state STATE and --cell CELL narrow it down (to all: --state of each)"
        )
    if state:
        pool.check_state(state)
    if cell:
        pool.check_cell(cell)

    def chosen(where: str, name: str) -> bool:
        return (not state or where == state) and (not cell or name == cell)

    moved = sum(quarantine(plan, chosen, wanted) for plan in pool.plans)
    folders = ", ".join(str(quarantine_folder(plan)) for plan in pool.plans)
    command = pool.commands.measure
    if not moved:
        print(lines(f"fsage: study {study} has no such record, so none is quarantined"))
        return
    print(lines(f"fsage: {counted(moved, 'record')} quarantined in {folders}; `{command}` measures those cells again"))


@app.command(rich_help_panel=PANEL, epilog="./run fsage conclude quickstart")
def conclude(context: typer.Context, study: StudyName) -> None:
    """Compare the records with the plan; say the headline. Exit 0 means: no planned cell is missing or failed."""
    from fsage import count as counting
    from fsage.run.conclusion import conclude

    pool = context.obj.pool(study)
    counted: list[str] = []
    for plan in pool.counted:
        counted += counting.kept_answer(plan)
    sentences, code = conclude(pool)
    print(lines("\n".join(counted + sentences)))
    raise SystemExit(code)


@app.command(rich_help_panel=PANEL, epilog="./run fsage report quickstart")
def report(context: typer.Context, study: StudyName) -> None:
    """Make a study's report and tables from its records, and the page of its counts."""
    from fsage import count as counting
    from fsage.run.conclusion import write_report

    where_: Where = context.obj
    pool = where_.pool(study)
    say(f"report {write_report(pool, where_.study_file(study), _counted(pool))}")
    for plan in pool.counted:
        page = counting.kept_page(plan)
        if page:
            say(f"counts {page}")


def _counted(pool: Pool) -> list[Section]:
    """What of a report comes from counts that are kept."""
    from fsage import count as counting

    sections: list[Section] = []
    for plan in pool.counted:
        sections += counting.kept_sections(plan)
    return sections


@app.command(rich_help_panel=PANEL, epilog="./run fsage figures quickstart --columns 2 --to figures")
def figures(
    context: typer.Context,
    study: StudyName,
    columns: Annotated[
        int, typer.Option(min=1, max=2, help="as wide as one column (3.5 in) or two (7.16 in), letters for print")
    ] = 1,
    table: Annotated[
        Path | None, typer.Option(help="a records.parquet of this study that somebody kept; none: its records here")
    ] = None,
    to: Annotated[Path | None, typer.Option(readable=False, help="a folder for them; none: beside the report")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="without title and stamp: captions.txt has both")] = False,
) -> None:
    """Draw a report's figures for a paper: PDF with TrueType fonts, SVG, captions, and each one's numbers as CSV."""
    from fsage.run.conclusion import write_figures

    pool = context.obj.pool(study)
    counted = [] if table else _counted(pool)
    folder = write_figures(pool, columns, table, to, plain=plain, progress=_progress, sections=counted)
    say(f"figures {folder}")


def _progress(count: int, whole: int) -> None:
    """Each figure on a terminal, else every tenth: drawing takes a minute."""
    if sys.stderr.isatty():
        print(f"\rfsage: {count} of {whole} figures", end="\n" if count == whole else "", file=sys.stderr, flush=True)
    elif count % 10 == 0:
        say(f"{count} of {whole} figures")
