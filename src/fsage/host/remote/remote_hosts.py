"""The other hosts of a measurement: an agent on each while the visit lasts, which does what the launcher says.

The launcher starts it over SSH, as its own user, as MPI does; the agent itself comes over the connection, so that it is
the launcher's to the byte, no port is opened and nothing is left behind. What is said: fsage.host.remote.host_agent.
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

from fsage.host.remote import alike, probe
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
from fsage.model.target import Spec
from fsage.model.typed import Json, JsonView

# A host that is lost without a word is noticed within 15 seconds.
ALIVE = (*SSH, "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
START_AGENT = BOOT + "from fsage.host.remote import host_agent; host_agent.main()"
PATIENCE_S = 300.0  # dropping the caches of a host with much memory takes its time
SAY_EVERY_S = 600.0  # a phase may last for days; an agent that hears nothing for an hour ends
READ_PATIENCE_S = 3600.0  # reading a file as large as that memory
LOOK_EVERY_S = 0.2
CLOCK_ROUNDS = 3


class Lost(Failure):
    """A host has gone; nothing more can be measured."""


class Host:
    """One other host: `{"name", "python", "local"}` as the inventory has it, and its role."""

    def __init__(self, host: Known, role: str) -> None:
        self.name, self.role = host["name"], role
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by `end`
        command = shlex.join(["exec", host["python"], "-I", "-S", "-c", START_AGENT])
        self.process = subprocess.Popen(
            ["sh", "-c", command] if host["local"] else [*ALIVE, self.name, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            start_new_session=True,
        )
        self.stdout = cast(BufferedReader, self.process.stdout)
        self.met, self.pending = False, b""
        self.told: list[str] = []  # and not answered yet
        self.answers: list[dict[str, object]] = []  # that nobody has taken yet
        self.count: Iterator[int] | None = None  # of which its command may ask for the next number

    def give(self, content: bytes) -> None:
        """Send bytes."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):  # the answer, which never comes, tells why
            self.process.stdin.write(content)
            self.process.stdin.flush()

    def tell(self, what: Json) -> None:
        """Send a line that is to be answered."""
        self.told.append(what.get("do", "hello"))
        self.give(json.dumps(what).encode() + b"\n")

    def hear(self) -> bool:
        """Keep what it answers, and tell it the next number where it asks for one. Raises Lost."""
        if not (more := self.stdout.read1()):
            raise self.lost(self.why())
        self.pending += more
        while b"\n" in self.pending:
            line, _, self.pending = self.pending.partition(b"\n")
            if self.count and line + b"\n" == NEXT:
                self.give(b"%d\n" % next(self.count))
                continue
            if not self.told:
                raise Lost(f"host {self.name} answers what it was not asked; it is not believed")
            told = self.told.pop(0)
            try:
                self.answers.append(checked(line, told, self.role))
            except Unacceptable as why:
                raise Lost(f"host {self.name}: its answer to {told!r} {why}; it is not believed") from None
            self.met = True
        if len(self.pending) > ANSWER_BYTES:
            raise Lost(f"host {self.name} answers with more than {ANSWER_BYTES} bytes; it is not believed")
        return True

    def lost(self, why: str) -> Lost:
        """That it has gone."""
        return Lost(f"host {self.name} {'was lost' if self.met else 'does not answer'}: {why}")

    def clock(self) -> dict[str, float]:
        """How far its clock is ahead of ours, and by how much that may be wrong: half of the shortest round trip."""
        rounds = []
        for _ in range(CLOCK_ROUNDS):
            asked_at = time.time()
            self.tell({"do": "clock"})
            their_time, heard_at = answers_of([self])[self.name]["time"], time.time()
            rounds.append(((heard_at - asked_at) / 2, their_time - (asked_at + heard_at) / 2))
        error_s, ahead_s = min(rounds)
        return {"clock_ahead_s": ahead_s, "clock_error_s": error_s}

    def why(self) -> str:
        """The last line that ssh, or Python there, said."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)
        self.said.seek(0)
        return self.said.read().strip().rpartition("\n")[2] or "its connection was closed"

    def end(self) -> None:
        """Close the connection: the agent ends, and what it started."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)
        self.process.kill()
        self.process.wait()
        self.said.close()


