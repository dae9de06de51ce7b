"""fsage: what does age do to a file system? The commands that the DAG's jobs call and that people ask."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from fsage import job, partitions, results, runs
from fsage import request as requests
from fsage.agent.errors import Failure, Refusal
from fsage.plan import Plan, load_plan
from fsage.play import PlayFailed, play
from fsage.printable import lines
from fsage.study import StudyError
from fsage.target import Target, load_target, target_of
from fsage.window import WindowClosed

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)

StudyName = Annotated[str, typer.Argument(help="A study: config/<study>.yaml")]
StateName = Annotated[str, typer.Argument(help="A state of the study, e.g. 70.30@264M")]


@dataclass(frozen=True)
class Where:
    """What the options before the command say."""

    target_name: str | None
    inventories: Path
    results: Path
    studies: Path

    def of(self, study: str | None) -> Where:
        """The same on one target for certain: the one that was named, else the study's own, else this machine's."""
        return (
            self
            if self.target_name
            else replace(self, target_name=target_of([self.study_file(study)] if study else []))
        )

    @property
    def inventory(self) -> Path:
        """The folder of the target's inventory."""
        return self.inventories / str(self.of(None).target_name)

    def plan(self, study: str) -> Plan:
        """The plan of a study. Raises StudyError."""
        return load_plan(self.study_file(study), self.of(study).inventory, self.results, runs.current().only)

    def study_file(self, study: str) -> Path:
        """Where a study is written down."""
        return self.studies / f"{study}.yaml"

    def plans(self, studies: list[str]) -> list[Plan]:
        """The plans of some studies, or of all there are. Raises StudyError."""
        return [self.plan(name) for name in studies or sorted(path.stem for path in self.studies.glob("*.yaml"))]

    def target(self) -> Target:
        """The target's declaration. Raises StudyError."""
        return load_target(self.inventory)

    def other_targets(self) -> dict[str, Target]:
        """The declarations of the other inventories, by folder. Raises StudyError."""
        folders = {path.parents[2] for path in self.inventory.parent.glob("*/group_vars/all/target.yml")}
        return {folder.name: load_target(folder) for folder in sorted(folders) if folder.name != self.inventory.name}


@app.callback()
def where(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Option(envvar="FSAGE_TARGET", help="inventories/<target>/; none: the study's, else this machine's"),
    ] = None,
    results_root: Annotated[Path, typer.Option("--results", envvar="FSAGE_RESULTS", help="results")] = Path("results"),
    studies: Annotated[Path, typer.Option(envvar="FSAGE_STUDIES", help="folder of the studies")] = Path("config"),
    inventories: Annotated[Path, typer.Option(envvar="FSAGE_INVENTORIES", help="folder of the inventories")] = Path(
        "inventories"
    ),
) -> None:
    """Options of all commands; a path is relative to the project's root."""
    for folder, option in ((results_root, "--results"), (studies, "--studies"), (inventories, "--inventories")):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{option} {folder} is no folder")
    context.obj = Where(target, inventories, results_root, studies)


@app.command()
def plan(context: typer.Context, study: StudyName) -> None:
    """Say in one line what a study is and what of it is still to be measured."""
    plan = context.obj.plan(study)
    print(lines("\n".join([plan.line(), *plan.notes()])))


@app.command()
def request(context: typer.Context, study: StudyName, state: StateName, cells: bool = True) -> None:
    """Print the request for a state and its missing cells, for playbooks: `-e fsage_request=FILE` once it is in one."""
    plan = context.obj.plan(study)
    todo = requests.to_measure(plan, state) if cells else []
    print(json.dumps(requests.make(plan, state, todo), indent=1))


@app.command(name="play")
def play_state(
    context: typer.Context,
    study: StudyName,
    state: StateName,
    playbooks: Annotated[list[str], typer.Argument(help="playbooks in order; measure.yml measures the missing cells")],
) -> None:
    """Bring the target into a state; with measure.yml, measure its missing cells and hand over their records."""
    do = job.measure if "measure.yml" in playbooks else job.establish
    plan = context.obj.plan(study)
    plan.check_state(state)
    do(plan, state, playbooks, context.obj.of(study).inventory)


