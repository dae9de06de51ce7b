"""The hosts beside the launcher: connections to their host agents, and one command that begins on several at once.

The launcher starts a host agent (fsage.host.host_agent) over SSH as its own user, as MPI does. Then it tells the agent
what to do, hears it, and ends it. The agent's code comes over the connection. So it is the launcher's version to the
byte, no port is opened, and nothing is left behind.

A command that shall begin at once (SynchronisedCommand) is started on each host first. It reads its job from standard
input (`fio -`, netflow), and all get their jobs together. Loading a container, or a program that cold caches have
dropped, takes time, and is over when the command reads. A line that it ignores shows when it does. A command that
shares work with the other hosts requests it while it runs: each line NEXT is answered by the next number of a common
count. Nothing listens on any port.

`remote_hosts`: all hosts of a measurement together. `probe`: what a host can do.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import selectors
import shlex
import subprocess
import tempfile
import termios
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BufferedReader
from types import MappingProxyType
from typing import cast

from fsage.base import Call, Failure, Json
from fsage.base.message import Unacceptable
from fsage.base.shell import SSH, stop
from fsage.host.system.commands import Command, too_late, wait
from fsage.host.system.library import BOOT, at_hand, packed, sent
from fsage.host.targets import Target
from fsage.host.targets.kinds import NoOsts
from fsage.model.answers import ANSWER_BYTES, checked
from fsage.model.hosts import Host as Known
from fsage.model.target import Spec

# ssh notices a host that vanished within 15 seconds.
ALIVE = (*SSH, "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
START_AGENT = BOOT + "from fsage.host import host_agent; host_agent.main()"
PATIENCE_S = 300.0  # for dropping the caches of a host with much memory
LOOK_EVERY_S = 0.2
CLOCK_ROUNDS = 3


class Lost(Failure):
    """The connection to a host was lost; nothing more can be measured."""


class Host:
    """A remote host: its entry in the inventory (`name`, `python`, `local`), and its role."""

    def __init__(self, host: Known, role: str) -> None:
        self.name = host["name"]
        self.role = role
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by `end`
        command = shlex.join(["exec", host["python"], "-I", "-S", "-c", START_AGENT])
        self.process = subprocess.Popen(
            ["sh", "-c", command] if host["local"] else [*ALIVE, self.name, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            start_new_session=True,
        )
        self.stdout = cast(BufferedReader, self.process.stdout)
        self.met = False
        self.pending = b""
        self.unanswered: list[str] = []  # the lines that it has not answered yet
        self.answers: list[Json] = []  # answers that nobody has taken yet
        self.count: Iterator[int] | None = None  # its command may request the next number of this count

    def give(self, content: bytes) -> None:
        """Send bytes."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):  # `hear`, which waits for the answer, reports why
            self.process.stdin.write(content)
            self.process.stdin.flush()

    def tell(self, what: Json) -> None:
        """Send a line that has an answer."""
        self.unanswered.append(what.get("do", "hello"))
        self.give(json.dumps(what).encode() + b"\n")

    def hear(self) -> bool:
        """Keep its answers, and send the next number where its command requests one. Raises Lost."""
        more = self.stdout.read1()
        if not more:
            raise self.lost(self.why())
        self.pending += more
        while b"\n" in self.pending:
            line, _, self.pending = self.pending.partition(b"\n")
            if self.count and line + b"\n" == NEXT:
                self.give(b"%d\n" % next(self.count))
                continue
            if not self.unanswered:
                raise Lost(f"host {self.name} sent an answer to no request; nothing of it was used")
            verb = self.unanswered.pop(0)
            try:
                self.answers.append(checked(line, verb, self.role))
            except Unacceptable as why:
                raise Lost(f"host {self.name}: its answer to {verb!r} {why}; nothing of it was used") from None
            self.met = True
        if len(self.pending) > ANSWER_BYTES:
            raise Lost(f"host {self.name} answers with more than {ANSWER_BYTES} bytes; nothing of it was used")
        return True

    def lost(self, why: str) -> Lost:
        """The error for its lost connection."""
        return Lost(f"host {self.name} {'was lost' if self.met else 'does not answer'}: {why}")

    def clock(self) -> dict[str, float]:
        """How far its clock is ahead of the launcher's, and the error of that: half of the shortest round trip."""
        rounds = []
        for _ in range(CLOCK_ROUNDS):
            asked_at = time.time()
            self.tell({"do": "clock"})
            their_time = answers_of([self])[self.name]["time"]
            heard_at = time.time()
            rounds.append(((heard_at - asked_at) / 2, their_time - (asked_at + heard_at) / 2))
        error_s, ahead_s = min(rounds)
        return {"clock_ahead_s": ahead_s, "clock_error_s": error_s}

    def why(self) -> str:
        """The last line of error output from ssh, or from Python there."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)
        self.errors.seek(0)
        return self.errors.read().strip().rpartition("\n")[2] or "its connection was closed"

    def end(self) -> None:
        """Close the connection: the agent ends, with all that it started."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)
        self.process.kill()
        self.process.wait()
        self.errors.close()


def silence(hosts: Iterable[Host]) -> None:
    """End what hosts are doing, and drop what they answer. Raises Lost."""
    for host in hosts:
        host.tell({"do": "end"})
        while host.unanswered:
            host.hear()
        host.answers.clear()


def answers_of(
    hosts: Iterable[Host], patience_s: float = PATIENCE_S, check_alive: Call = lambda: None
) -> dict[str, Json]:
    """The next answer of each host (`heard`). Raises Failure where a host failed, too."""
    answers = heard(hosts, patience_s, check_alive)
    for name, answer in answers.items():
        if "failed" in answer:
            raise Failure(f"{name}: {answer['failed']}")
    return answers


