"""A target's declaration (`fsage_target`), completed and checked as far as an agent alone must."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast, get_args

from fsage.model import device, filesystems, kinds
from fsage.model.errors import Refusal
from fsage.model.geometry import Geometry
from fsage.model.message import Unacceptable
from fsage.model.target import Launcher, LustreSpec, Spec
from fsage.model.typed import Json

GIB = 1 << 30
MIB = 1 << 20


LONGEST_PATH = 1024  # the kernel takes 4095 bytes, with what is added to it

DEFAULTS: Json = {
    "name": "local",
    "kind": "loop",
    "filesystem": "ext4",
    "stores": 1,
    "size_gib": 16,
    "sparse": False,
    "geometry": None,
    "minimum_gib": 2,
    "image_dir": None,
    "mount_dir": "/run/fsage/mnt",
    "home": None,
    "scale": {"file_size": 1, "tasks": 1},
    "allocator_reset": "remount",
    "amount_mib": None,
    "launcher": "openmpi",
    "launcher_options": [],
    "device_model": None,
    "directory": None,
    "budget_gib": 2,
    "containers": None,
    "run_as": None,
    "lustre": None,
}


def complete(spec: Mapping[str, object]) -> Spec:
    """`spec` with every key present. `Refusal` for an unknown key, a value not allowed, or an unsafe name."""
    known_keys("fsage_target", spec, DEFAULTS)
    full = {**DEFAULTS, **{key: value for key, value in spec.items() if value is not None}}
    if not isinstance(full["name"], str) or not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", full["name"]):
        raise Refusal(
            f"fsage_target.name is {full['name']!r}: at most 32 of a-z, 0-9, '_' and '-' are allowed, a "
            "letter first. Directories and a control group get this name"
        )
    if full["run_as"] is not None and not re.fullmatch(r"[a-z_][a-z0-9_.-]{0,31}", str(full["run_as"])):
        raise Refusal(f"fsage_target.run_as is {full['run_as']!r}: the name of a user is wanted")
    for key, choices in _allowed().items():
        if full[key] not in choices:
            near = difflib.get_close_matches(str(full[key]), choices, 1, 0)
            raise Refusal(
                f"fsage_target.{key} is {full[key]!r}: allowed are {', '.join(choices)}; {near[0]}?"
                if near
                else f"fsage_target.{key} is {full[key]!r}: allowed are {', '.join(choices)}"
            )
    for key in ("stores", "size_gib", "minimum_gib", "budget_gib", "amount_mib"):
        if full[key] is not None:
            positive(f"fsage_target.{key}", full[key], whole=key in ("stores", "amount_mib"))
    if not isinstance(full["sparse"], bool):
        raise Refusal(f"fsage_target.sparse is {full['sparse']!r}: allowed are true and false")
    if full["geometry"] is not None:
        _check_geometry(full)
    full["scale"] = {**DEFAULTS["scale"], **full["scale"]}
    if full["device_model"] is not None:
        full["device_model"] = _device_model(full["device_model"])
    kinds.named(full["kind"]).complete(full)
    if full["home"] is None:
        full["home"] = "/var/lib/fsage" if os.geteuid() == 0 else str(Path.home() / ".local/state/fsage")
    if full["directory"] is None:
        full["directory"] = str(Path.home() / ".cache/fsage" / full["name"])
    for key in ("home", "mount_dir", "directory", "image_dir", "containers"):
        if full[key] is not None:
            full[key] = path(f"fsage_target.{key}", full[key])
    return cast(Spec, full)


def _allowed() -> dict[str, tuple[str, ...]]:
    """What a key may be, where that is one of some words; an extension may have more of them."""
    return {
        "kind": tuple(kinds.names()),
        "filesystem": tuple(filesystems.names()),
        "allocator_reset": ("remount", "none"),
        "launcher": get_args(Launcher),
    }


def lustre_of(spec: Spec) -> LustreSpec:
    """What a target of kind lustre is on."""
    assert spec["lustre"] is not None, f"target {spec['name']} is of kind {spec['kind']}"
    return spec["lustre"]


def home_of(spec: Spec) -> Path:
    """Where the host keeps what it must know of this target: `<home>/<name>`."""
    return Path(spec["home"]) / spec["name"]


def tasks_of(spec: Spec) -> int:
    """How many processes a measurement has on each client."""
    return max(1, int(spec["scale"]["tasks"]))


def _check_geometry(full: Json) -> None:
    if not (full["sparse"] and filesystems.named(full["filesystem"]).has_geometry and full["stores"] == 1):
        raise Refusal("fsage_target.geometry is for an ext4 with sparse: true and stores: 1")
    try:
        geometry = Geometry.from_json(full["geometry"], "fsage_target.geometry")
    except Unacceptable as why:
        raise Refusal(str(why)) from why
    if geometry.device_bytes > full["size_gib"] * GIB:
        raise Refusal(
            f"fsage_target.geometry.blocks is {geometry.blocks}, which are {geometry.device_bytes / GIB:.2f} GiB: "
            f"size_gib is {full['size_gib']}, and as much or more is wanted"
        )


def _device_model(given: dict[str, object]) -> dict[str, object]:
    """The key `device_model`, complete."""
    kind = given.get("kind", device.USUAL) if isinstance(given, dict) else given
    if not isinstance(given, dict) or kind not in device.declarable():
        raise Refusal(
            f"fsage_target.device_model.kind is {kind!r}: allowed are {', '.join(device.declarable())}, or no "
            "device_model"
        )
    of_kind = device.KINDS[kind]
    known_keys("fsage_target.device_model", given, {"kind": kind, **of_kind.defaults})
    model = {"kind": kind, **of_kind.defaults, **given}
    for key, usual in of_kind.defaults.items():
        if isinstance(usual, (int, float)) and not (key in of_kind.may_be_zero and model[key] == 0):
            size = abs(model[key]) if key in of_kind.may_be_negative and _number(model[key]) else model[key]
            positive(f"fsage_target.device_model.{key}", size, whole=isinstance(usual, int))
    if why := of_kind.why_wrong(model):
        raise Refusal(f"fsage_target.device_model.{why}")
    return model


def known_keys(where: str, given: Mapping[str, object], allowed: dict[str, object]) -> None:
    for key in given:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, 1, 0)
            raise Refusal(f"{where} has no key {key!r}; did you mean {near[0]!r}? Known: {', '.join(allowed)}")


def path(key: str, value: object) -> str:
    """A declared path as it is used: from / on, nothing in it that could lead, or read, otherwise than it looks."""
    allowed = "a path that begins with / or ~/, without '..' and without control characters, is wanted"
    if not isinstance(value, str) or not value or len(value) > LONGEST_PATH or not value.isprintable():
        shown = ascii(value)
        raise Refusal(f"{key} is {shown if len(shown) <= 100 else shown[:100] + '...'}: {allowed}")
    whole = os.path.expanduser(value)
    if not whole.startswith("/") or ".." in whole.split("/"):
        raise Refusal(f"{key} is {value!r}: {allowed}")
    return os.path.normpath("/" + whole.lstrip("/"))


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def positive(key: str, value: object, whole: bool) -> None:
    kinds = (int,) if whole else (int, float)
    if not _number(value) or not isinstance(value, kinds) or value <= 0:
        raise Refusal(f"{key} is {value!r}: a positive {'whole ' if whole else ''}number is wanted")
