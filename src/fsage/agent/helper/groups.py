"""Verbs of the helper for control groups that are made for a user, and for the cost model over his devices."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fsage.agent.device import cgroups, iocost, loops
from fsage.agent.errors import Refusal
from fsage.agent.helper.caller import GROUP, GROUPS, Caller, Given, groups_called, hierarchies, is_his, one_of
from fsage.agent.system import files, privilege

RATES = ("bytes_per_s", "sequential_iops", "random_iops")
MOST_RATE = 10**15


def groups(caller: Caller, given: Given) -> None:
    """That the user may have control groups: where he may not, sudo refuses this verb."""


def lay(caller: Caller, given: Given) -> None:
    """Make the user's control group, and lay a cost model over his devices."""
    asked, devices = given.get("model"), given.get("devices")
    if not isinstance(devices, list) or not isinstance(asked, dict):
        raise Refusal("devices, a list, and model, an object, are wanted")
    model: Given = {key: asked.get(key) for key in RATES} if devices else {}
    if wrong := [key for key, rate in model.items() if type(rate) is not int or not 0 < rate <= MOST_RATE]:
        raise Refusal(f"{wrong[0]} of the cost model is {model[wrong[0]]!r:.100}: a whole number above 0 is wanted")
    if asked.get("allow_moving"):
        raise Refusal("allow_moving would take a controller from others' groups, which only root may")
    names = [caller.device(device) for device in devices]
    iocost.lay(caller.group(given.get("name"), made=False), names, model)


def cost_off(caller: Caller, given: Given) -> str:
    """Take the cost model off a loop device that is the user's, or nobody's."""
    number = given.get("number")
    if not isinstance(number, str) or not re.fullmatch(r"7:\d{1,7}", number):
        raise Refusal(f"{number!r:.100} is not the number of a loop device")
    try:
        device = f"/dev/{Path(os.readlink(f'/sys/dev/block/{number}')).name}"
    except FileNotFoundError:
        return f"device {number} is gone"
    if loops.loop_info(device) is not None and not is_his(caller, device):
        return f"device {number} is another's by now: what it charged went with its use before"
    return iocost.cost_off(number)


def weigh(caller: Caller, given: Given) -> None:
    """Give the user's control group its share."""
    version, weight = one_of(given.get("version"), ("v1", "v2")), given.get("weight")
    if type(weight) is not int or not cgroups.WEIGHTS[0] <= weight <= cgroups.WEIGHTS[1]:
        raise Refusal(f"{weight!r:.100} is not a weight: {cgroups.WEIGHTS[0]} to {cgroups.WEIGHTS[1]} are")
    cgroups.weigh(caller.group(given.get("name"), made=version == "v2"), version, weight)


def join(caller: Caller, given: Given) -> None:
    """Move the process that called into a group of the user's, or back to that of the process that started it."""
    group, pid = str(given.get("group")), caller.process()
    if name := _name_of(group):
        caller.group(name)
    elif group not in _started_in(pid):
        raise Refusal(f"{group!r:.200} is not a control group of {caller.user.pw_name}'s")
    privilege.is_called_by(pid)
    cgroups.join(group)


def remove_group(caller: Caller, given: Given) -> str:
    """Remove the user's control group."""
    path = str(given.get("path"))
    name = _name_of(path)
    if not name:
        raise Refusal(f"{path!r:.200} is not a target's control group")
    if os.path.isdir(path):
        caller.group(name)
    said = cgroups.remove(path)
    files.remove(GROUPS / f"{name}.json")
    return said


def put_back_shared(caller: Caller, given: Given) -> list[str]:
    """Put back what all targets share, where none has a group any more."""
    return iocost.put_back_shared()


VERBS: dict[str, Callable[[Caller, Given], Any]] = {
    "groups": groups,
    "lay": lay,
    "cost-off": cost_off,
    "weigh": weigh,
    "join": join,
    "remove-group": remove_group,
    "put-back-shared": put_back_shared,
}


def _name_of(group: str) -> str | None:
    """The name of a target's control group, by its path; None for any other."""
    name = Path(group).name[len(cgroups.PREFIX) :]
    return name if GROUP.fullmatch(name) and group in groups_called(name) else None


def _started_in(pid: int) -> list[str]:
    """The groups of the process that started this one: there it was before it joined any."""
    parent = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
    return [str(cgroups.group_of(parent, top / "any")) for top in hierarchies()]
