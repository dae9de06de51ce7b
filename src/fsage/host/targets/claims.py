"""What is kept of a claimed target: its claim, images and tunables in its home, the state token on itself.

Claim and images are read from the home, and trusted only on the host that wrote them. One host has a loop target, so
its notes name that host. Otherwise, where a home is copied or shared, another host's devices and images would be taken
for this one's. The clients of a directory or a Lustre target may share its home. Their claim is verified on the target
each time: by the directory's identity and the mark in it. On Lustre the mark in the root of the file system is checked
too.

What a command does at the moment, in words, is noted for who waits for it. Each tunable that a target has set
has `asked`, `before` and `now`, or `unsupported`.

The token is written and flushed before each change (fsage.model.claim). It is one file of fixed size, overwritten in
place, so that writing it takes no new block and leaves the layout as it is. A torn write shows as a wrong checksum and
counts as no token: the target is then rebuilt.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from fsage.base import Failure, Json, Refusal
from fsage.host.system import files, kernel, places
from fsage.host.targets import kinds
from fsage.model import declaration
from fsage.model.claim import Claim, Here, Images, Token, parsed, text_of
from fsage.model.hosts import Asker, Host, clients_of, servers_of
from fsage.model.target import Spec
from fsage.model.tuning import PREALLOCATION

DOING = "doing.json"


def note_doing(home: Path, words: str, cells: int = 0) -> None:
    """Note it, and how many cells this command has measured. Nobody is kept from work where that is not possible."""
    beside = home / f".{DOING}"
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(beside, flags, places.PRIVATE_FILE), "w", encoding="utf-8") as file:
            json.dump({"doing": words, "since": time.time(), "cells": cells}, file)
        beside.replace(home / DOING)


def read_tunables(home: Path) -> Json:
    """What is noted of each tunable."""
    tunables = complete_tunables(home)
    tunables.pop(PREALLOCATION, None)
    return tunables


def complete_tunables(home: Path) -> Json:
    """The same, with the preallocation under a key of its own, which its own verb restores."""
    noted: Json = files.read_json(home / "tunables.json") or {}
    return noted


def note_tunables(home: Path, tunables: Json) -> None:
    """Note the tunables; the preallocation stays noted."""
    _note(home, tunables, complete_tunables(home).get(PREALLOCATION, {}))


def note_preallocation(home: Path, preallocation: Json) -> None:
    """Note the preallocation, empty where there is none; the tunables stay noted."""
    _note(home, read_tunables(home), preallocation)


def _note(home: Path, tunables: Json, preallocation: Json) -> None:
    after = dict(tunables)
    if preallocation:
        after[PREALLOCATION] = preallocation
    if not after:
        files.remove(home / "tunables.json")
    elif after != complete_tunables(home):
        files.write_json(home / "tunables.json", after)


MACHINE_ID = Path("/etc/machine-id")
INVENTORY = "inventory.json"  # in a target's home: Ansible reads it as YAML
KEPT = "database"
"""The folder of a target's home in which a step keeps what it made until the target is released."""


def here() -> Here:
    """The host's name, and a digest of its machine-id (machine-id(5)) where it has one, for its notes."""
    named: Here = {"host": os.uname().nodename}
    with contextlib.suppress(OSError):
        # machine-id(5) wants it confidential: an application publishes a digest of its own only.
        named["machine"] = hashlib.sha256(b"fsage " + MACHINE_ID.read_bytes().strip()).hexdigest()[:16]
    return named


def note_inventory(spec: Spec, request: Asker) -> None:
    """Write an inventory of the target beside its claim: with it a release needs no clone of the project."""

    def hosts(of_group: list[Host]) -> Json:
        return {host["name"]: _variables(host) for host in of_group}

    clients = clients_of(request) or [{"name": "localhost", "local": True}]
    groups = {
        "launcher": {"hosts": {clients[0]["name"]: {}}},
        "clients": {"hosts": hosts(clients)},
        "servers": {"hosts": hosts(servers_of(request))},
    }
    inventory = {"all": {"vars": {"fsage_target": spec}, "children": groups}}
    files.write_json(declaration.home_of(spec) / INVENTORY, inventory)


def _variables(host: Host) -> Json:
    if host.get("local"):  # whatever clone releases it has a Python of its own
        return {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    if "python" in host:
        return {"ansible_python_interpreter": host["python"]}
    return {}


def read(home: Path) -> Claim | None:
    """The claim in a target's home, or None. Raises Refusal where another host wrote it."""
    noted: Claim | None = _believed(home / "claim.json")
    return noted


def images(home: Path) -> Images | None:
    """The noted images in a target's home, or None. Raises Refusal where another host wrote them."""
    noted: Images | None = _believed(home / "images.json")
    return noted


def _believed(path: Path) -> Any:
    noted = files.read_json(path)
    ours = here()
    # Only targets of one host have images, and a note of images names no kind.
    of_one_host = noted and ("kind" not in noted or kinds.named(noted["kind"]).of_one_host)
    if of_one_host and not noted.items() >= ours.items():
        named = [str(noted[key]) for key in ("host", "machine") if noted.get(key)]
        written = " ".join(named) or "a host that is not named"
        raise Refusal(
            f"{path} was written on {written}, and this host is {' '.join(map(str, ours.values()))}: it counts only "
            "there, and nothing was touched. Release the target there. If the file was copied here, remove it. If "
            "several hosts share the home, declare one on each host's own disk as fsage_target.home"
        )
    return noted


TOKEN_BYTES = 16384


def token_path(mount: Path) -> Path:
    """The token's place on the first store."""
    return mount / ".fsage" / "token.json"


def read_token(mount: Path) -> Token | None:
    """The token, or None where it is missing, torn, or of another version."""
    try:
        with open(places.file(token_path(mount), os.O_RDONLY)) as file:
            return parsed(file.read(TOKEN_BYTES + 1))
    except (OSError, UnicodeDecodeError):
        return None


def write_token(mount: Path, token: Token) -> Token:
    """Write `token` durably; the token as it will be read. Raises Failure."""
    text = text_of(token)
    payload = text.encode()
    if len(payload) > TOKEN_BYTES:
        raise Failure(f"a token of {len(payload)} bytes, and {TOKEN_BYTES} fit: have the state in fewer steps")
    path = token_path(mount)
    with places.opened(path.parent, places.PRIVATE) as above:
        new = path.name not in os.listdir(above)
        with kernel.closing(places.file_in(above, path, os.O_WRONLY | os.O_CREAT)) as descriptor:
            os.pwrite(descriptor, payload.ljust(TOKEN_BYTES, b" "), 0)
            os.fsync(descriptor)
        if new:
            os.fsync(above)
    return parsed(text) or token


def token_changed(mount: Path, token: Token, **fields: Any) -> Token:
    """The token with `fields` replaced and the epoch counted up, written before the change that it announces."""
    return write_token(mount, replace(token, epoch=token.epoch + 1, **fields))
