"""Reading what this host keeps of a target, its claim and its images, and believing it only where it was written.

A loop target is of one host, so that its notes name that host: a copy of them elsewhere, or a home that several hosts
share, would have another host's devices and images taken for ours. The home of a directory or a Lustre target may be
shared by its clients. What a claim of these names is proved each time by the target itself: the directory's identity
and the mark in it, on Lustre also the mark of the file system.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any, TypedDict

from fsage.agent import files, kinds
from fsage.agent.device.loops import ImageId
from fsage.agent.errors import Refusal


class Here(TypedDict, total=False):
    """What names a host in its notes."""

    host: str
    machine: str  # a digest of its machine-id(5), where it has one


class Made(TypedDict, total=False):
    """An image as images.json has it; planned, or written, and only then what tells it is known."""

    image: str  # its path
    status: str
    bytes: int
    dev: int
    ino: int
    nocow: bool  # its file system was told to leave it where it is


class Images(Here):
    """images.json: the images that were made for a target, and as what it was declared."""

    schema: int
    target: str
    declared: dict[str, int]
    images: list[Made]


class Store(TypedDict, total=False):
    """One store of a claimed target: where it is mounted, and what it is told by."""

    mount: str
    filesystem: str | None  # None: a directory, of whose file system nothing is known
    uuids: list[str]  # the file system's; a second one is that of the mkfs which is under way
    image: str  # of kind loop, with image_id and hash_seed
    image_id: ImageId
    hash_seed: str
    directory: str  # of the other kinds, with directory_id
    directory_id: dict[str, Any]


class LustreClaim(TypedDict):
    """What a claim notes of Lustre: as what it was declared, its version, and each OST's fullness then."""

    declared: dict[str, Any]
    version: str
    osts: dict[str, dict[str, float]]


class _Begun(Here):
    """What a claim has from its beginning."""

    schema: int
    target: str
    kind: str
    id: str
    status: str  # claiming, claimed, releasing
    created: str
    kernel: str
    stores: list[Store]
    tools: dict[str, str | None]
    containers: str | None
    images: dict[str, str]
    tasks: int  # on each client
    hosts: list[str]  # the clients, by name
    launcher: str
    launcher_options: list[str]
    declared: dict[str, Any]  # fsage.agent.frozen
    filesystem_state_known: bool


class Claim(_Begun, total=False):
    """claim.json: that a target is fsage's, what it is told by, and what was measured of it while it was empty."""

    uid: int  # who runs what is measured
    capacity_bytes: int
    statfs_empty: list[dict[str, int]]
    free_inodes_empty: int
    device_model: dict[str, Any]
    amount_mib: int  # what a task moves
    amount_source: str
    passes: int
    calibration: dict[str, Any]
    lustre: LustreClaim
    edits: list[dict[str, Any]]


MACHINE_ID = Path("/etc/machine-id")


def here() -> Here:
    """What names this host in its notes: its name, and a digest of its machine-id (machine-id(5)) where it has one."""
    named: Here = {"host": os.uname().nodename}
    with contextlib.suppress(OSError):
        # As machine-id(5) asks: what is passed on is a digest of it that is of this application alone.
        named["machine"] = hashlib.sha256(b"fsage " + MACHINE_ID.read_bytes().strip()).hexdigest()[:16]
    return named


def read(home: Path) -> Claim | None:
    """The claim of the target whose home this is, or None. `Refusal` where it was written on another host."""
    noted: Claim | None = _believed(home / "claim.json")
    return noted


def images(home: Path) -> Images | None:
    """The images that were made for it, or None. `Refusal` where another host noted them."""
    noted: Images | None = _believed(home / "images.json")
    return noted


def _believed(path: Path) -> Any:
    noted, ours = files.read_json(path), here()
    # Only targets of one host have images, and these name no kind.
    of_one_host = noted and ("kind" not in noted or kinds.of(noted["kind"]).of_one_host)
    if of_one_host and {key: noted.get(key) for key in ours} != ours:
        written = (
            " ".join(str(noted[key]) for key in ("host", "machine") if noted.get(key)) or "a host that is not named"
        )
        raise Refusal(
            f"{path} was written on {written}, and this is {' '.join(map(str, ours.values()))}; it is believed only "
            "there, and nothing was touched. Release the target there. If the file was copied here, remove it; if the "
            "home is shared by several hosts, declare one on each host's own disk as fsage_target.home"
        )
    return noted
