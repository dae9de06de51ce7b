"""What listens on a testbed's hosts, as `ss -ltnp` tells it."""

from __future__ import annotations

import re
from typing import NamedTuple

from testbed import Testbed

COLUMNS = re.compile(r"LISTEN +\d+ +\d+ +(?P<address>\S+):(?P<port>\d+) +\S+ *(?P<users>.*)")


class Listener(NamedTuple):
    """One listening socket."""

    host: str
    address: str
    port: int
    programs: frozenset[str]


def listeners(testbed: Testbed) -> set[Listener]:
    """All that listen now, on every host and on `login`.

    `ss` reads who has which socket, then the sockets: of what was opened or closed in between it names no program, so
    that is looked at again.
    """
    found = set()
    for host in ("login", *testbed.hosts):
        seen = _listening(testbed, host)
        if nobodys := {each for each in seen if not each.programs}:
            places = {(nobody.address, nobody.port) for nobody in nobodys}
            seen -= nobodys
            seen |= {each for each in _listening(testbed, host) if (each.address, each.port) in places}
        found |= seen
    return found


def _listening(testbed: Testbed, host: str) -> set[Listener]:
    there, found = () if host == "login" else ("ip", "netns", "exec", host), set()
    for line in testbed.run(*there, "ss", "-Hltnp").splitlines():
        seen = COLUMNS.match(line)
        assert seen, line
        programs = frozenset(re.findall(r'\("([^"]+)"', seen["users"]))
        found.add(Listener(host, seen["address"], int(seen["port"]), programs))
    return found
