"""A target's declaration (`fsage_target`), completed and checked as far as an agent alone must.

A claim freezes it: an edit is then applied or refused, never ignored.
"""

from __future__ import annotations

import difflib
import os
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypedDict, cast

from fsage.base import GIB, Json, JsonView, Refusal
from fsage.base.message import Unacceptable, shown
from fsage.base.typed import Check
from fsage.model import device, filesystems, kinds
from fsage.model.claim import Claim, utc_now
from fsage.model.target import (
    BLOCKS,
    CLAIMED,
    COUNT,
    LIVE,
    MADE,
    NOTED,
    POSITIVE,
    Key,
    Limits,
    Scale,
    Spec,
    declared,
    keys,
    known_keys,
    usual,
)

EVERY_S = 5.0
MORE_THAN_USUAL = Check(lambda times: times > 1, "more than 1, or null,")


class StopIf(TypedDict):
    """What a probe beside the load may see before a cell is ended for the sake of others.

    A site sets it in the inventory. The probe (fsage.studies.neighbours) looks up a name. It reads and writes
    64 KiB past the cache on each OST that is used, at first soon after the work began, then every EVERY_S.

    `slower`: times the 90th percentile of quiet looks; those in ms: absolute.

    Of the servers that the inventory names: `server_load`, the load average of the last minute of any; `server_ms`, of
    Lustre, the mean time of the reads and writes of any OST since the probe before, whoever asked for them.

    What runs is stopped after `in_a_row` looks above a limit, or after more than a tenth of the last 20. The run then
    ends, or waits for `in_a_row` looks below, at most `wait_minutes`.
    """

    slower: Annotated[float | None, MORE_THAN_USUAL, Key(2.0, LIVE)]
    stat_ms: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    read_ms: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    write_ms: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    server_load: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    server_ms: Annotated[float | None, POSITIVE, Key(None, LIVE)]
    in_a_row: Annotated[int, COUNT, Key(3, LIVE)]
    then: Annotated[Literal["end", "wait"], Key("end", LIVE)]
    wait_minutes: Annotated[float, POSITIVE, Key(60, LIVE)]


PROBE_LIMITS = ("slower", "stat_ms", "read_ms", "write_ms", "server_load", "server_ms")
"""Keys of which null means no limit."""


LONGEST_PATH = 1024  # the kernel takes 4095 bytes, with what is added to it

HOME_OF_ROOT = Path("/var/lib/fsage")
PATHS = ("home", "mount_dir", "directory", "image_dir", "containers")


def complete(spec: JsonView) -> Spec:
    """`spec` with every key present. `Refusal` for an unknown key, a value not allowed, or an unsafe name."""
    of_kinds = kinds.blocks()
    full = {**usual(Spec), **dict.fromkeys(of_kinds), **declared(Spec, spec, "fsage_target", of_kinds)}
    full["scale"] = {**usual(Scale), **declared(Scale, full.get("scale", {}), "fsage_target.scale")}
    full["limits"] = {**usual(Limits), **declared(Limits, full.get("limits", {}), "fsage_target.limits")}
    _refuse_unknown("kind", full["kind"], kinds.names())  # an extension may have more
    _refuse_unknown("filesystem", full["filesystem"], kinds.named(full["kind"]).filesystems())
    if full["geometry"] is not None:
        _check_geometry(full)
    if full["device_model"] is not None:
        full["device_model"] = device_model(full["device_model"])
    if full["stop_if"] is not None:
        full["stop_if"] = _stop_if(full["stop_if"])
        if kinds.named(full["kind"]).own_stores:
            raise Refusal(f"fsage_target.stop_if is for others, and nobody else uses a target of kind {full['kind']}")
        if full["stop_if"]["server_ms"] is not None and not kinds.named(full["kind"]).has_osts:
            raise Refusal("fsage_target.stop_if.server_ms is of Lustre's OSTs: give read_ms, or server_load")
    for name, block in of_kinds.items():
        if full[name] is not None and full["kind"] != name:
            raise Refusal(f"fsage_target.{name} is for kind {name}; kind is {full['kind']!r}")
        if full["kind"] == name:
            full[name] = {**usual(block), **declared(block, full[name] or {}, f"fsage_target.{name}")}
    kinds.named(full["kind"]).complete(full)
    if full["home"] is None:
        full["home"] = str(usual_home())
    if full["directory"] is None:
        full["directory"] = str(Path.home() / ".cache/fsage" / full["name"])
    for key in PATHS:
        if full[key] is not None:
            full[key] = path(f"fsage_target.{key}", full[key])
    return cast(Spec, full)