@app.command()
def visit(
    context: typer.Context,
    study: StudyName,
    states: Annotated[list[str], typer.Argument(help="states of the study, in planned order")],
) -> None:
    """Bring about several states one after another and measure the missing cells of each."""
    plan = context.obj.plan(study)
    for state in states:
        plan.check_state(state)
    job.visit(plan, states, context.obj.of(study).inventory)


@app.command()
def claim(
    context: typer.Context,
    partition: Annotated[str, typer.Option(help="Slurm's, which must be there before anything is changed")] = "",
) -> None:
    """Create the target where fsage makes it itself, claim and calibrate it; a copy of the claim goes to results/."""
    if partition:
        partitions.check(partition)
    target = context.obj.target()
    place = results.Results(context.obj.results, target.name, "")
    place.claim.parent.mkdir(parents=True, exist_ok=True)
    once = ": making and writing its image takes a moment, once" if target.of_kind.own_stores else ""
    _say(f"claiming target {target.name}{once}")
    file = place.request("claim")
    results.write(file, {"holder": runs.current().holder, "claim_copy": str(place.claim.absolute())})
    log = context.obj.results / "logs" / target.name / "claim.log"
    play(["local_target.yml", "claim.yml"], context.obj.inventory, log, None, fsage_request=file)


@app.command()
def hold(
    context: typer.Context, release: Annotated[bool, typer.Option("--release", help="give it back")] = False
) -> None:
    """Take the target's lease for this run, or refuse naming who holds it. A killed run's is taken over."""
    target = context.obj.target()
    killed = runs.gone()
    file = results.Results(context.obj.results, target.name, "").request("hold")
    results.write(file, {"holder": runs.current().holder, "gone": sorted(killed)})
    wanted = "absent" if release else "present"
    log = context.obj.results / "logs" / target.name / "hold.log"
    play(["hold_target.yml"], context.obj.inventory, log, None, fsage_request=file, hold_state=wanted)
    if not release:
        runs.supersede(killed, context.obj.results, target.name)


@app.command()
def recover(context: typer.Context) -> None:
    """Put back what a killed command left changed outside the target: schedulers, control groups, controllers.

    The next command of a run does the same where it has to; this does just that. The claim and the files stay.
    """
    target = context.obj.target()
    log = context.obj.results / "logs" / target.name / "recover.log"
    play(["recover.yml"], context.obj.inventory, log, None)
    _say(f"nothing is changed outside target {target.name}; {log} says what was put back")


@app.command(context_settings={"ignore_unknown_options": True})
def enter(
    command: Annotated[list[str] | None, typer.Argument(help="command and its words; none: a shell")] = None,
) -> None:
    """Run a command where this machine's loop targets are mounted, which nothing else sees: `fsage enter ls MOUNT`."""
    from fsage.agent.namespace import look_in
    from fsage.agent.privilege import run_inside

    words = command or [os.environ.get("SHELL", "/bin/sh")]
    try:
        if os.geteuid():
            if not command:
                raise Refusal("a shell there is for root; name a command: fsage enter COMMAND")
            raise SystemExit(run_inside(words))
        look_in()
        os.execvp(words[0], words)
    except (Refusal, Failure, OSError) as why:
        raise ValueError(f"{words[0]}: {why.strerror}" if isinstance(why, OSError) else str(why)) from why


@app.command()
def report(context: typer.Context, study: StudyName) -> None:
    """Make a study's report and tables from its records."""
    from fsage.conclusion import write_report

    where_: Where = context.obj
    _say(f"report {write_report(where_.plan(study), where_.study_file(study))}")


@app.command()
def conclude(context: typer.Context, study: StudyName) -> None:
    """Compare the records with the plan; say the headline. Exit 0 means: every planned record exists and is valid."""
    from fsage.conclusion import conclude

    said, code = conclude(context.obj.plan(study))
    print(lines("\n".join(said)))
    raise SystemExit(code)


