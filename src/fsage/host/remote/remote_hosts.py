"""The remote hosts of a measurement: during a session each has a host agent, which does what the launcher says.

The launcher starts it over SSH as its own user, as MPI does. The agent's code comes over the connection. So it is the
launcher's version to the byte, no port is opened, and nothing is left behind. For the lines that they exchange see
fsage.host.remote.host_agent.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import selectors
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import cast

from fsage.host.remote import probe, signs
from fsage.host.remote.host_agent import drop_of
from fsage.host.remote.synchronised import NEXT, SynchronisedCommand
from fsage.host.structure import eviction
from fsage.host.system import caches
from fsage.host.system.library import BOOT, packed, sent
from fsage.host.system.shell import SSH
from fsage.host.targets import kinds
from fsage.host.targets.target import Target
from fsage.model.answers import ANSWER_BYTES, checked
from fsage.model.claim import Claim
from fsage.model.errors import Failure, Refusal
from fsage.model.hosts import Host as Known
from fsage.model.hosts import Inventory, clients_of, differences, servers_of, skews
from fsage.model.message import Unacceptable
from fsage.model.request import Phase, Request
from fsage.model.signs import Look
from fsage.model.target import Spec
from fsage.model.typed import Json, JsonView

# ssh notices a host that vanished within 15 seconds.
ALIVE = (*SSH, "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
START_AGENT = BOOT + "from fsage.host.remote import host_agent; host_agent.main()"
PATIENCE_S = 300.0  # for dropping the caches of a host with much memory
SAY_EVERY_S = 600.0  # a phase may last for days, and an agent without a line for an hour ends
READ_PATIENCE_S = 3600.0  # for reading a file as large as a host's memory
LOOK_EVERY_S = 0.2
CLOCK_ROUNDS = 3


class Lost(Failure):
    """The connection to a host was lost; nothing more can be measured."""


class Host:
    """A remote host: its entry in the inventory (`name`, `python`, `local`), and its role."""

    def __init__(self, host: Known, role: str) -> None:
        self.name, self.role = host["name"], role
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
        self.met, self.pending = False, b""
        self.told: list[str] = []  # the lines that it has not answered yet
        self.answers: list[dict[str, object]] = []  # answers that nobody has taken yet
        self.count: Iterator[int] | None = None  # its command may request the next number of this count

    def give(self, content: bytes) -> None:
        """Send bytes."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):  # `hear`, which waits for the answer, reports why
            self.process.stdin.write(content)
            self.process.stdin.flush()

    def tell(self, what: Json) -> None:
        """Send a line that has an answer."""
        self.told.append(what.get("do", "hello"))
        self.give(json.dumps(what).encode() + b"\n")

    def hear(self) -> bool:
        """Keep its answers, and send the next number where its command requests one. Raises Lost."""
        if not (more := self.stdout.read1()):
            raise self.lost(self.why())
        self.pending += more
        while b"\n" in self.pending:
            line, _, self.pending = self.pending.partition(b"\n")
            if self.count and line + b"\n" == NEXT:
                self.give(b"%d\n" % next(self.count))
                continue
            if not self.told:
                raise Lost(f"host {self.name} sent an answer to no request; nothing of it was used")
            told = self.told.pop(0)
            try:
                self.answers.append(checked(line, told, self.role))
            except Unacceptable as why:
                raise Lost(f"host {self.name}: its answer to {told!r} {why}; nothing of it was used") from None
            self.met = True
        if len(self.pending) > ANSWER_BYTES:
            raise Lost(f"host {self.name} answers with more than {ANSWER_BYTES} bytes; nothing of it was used")
        return True

    def lost(self, why: str) -> Lost:
        """The error for its lost connection."""
        return Lost(f"host {self.name} {'was lost' if self.met else 'does not answer'}: {why}")

    def clock(self) -> dict[str, float]:
        """How far its clock is ahead of ours, and the error of that: half of the shortest round trip."""
        rounds = []
        for _ in range(CLOCK_ROUNDS):
            asked_at = time.time()
            self.tell({"do": "clock"})
            their_time, heard_at = answers_of([self])[self.name]["time"], time.time()
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


