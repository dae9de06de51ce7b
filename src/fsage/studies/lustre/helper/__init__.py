"""What root's helper does for a target on Lustre. Each verb checks all that a user gives it.

Names must be of the file system that the command names, and tunables lie between bounds. What a tunable was is noted
before it is set.
"""

from __future__ import annotations

import re

from fsage.api.helper import (
    CLIENTS,
    OF_LUSTRE,
    SERVERS,
    Json,
    Refusal,
    Verb,
    pace,
    settings,
    shown,
    undisturbed,
)

from . import lctl

FSNAME = r"[A-Za-z0-9_-]{1,8}"
LOCKS = r"ldlm\.namespaces\.{}-(OST|MDT)[0-9a-f]{{4}}-(osc|mdc)-[0-9a-f]{{1,16}}"
TUNABLE = r"(osc\.{0}-OST[0-9a-f]{{4}}-osc|llite\.{0})-[0-9a-f]{{1,16}}\.(\w{{1,64}})"
WORD = 1024  # characters of what a user tells of himself
MOST = 10_000  # connections of a client


def give_locks_back(given: Json) -> None:
    """Give back the locks of a client that nobody uses."""
    fsname = check_fsname(given.get("fsname"))
    connections = check_locks(fsname, given.get("connections"))
    pace("lustre-locks")
    lctl.cancel_locks(fsname, connections)


def tune(given: Json) -> object:
    """Set known tunables of a client for a target, between bounds, and put back what it set before."""
    fsname = check_fsname(given.get("fsname"))
    values = check_tunables(fsname, given.get("values"))
    holder = check_holder(fsname, given.get("holder"), given.get("user"))
    pace("lustre-tune")
    with undisturbed():
        return lctl.tune(fsname, holder, values)


def imports(given: Json) -> str:
    """The connections of a client, and what became of them."""
    return lctl.imports(check_fsname(given.get("fsname")))


def network(given: Json) -> str:
    """What Lustre's network has counted."""
    return lctl.network_counters(check_fsname(given.get("fsname")))


def sync(given: Json) -> str:
    """Have a server commit."""
    fsname = check_fsname(given.get("fsname"))
    pace("lustre-sync")
    return lctl.commit(fsname)


def counters(given: Json) -> str:
    """What the OSTs of a server have counted."""
    return lctl.counters(check_fsname(given.get("fsname")))


def free_space(given: Json) -> None:
    """The free extents of an OST of a server, as dumpe2fs prints them."""
    fsname = check_fsname(given.get("fsname"))
    ost = str(given.get("ost"))
    if not lctl.is_ost(fsname, ost):
        raise Refusal(f"{shown(ost)} is not the name of an OST of {fsname}")
    lctl.print_free_space(ost)


VERBS: dict[str, dict[str, Verb]] = {
    CLIENTS: {
        "lustre-locks": give_locks_back,
        "lustre-tune": tune,
        "lustre-imports": imports,
        "lustre-network": network,
    },
    SERVERS: {
        "lustre-sync": sync,
        "lustre-counters": counters,
        lctl.FREE_SPACE: free_space,
    },
}


def undo() -> list[str]:
    """Put back every tunable that was set for anybody; a sentence for each."""
    back = []
    for holder in settings.holders(lctl.TUNABLES.name):
        for name, before, now in lctl.tune(holder["fsname"], holder, {}):
            back.append(f"{name}: {before} -> {now}")
    return back


def check_locks(fsname: str, connections: object) -> list[str]:
    """The list of connections to a file system, checked. Raises Refusal."""
    if not isinstance(connections, list) or not 0 < len(connections) <= MOST:
        raise Refusal(f"{shown(connections)} is no list of connections")
    known = re.compile(LOCKS.format(re.escape(fsname)))
    wrong = [name for name in connections if not isinstance(name, str) or not known.fullmatch(name)]
    if wrong:
        raise Refusal(f"{shown(wrong[0])} is no connection of a Lustre client to {fsname}")
    return connections


def check_tunables(fsname: str, values: object) -> dict[str, str]:
    """The tunables of a client of a file system with their values, checked. Raises Refusal."""
    if not isinstance(values, dict) or len(values) > MOST:
        raise Refusal(f"{shown(values)} is no object of tunables")
    for name, value in values.items():
        match = re.fullmatch(TUNABLE.format(re.escape(fsname)), name)
        if not match or match[2] not in OF_LUSTRE:
            raise Refusal(
                f"{shown(name)} is no tunable of a Lustre client of {fsname} that is known: {', '.join(OF_LUSTRE)}"
            )
        least, most = OF_LUSTRE[match[2]]
        if not isinstance(value, str) or not re.fullmatch(r"\d{1,19}", value, re.ASCII):
            raise Refusal(f"{shown(value)} is no value of {name}: a whole number is wanted")
        if not least <= int(value) <= most:
            raise Refusal(f"{match[2]} is {value}: a user may have {least} to {most} set, and nothing was touched")
    return values


def check_holder(fsname: str, holder: object, user: object) -> settings.Holder:
    """For whom a user says that he sets something on a file system, checked. Raises Refusal."""
    words = holder if isinstance(holder, dict) else {}
    run = words.get("run")
    words_of_run = [words.get("target"), words.get("home"), *(run.values() if isinstance(run, dict) else ())]
    plain = all(isinstance(word, int) or (isinstance(word, str) and len(word) <= WORD) for word in words_of_run)
    if (
        not isinstance(user, int)
        or not plain
        or not isinstance(run, (dict, type(None)))
        or (run is not None and "run" not in run)
    ):
        raise Refusal(f"{shown(holder)} does not say for which target tunables are set")
    target = str(words["target"])
    home = str(words["home"])
    return {"user": user, "target": target, "home": home, "fsname": fsname, "run": run}


def check_fsname(fsname: object) -> str:
    """The name of a file system, checked. Raises Refusal."""
    if not isinstance(fsname, str) or not re.fullmatch(FSNAME, fsname):
        raise Refusal(f"{shown(fsname)} is not the name of a Lustre file system")
    return fsname
