"""A target's declaration (`fsage_target`), completed and checked as far as an agent alone must."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any

from fsage.agent.errors import Refusal

GIB = 1 << 30
MIB = 1 << 20
LONGEST_PATH = 1024  # the kernel takes 4095 bytes, with what is added to it

DEFAULTS: dict[str, Any] = {
    "name": "local",
    "kind": "loop",
    "filesystem": "ext4",
    "stores": 1,
    "size_gib": 16,
    "minimum_gib": 4,
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
MODEL_DEFAULTS: dict[str, dict[str, Any]] = {
    "iocost": {
        "kind": "iocost",
        "bytes_per_s": 380_000_000,
        "sequential_iops": 20_000,
        "random_iops": 100,
        "allow_moving": [],
    },
    "seek": {
        "kind": "seek",
        "bytes_per_s": 300_000_000,
        "seek_s": 0.005,
        "outer_to_inner": 1.0,
        "noise_cov": 0.0,
        "noise_seed": 1,
        "drift_percent_per_hour": 0.0,
    },
}
MODEL_ZERO = ("noise_cov", "drift_percent_per_hour")  # may be 0; a drift may be negative too
LUSTRE_DEFAULTS: dict[str, Any] = {
    "fsname": None,
    "mgs": None,
    "capacity_gib": None,
    "stripe_count": 1,
    "stripe_size_mib": 1,
    "first_ost": -1,
    "oss": [],
    "tolerance_mib": None,
}
OTHERS_MIB = 1024  # the usual tolerance_mib where others use the file system too
ALLOWED = {
    "kind": ("loop", "directory", "lustre"),
    "filesystem": ("ext4", "xfs", "btrfs"),
    "allocator_reset": ("remount", "none"),
    "launcher": ("openmpi", "mpich", "srun"),
}


def complete(spec: dict[str, Any]) -> dict[str, Any]:
    """`spec` with every key present. `Refusal` for an unknown key, a value not allowed, or an unsafe name."""
    _known("fsage_target", spec, DEFAULTS)
    full = {**DEFAULTS, **{key: value for key, value in spec.items() if value is not None}}
    if not isinstance(full["name"], str) or not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", full["name"]):
        raise Refusal(
            f"fsage_target.name is {full['name']!r}: at most 32 of a-z, 0-9, '_' and '-' are allowed, a "
            "letter first, because directories and a control group are named after it"
        )
    if full["run_as"] is not None and not re.fullmatch(r"[a-z_][a-z0-9_.-]{0,31}", str(full["run_as"])):
        raise Refusal(f"fsage_target.run_as is {full['run_as']!r}: the name of a user is wanted")
    for key, choices in ALLOWED.items():
        if full[key] not in choices:
            near = difflib.get_close_matches(str(full[key]), choices, 1, 0)
            raise Refusal(
                f"fsage_target.{key} is {full[key]!r}: allowed are {', '.join(choices)}; {near[0]}?"
                if near
                else f"fsage_target.{key} is {full[key]!r}: allowed are {', '.join(choices)}"
            )
    for key in ("stores", "size_gib", "minimum_gib", "budget_gib", "amount_mib"):
        if full[key] is not None:
            _positive(f"fsage_target.{key}", full[key], whole=key in ("stores", "amount_mib"))
    full["scale"] = {**DEFAULTS["scale"], **full["scale"]}
    if full["device_model"] is not None:
        full["device_model"] = _device_model(full["device_model"])
    if full["kind"] == "lustre":
        full["lustre"] = _lustre(full)
    elif full["lustre"] is not None:
        raise Refusal(f"fsage_target.lustre is for kind lustre; kind is {full['kind']!r}")
    if full["home"] is None:
        full["home"] = "/var/lib/fsage" if os.geteuid() == 0 else str(Path.home() / ".local/state/fsage")
    if full["directory"] is None:
        full["directory"] = str(Path.home() / ".cache/fsage" / full["name"])
    for key in ("home", "mount_dir", "directory", "image_dir", "containers"):
        if full[key] is not None:
            full[key] = path(f"fsage_target.{key}", full[key])
    return full


def home_of(spec: dict[str, Any]) -> Path:
    """Where the host keeps what it must know of this target: `<home>/<name>`."""
    return Path(spec["home"]) / spec["name"]


def tasks_of(spec: dict[str, Any]) -> int:
    """How many processes a measurement has on each client."""
    return max(1, int(spec["scale"]["tasks"]))


def _device_model(given: dict[str, Any]) -> dict[str, Any]:
    """The key `device_model`, complete."""
    kind = given.get("kind", "iocost") if isinstance(given, dict) else given
    if not isinstance(given, dict) or kind not in MODEL_DEFAULTS:
        raise Refusal(
            f"fsage_target.device_model.kind is {kind!r}: allowed are {', '.join(MODEL_DEFAULTS)}, or no device_model"
        )
    defaults = MODEL_DEFAULTS[kind]
    _known("fsage_target.device_model", given, defaults)
    model = {**defaults, **given}
    for key, usual in defaults.items():
        if isinstance(usual, (int, float)) and not (key in MODEL_ZERO and model[key] == 0):
            size = abs(model[key]) if key == "drift_percent_per_hour" and _number(model[key]) else model[key]
            _positive(f"fsage_target.device_model.{key}", size, whole=isinstance(usual, int))
    if model.get("outer_to_inner", 1) < 1:
        raise Refusal(
            f"fsage_target.device_model.outer_to_inner is {model['outer_to_inner']}: the rate at the first block over "
            "that at the last, 1 or more, is wanted"
        )
    return model


def _lustre(full: dict[str, Any]) -> dict[str, Any]:
    """The key `lustre`, complete."""
    if not isinstance(full["lustre"], dict) or not full["directory"]:
        raise Refusal(
            "fsage_target of kind lustre needs lustre (fsname, mgs, capacity_gib) and directory, a folder of its own "
            "on a client's mount"
        )
    _known("fsage_target.lustre", full["lustre"], LUSTRE_DEFAULTS)
    lustre = {**LUSTRE_DEFAULTS, **full["lustre"]}
    if not isinstance(lustre["fsname"], str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,8}", lustre["fsname"]):
        raise Refusal(f"fsage_target.lustre.fsname is {lustre['fsname']!r}: a name as in MGS:/NAME is wanted")
    if not isinstance(lustre["mgs"], str) or not re.fullmatch(r"[\w.,:@-]+@[\w.,:@-]+", lustre["mgs"]):
        raise Refusal(f"fsage_target.lustre.mgs is {lustre['mgs']!r}: NIDs as in the mount are wanted: 10.0.0.1@tcp")
    if lustre["capacity_gib"] is None:
        raise Refusal(
            "fsage_target.lustre.capacity_gib is missing: say how many GiB fsage may fill, or `all` of a file system "
            "that holds nothing else"
        )
    if lustre["capacity_gib"] != "all":
        _positive("fsage_target.lustre.capacity_gib", lustre["capacity_gib"], whole=False)
    _positive("fsage_target.lustre.stripe_size_mib", lustre["stripe_size_mib"], whole=True)
    for key in ("stripe_count", "first_ost"):
        if lustre[key] != -1 and (key, lustre[key]) != ("first_ost", 0):
            _positive(f"fsage_target.lustre.{key}", lustre[key], whole=True)
    if lustre["tolerance_mib"] is None:
        lustre["tolerance_mib"] = 0 if lustre["capacity_gib"] == "all" else OTHERS_MIB
    elif lustre["capacity_gib"] == "all" and lustre["tolerance_mib"] != 0:
        raise Refusal(
            f"fsage_target.lustre.tolerance_mib is {lustre['tolerance_mib']!r}, and capacity_gib all: the file system "
            "is fsage's alone, so that nobody's writing is tolerated; leave it out"
        )
    elif lustre["tolerance_mib"] != 0:
        _positive("fsage_target.lustre.tolerance_mib", lustre["tolerance_mib"], whole=True)
    return lustre


def _known(where: str, given: dict[str, Any], allowed: dict[str, Any]) -> None:
    for key in given:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, 1, 0)
            raise Refusal(f"{where} has no key {key!r}; did you mean {near[0]!r}? Known: {', '.join(allowed)}")


def path(key: str, value: Any) -> str:
    """A declared path as it is used: from / on, nothing in it that could lead, or read, otherwise than it looks."""
    allowed = "a path that begins with / or ~/, without '..' and without control characters, is wanted"
    if not isinstance(value, str) or not value or len(value) > LONGEST_PATH or not value.isprintable():
        shown = ascii(value)
        raise Refusal(f"{key} is {shown if len(shown) <= 100 else shown[:100] + '...'}: {allowed}")
    whole = os.path.expanduser(value)
    if not whole.startswith("/") or ".." in whole.split("/"):
        raise Refusal(f"{key} is {value!r}: {allowed}")
    return os.path.normpath("/" + whole.lstrip("/"))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _positive(key: str, value: Any, whole: bool) -> None:
    kinds = (int,) if whole else (int, float)
    if not _number(value) or not isinstance(value, kinds) or value <= 0:
        raise Refusal(f"{key} is {value!r}: a positive {'whole ' if whole else ''}number is wanted")
