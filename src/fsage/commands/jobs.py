"""What the jobs of the DAG call."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Annotated

import typer

from fsage.base.message import say
from fsage.commands import StateName, StudyName, Where

app = typer.Typer()
PANEL = "(internal)"


@app.command(rich_help_panel=PANEL, epilog="./run fsage request quickstart 80.50@264M")
def request(context: typer.Context, study: StudyName, state: StateName, cells: bool = True) -> None:
    """Print the request for a state and its missing cells, for playbooks: `-e fsage_request=FILE` once it is in one."""
    from fsage.run import request as requests

    plan = context.obj.plan(study)
    plan.check_state(state)
    todo = plan.to_measure(state) if cells else []
    print(json.dumps(requests.make(plan, state, todo), indent=1))


@app.command(rich_help_panel=PANEL, epilog="./run fsage visit quickstart 80.50@264M")
def visit(
    context: typer.Context,
    study: StudyName,
    states: Annotated[list[str], typer.Argument(help="states of the study, in planned order")],
) -> None:
    """Build states one after another, measure the missing cells of each and list its records."""
    from fsage.run import job

    plan = context.obj.plan(study)
    for state in states:
        plan.check_state(state)
    job.visit(plan, states)


@app.command(rich_help_panel=PANEL, epilog="./run fsage tabulate quickstart")
def tabulate(context: typer.Context, study: StudyName) -> None:
    """Count those of a study's layouts that are not counted yet, and write the tables; `report` makes the page."""
    from fsage import count as counting

    counted = counting.Counted.of(context.obj.plan(study))
    counting.count(counted, lambda done, whole: say(f"{done} of {whole} layouts counted"))
    counting.write_tables(counting.table(counted), counting.pieces(counted), counted.folder)


@app.command(rich_help_panel=PANEL, epilog="./run fsage adaptive quickstart")
def adaptive(context: typer.Context, study: StudyName) -> None:
    """Within a budget: measure the cells that say most of a study, and predict the others."""
    from fsage.count import expected
    from fsage.run import adaptive as run
    from fsage.run import runs
    from fsage.study import StudyError

    precision = runs.current().precision
    if precision is None:
        raise StudyError("`snakemake --config budget=45m -- STUDY` calls this: a run says how long and how well")
    plan = context.obj.plan(study)
    run.measure(plan, precision, context.obj.others(plan), partial(expected, plan))


@app.command(rich_help_panel=PANEL, epilog="./run fsage hold local --release")
def hold(
    context: typer.Context,
    targets: Annotated[list[str], typer.Argument(help="targets; where one is held by another run, none is taken")],
    release: Annotated[bool, typer.Option("--release", help="give them back")] = False,
) -> None:
    """Take targets' leases for this run, or refuse naming who holds them. A killed run's is taken over."""
    from fsage import seam
    from fsage.plan.target import is_here, load_target
    from fsage.run import runs
    from fsage.run.play import PlayFailed

    where_: Where = context.obj
    killed = runs.gone()
    inventories = [where_.inventories / name for name in targets]
    declared = dict(zip(inventories, map(load_target, inventories), strict=True))  # before anything is written
    if release:
        _release(where_, targets, killed)
        return
    if any(is_here(inventory) and target.images is None for inventory, target in declared.items()):
        say(f"fio of this machine: {seam.fio()}")  # or it is refused, where it does not work
    taken: list[str] = []
    try:
        for name in targets:
            _lease(where_, name, "present", killed)
            taken.append(name)
    except PlayFailed as why:
        _release(where_, taken, killed)
        if len(targets) == 1:
            raise
        raise PlayFailed(
            f"{why}\nNo target was taken. If {name} does not come back, lost={name} beside target=… lets the others of "
            "a study that is shared take its part over"
        ) from None
    for note in killed.values():  # the licence of their jobs
        note.unlink(missing_ok=True)


def _release(where_: Where, targets: Iterable[str], killed: Iterable[str]) -> None:
    """Give all leases back that can be; PlayFailed with the reasons of the others."""
    from fsage.run.play import PlayFailed

    reasons = []
    for name in targets:
        try:
            _lease(where_, name, "absent", killed)
        except PlayFailed as why:
            reasons.append(str(why))
    if reasons:
        raise PlayFailed("\n".join(reasons))


def _lease(where_: Where, target: str, wanted: str, killed: Iterable[str]) -> None:
    from fsage.plan import results
    from fsage.plan.target import load_claim
    from fsage.run import runs
    from fsage.run.play import play

    where = results.Results(where_.results, target, "")
    claim = load_claim(where.claim)
    file = where.request("hold")
    results.write(file, {"holder": runs.current().holder, "gone": sorted(killed), "claim": claim and claim["id"]})
    inventory = where_.inventories / target
    play(["hold_target.yml"], inventory, where.log("hold"), None, fsage_request=file, hold_state=wanted)