def answers_of(
    hosts: Iterable[Host], patience_s: float = PATIENCE_S, check_alive: Callable[[], None] = lambda: None
) -> dict[str, Json]:
    """The next answer of each host; `check_alive` is called often.

    Raises Lost where a connection ends, Failure where a host failed.
    """
    hosts, deadline = list(hosts), time.monotonic() + patience_s
    with selectors.DefaultSelector() as heard:
        for host in hosts:
            if not host.answers:
                heard.register(host.stdout, selectors.EVENT_READ, host)
        while waited := list(heard.get_map().values()):
            ready = heard.select(LOOK_EVERY_S)
            check_alive()
            for key, _ in ready:
                key.data.hear()
                if key.data.answers:
                    heard.unregister(key.fileobj)
            if not ready and time.monotonic() > deadline:
                raise waited[0].data.lost(f"silent for {patience_s:.0f} s")
    answers = {host.name: host.answers.pop(0) for host in hosts}
    for name, answer in answers.items():
        if "failed" in answer:
            raise Failure(f"{name}: {answer['failed']}")
    return answers


def inventory_of(request: Request) -> Inventory:
    """The hosts of a request: clients, the first of which is the launcher, and servers."""
    return {"clients": clients_of(request) or [{"name": os.uname().nodename}], "servers": servers_of(request)}


def meet(spec: Spec, request: Request) -> None:
    """Raise Refusal unless the hosts can measure together. Called before a claim; changes nothing."""
    if spec["launcher"] == "srun" and not shutil.which("srun"):
        raise Refusal(f"{os.uname().nodename} lacks {probe.NO_SRUN}; nothing was touched")
    if spec["launcher"] == "srun" and kinds.named(spec["kind"]).of_one_host:
        raise Refusal(
            f"fsage_target.launcher is srun and kind is {spec['kind']}. slurmd starts the tasks of srun outside of "
            f"fsage's mount namespace, where target {spec['name']} is not mounted. Nothing was touched; declare "
            "launcher openmpi or mpich"
        )
    if not kinds.named(spec["kind"]).of_one_host:
        Hosts(spec, None, inventory_of(request)).close()


