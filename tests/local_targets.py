"""Local targets on real loop devices, for tests that look at one from below."""

from __future__ import annotations

import contextlib
import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fsage.base import GIB
from fsage.base.shell import run
from fsage.host import claiming
from fsage.host.device import loops
from fsage.host.kinds.loop import Loop
from fsage.host.system import files, mounting
from fsage.host.targets import Target, claims
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim as verbs
from fsage.layouts import machine

Spec = dict[str, Any]
_measured: dict[tuple[object, ...], dict[str, Any]] = {}
_pair = claiming._pair


def written(spec: Spec) -> Spec:
    """Have the target created, as far as its image goes: as after a reboot, no loop device is attached.

    `create` would allocate and write the image, for what is measured on it. This one is a hole.
    """
    image = Path(spec["image_dir"], f"fsage-{spec['name']}-0.{os.urandom(4).hex()}.img")
    image.parent.mkdir()
    with open(image, "xb") as file:
        file.truncate(GIB)
    notes = {
        **{"schema": 1, "target": spec["name"], **claims.here(), "made_directory": True},
        "declared": {"stores": 1, "size_gib": 1, "sparse": False},
        "images": [{"image": str(image), "status": "written", "nocow": False, **(loops.identity(str(image)) or {})}],
    }
    home = Path(spec["home"], spec["name"])
    home.mkdir(parents=True, mode=0o700)
    (home / "images.json").write_text(json.dumps(notes))
    return spec


def create(spec: Spec, check: bool = False) -> dict[str, Any]:
    """What the verb answers here, as to all that follow: to no run."""
    return verbs.create(spec, {}, check)


def claim(spec: Spec, check: bool = False) -> dict[str, Any]:
    return verbs.claim(spec, {}, check)


def release(spec: Spec, check: bool = False, run: dict[str, Any] | None = None) -> dict[str, Any]:
    return verbs.release(spec, run or {}, check)


def remove(spec: Spec, check: bool = False) -> dict[str, Any]:
    return verbs.remove(spec, {}, check)


def claimed(spec: Spec) -> Target:
    """Create and claim a target. How fast it is, the first one of the session has found out."""
    with pytest.MonkeyPatch.context() as patched:
        if not spec.get("device_model"):
            patched.setattr(claiming, "_pair", remembered)
        create(spec)
        claim(spec)
    return open_target(spec)


def remembered(target: Target, each_mib: int, passes: int, *more: Any) -> dict[str, Any]:
    """How fast a target is, as the first of its kind in this session was found to be."""
    key = (target.kind, target.filesystem, len(target.mounts), target.spec["scale"]["tasks"], each_mib, passes)
    if key not in _measured:
        _measured[key] = _pair(target, each_mib, passes)
    return copy.deepcopy(_measured[key])


def claim_file(spec: Spec) -> Path:
    return Path(spec["home"]) / spec["name"] / "claim.json"


def images_of(spec: Spec) -> list[dict[str, Any]]:
    return list(files.read_json(claim_file(spec).parent / "images.json")["images"])


def take_down(target: Target) -> None:
    """As after a reboot: not mounted, no loop devices."""
    for point in target.mounts:
        mounting.unmount(point)
    for device in target.devices:
        run(["losetup", "--detach", device])


@contextlib.contextmanager
def untouched(spec: Spec) -> Iterator[None]:
    """Whatever happens inside, the claim, the UUIDs and the files of the target are the same afterwards."""

    def look() -> Any:
        target = Loop(files.read_json(claim_file(spec)) and spec, files.read_json(claim_file(spec)))
        uuids = [mounting.uuid_on(d) for s in target.claim["stores"] for d in loops.devices_of(s["image_id"])]
        inside = [sorted(p.name for p in point.iterdir()) for point in target.mounts if point.is_dir()]
        return files.read_json(claim_file(spec)), uuids, inside, [str(m) for m in machine.mounts()]

    before = look()
    yield
    assert look() == before
