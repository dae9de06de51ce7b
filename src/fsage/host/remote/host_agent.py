"""The host agent on a host beside the launcher: during one session it does what the launcher says, a JSON line each.

The first line gives `target`, `claim` and `role` (client or server). The agent answers with the facts of this host, and
with a whole probe where the target is not claimed yet. Every later line says what to `do`. Each line has one line as
its answer; {"failed": sentence} says what could not be done. A running command may request numbers
(fsage.host.remote.synchronised): its lines go to the launcher, and the launcher's numbers to it. When the connection
ends, so does all that was started here.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from io import BufferedReader
from pathlib import Path
from typing import cast

from fsage.host.lustre import cold, granted, servercache, servers
from fsage.host.preallocation import astray, ldiskfs
from fsage.host.remote import probe, signs
from fsage.host.remote.synchronised import NEXT, SynchronisedCommand
from fsage.host.structure import eviction
from fsage.host.system import caches, places
from fsage.host.system.files import regular_files
from fsage.host.system.shell import find_administrators
from fsage.host.targets.opening import verified
from fsage.host.targets.target import Target
from fsage.model.answers import MOST_ENDS, Dropped
from fsage.model.declaration import lustre_of
from fsage.model.errors import Failure, Refusal
from fsage.model.target import Spec
from fsage.model.typed import Json

SILENCE_S = 3600.0  # a launcher that lost its power never closes its connection


class Gone(Exception):
    """The launcher's connection has ended."""


class HostAgent:
    """What a host can be told to do, a method each."""

    def __init__(self, given: Json, launcher: Launcher) -> None:
        self.launcher = launcher
        self.claim, client = given["claim"], given["role"] == "client"
        spec: Spec = given["target"]  # complete, as `Hosts` has it
        if not client:  # a server runs no measured command
            spec = {**spec, "run_as": None}
        self.target = verified(spec, {"claim": self.claim}, anywhere=True) if client and self.claim else None
        self.command: SynchronisedCommand | None = None
        self.spec: Spec | None = None if client else spec
        self.free_ends: list[int] = []  # of the OST whose free space was read last
        if self.spec and self.claim:
            servercache.put_back(spec)  # the settings of a killed agent
        self.hello = probe.probe(spec, {}, False)["probe"] if client and not self.claim else probe.facts(spec)

    def do(self, do: str, **given: object) -> dict[str, object]:
        """Call the method of this name; its answer."""
        works: dict[str, Callable[..., dict[str, object]]] = {
            "drop": self.drop,
            "signs": self.signs,
            "read": self.read,
            "server_cache": self.server_cache,
            "prealloc": self.prealloc,
            "settings": self.settings,
            "commit": self.commit,
            "counters": self.counters,
            "free_space": self.free_space,
            "free_extents": self.free_extents,
            "prepare": self.prepare,
            "clock": self.clock,
            "busy": self.busy,
            "go": self.go,
            "end": self.end,
        }
        return works[do](**given)

    def drop(self, of_state: Sequence[str] = ()) -> dict[str, object]:
        """Drop this host's caches; the answer of caches.drop. `of_state`: files of the state that are read too."""
        return dict(drop_of(self.target, map(Path, of_state))) if self.target else caches.drop_all()

    def signs(self, last: int | None) -> dict[str, object]:
        """A look at this host (fsage.host.remote.signs), at a server with its own spec."""
        if self.target:
            return dict(signs.look(self.target.spec, self.target.mounts, self.target.devices, last))
        assert self.spec
        return dict(signs.look(self.spec, (), (), last, serves=True))

    def read(self) -> dict[str, object]:
        """Read the target's cache-eviction file."""
        assert self.target  # clients only
        eviction.read(self.target)
        return {}

    def server_cache(self, setting: str | None = None) -> dict[str, object]:
        """The answer of fsage.host.lustre.servercache.serve."""
        assert self.spec  # servers only
        return servercache.serve(self.spec, setting)

    def prealloc(self) -> dict[str, object]:
        """The preallocation table of each ldiskfs OST that this host serves, under `tables`."""
        assert self.spec  # servers only
        return {"tables": ldiskfs.tables_of(self.spec)}

    def settings(self, tuning: dict[str, object]) -> dict[str, object]:
        """A sentence for each setting of this host that a study with this `tuning` does not name, under `astray`."""
        if self.target:
            return {"astray": astray.of_client(self.target, tuning)}
        assert self.spec
        return {"astray": astray.of_server(self.spec)}

    def commit(self) -> dict[str, object]:
        """Have the targets that this host serves commit; the objects that its MDTs still have to destroy."""
        assert self.spec  # servers only
        return {"to_destroy": servers.commit(self.spec)}

    def counters(self) -> dict[str, object]:
        """The counters of the OSTs that this host serves (brw_stats), as Lustre prints them."""
        assert self.spec  # servers only
        return {"text": granted.counters(lustre_of(self.spec)["fsname"])}

    def free_space(self, ost: str) -> dict[str, object]:
        """The free space of an ldiskfs OST that this host serves: a Store, whose extents `free_extents` has."""
        store, self.free_ends = servers.free_space_here(ost)
        return {"store": dataclasses.asdict(store) if store else None}

    def free_extents(self, first: int) -> dict[str, object]:
        """The next free extents, from end number `first` on: where each begins and ends, bytes, in one list."""
        return {"ends": self.free_ends[first : first + MOST_ENDS]}

    def leave(self) -> None:
        """End what was started here, and restore what was changed: the launcher's connection has ended."""
        self.end()
        if self.spec and self.claim:
            servercache.put_back(self.spec)

    def prepare(self, argv: list[str], files: dict[str, str]) -> dict[str, object]:
        """Start a command, which then waits for its job."""
        self.end()
        assert self.target  # clients only
        self.command = SynchronisedCommand(argv, files, self.target)
        return {}

    def clock(self) -> dict[str, object]:
        """The time of this host, in seconds since 1970."""
        return {"time": time.time()}

    def busy(self, osts: bool) -> dict[str, object]:
        """How many processes ran, or waited for a device, in the last minute; what `osts` of this server have done."""
        assert self.spec  # servers only
        return {"load": os.getloadavg()[0], "requests": servers.requests_here(self.spec) if osts else {}}

    def go(self, job: str, timeout_s: float, asks_next: bool) -> dict[str, object]:
        """Give the prepared command its job; its result. Raises Gone as soon as the launcher's connection ends."""
        assert self.command
        next_number = (lambda: say(NEXT)) if asks_next else None
        return self.command.run(job, lambda: None, timeout_s, next_number, {self.launcher.stream: self.hear})

    def hear(self) -> bool:
        """Pass the launcher's numbers to the running command. What else it says is next, so the command is to end.

        Raises Gone, Failure.
        """
        lines = self.launcher.new_lines()
        while lines:
            line = lines.pop(0)
            if line.isdigit() and self.command:
                self.command.tell(line + b"\n")
            elif line:
                self.launcher.unread = b"\n".join([line, *lines, self.launcher.unread])
                raise Failure("the launcher ended it")
        return True

    def end(self) -> dict[str, object]:
        """Stop the command."""
        if self.command:
            self.command.end()
        self.command = None
        return {}


