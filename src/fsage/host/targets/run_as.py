"""The user who runs the measured commands: `run_as` of the target where the agent is root, else the agent's own."""

from __future__ import annotations

import os
import pwd

from fsage.model.errors import Refusal
from fsage.model.target import Spec


def user(spec: Spec) -> pwd.struct_passwd | None:
    """The account that root takes for measured commands; None: no other than the present one. Raises Refusal."""
    name = spec["run_as"]
    host = os.uname().nodename
    if name is None:
        return None
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        raise Refusal(f"fsage_target.run_as is {name!r}, and {host} has no such user; nothing was touched") from None
    if os.geteuid() not in (0, account.pw_uid):
        raise Refusal(f"fsage_target.run_as is {name!r}, and on {host} user {os.geteuid()} cannot run commands as it")
    if os.geteuid() == 0:
        return account
    return None


def unavailable_because(spec: Spec) -> str | None:
    """Why this host cannot measure as the target's user; None when it can."""
    try:
        user(spec)
    except Refusal as why:
        return str(why)
    return None


def uid(spec: Spec) -> int:
    """The numeric user id that measures. Raises Refusal."""
    account = user(spec)
    if account:
        return account.pw_uid
    return os.geteuid()