def usual_home() -> Path:
    """Where this user's hosts keep what they must know of targets, unless `home` is declared."""
    if os.geteuid() == 0:
        return HOME_OF_ROOT
    return Path.home() / ".local/state/fsage"


def fsname_of(spec: Spec) -> str | None:
    """The name of the shared file system that rules of root's helper are for; None: they are for the host alone."""
    return kinds.named(spec["kind"]).fsname(spec)


def home_of(spec: Spec) -> Path:
    """Where the host keeps what it must know of this target: `<home>/<name>`."""
    return Path(spec["home"]) / spec["name"]


def tasks_of(spec: Spec) -> int:
    """How many processes a measurement has on each client."""
    return max(1, int(spec["scale"]["tasks"]))


def _refuse_unknown(key: str, value: object, names: list[str]) -> None:
    """Raise Refusal for a name that is not one of these; it names the kinds of target that have this file system."""
    if value in names:
        return
    having = [kind for kind in kinds.names() if value in kinds.named(kind).filesystems()]
    near = difflib.get_close_matches(str(value), names, 1, 0)
    meant = ""
    if key == "filesystem" and having:
        meant = f"; a target of kind {' or '.join(having)} can have it"
    elif near:
        meant = f"; {near[0]}?"
    raise Refusal(f"fsage_target.{key} is {shown(value)}: allowed are {', '.join(names)}{meant}")


def _check_geometry(full: Json) -> None:
    kind = filesystems.named(full["filesystem"]).geometry
    if not (full["sparse"] and kind and full["stores"] == 1):
        raise Refusal("fsage_target.geometry is for an ext4 or XFS with sparse: true and stores: 1")
    try:
        geometry = kind.from_json(full["geometry"], "fsage_target.geometry")
    except Unacceptable as why:
        raise Refusal(str(why)) from why
    if geometry.device_bytes > full["size_gib"] * GIB:
        raise Refusal(
            f"fsage_target.geometry.blocks is {geometry.blocks}, which are {geometry.device_bytes / GIB:.2f} GiB: "
            f"size_gib is {full['size_gib']}, and as much or more is wanted"
        )


def _stop_if(given: Json) -> Json:
    """The key `stop_if`, complete."""
    where = "fsage_target.stop_if"
    no_limits = dict.fromkeys(key for key in PROBE_LIMITS if key in given)
    full = {**usual(StopIf), **no_limits, **declared(StopIf, given, where)}
    if all(full[key] is None for key in PROBE_LIMITS):
        raise Refusal(f"{where} has no limit: give {', '.join(PROBE_LIMITS[:-1])} or {PROBE_LIMITS[-1]}")
    return full


def device_model(given: object, where: str = "fsage_target.device_model") -> Json:
    """The key `device_model`, complete. Raises Refusal."""
    kind = given.get("kind", device.USUAL) if isinstance(given, dict) else given
    if not isinstance(given, dict) or kind not in device.declarable():
        raise Refusal(
            f"{where}.kind is {kind!r}: allowed are {', '.join(device.declarable())}, or no {where.rpartition('.')[2]}"
        )
    of_kind = device.kinds()[kind]
    known_keys(where, given, {"kind": kind, **of_kind.defaults})
    model = {"kind": kind, **of_kind.defaults, **given}
    for key, usual_value in of_kind.defaults.items():
        if isinstance(usual_value, (int, float)) and not (key in of_kind.may_be_zero and model[key] == 0):
            size = model[key]
            if key in of_kind.may_be_negative and _number(size):
                size = abs(size)
            positive(f"{where}.{key}", size, whole=isinstance(usual_value, int))
    why = of_kind(model).why_wrong()
    if why:
        raise Refusal(f"{where}.{why}")
    return model