@app.command()
def advise(
    context: typer.Context,
    study: StudyName,
    files: Annotated[
        str | None,
        typer.Option(help="the files it is for: .yaml or .csv (size, count), a folder, sizes by line, or -"),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(help="shares of the bytes by measure, e.g. read=3,write=1; none: as the cells move them"),
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="only these values of a parameter or axis: deleted=1,2; may be repeated")
    ] = None,
    margin: Annotated[float, typer.Option(help="percent below which a difference does not matter")] = 3,
    least_share: Annotated[
        float, typer.Option(help="percent of the bytes that all who are compared must be measured for")
    ] = 90,
    cold_reads: Annotated[
        float | None, typer.Option(help="of defrag: how often a file is read; the work then counts too")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, with samples and record files")] = False,
) -> None:
    """Choose a layout, a preallocation or defragmentation for some files from a study's records; say how sure it is.

    Exit 0 with advice, or where the data do not decide, which is said.
    """
    from fsage.advise import command, distribution, evidence
    from fsage.advise.advice import Asked

    asked = Asked(
        files=distribution.read(files) if files else None,
        at=evidence.read_pairs(at or [], "--at"),
        mix=evidence.read_pairs(mix.split(",") if mix else [], "--mix"),
        margin=margin / 100,
        least_share=least_share / 100,
        cold_reads=cold_reads,
    )
    command.run(context.obj.plan(study), asked, as_json)


@app.command()
def site(
    context: typer.Context,
    studies: Annotated[list[str] | None, typer.Argument(help="studies to estimate; none: all there are")] = None,
    html: Annotated[Path | None, typer.Option(help="write a page for the site's owner")] = None,
    sudoers: Annotated[bool, typer.Option("--sudoers", help="print the rules with which a user needs no root")] = False,
    helper: Annotated[bool, typer.Option("--helper", help="print the program that these rules allow")] = False,
) -> None:
    """Check a site before anything is changed: hosts, clocks, versions, room, time, and what will be destroyed."""
    from fsage.site import findings, look, page
    from fsage.site import sudoers as allowed

    where_: Where = context.obj.of(None)
    if helper:
        sys.stdout.buffer.write(allowed.program())
        return
    if sudoers:
        print(allowed.rules(look.user_of(where_.inventory)), end="")
        return
    target, plans = where_.target(), where_.plans(studies or [])
    found_site = look.look(where_.inventory)
    found = findings.findings(found_site, target, where_.other_targets())
    page.show(found_site, target, plans, found)
    if html:
        page.write(found_site, target, plans, found, html)
    raise SystemExit(1 if found else 0)


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="a report's folder, or its records.parquet")],
    after: Annotated[Path, typer.Argument(help="another, of another time, tuning or file system")],
    to: Annotated[Path, typer.Argument(help="folder for the page and its figures")],
    names: Annotated[tuple[str, str], typer.Option(help="what to call the two")] = ("before", "after"),
) -> None:
    """Set two results of the same cells side by side, with differences and intervals."""
    from fsage.report.compare import compare

    _say(f"report {compare(before, after, to, names)}")


@app.command()
def export(
    context: typer.Context,
    study: StudyName,
    to: Annotated[Path, typer.Argument(help="a folder or .zip that does not exist")],
    raw: Annotated[bool, typer.Option(help="with the tools' own output")] = True,
    anonymous: Annotated[bool, typer.Option("--anonymous", help="put stand-ins for hosts, users, paths, ids")] = False,
) -> None:
    """Write a study's results as an RO-Crate, from which anybody can make the report again; say what it discloses."""
    from fsage.anonymous import disclosed
    from fsage.export import export

    where_: Where = context.obj
    asked = where_.plan(study), where_.study_file(study), where_.of(study).inventory
    written = export(*asked, to, raw, anonymous)
    said = disclosed(*asked)
    _say(f"{written} {'holds stand-ins for' if anonymous else 'discloses'}:\n  " + "\n  ".join(said[:-1]))
    _say(f"it holds as they are {said[-1]}" + ("" if anonymous else "; --anonymous puts stand-ins for the others"))
    _say(f"wrote {written}; `./run fsage remake {written} FOLDER` makes its report again")


@app.command()
def remake(
    crate: Annotated[Path, typer.Argument(help="what `fsage export` wrote: a folder or a .zip")],
    to: Annotated[Path, typer.Argument(help="a folder that does not exist")],
) -> None:
    """Make the report of exported results anew, and say whether it is the same."""
    from fsage.export import remake

    made = remake(crate, to)
    verdict = "byte for byte the one" if made.same else f"not byte for byte the one (made by {made.made_by})"
    _say(f"{made.page} is {verdict} in {crate}")


