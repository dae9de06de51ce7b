"""The remote hosts of a measurement: during a session each has a host agent, which does what the launcher says.

For how it is reached see fsage.host.remote.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from fsage.base import Call, Failure, Json, JsonView, Refusal
from fsage.host.remote import (
    PATIENCE_S,
    Host,
    Lost,
    SynchronisedCommand,
    answers_of,
    ask_all,
    end,
    heard,
    probe,
    silence,
    start,
)
from fsage.host.system import caches
from fsage.host.targets import Target, budget, kinds
from fsage.host.targets.directories import measured_files
from fsage.model import limits
from fsage.model.claim import Claim
from fsage.model.hosts import Asker, Inventory, clients_of, differences, servers_of, skews, watched_of
from fsage.model.request import Phase, Request
from fsage.model.target import Limits, Spec

SAY_EVERY_S = 600.0  # a phase may last for days, and an agent without a line for an hour ends
READS = {"busy", "counters"}
"""What is read of servers that are only watched, too."""


def inventory_of(request: Asker) -> Inventory:
    """The hosts of a request: clients, the first of which is the launcher, servers, and those that are watched."""
    clients = clients_of(request) or [{"name": os.uname().nodename}]
    return {"clients": clients, "servers": servers_of(request), "watched": watched_of(request)}


def meet(spec: Spec, request: Request) -> Limits:
    """The limits that keep to those of all hosts. Called before a claim; changes nothing.

    Raises Refusal unless the hosts can measure together.
    """
    if spec["launcher"] == "srun" and not shutil.which("srun"):
        raise Refusal(f"{os.uname().nodename} lacks {probe.NO_SRUN}; nothing was touched")
    kind = kinds.named(spec["kind"])
    clients = clients_of(request)
    if kind.of_one_host and len(clients) > 1:
        raise Refusal(
            f"target {spec['name']} is of kind {spec['kind']}, which one host uses, and the inventory names the "
            f"clients {', '.join(host['name'] for host in clients)}; nothing was touched. Name one"
        )
    if spec["launcher"] == "srun" and kind.of_one_host:
        raise Refusal(
            f"fsage_target.launcher is srun and kind is {spec['kind']}. slurmd starts the tasks of srun outside of "
            f"fsage's mount namespace, where target {spec['name']} is not mounted. Nothing was touched; declare "
            "launcher openmpi or mpich"
        )
    if kind.of_one_host:
        return budget.effective(spec["limits"])
    with contextlib.closing(Hosts(spec, None, inventory_of(request))) as hosts:
        kind.reach(spec, hosts)
        return hosts.limits


def refuse_unfit(spec: Spec, claim: Claim, request: Asker) -> None:
    """Raise Refusal where a remote host does not answer, or could not measure with the others."""
    hosts = inventory_of(request)
    if hosts["clients"][1:] or hosts["servers"] or hosts["watched"]:
        Hosts(spec, claim, hosts).close()


class Hosts:
    """All hosts beside this one: those of `hosts["clients"]` after the first, `hosts["servers"]`, `hosts["watched"]`.

    Raises Refusal unless each is reached, its clock agrees with ours, and clients are alike. Before there is a claim, a
    client that lacks something is refused too. `limits`: those that keep to what each allows.
    """

    def __init__(self, spec: Spec, claim: Claim | None, hosts: Inventory) -> None:
        self.last_line_s = time.monotonic()
        self.client_names = [host["name"] for host in hosts["clients"]]
        self.clients = [Host(host, "client") for host in hosts["clients"][1:]]
        self.servers = [Host(host, "server") for host in hosts["servers"]]
        self.watched = [Host(host, "server") for host in hosts.get("watched", [])]
        self.remote_hosts = [*self.clients, *self.servers, *self.watched]
        asked_at = time.time()
        try:
            answers = start(self.remote_hosts, spec, claim["id"] if claim else None)
        except Lost as why:
            raise Refusal(
                f"{why}; nothing was touched. {os.uname().nodename} is the launcher: `ssh HOST` must work there for "
                "every host"
            ) from why
        except Failure as why:
            raise Refusal(str(why)) from why
        heard_at = time.time()
        own: JsonView = {}
        if claim:
            own = probe.facts(spec)
        elif self.clients:
            own = probe.probe(spec, {})
        clients = {self.client_names[0]: own}
        for host in self.clients:
            clients[host.name] = answers[host.name]
        wrong: list[str] = []
        for name, seen in clients.items():
            wrong += [f"{name} lacks {what}" for what in seen.get("missing", ())]
        for host in self.servers:
            if not answers[host.name]["root"]:
                wrong.append(
                    f"{host.name} (servers): neither root nor its helper; where you may just log in, the group is "
                    "`watched`"
                )
        for name, answer in answers.items():
            wrong += skews(name, answer["time"], asked_at, heard_at)
        allowed = [seen["limits"] for seen in (own, *answers.values()) if "limits" in seen]
        self.limits = limits.stricter(budget.effective(spec["limits"]), *cast("list[Limits]", allowed))
        why_too_many = limits.why_too_many(self.limits, len(self.client_names))
        if why_too_many:
            wrong.append(why_too_many)
        wrong += differences(clients)
        if wrong:
            self.close()
            raise Refusal(f"{'; '.join(wrong)}; nothing was touched")

    def close(self) -> None:
        """End the agents."""
        end(self.remote_hosts)

    def alive(self) -> None:
        """Raise Lost when a host was lost. Now and then an empty line shows the others that the launcher lives."""
        for host in self.remote_hosts:
            if host.process.poll() is not None:
                raise Lost(f"host {host.name} was lost: {host.why()}")
        now = time.monotonic()
        if now - self.last_line_s > SAY_EVERY_S:
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
        own = target.drop_caches([*measured_files(target.mounts), *of_state])
        dropped: JsonView = answers_of(self.clients)
        every = {**dropped, **ask_all(self.servers, {"do": "drop"})}
        together = caches.together([own, *dropped.values()])
        return {**own, **together, "seconds": time.monotonic() - began, "hosts": every}

    def ask_servers(self, **what: object) -> dict[str, Json]:
        """Tell every server to do something; the answer of each, by name."""
        watched = self.watched if what["do"] in READS else []
        return ask_all([*self.servers, *watched], what)

    def ask_each(self, name: str, given: Mapping[str, Json]) -> dict[str, Json]:
        """What the function `name` of an instrument's `remote` returns on each host, with what is given for that host.

        Where it failed, `failed` says why; a host of two roles answers as a client. Raises Lost.
        """
        for host in self.remote_hosts:
            host.tell({"do": name, **given[host.name]})
        answers = heard(self.clients)
        for other, answer in heard([*self.servers, *self.watched]).items():
            answers.setdefault(other, answer)
        return answers

    def together(self, phase: Phase, target: Target, check_alive: Call) -> Json:
        """Run a phase's command on each client that has one of its `jobs`, this one included; all begin at once.

        Returns a phase's result. The output of each host is under `by_host`, with its clock (`Host.clock`). `told`: the
        time at which all got their jobs, by our clock. `prepare_s`: how long it took to start the commands.
        """
        began = time.monotonic()
        first = self.client_names[0]
        jobs = phase["jobs"]
        timeout_s = phase["timeout_s"]
        clients = [host for host in self.clients if host.name in jobs]
        argv = phase["argv"]
        files = phase.get("files", {})
        for host in clients:
            host.tell({"do": "prepare", "argv": argv, "files": files})
        try:
            command = SynchronisedCommand(argv, files, target)
        except Failure as why:
            silence(clients)
            raise Failure(f"{first}: {why}") from why
        try:
            answers_of(clients)
            clocks = {host.name: host.clock() for host in clients}
        except Failure:
            command.end()
            silence(clients)
            raise
        sent_s = time.time()
        prepare_s = time.monotonic() - began
        count = itertools.count()
        asks_next = phase.get("asks_next", False)
        for host in clients:
            host.count = count if asks_next else None
            host.tell({"do": "go", "job": jobs[host.name], "timeout_s": timeout_s, "asks_next": asks_next})
        next_number = (lambda: command.tell(b"%d\n" % next(count))) if asks_next else None
        heard = {host.stdout: host.hear for host in clients}
        try:
            own = command.run(jobs[first], check_alive, timeout_s, next_number, heard)
            answers = answers_of(clients, timeout_s + PATIENCE_S, check_alive)
        except Lost:
            raise
        except Failure:  # a host failed, or others suffer: nobody goes on alone
            silence(clients)
            raise
        by_host = {first: {**own, "clock_ahead_s": 0.0, "clock_error_s": 0.0}}
        for name, answer in answers.items():
            by_host[name] = {**answer, **clocks[name]}
        return {
            "rc": next((result["rc"] for result in by_host.values() if result["rc"]), 0),
            "stdout": "",
            "stderr": "",
            "wall_s": max(result["wall_s"] for result in by_host.values()),
            "prepare_s": prepare_s,
            "told": sent_s,
            "by_host": by_host,
        }