def drop_of(target: Target, of_state: Iterable[Path] = ()) -> Dropped:
    """Drop a client's caches of a shared target; the answer of caches.drop."""
    lustre = target.spec["lustre"]
    files = [*measured_files(target.mounts), *of_state]
    return cold.drop(target.mounts[0], lustre["fsname"], files) if lustre else caches.drop(files)


def measured_files(mounts: list[Path]) -> list[Path]:
    """All files that a cell's commands made, as paths without symbolic links."""
    found: list[Path] = []
    for mount in map(Path, map(os.path.realpath, mounts)):
        folder = mount / "measured"
        if folder.is_dir():
            if not os.access(folder, os.R_OK | os.X_OK):  # a cell's command took the right from its owner
                with places.opened(mount) as store:
                    places.make_in(store, folder)
            found += regular_files(folder)
    return sorted(found)


class Launcher:
    """The lines of the launcher. All that has arrived is read at once: select(2) does not see Python's own buffer."""

    def __init__(self, stream: BufferedReader) -> None:
        self.stream, self.unread = stream, stream.read1()  # Python may have buffered it behind the agent's code

    def line(self) -> bytes:
        """The next line; empty when the connection has ended, or nothing came for SILENCE_S."""
        while b"\n" not in self.unread:
            more = self.stream.read1() if select.select([self.stream], [], [], SILENCE_S)[0] else b""
            if not more:
                return b""
            self.unread += more
        line, end, self.unread = self.unread.partition(b"\n")
        return line + end

    def new_lines(self) -> list[bytes]:
        """All lines that have arrived, once select(2) shows some. Raises Gone."""
        if not (more := self.stream.read1()):
            raise Gone
        *lines, self.unread = (self.unread + more).split(b"\n")
        return lines


def say(line: bytes) -> None:
    """Send a line to the launcher."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def main() -> None:
    """Answer line after line until the connection ends."""
    find_administrators()
    launcher, agent = Launcher(cast(BufferedReader, sys.stdin.buffer)), None
    try:
        while line := launcher.line():
            if not line.strip():  # it only shows that the launcher is still there
                continue
            given = json.loads(line)
            try:
                if agent is None:
                    agent = HostAgent(given, launcher)
                    answer = agent.hello
                else:
                    answer = agent.do(**given)
            except (Failure, Refusal, OSError) as why:
                answer = {"failed": str(why)}
            say(json.dumps(answer).encode() + b"\n")
    except Gone:
        return
    finally:
        if agent:
            agent.leave()
