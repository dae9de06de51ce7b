"""The host agent on a host beside the launcher: during one session it does what the launcher says, a JSON line each.

The first line gives `target`, `claim` and `role` (client or server). The agent answers with the facts of this host, and
with a whole probe where the target is not claimed yet. Every later line says what to `do`. Each line has one line as
its answer; {"failed": sentence} says what could not be done. A running command may request numbers (fsage.host.remote):
its lines go to the launcher, and the launcher's numbers to it. When the connection ends, so does all that was started
here.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import cast

from fsage.base import Failure, Json, JsonView, Refusal, in_words, typed
from fsage.base.shell import find_administrators
from fsage.host import instruments, states
from fsage.host.remote import NEXT, SynchronisedCommand, probe
from fsage.host.system import caches
from fsage.host.targets import OtherHost, Target, kinds
from fsage.host.targets.directories import measured_files
from fsage.host.targets.opening import verified
from fsage.model import structure
from fsage.model.request import Request
from fsage.model.structure import Shard
from fsage.model.target import Spec

SILENCE_S = 3600.0  # a launcher that lost its power never closes its connection

OWN = ("drop", "prepare", "clock", "go", "end", "work")
"""What it can be told to do, a method each; the rest is of instruments and kinds of targets."""


class Gone(Exception):
    """The launcher's connection has ended."""


class HostAgent:
    """What a host can be told to do: a method each, and what its kind of target and the instruments need (`remote`)."""

    def __init__(self, given: Json, launcher: Launcher) -> None:
        self.launcher = launcher
        claim = given["claim"]
        client = given["role"] == "client"
        spec: Spec = given["target"]  # complete, as `Hosts` has it
        if not client:  # a server runs no measured command
            spec = {**spec, "run_as": None}
        target = verified(spec, {"claim": claim}, anywhere=True) if client and claim else None
        self.host = OtherHost(spec, target, {})
        self.serves = bool(claim) and not client
        self.command: SynchronisedCommand | None = None
        self.undo()  # what a killed agent left
        self.hello: JsonView = probe.probe(spec, {}) if client and not claim else probe.facts(spec)

    @property
    def target(self) -> Target:
        """The target of a client."""
        assert self.host.target
        return self.host.target

    def undo(self) -> None:
        """Undo what instruments set on a server."""
        if self.serves:
            for instrument in instruments.found():
                instrument.undo(self.host.spec)

    def do(self, do: str, **given: object) -> Json:
        """Do the work of this name; its answer."""
        if do in OWN:
            answer: Json = getattr(self, do)(**given)
            return answer
        remote = {**instruments.remote(), **kinds.named(self.host.spec["kind"]).remote}
        return remote[do](self.host, **given)

    def drop(self, of_state: Sequence[str] = ()) -> Json:
        """Drop this host's caches; the answer of caches.drop. `of_state`: files of the state that are read too."""
        if not self.host.target:
            return caches.drop_all()
        return dict(self.target.drop_caches([*measured_files(self.target.mounts), *map(Path, of_state)]))

    def leave(self) -> None:
        """End what was started here, and restore what was changed: the launcher's connection has ended."""
        self.end()
        self.undo()

    def work(self, request: Json, step: Json, shard: Json) -> Json:
        """Do this host's shard of a step. Raises Failure, Refusal; Gone as soon as the launcher's connection ends."""
        asked = typed.read(Request, request)
        states.work(self.host.spec, asked, structure.read(step), typed.read(Shard, shard), self.launcher.check)
        return {}

    def prepare(self, argv: list[str], files: dict[str, str]) -> Json:
        """Start a command, which then waits for its job."""
        self.end()
        self.command = SynchronisedCommand(argv, files, self.target)
        return {}

    def clock(self) -> Json:
        """The time of this host, in seconds since 1970."""
        return {"time": time.time()}

    def go(self, job: str, timeout_s: float, asks_next: bool) -> Json:
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

    def end(self) -> Json:
        """Stop the command."""
        if self.command:
            self.command.end()
        self.command = None
        return {}


class Launcher:
    """The lines of the launcher. All that has arrived is read at once: select(2) does not see Python's own buffer."""

    def __init__(self, stream: BufferedReader) -> None:
        self.stream, self.unread = stream, stream.read1()  # Python may have buffered it behind the agent's code

    def line(self) -> bytes:
        """The next line; empty when the connection has ended, or nothing came for SILENCE_S."""
        while b"\n" not in self.unread:
            ready = select.select([self.stream], [], [], SILENCE_S)[0]
            more = self.stream.read1() if ready else b""
            if not more:
                return b""
            self.unread += more
        line, end, self.unread = self.unread.partition(b"\n")
        return line + end

    def check(self) -> None:
        """Raise Gone where the launcher's connection has ended, Failure where it wants something else done."""
        if not select.select([self.stream], [], [], 0)[0]:
            return
        lines = self.new_lines()
        if any(lines):
            self.unread = b"\n".join([*lines, self.unread])
            raise Failure("the launcher ended it")

    def new_lines(self) -> list[bytes]:
        """All lines that have arrived, once select(2) shows some. Raises Gone."""
        more = self.stream.read1()
        if not more:
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
    launcher = Launcher(cast(BufferedReader, sys.stdin.buffer))
    agent = None
    try:
        while line := launcher.line():
            if not line.strip():  # it only shows that the launcher is still there
                continue
            given = json.loads(line)
            answer: JsonView
            try:
                if agent is None:
                    agent = HostAgent(given, launcher)
                    answer = agent.hello
                else:
                    answer = agent.do(**given)
            except (Failure, Refusal, OSError) as why:
                answer = {"failed": in_words(why)}
            say(json.dumps(answer).encode() + b"\n")
    except Gone:
        return
    finally:
        if agent:
            agent.leave()