def path(key: str, value: object) -> str:
    """A declared path as it is used: from / on, nothing in it that could lead, or read, otherwise than it looks."""
    allowed = "a path that begins with / or ~/, without '..', templates and control characters, is wanted"
    if not isinstance(value, str) or not value or len(value) > LONGEST_PATH or not value.isprintable():
        raise Refusal(f"{key} is {shown(value)}: {allowed}")
    whole = os.path.expanduser(value)
    templated = any(mark in value for mark in ("{{", "{%", "{#"))  # Ansible would fill it in, and nobody else
    if not whole.startswith("/") or ".." in whole.split("/") or templated:
        raise Refusal(f"{key} is {value!r}: {allowed}")
    return os.path.normpath("/" + whole.lstrip("/"))


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def positive(key: str, value: object, whole: bool) -> None:
    kinds = (int,) if whole else (int, float)
    if not _number(value) or not isinstance(value, kinds) or value <= 0:
        raise Refusal(f"{key} is {value!r}: a positive {'whole ' if whole else ''}number is wanted")


@cache
def _blocks() -> dict[str, type]:
    """Keys that have keys of their own."""
    return {**BLOCKS, **kinds.blocks()}


@cache
def edits() -> dict[str, str]:
    """What an edit of each key needs once the target is claimed, keys of blocks as scale.tasks."""
    of_blocks = {f"{name}.{key}": entry.edit for name, block in _blocks().items() for key, entry in keys(block).items()}
    return {**{name: key.edit for name, key in keys(Spec).items()}, **of_blocks}


def decided(key: str) -> str:
    """How a change of one key is treated; an unknown key is refused."""
    return edits().get(key, CLAIMED)


def flat(spec: JsonView) -> Json:
    """A complete declaration, with the keys of its blocks in the form scale.tasks."""
    settings = {}
    for key, value in spec.items():
        if key in _blocks():
            settings.update({f"{key}.{name}": inner for name, inner in (value or {}).items()})
        else:
            settings[key] = value
    return settings


def declared_again(spec: JsonView) -> Json:
    """What a claim keeps of a complete declaration, to tell later what was edited."""
    kept = {key: value for key, value in flat(spec).items() if decided(key) in (CLAIMED, MADE)}
    return {key: value for key, value in kept.items() if key not in kinds.named(spec["kind"]).meaningless}


def refuse_edits(claim: JsonView, spec: JsonView) -> None:
    """`Refusal` where the declaration differs from what was claimed in what cannot change without a new claim."""
    now = flat(spec)
    for key, value in claim.get("declared", {}).items():
        if now.get(key) != value:
            raise Refusal(
                f"target {claim['target']} was claimed with {key} {_said(value)}, and {_said(now.get(key))} is "
                f"declared now; nothing was touched. Declare {_said(value)} again, or {decided(key)}"
            )


def as_declared(claim: Claim, spec: Spec) -> Claim:
    """The claim with what may change as it is declared now; the same one where nothing of that differs."""
    now = {key: value for key, value in flat(spec).items() if decided(key) == NOTED}
    edits = [
        {"when": utc_now(), "key": key, "from": claim.get(key), "to": value}
        for key, value in now.items()
        if claim.get(key, value) != value
    ]
    if edits:
        return cast(Claim, {**claim, **now, "edits": [*claim.get("edits", []), *edits]})
    return claim


def launch_now(claim: JsonView) -> Json:
    """How tasks are started, for conditions."""
    return {key: claim.get(key) for key in ("launcher", "launcher_options", "tasks")}


def _said(value: object) -> str:
    if value is None:
        return "nothing"
    return str(value)
