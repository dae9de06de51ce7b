"""Targets and sites: checked, claimed, held, put back, looked into."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from fsage.base import Misuse
from fsage.base.message import say
from fsage.commands import CALLED_FROM, Where, check_writable

app = typer.Typer()
PANEL = "Targets"
TakeOver = Annotated[
    str, typer.Option(metavar="ID", help="the claim whose note is lost with its container; its target is emptied")
]


def _taking_over(claim_id: str) -> dict[str, str]:
    """The variable of Ansible that names a claim. Raises ValueError."""
    if claim_id and not re.fullmatch(r"[\w-]+", claim_id, re.ASCII):
        raise Misuse(f"--take-over {claim_id!r} is no id of a claim: the refusal and `./run fsage doctor` name it")
    if claim_id:
        return {"fsage_take_over": claim_id}
    return {}


@app.command(rich_help_panel=PANEL, epilog="./run fsage site quickstart --target local --html site.html")
def site(
    context: typer.Context,
    studies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STUDY", help="studies to estimate; none: all there are", autocompletion=Where.study_names
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(readable=False, help="write a page for the site's owner")] = None,
    sudoers: Annotated[
        bool, typer.Option("--sudoers", help="print sudo rules that let a user run fsage without root")
    ] = False,
    servers: Annotated[bool, typer.Option("--servers", help="with --sudoers: the rules for servers of Lustre")] = False,
    helper: Annotated[bool, typer.Option("--helper", help="print the program that these sudo rules allow")] = False,
) -> None:
    """Check a site before anything is changed: hosts, clocks, versions, room, time, and what will be destroyed."""
    from fsage import seam
    from fsage.site import inspect, page
    from fsage.study import StudyError

    where_: Where = context.obj.on_one_target(None)
    check_writable("--html", html)
    if helper:
        sys.stdout.buffer.write(seam.helper())
        return
    if sudoers:
        role = "servers" if servers else "clients"
        user = inspect.user_of(where_.inventory, role)
        print(seam.sudo_rules(user, where_.target().spec, role), end="")
        return
    target = where_.target()
    plans = where_.plans(studies or [])
    found_site = inspect.inspect(where_.inventory, tuned=bool(inspect.with_tuned_servers(plans)))
    findings = inspect.findings(found_site, target, where_.other_targets(), plans)
    for plan in plans if studies else ():
        try:
            plan.check()
            plan.check_kernels()
        except StudyError as why:
            findings.append(str(why))
    page.show(found_site, target, plans, findings)
    if html:
        page.write(found_site, target, plans, findings, html)
    raise SystemExit(1 if findings else 0)


@app.command(rich_help_panel=PANEL, epilog="./run fsage doctor")
def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
) -> None:
    """Tell which targets and studies run on this machine, which do not, and why. Each right is tried; nothing stays."""
    from fsage.site import doctor as doctors

    diagnosis = doctors.diagnose(context.obj.studies, context.obj.inventories, context.obj.results)
    if as_json:
        print(json.dumps(diagnosis.as_json(), indent=1))
    else:
        doctors.show(diagnosis)


@app.command(rich_help_panel=PANEL, epilog="./run fsage claim --target local")
def claim(
    context: typer.Context,
    partition: Annotated[str, typer.Option(help="Slurm's, which must be there before anything is changed")] = "",
    take_over: TakeOver = "",
) -> None:
    """Make the target's image where it needs one, then claim and calibrate the target.

    A copy of the claim is kept in results/targets/. `fsage run` does the same with a target that is not claimed yet.
    """
    from fsage.plan import results
    from fsage.run import progress, resources, runs
    from fsage.run.play import PlayFailed, command_line, play

    more = _taking_over(take_over)
    if partition:
        resources.check_partitions(partition)
    target = context.obj.target()
    place = results.Results(context.obj.results, target.name, "")
    place.claim.parent.mkdir(parents=True, exist_ok=True)
    claimed_before = place.claim.exists()
    if target.of_kind.own_stores:
        once = ": making its image takes a moment, once"
    else:
        once = ""
    say(f"claiming target {target.name}{once}")
    began = time.monotonic()
    file = place.request("claim")
    results.write(file, {"holder": runs.current().holder, "claim_copy": str(place.claim.absolute())})
    log = place.log("claim")
    playbooks = ["local_target.yml", "claim.yml"]
    if runs.current() == runs.NO_RUN:
        say(shlex.join(["./run", *command_line(playbooks, context.obj.inventory, more)]))
    try:
        play(
            playbooks,
            context.obj.inventory,
            log,
            lambda: progress.Line(
                f"claiming target {target.name}: {progress.heard(log)[0] or 'looking at it'}",
                f", {time.monotonic() - began:.0f} s so far",
            ),
            fsage_request=file,
            **more,
        )
    except PlayFailed as why:
        if not why.refused or claimed_before:
            raise
        for path in (file, log, place.claim):  # of a claim that never was nothing stays
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty
                for folder in path.parents[: len(path.relative_to(context.obj.results).parts)]:
                    folder.rmdir()
        raise PlayFailed(str(why).partition("\n")[0]) from None


@app.command(rich_help_panel=PANEL, epilog="./run fsage release --target local --images")
def release(
    context: typer.Context,
    images: Annotated[bool, typer.Option("--images", help="also delete the images that fsage made for it")] = False,
    take_over: TakeOver = "",
) -> None:
    """Remove all that fsage has on a target: files, mounts, changed settings, the claim. Verify that it is gone.

    Results stay. This starts Ansible, and prints its command line.
    """
    from fsage.plan import results
    from fsage.plan.settings import PLACES
    from fsage.run.play import command_line, tell

    where_ = context.obj
    target = context.obj.target()
    playbooks = ["release.yml"]
    more = _taking_over(take_over)
    if images and not target.of_kind.own_stores:
        raise ValueError(
            f"--images: fsage makes no image for target {target.name}, which is of kind {target.spec['kind']}"
        )
    if images:
        playbooks.append("local_target.yml")
        more["fsage_local_target_state"] = "absent"
    if str(where_.results) != PLACES["results"]:
        more["claim_copy"] = str(results.Results(where_.results, target.name, "").claim.absolute())
    words = command_line(playbooks, where_.inventory, more)
    say(shlex.join(["./run", *words]))
    tell(words)


@app.command(rich_help_panel=PANEL, epilog="./run fsage recover --target local")
def recover(context: typer.Context) -> None:
    """Put back what a killed command left changed outside the target: schedulers, control groups, controllers.

    The next command of a run does the same where it has to; this does just that. The claim and the files stay.
    """
    from fsage.run.play import play

    target = context.obj.target()
    log = context.obj.results / "logs" / target.name / "recover.log"
    play(["recover.yml"], context.obj.inventory, log, None)
    say(f"nothing is changed outside target {target.name}; {log} says what was put back")


@app.command(
    rich_help_panel=PANEL, context_settings={"allow_interspersed_args": False}, epilog="./run fsage enter df -h"
)
def enter(
    command: Annotated[list[str] | None, typer.Argument(help="command and its words; none: a shell")] = None,
) -> None:
    """Run a command, as root, where this machine's loop targets are mounted, which nothing else sees."""
    from fsage import seam
    from fsage.base import Failure, Refusal

    words = command or [os.environ.get("SHELL", "/bin/sh")]
    try:
        if os.geteuid():
            raise Refusal("only root may look where loop targets are mounted")
        seam.look_in()
        os.chdir(CALLED_FROM)
        os.execvp(words[0], words)
    except (Refusal, Failure, OSError) as why:
        raise ValueError(f"{words[0]}: {why.strerror}" if isinstance(why, OSError) else str(why)) from why
