"""The outbox: each observation is on the launcher's disk as soon as it is taken, until it was fetched."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from fsage.host.system import places
from fsage.host.system.files import read_json, write_json
from fsage.host.targets.lease import held
from fsage.host.targets.target import Target
from fsage.model import message
from fsage.model.declaration import complete, home_of
from fsage.model.errors import Refusal
from fsage.model.observation import Observation
from fsage.model.request import Cell, Request


def place(target: Target, request: Request, cell: Cell) -> Path:
    """The file of one cell's observation under the target's present claim. Raises Refusal."""
    parts = (target.claim["id"], request["study"], request["state"], cell["name"])
    if wrong := [part for part in parts if not message.is_name(part)]:
        raise Refusal(f"{message.shown(wrong[0])} is no name, and would become part of a path; nothing was touched")
    return target.home.joinpath("outbox", *parts[:-1], f"{cell['name']}.{cell['attempt']}.json")


def keep(path: Path, observation: Observation) -> None:
    """Store an observation durably."""
    write_json(path, observation)


def doubt(target: Target, request: Request, cells: list[Cell]) -> None:
    """Fail the cells that only a sample vouches for, once all files were examined and a change was found."""
    for cell in cells:
        path = place(target, request, cell)
        kept: Observation | None = read_json(path)
        if kept and kept["status"] == "done":
            kept["status"] = "failed"
            kept["why"] = (
                "files of the state were changed during this session. Only a sample of them was examined before this "
                "cell, so it may have been measured after the change"
            )
            keep(path, kept)


def bundle(spec: dict[str, object], request: Request, check: bool) -> dict[str, object]:
    """Pack all waiting observations, also those of lost runs, into `<home>/bundle.tar`."""
    home = home_of(complete(spec))
    box, path = home / "outbox", home / "bundle.tar"
    with held(home, request):
        waiting = sorted(box.rglob("*.json"))
        if not check:
            whole = places.file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with open(whole, "wb") as out, tarfile.open(fileobj=out, mode="w") as tar:
                for file in waiting:
                    tar.add(file, str(file.relative_to(box)))
    return {
        "changed": bool(waiting),
        "msg": f"{len(waiting)} observations wait",
        "bundle": str(path),
        "count": len(waiting),
    }


def acknowledge(spec: dict[str, object], request: Request, check: bool) -> dict[str, object]:
    """Delete the observations of the last bundle, which was fetched."""
    home = home_of(complete(spec))
    path = home / "bundle.tar"
    with held(home, request):
        if not path.exists() or check:
            return {"changed": False, "msg": "no bundle to acknowledge"}
        with tarfile.open(path) as tar:
            names = tar.getnames()
        for name in names:
            (home / "outbox" / name).unlink(missing_ok=True)
        path.unlink()
    return {"changed": bool(names), "msg": f"{len(names)} observations acknowledged"}
