"""The agent on a host beside the launcher: for one visit it does what the launcher says, a JSON line each.

The first line says where it is (`target`, `claim`, `role`: client or server) and is answered by what this host is, by
all that it can do as long as the target is not claimed. Every later one says what to `do`. Each is answered by one
line; what could not be done is answered by {"failed": sentence}. A command at work may ask for numbers
(fsage.host.remote.synchronised): its lines go to the launcher, and the launcher's numbers to it. When the launcher's
connection ends, so does all that was started here.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from io import BufferedReader
from pathlib import Path
from typing import cast

from fsage.host.lustre import cold, prealloc, servercache
from fsage.host.remote import alike, probe
from fsage.host.remote.synchronised import NEXT, SynchronisedCommand
from fsage.host.structure import eviction
from fsage.host.system import caches
from fsage.host.system.files import regular_files
from fsage.host.system.shell import find_administrators
from fsage.host.targets.opening import verified
from fsage.host.targets.target import Target
from fsage.model.answers import Dropped
from fsage.model.errors import Failure, Refusal
from fsage.model.target import Spec
from fsage.model.typed import Json

SILENCE_S = 3600.0  # a launcher that lost its power says nothing, not even that it has gone


class Gone(Exception):
    """The launcher has gone."""


class HostAgent:
    """What a host can be told to do."""

    def __init__(self, given: Json, launcher: Launcher) -> None:
        self.launcher = launcher
        claim, client = given["claim"], given["role"] == "client"
        spec: Spec = given["target"]  # complete, as `Hosts` has it
        if not client:  # nothing is measured there
            spec = {**spec, "run_as": None}
        self.target = verified(spec, {"claim": claim}, anywhere=True) if client and claim else None
        self.command: SynchronisedCommand | None = None
        self.spec: Spec | None = None if client else spec
        if self.spec and claim:
            servercache.put_back(spec)  # what one that was killed left
        self.hello = probe.probe(spec, {}, False)["probe"] if client and not claim else alike.facts(spec)

    def do(self, do: str, **given: object) -> dict[str, object]:
        """Do one of the following."""
        works: dict[str, Callable[..., dict[str, object]]] = {
            "drop": self.drop,
            "read": self.read,
            "server_cache": self.server_cache,
            "prealloc": self.prealloc,
            "prepare": self.prepare,
            "clock": self.clock,
            "go": self.go,
            "end": self.end,
        }
        return works[do](**given)

    def drop(self, of_state: Sequence[str] = ()) -> dict[str, object]:
        """Make this host's caches cold; caches.drop's answer. `of_state`: files of the state that are read too."""
        return dict(drop_of(self.target, map(Path, of_state))) if self.target else caches.drop_all()

    def read(self) -> dict[str, object]:
        """Read the target's cache-eviction file."""
        assert self.target  # clients only
        eviction.read(self.target)
        return {}

    def server_cache(self, setting: str | None = None) -> dict[str, object]:
        """What fsage.host.lustre.servercache.serve gives."""
        assert self.spec  # servers only
        return servercache.serve(self.spec, setting)

    def prealloc(self) -> dict[str, object]:
        """The preallocation table of each ldiskfs OST that this host serves, under `tables`."""
        assert self.spec  # servers only
        return {"tables": prealloc.tables_of(self.spec)}

    def leave(self) -> None:
        """What was started here ends, and what was changed is put back, for the launcher has gone."""
        self.end()
        if self.spec:
            servercache.put_back(self.spec)

    def prepare(self, argv: list[str], files: dict[str, str]) -> dict[str, object]:
        """Have a command wait here for its job."""
        self.end()
        assert self.target  # clients only
        self.command = SynchronisedCommand(argv, files, self.target)
        return {}

    def clock(self) -> dict[str, object]:
        """What this host's clock says."""
        return {"time": time.time()}

    def go(self, job: str, timeout_s: float, asks_next: bool) -> dict[str, object]:
        """Tell it its job; what came of it. Raises Gone as soon as the launcher goes."""
        assert self.command
        asked = (lambda: say(NEXT)) if asks_next else None
        return self.command.run(job, lambda: None, timeout_s, asked, {self.launcher.stream: self.hear})

    def hear(self) -> bool:
        """While a command is at work: what the launcher says is the next number, or an empty line. Raises Gone."""
        for line in self.launcher.new_lines():
            if line.isdigit() and self.command:
                self.command.tell(line + b"\n")
            elif line:
                raise Gone
        return True

    def end(self) -> dict[str, object]:
        """Stop it."""
        if self.command:
            self.command.end()
        self.command = None
        return {}


def drop_of(target: Target, of_state: Iterable[Path] = ()) -> Dropped:
    """Make a client's caches of a target that several share cold; caches.drop's answer."""
    lustre = target.spec["lustre"]
    files = [*measured_files(target.mounts), *of_state]
    return cold.drop(lustre["fsname"], files) if lustre else caches.drop(files)


def measured_files(mounts: list[Path]) -> list[Path]:
    """All files that a cell's commands have made, by paths without symbolic links."""
    places = [place for mount in mounts if (place := Path(os.path.realpath(mount)) / "measured").is_dir()]
    return sorted(path for place in places for path in regular_files(place))


class Launcher:
    """What the launcher says, line by line; none of it stays in the stream, where nobody would wait for it."""

    def __init__(self, stream: BufferedReader) -> None:
        self.stream, self.said = stream, stream.read1()  # what was read with the agent's code, or comes first

    def line(self) -> bytes:
        """The next line; nothing when it has gone, or said nothing for SILENCE_S."""
        while b"\n" not in self.said:
            more = self.stream.read1() if select.select([self.stream], [], [], SILENCE_S)[0] else b""
            if not more:
                return b""
            self.said += more
        line, end, self.said = self.said.partition(b"\n")
        return line + end

    def new_lines(self) -> list[bytes]:
        """All lines that have come, when there is something to read. Raises Gone."""
        if not (more := self.stream.read1()):
            raise Gone
        *lines, self.said = (self.said + more).split(b"\n")
        return lines


def say(line: bytes) -> None:
    """Say a line to the launcher."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def main() -> None:
    """Answer line after line until the launcher goes."""
    find_administrators()
    launcher, agent = Launcher(cast(BufferedReader, sys.stdin.buffer)), None
    try:
        while line := launcher.line():
            if not line.strip():  # the launcher is still there
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