def heard(hosts: Iterable[Host], patience_s: float = PATIENCE_S, check_alive: Call = lambda: None) -> dict[str, Json]:
    """The next answer of each host, which may be why it `failed`; `check_alive` is called often.

    Raises Lost where a connection ends.
    """
    hosts = list(hosts)
    deadline = time.monotonic() + patience_s
    with selectors.DefaultSelector() as silent:
        for host in hosts:
            if not host.answers:
                silent.register(host.stdout, selectors.EVENT_READ, host)
        while waited := list(silent.get_map().values()):
            ready = silent.select(LOOK_EVERY_S)
            check_alive()
            for key, _ in ready:
                key.data.hear()
                if key.data.answers:
                    silent.unregister(key.fileobj)
            if not ready and time.monotonic() > deadline:
                raise waited[0].data.lost(f"silent for {patience_s:.0f} s")
    return {host.name: host.answers.pop(0) for host in hosts}


def ask_all(hosts: Sequence[Host], what: Json) -> dict[str, Json]:
    """Tell every host the same, then wait for all answers. Raises as `answers_of`."""
    for host in hosts:
        host.tell(what)
    return answers_of(hosts)


def start(hosts: Sequence[Host], spec: Spec, claim: str | None) -> dict[str, Json]:
    """Start the agent of each host, for the target of this claim; what each host is. Raises Failure: all are ended."""
    code = sent(packed()) if hosts else b""
    try:
        for host in hosts:
            host.give(code)
        for host in hosts:
            host.tell({"target": spec, "claim": claim, "role": host.role})
        return answers_of(hosts)
    except Failure:
        end(hosts)
        raise


def end(hosts: Iterable[Host]) -> None:
    """End the agents."""
    for host in hosts:
        host.end()


class ServedOsts(NoOsts):
    """The OSTs of a target, reached over a session's connections to its servers, or over its own until it ends."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target
        self.agents: list[Host] | None = None

    def ask_servers(self, **what: object) -> dict[str, Json]:
        if self.session:
            return self.session.ask_servers(**what)
        if self.agents is None:
            agents = [Host(host, "server") for host in self.servers]
            start(agents, self.target.spec, None)
            self.agents = agents
            weakref.finalize(self, end, agents)
        return ask_all(self.agents, what)


IGNORED = b";\n"  # a comment in a job file
NEXT = b"next\n"
START_PATIENCE_S = 60.0  # of a container, from a disk that is cold
START_LOOK_S = 0.002


class _Asking(Command):
    """A command whose lines NEXT are no output: each calls `next_number`. They come before all other output."""

    next_number: Call | None = None

    def hear(self, chunk: bytes, of_stdout: bool) -> None:
        super().hear(chunk, of_stdout)
        while self.next_number and self.out.startswith(NEXT):
            del self.out[: len(NEXT)]
            self.next_number()


class SynchronisedCommand:
    """A started command that waits for its job on standard input. Raises Failure if it does not read.

    `argv` and `files`: see fsage.host.system.library.at_hand.
    """

    def __init__(self, argv: Sequence[str], files: Mapping[str, str], target: Target) -> None:
        launcher = os.uname().nodename
        theirs, ours = os.pipe()
        self.input = os.fdopen(ours, "wb", buffering=0)
        how = {"stdin": theirs, "cwd": target.mounts[0] / "measured", "env": {**os.environ, "LC_ALL": "C"}}
        try:
            with at_hand(argv, files) as (words, numbers), target.charged():
                front = target.front(argv)
                self.command = _Asking([*front, *words], time.monotonic(), {**how, "pass_fds": numbers})
        except OSError as error:
            self.input.close()
            raise Failure(f"{argv[0]} does not start on {launcher}: {error.strerror}") from error
        finally:
            os.close(theirs)
        self.tell(IGNORED)
        deadline = time.monotonic() + START_PATIENCE_S
        while self._unread():
            if self.command.process.poll() is not None or time.monotonic() > deadline:
                stop(self.command.process)
                error_output = self.command.process.communicate()[1].decode(errors="replace").strip()
                self.end()
                raise Failure(f"`{' '.join(argv)}` reads no job on {launcher}: {error_output or 'it printed nothing'}")
            time.sleep(START_LOOK_S)

    def run(
        self,
        job: str,
        check_alive: Call,
        timeout_s: float,
        next_number: Call | None = None,
        also: Mapping[BufferedReader, Callable[[], bool]] = MappingProxyType({}),
    ) -> Json:
        """Give it its job, and wait until it ends; a result as of fsage.host.system.commands.run.

        `next_number` is called for each line NEXT, and answers by `tell`. Without it the command gets no further input.
        `also`: see fsage.host.system.commands.wait.
        """
        self.command.began = time.monotonic()
        self.command.next_number = next_number
        try:
            self.tell(job.encode())
            if not next_number:
                self.input.close()
            late = wait([self.command], check_alive, self.command.began + timeout_s, also)
        except BaseException:  # nobody else can end it: it has a session of its own
            self.end()
            raise
        self.input.close()
        result = self.command.result(too_late(self.command.began) if late else "")
        del result["line_s"]
        return {**result, "timed_out": late}

    def tell(self, content: bytes) -> None:
        """Write to its standard input."""
        with contextlib.suppress(BrokenPipeError):  # its exit code tells why it ended
            self.input.write(content)

    def end(self) -> None:
        """Stop the command with its children."""
        self.input.close()
        if self.command.process.poll() is None:
            stop(self.command.process)
            self.command.process.wait()

    def _unread(self) -> int:
        """Bytes of its standard input that it has not read yet (ioctl_pipe(2))."""
        left = array.array("i", [0])
        fcntl.ioctl(self.input, termios.FIONREAD, left)
        return left[0]
