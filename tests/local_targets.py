"""Local targets on real loop devices, for tests that look at one from below."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fsage.host.device import loops
from fsage.host.kinds.loop import Loop
from fsage.host.system import files, mounting
from fsage.host.system.shell import run
from fsage.host.targets.opening import open_target
from fsage.host.targets.target import Target
from fsage.host.verbs import claim, create

Spec = dict[str, Any]


def claimed(spec: Spec) -> Target:
    create.create(spec, {}, False)
    claim.claim(spec, {}, False)
    return open_target(spec)


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
        return files.read_json(claim_file(spec)), uuids, inside, [str(m) for m in mounting.mounts()]

    before = look()
    yield
    assert look() == before