class Hosts:
    """All hosts beside this one: those of `hosts["clients"]` after the first, and `hosts["servers"]`.

    Raises Refusal unless each is reached, its clock agrees with ours, and clients are alike. Before there is a claim, a
    client that lacks something is refused too. `seen`: the facts of each client, this one included.
    """

    def __init__(self, spec: Spec, claim: Claim | None, hosts: Inventory) -> None:
        self.last_line_s = time.monotonic()
        self.client_names = [host["name"] for host in hosts["clients"]]
        self.clients = [Host(host, "client") for host in hosts["clients"][1:]]
        self.servers = [Host(host, "server") for host in hosts["servers"]]
        self.remote_hosts = [*self.clients, *self.servers]
        code = sent(packed()) if self.remote_hosts else b""
        try:
            for host in self.remote_hosts:
                host.give(code)
            where = {"target": spec, "claim": claim["id"] if claim else None}
            asked_at = time.time()
            answers = self._all(self.remote_hosts, lambda host: {**where, "role": host.role})
            heard_at = time.time()
        except Failure as why:
            self.close()
            raise Refusal(
                f"{why}; nothing was touched. {os.uname().nodename} is the launcher: `ssh HOST` must work there for "
                "every host"
            ) from why
        here: Mapping[str, object] = (
            probe.facts(spec) if claim else probe.probe(spec, {}, False)["probe"] if self.clients else {}
        )
        self.seen = {hosts["clients"][0]["name"]: here, **{host.name: answers[host.name] for host in self.clients}}
        wrong = [f"{name} lacks {what}" for name, seen in self.seen.items() for what in seen.get("missing", ())]
        wrong += [
            f"{host.name} (servers): neither root nor its helper"
            for host in self.servers
            if not answers[host.name]["root"]
        ]
        wrong += [skew for name, answer in answers.items() for skew in skews(name, answer["time"], asked_at, heard_at)]
        if wrong := wrong + differences(self.seen):
            self.close()
            raise Refusal(f"{'; '.join(wrong)}; nothing was touched")

    def close(self) -> None:
        """End the agents."""
        for host in self.remote_hosts:
            host.end()

    def alive(self) -> None:
        """Raise Lost when a host was lost. Now and then an empty line shows the others that the launcher lives."""
        for host in self.remote_hosts:
            if host.process.poll() is not None:
                raise Lost(f"host {host.name} was lost: {host.why()}")
        if (now := time.monotonic()) - self.last_line_s > SAY_EVERY_S:
            self.last_line_s = now
            for host in self.remote_hosts:
                host.give(b"\n")

    def drop(self, target: Target, of_state: Sequence[Path] = ()) -> Json:
        """Drop the caches of `target` on every host. Clients come first, for they write back to the servers.

        `of_state`: files of the state that are read, beside the measured files. Returns the answer of caches.drop for
        all clients together, and under `hosts` that of each remote host.
        """
        began = time.monotonic()
        for host in self.clients:
            host.tell({"do": "drop", "of_state": list(map(str, of_state))})
        here = drop_of(target, of_state)
        dropped: JsonView = answers_of(self.clients)
        every = {**dropped, **self._all(self.servers, lambda _: {"do": "drop"})}
        together = caches.together([here, *dropped.values()])
        return {**here, **together, "seconds": time.monotonic() - began, "hosts": every}

    def look(self, target: Target, before: Mapping[str, Look] | None = None) -> dict[str, Look]:
        """Look at every host (fsage.host.remote.signs); `before`: the looks before the phase, if it has ended.

        Raises Lost. A host that fails to look says why.
        """
        last = {name: look["kernel"]["last"] for name, look in (before or {}).items() if "kernel" in look}
        for host in self.remote_hosts:
            host.tell({"do": "signs", "last": last.get(host.name)})
        first = self.client_names[0]
        looks = {first: signs.look(target.spec, target.mounts, target.devices, last.get(first))}
        for host in self.remote_hosts:
            try:
                answer = cast(Look, answers_of([host])[host.name])
            except Lost:
                raise
            except Failure as why:
                answer = {"absent": {"all": str(why)}}
            looks.setdefault(host.name, answer)  # where the launcher is a server too, it is looked at once
        return looks

    def read_eviction_file(self, target: Target) -> None:
        """Read the cache-eviction file on every client."""
        for host in self.clients:
            host.tell({"do": "read"})
        eviction.read(target)
        answers_of(self.clients, READ_PATIENCE_S)

    def ask_servers(self, **what: object) -> dict[str, dict[str, object]]:
        """Tell every server to do something; the answer of each, by name."""
        return self._all(self.servers, lambda _: what)

    def together(self, phase: Phase, target: Target, check_alive: Callable[[], None]) -> dict[str, object]:
        """Run a phase's command on each client that has one of its `jobs`, this one included; all begin at once.

        Returns a phase's result. The output of each host is under `by_host`, with its clock (`Host.clock`). `told`: the
        time at which all got their jobs, by our clock. `prepare_s`: how long it took to start the commands.
        """
        began, first, jobs, timeout_s = time.monotonic(), self.client_names[0], phase["jobs"], phase["timeout_s"]
        clients = [host for host in self.clients if host.name in jobs]
        argv, files = phase["argv"], phase.get("files", {})
        for host in clients:
            host.tell({"do": "prepare", "argv": argv, "files": files})
        try:
            here: SynchronisedCommand | None = SynchronisedCommand(argv, files, target)
        except Failure as why:
            here, failed = None, why
        try:
            answers_of(clients)
            if not here:
                raise Failure(f"{first}: {failed}")
            clocks = {host.name: host.clock() for host in clients}
        except Failure:
            if here:
                here.end()
            self._all(clients, lambda _: {"do": "end"})
            raise
        told, prepare_s, own_command = time.time(), time.monotonic() - began, here
        count, asks_next = itertools.count(), phase.get("asks_next", False)
        for host in clients:
            host.count = count if asks_next else None
            host.tell({"do": "go", "job": jobs[host.name], "timeout_s": timeout_s, "asks_next": asks_next})
        next_number = (lambda: own_command.tell(b"%d\n" % next(count))) if asks_next else None
        heard = {host.stdout: host.hear for host in clients}
        own = own_command.run(jobs[first], check_alive, timeout_s, next_number, heard)
        by_host = {first: {**own, "clock_ahead_s": 0.0, "clock_error_s": 0.0}}
        for name, answer in answers_of(clients, timeout_s + PATIENCE_S, check_alive).items():
            by_host[name] = {**answer, **clocks[name]}
        return {
            "rc": next((result["rc"] for result in by_host.values() if result["rc"]), 0),
            "stdout": "",
            "stderr": "",
            "wall_s": max(result["wall_s"] for result in by_host.values()),
            "prepare_s": prepare_s,
            "told": told,
            "by_host": by_host,
        }

    def _all(self, hosts: Iterable[Host], what: Callable[[Host], Json]) -> dict[str, Json]:
        """Send every host `what(host)`, then wait for all answers."""
        hosts = list(hosts)
        for host in hosts:
            host.tell(what(host))
        return answers_of(hosts)