def answers_of(
    hosts: Iterable[Host], patience_s: float = PATIENCE_S, check_alive: Callable[[], None] = lambda: None
) -> dict[str, Json]:
    """The answer of each to what it was told first and has not answered; `check_alive` is called often.

    Raises Lost where a host has gone, Failure where it failed.
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
    """The hosts of a request: clients, of whom the first launches, and servers."""
    return {"clients": clients_of(request) or [{"name": os.uname().nodename}], "servers": servers_of(request)}


def meet(spec: Spec, request: Request) -> None:
    """Refusal unless the hosts can measure together; asked before the target is claimed, and nothing is changed."""
    if spec["launcher"] == "srun" and not shutil.which("srun"):
        raise Refusal(f"{os.uname().nodename} lacks {probe.NO_SRUN}; nothing was touched")
    if spec["launcher"] == "srun" and kinds.named(spec["kind"]).of_one_host:
        raise Refusal(
            f"fsage_target.launcher is srun and kind is {spec['kind']}: slurmd starts what srun launches outside of "
            f"fsage's mount namespace, where target {spec['name']} is not mounted; declare launcher: openmpi or mpich. "
            "Nothing was touched"
        )
    if not kinds.named(spec["kind"]).of_one_host:
        Hosts(spec, None, inventory_of(request)).close()


class Hosts:
    """All hosts beside this one: those of `hosts["clients"]` after the first, and `hosts["servers"]`.

    Raises Refusal unless each is reached, its clock goes as ours, and clients are alike; before there is a claim, also
    where a client lacks something. What each client is, this one too, is in `alike`.
    """

    def __init__(self, spec: Spec, claim: Claim | None, hosts: Inventory) -> None:
        self.said = time.monotonic()
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
                f"{why}; nothing was touched. {os.uname().nodename} launches, and reaches every host as `ssh HOST` does"
            ) from why
        here: Mapping[str, object] = (
            alike.facts(spec) if claim else probe.probe(spec, {}, False)["probe"] if self.clients else {}
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
        """Raises Lost when a host has gone; to the others an empty line says now and then that we have not."""
        for host in self.remote_hosts:
            if host.process.poll() is not None:
                raise Lost(f"host {host.name} was lost: {host.why()}")
        if (now := time.monotonic()) - self.said > SAY_EVERY_S:
            self.said = now
            for host in self.remote_hosts:
                host.give(b"\n")

    def drop(self, target: Target, of_state: Sequence[Path] = ()) -> Json:
        """Make `target` cold on every host, clients first: what they write back then leaves the servers too.

        `of_state`: files of its state that are read, beside those that are measured.
        Returns caches.drop's answer for all clients together, and under `hosts` each other host's own.
        """
        began = time.monotonic()
        for host in self.clients:
            host.tell({"do": "drop", "of_state": list(map(str, of_state))})
        here = drop_of(target, of_state)
        dropped: JsonView = answers_of(self.clients)
        every = {**dropped, **self._all(self.servers, lambda _: {"do": "drop"})}
        together = caches.together([here, *dropped.values()])
        return {**here, **together, "seconds": time.monotonic() - began, "hosts": every}

    def read_eviction_file(self, target: Target) -> None:
        """Read the cache-eviction file on every client."""
        for host in self.clients:
            host.tell({"do": "read"})
        eviction.read(target)
        answers_of(self.clients, READ_PATIENCE_S)

    def ask_servers(self, **what: object) -> dict[str, dict[str, object]]:
        """Tell every server, and return the answer of each."""
        return self._all(self.servers, lambda _: what)

    def together(self, phase: Phase, target: Target, check_alive: Callable[[], None]) -> dict[str, object]:
        """Run a phase's command on each client that has one of its `jobs`, this one among them; all begin at once.

        Returns a phase's result without output of its own: that of each host is under `by_host`, with its clock as
        `Host.clock` tells it. `told`: when all were told their jobs, by our clock; `prepare_s`: what went before.
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
        asked = (lambda: own_command.tell(b"%d\n" % next(count))) if asks_next else None
        heard = {host.stdout: host.hear for host in clients}
        own = own_command.run(jobs[first], check_alive, timeout_s, asked, heard)
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
        """Tell every host `what(host)`, then wait for all answers."""
        hosts = list(hosts)
        for host in hosts:
            host.tell(what(host))
        return answers_of(hosts)
