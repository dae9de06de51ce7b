"""The hosts of a measurement: each is asked before anything is changed, and what stands in the way is said."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from local_targets import claimed
from session import another_host

from fsage.base import Refusal
from fsage.host import __main__ as agent
from fsage.host import host_agent, remote, states
from fsage.host.cells import measure
from fsage.host.remote import probe, remote_hosts
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.verbs import claim
from fsage.model.declaration import complete
from fsage.model.hosts import skews
from fsage.run.runs import identity

LATE = "now = time.time; time.time = lambda: now() + 90"
OTHER_KERNEL = "here = os.uname(); os.uname = lambda: os.uname_result((*here[:2], '0.1', *here[3:]))"
NO_ROOT = "os.geteuid = lambda: 1000"


def declared(place: Path, **more: object) -> dict:
    """The declaration of a target of which nothing is there."""
    usual = {"name": "t", "kind": "directory", "directory": str(place / "t"), "home": str(place / "home")}
    return {**usual, **more}


def hosts_of(place: Path, client: Sequence[str], group: str, server: Sequence[str]) -> tuple[dict, dict]:
    """The declaration of a target, and the request of two clients and a server of that group, that lie like this."""
    clients = [{"name": "n1"}, another_host(place, "n2", *client)]
    return declared(place), {"hosts": {"clients": clients, group: [another_host(place, "oss1", *server)]}}


@pytest.mark.root
def test_hosts_are_asked_before_the_first_change(tmp_path):
    lies = [LATE, OTHER_KERNEL, "os.environ['PATH'] = '/none'"]
    spec, request = hosts_of(tmp_path, lies, "servers", [LATE.replace("+", "-"), NO_ROOT])
    request["hosts"]["watched"] = [another_host(tmp_path, "oss2", LATE)]
    with pytest.raises(Refusal) as refused:
        claim.create(spec, request, False)
    name = os.uname().nodename
    for why in (
        f"s ahead of {name}'s (at most 2 s)",
        f"clients differ in kernel: n2: 0.1; n1: {os.uname().release}",
        "n2 lacks fio: nothing can be measured without it",
        f"s behind {name}'s",
        "the clock of oss2 is",
        "oss1 (servers): neither root nor its helper",
        "nothing was touched",
    ):
        assert why in str(refused.value)
    assert not (tmp_path / "t").exists() and not (tmp_path / "home").exists()


@pytest.mark.root
def test_a_watched_server_needs_no_root(tmp_path):
    spec, request = hosts_of(tmp_path, [], "watched", [NO_ROOT])
    assert claim.create(spec, request, True)["changed"]


def test_other_clients_than_those_of_the_claim_are_refused(directory_target):
    claimed(directory_target)
    clients = [{"name": "n1"}, {"name": "n2"}]
    request = {"study": "s", "state": "empty", "steps": [], "hosts": {"clients": clients, "servers": []}}
    request |= {
        "reuse": "nested",
        "cells": [],
        "holder": identity("snakemake"),
        "claim": claim.claim(directory_target, {}, True)["claim"]["id"],
    }
    for verb in measure.measure, states.scrub, lambda *given: states.begin(None, *given), claim.claim, agent.hold:
        with pytest.raises(Refusal, match=r"was claimed for the clients .*, and the inventory names n1, n2: a study's"):
            verb(directory_target, request, False)


@pytest.mark.root
def test_a_client_that_does_not_see_the_claim_ends_the_claim(tmp_path):
    home = tmp_path / "home"
    home.mkdir(0o755)
    own = f"mount --make-rprivate / && mount -t tmpfs none {home}"
    lies = ["import ctypes", "ctypes.CDLL(None).unshare(0x20000)", f"assert os.system('{own}') == 0"]  # CLONE_NEWNS
    spec, request = hosts_of(tmp_path, lies, "servers", [])
    spec |= {"amount_mib": 8, "scale": {"file_size": 0.125, "tasks": 1}}
    claim.create(spec, request, False)
    with pytest.raises(Refusal, match=r"^n2: .* has no note of that claim .*fsage_target.home: declare one"):
        claim.claim(spec, request, False)
    assert not (tmp_path / "t").exists() and not (home / "t/claim.json").exists()


def test_a_loop_target_has_one_client(tmp_path):
    with pytest.raises(Refusal, match=r"of kind loop, which one host uses, and the inventory names .* n1, n2;"):
        claim.create(declared(tmp_path, kind="loop"), {"hosts": {"clients": [{"name": "n1"}, {"name": "n2"}]}}, False)


def test_a_launcher_that_is_not_there_is_missed_before_the_first_change(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for verb in claim.create, claim.claim:
        with pytest.raises(Refusal, match=r"lacks srun: fsage_target.launcher names it; .*; nothing was touched"):
            verb(declared(tmp_path, launcher="srun", amount_mib=8), {}, False)
    assert list(tmp_path.iterdir()) == []


def test_what_srun_starts_would_not_see_a_loop_target(tmp_path, monkeypatch):
    (tmp_path / "srun").write_text("#!/bin/sh\n")
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(Refusal, match=r"launcher is srun and kind is loop\. .* declare launcher openmpi or mpich"):
        claim.create(declared(tmp_path, kind="loop", launcher="srun"), {}, False)


def test_a_host_hears_during_a_long_phase_that_the_launcher_is_still_there(tmp_path, monkeypatch):
    """An agent that hears nothing for an hour ends; what it hears meanwhile is answered by nothing."""
    assert remote_hosts.SAY_EVERY_S < host_agent.SILENCE_S / 2
    monkeypatch.setattr(remote_hosts, "SAY_EVERY_S", 0.0)
    clients = [{"name": "n1"}, another_host(tmp_path, "n2")]
    with closing(Hosts(complete(declared(tmp_path)), None, {"clients": clients, "servers": []})) as hosts:
        for _ in range(3):
            hosts.alive()
        assert remote.ask_all(hosts.clients, {"do": "end"}) == {"n2": {}}


def test_a_slow_answer_is_no_wrong_clock():
    assert skews("n2", 130.0, asked_at=100.0, heard_at=160.0) == []


def test_networks_are_compared_by_the_speeds_of_devices_that_are_up(tmp_path):
    for name, speed in {"ib0": "200000", "eth0": "10000", "veth1": "1", "e1": "-1"}.items():
        (tmp_path / name / "device").mkdir(parents=True)
        (tmp_path / name / "speed").write_text(f"{speed}\n")
    (tmp_path / "veth1" / "device").rmdir()
    assert probe.network_mbit_s(tmp_path) == [10000, 200000]
