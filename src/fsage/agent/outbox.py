"""The outbox: observations are safe on the launcher's disk the moment they are taken, until they were fetched."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from fsage.agent.declaration import complete, home_of
from fsage.agent.files import write_json
from fsage.agent.target import Target


def place(target: Target, request: dict, cell: dict) -> Path:
    """The file of one cell's observation; what was taken under another claim lies elsewhere."""
    folder = target.home / "outbox" / target.claim["id"] / request["study"] / request["state"]
    return folder / f"{cell['name']}.{cell['attempt']}.json"


def keep(path: Path, observation: dict) -> None:
    """Store an observation durably."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, observation)


def bundle(spec: dict, request: dict, check: bool) -> dict:
    """Pack all that waits (of lost runs too) into `<home>/bundle.tar`."""
    home = home_of(complete(spec))
    waiting = sorted((home / "outbox").rglob("*.json"))
    path = home / "bundle.tar"
    names = [str(one.relative_to(home / "outbox")) for one in waiting]
    if not check:
        home.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w") as tar:
            for one, name in zip(waiting, names, strict=True):
                tar.add(one, name)
            index = json.dumps(names).encode()
            entry = tarfile.TarInfo("INDEX.json")
            entry.size = len(index)
            tar.addfile(entry, io.BytesIO(index))
    return {
        "changed": bool(waiting),
        "msg": f"{len(waiting)} observations wait",
        "bundle": str(path),
        "count": len(waiting),
    }


def acknowledge(spec: dict, request: dict, check: bool) -> dict:
    """Forget what the last bundle held, now that it was fetched."""
    home = home_of(complete(spec))
    path = home / "bundle.tar"
    if not path.exists() or check:
        return {"changed": False, "msg": "no bundle to acknowledge"}
    with tarfile.open(path) as tar:
        index = tar.extractfile("INDEX.json")
        names = json.load(index) if index else []
    for name in names:
        (home / "outbox" / name).unlink(missing_ok=True)
    path.unlink()
    return {"changed": bool(names), "msg": f"{len(names)} observations acknowledged"}