@app.command()
def evidence(
    what: Annotated[str, typer.Argument(help="a device, an image, a directory, a saved text, or - for standard input")],
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
    html: Annotated[Path | None, typer.Option(help="write a page with plots, which opens offline")] = None,
    files: Annotated[int, typer.Option(min=0, help="of a directory, look at so many files at most")] = 100_000,
) -> None:
    """Show how free space and files lie on any file system, or in text of dumpe2fs, e2freefrag, filefrag or xfs_bmap.

    Read-only, and no target is needed. Of a directory: the free space of its file system, and the files below it.
    """
    from fsage.evidence.command import run

    run(what, as_json, html, files)


@app.command()
def fragments(
    paths: Annotated[list[Path], typer.Argument(help="files, folders or mounts, of any file system")],
    worst: Annotated[int, typer.Option(min=0, help="list so many files")] = 20,
    by: Annotated[str, typer.Option(help="worst by: extents, or ratio (of reading times)")] = "extents",
    seek_ms: Annotated[float | None, typer.Option(help="what a seek costs; measured by reading if not given")] = None,
    rate_mb_s: Annotated[float | None, typer.Option(help="transfer rate, 10^6 bytes; likewise")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
    files: Annotated[int, typer.Option(min=1, help="look at so many files at most")] = 1_000_000,
) -> None:
    """Show which files lie in most pieces, and what defragmenting them would gain at most.

    Read-only, and no target is needed. The gain is a bound, not a forecast: each extent counted as a whole seek.
    """
    from fsage.defrag import command

    command.fragments(paths, worst, by, seek_ms, rate_mb_s, as_json, files)


@app.command()
def defragment(
    context: typer.Context,
    paths: Annotated[list[Path] | None, typer.Argument(help="files or folders on ext4, XFS or btrfs")] = None,
    in_earnest: Annotated[bool, typer.Option("--yes-rewrite-my-data", help="do it; else it is only said")] = False,
    time_limit_s: Annotated[float, typer.Option(min=0, help="begin no file, and stop the tool, after it")] = 3600,
    verify: Annotated[bool, typer.Option("--verify", help="judge the newest run's files once more")] = False,
) -> None:
    """Defragment one's own files with xfs_fsr, e4defrag or btrfs, worst first, and prove that none changed.

    Exit 0: all is done. Before a file is touched its SHA-256 is noted in results/defragment/; interrupted at any
    moment, the next run, or --verify, says of each file whether it is whole.
    """
    from fsage.defrag import command

    folder = context.obj.results / "defragment"
    if bool(paths) == verify:
        raise ValueError("give files or folders to defragment, or --verify alone")
    if verify:
        raise SystemExit(command.verify_files(folder))
    raise SystemExit(command.rewrite_files(paths or [], folder, time_limit_s, in_earnest))


@app.command()
def remeasure(
    context: typer.Context,
    study: StudyName,
    state: Annotated[str | None, typer.Option(help="only this state")] = None,
    cell: Annotated[str | None, typer.Option(help="only cells of this name")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="only those that failed")] = False,
) -> None:
    """Set records aside, so that the next run measures those cells again. Raw output stays."""
    plan = context.obj.plan(study)
    if not (failed or state or cell):
        raise StudyError("say which: --failed, --state STATE and --cell CELL narrow it down (to all: --state of each)")
    aside = plan.results.root / "aside" / plan.target.name / study
    moved = 0
    for where_, one in plan.all_cells():
        path = plan.results.record(where_, one.name)
        if (state and where_ != state) or (cell and one.name != cell) or not path.exists():
            continue
        found = results.read(path)
        if failed and found["status"] != "failed":
            continue
        place = aside / where_ / f"{one.name}.{found['attempt']}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, place)
        moved += 1
    print(lines(f"fsage: {moved} records set aside in {aside}; `snakemake {study}` measures those cells again"))


def _say(text: str) -> None:
    print(lines(f"fsage: {text}"), file=sys.stderr)


def _complain(text: str) -> NoReturn:
    _say(text)
    sys.exit(1)


def main() -> None:
    """Run a command; what is wrong is said in a sentence, never by a traceback."""
    try:
        app()
    except (StudyError, PlayFailed, WindowClosed, runs.Superseded, ValueError) as error:
        _complain(str(error))
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        print("fsage: stopped; what was measured is kept and the same command goes on", file=sys.stderr)
        sys.exit(130)
