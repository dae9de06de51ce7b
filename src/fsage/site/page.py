"""The page for a site's owner, and the same on the terminal: hosts, findings, what will be done and what destroyed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from rich.table import Column, Table
from rich.text import Text

from fsage.base.message import write_whole
from fsage.base.sizes import duration, round_size
from fsage.plan import Plan
from fsage.plan.target import Target
from fsage.site import actions
from fsage.site.inspect import Host, Site
from fsage.study import StudyError
from fsage.text.shown import Terminal, code

NOTHING = "\u2013"
COLUMNS = ("host", "groups", "answers", "root", "kernel", "memory", "tools", "room", "claimed")


def rows(site: Site) -> list[tuple[str, ...]]:
    """A row a host, in the order of COLUMNS."""
    return [(host.name, ", ".join(host.groups), *_facts(host)) for host in site.hosts]


def _facts(host: Host) -> tuple[str, ...]:
    answer = host.answer
    if answer is None:
        return ("no", *[NOTHING] * (len(COLUMNS) - 3))
    tools = [f"{tool} {version}" for tool, version in answer["tools"].items() if version]
    room = NOTHING
    if answer["places"]:
        place = answer["places"][0]
        room = f"{place['free_gib']:g} GiB in {place['directory']}"
    claimed = "no"
    claim = answer.get("claim")
    if claim:
        claimed = f"since {claim['created']} ({claim['status']})"
    return (
        "yes",
        "yes" if answer["root"] else "no",
        answer["kernel"],
        f"{answer['memory_bytes'] / 2**30:.0f} GiB",
        ", ".join(tools) or "none",
        room,
        claimed,
    )


def destroyed(site: Site, target: Target) -> list[str]:
    """What claiming and measuring this target will overwrite or delete."""
    claimed = any(answer.get("claim") for answer in site.answers())
    return [target.of_kind.destroys(target.spec, claimed)]


def changed(site: Site, plans: list[Plan]) -> list[str]:
    """What is set on others than the clients while cells run, and put back after each."""
    if not actions.changes_server_cache(plans):
        return []
    names = actions.names_of(site, "servers")
    return [f"ZFS's primarycache of the OSTs on {names}, put back as it was after each cell"]


def estimates(plans: list[Plan]) -> list[dict[str, str]]:
    """What each study would still do."""
    lines = []
    for plan in plans:
        try:
            written_bytes = plan.bytes_written()
            time = duration(plan.seconds())
            if not plan.claim and not plan.target.of_kind.own_stores:
                time = "not known before the claim"
        except StudyError as why:  # more nodes than there are, say: other studies can be all the same
            written_bytes = None
            time = f"cannot be: {why}"
        lines.append(
            {
                "study": plan.study.name,
                "cells": str(plan.missing_count),
                "states": str(len(plan.missing)),
                "populates": str(len({plan.states[name].population for name in plan.missing})),
                "time": time,
                "written": "not known" if written_bytes is None else round_size(written_bytes),
            }
        )
    return lines


def show(site: Site, target: Target, plans: list[Plan], findings: list[str]) -> None:
    """Print all of it."""
    console = Terminal()
    for title, columns, lines in _tables(site, plans):
        heads = (Column(name, overflow="fold") for name in columns)  # nothing is cut off
        table = Table(*heads, title=title, title_justify="left", box=None, header_style="bold")
        for line in lines:
            table.add_row(*line)
        console.print(table)
    table = Table(Column("at most"), Column(overflow="fold"), box=None, header_style="bold")
    for row in actions.bounds(site, target, plans):
        table.add_row(*row)
    console.print(table)
    for line in destroyed(site, target):
        console.print(f"Will be destroyed: {line}.")
    for line in changed(site, plans):
        console.print(f"Will be changed while cells run: {line}.")
    for line in findings:
        console.print(Text.assemble(("Fix first:", "bold red"), f" {line}"))
    if not findings:
        console.print("Nothing stands in the way.")


def write(site: Site, target: Target, plans: list[Plan], findings: list[str], to: Path) -> None:
    """Write it as one HTML file that opens offline."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fsage.site", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["code"] = code
    page = environment.get_template("page.html.j2").render(
        target=target,
        tables=[
            ("What is done", actions.COLUMNS, [act.row for act in actions.acts(site, target, plans)]),
            *_tables(site, plans),
        ],
        destroyed=destroyed(site, target),
        bounds=actions.bounds(site, target, plans),
        endings=actions.endings(target),
        findings=findings,
    )
    write_whole(to, page)


def _tables(site: Site, plans: list[Plan]) -> list[tuple[str, tuple[str, ...], list[Any]]]:
    tables: list[tuple[str, tuple[str, ...], list[Any]]] = [("Hosts", COLUMNS, rows(site))]
    studies = estimates(plans)
    if studies:
        tables.append(("Still to measure", tuple(studies[0]), [tuple(study.values()) for study in studies]))
    return tables
