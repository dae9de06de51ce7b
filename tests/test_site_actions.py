"""The page for a site's owner beside what a run really did: each program it started, each place that it changed."""

from __future__ import annotations

import fnmatch
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from measuring import asked
from test_site import host, lustre
from tiers import first_of

from fsage.host import states
from fsage.host.cells import measure
from fsage.host.verbs import claim
from fsage.model import declaration, limits
from fsage.model.declaration import complete
from fsage.plan import Plan
from fsage.plan.results import Results
from fsage.plan.target import Target
from fsage.site import actions, page
from fsage.site.inspect import Site
from fsage.studies.lustre.host import clients
from fsage.study.files import load_study
from fsage.workloads import sequential

CONFIG = Path(__file__).parents[1] / "config"
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = (
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chown",
    "os.chmod",
)
OURS = ("/dev/null", "/proc/self/fd")
"""What nobody else has: what is written there is gone, or a descriptor of a place that was opened before."""
_seen: list[tuple[str, tuple]] | None = None


def _audit(event: str, arguments: tuple) -> None:
    if _seen is not None and event in ("open", "subprocess.Popen", *CHANGES):
        _seen.append((event, arguments))


sys.addaudithook(_audit)


@contextmanager
def watched() -> Iterator[SimpleNamespace]:
    """What this process starts and changes inside, as Python's own audit events tell it (PEP 578)."""
    global _seen
    did, _seen = SimpleNamespace(programs=Counter(), places=Counter()), []
    try:
        yield did
    finally:
        events, _seen = _seen, None
        for event, arguments in events:
            if event == "subprocess.Popen":
                did.programs[os.path.basename(os.fsdecode(arguments[1][0]))] += 1
            elif isinstance(arguments[0], (str, bytes, os.PathLike)) and (
                event != "open" or (arguments[2] or 0) & WRITES
            ):
                did.places[os.fsdecode(arguments[0])] += 1


def unnamed(did: SimpleNamespace, acts: list[actions.Act], also: tuple[str, ...]) -> list[str]:
    """What was done and is on no row. Names without a path are relative to a descriptor of a place opened before."""
    programs = [program for act in acts for program in act.programs]
    places = [*(place for act in acts for place in act.places), *also]
    places += [f"{place}/*" for place in places]

    def named(name: str, patterns: list[str]) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

    left = [program for program in did.programs if not named(program, programs)]
    return left + [path for path in did.places if path.startswith("/") and not named(path, places)]


@pytest.mark.root
@pytest.mark.parametrize("kind", first_of("loop", "directory"))
def test_what_a_run_does_is_on_the_page(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A whole life as root, from claim to release, with two cells."""
    spec = request.getfixturevalue("directory_target" if kind == "directory" else "local_target")
    spec |= {"stop_if": {"slower": 1000}, "limits": {"gib_a_day": 100}} if kind == "directory" else {}
    for module in (declaration, actions):
        monkeypatch.setattr(module, "usual_home", lambda: tmp_path / "usual")
    params = {"workload": "sequential", "tool": "fio", "transfer_size": 4 << 20, "iteration": 1}
    wanted = SimpleNamespace(missing={"00.00": [SimpleNamespace(params=params)] * 2}, study=SimpleNamespace(tuning={}))
    acts = actions.acts(Site([host("n1")], ("clients",)), Target(complete(spec)), [wanted])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # the agent of a run is in memory, and writes none
    with watched() as did:
        claim.create(spec, {}, False)
        claimed = claim.claim(spec, {}, False)["claim"]
        wish = asked([]) | {"steps": []}
        states.scrub(spec, wish, False)
        phases = sequential.commands(sequential.Params.model_validate(params), claimed)
        cell = {"kind": "planned", "order": 1, "attempt": 1, "params": params, "phases": phases}
        measured = measure.measure(spec, {**wish, "cells": [{**cell, "name": name} for name in ("a", "b")]}, False)
        claim.release(spec, {}, False)
        claim.remove(spec, {}, False)
    noted = (tmp_path / "usual/written.json").exists()
    assert noted == any(f"{tmp_path}/usual/written.*" in act.places for act in acts) == (kind == "directory")
    assert measured["measured"] == 2 and did.programs["fio"] >= 4
    assert unnamed(did, acts, OURS) == []
    if kind == "directory":  # umount and mount of a loop target drop what is its own, and nobody else's
        [dropped] = [act for act in acts if "/proc/sys/vm/drop_caches" in act.places]
        assert 0 < did.places["/proc/sys/vm/drop_caches"] <= dropped.most
        acts.remove(dropped)
        assert unnamed(did, acts, OURS) == ["/proc/sys/vm/drop_caches"], "what is left out is found"


def on_page(place: Path, *words: str) -> list[str]:
    """The words that the page does not have."""
    text = place.read_text()
    return [each for each in words if each not in text]


def test_the_owner_of_a_lustre_is_told_of_servers_amounts_and_the_end(tmp_path: Path) -> None:
    site = Site([host("n1"), host("oss1", "oss"), host("oss1", "servers")], ("clients", "oss", "servers"))
    target = lustre(stripe_count=1, first_ost=3).having(limits=limits.of_site({"clients": 4}))
    page.write(site, target, [], [], tmp_path / "page.html")
    said = ("force_sync", "brw_stats", "lru_size=clear", "all on OST 3", "at most 1 TiB", "release.yml", "clients 4")
    assert on_page(tmp_path / "page.html", *said, "Ctrl-C") == []
    assert len([act for act in actions.acts(site, target, []) if act.hosts == "oss1"]) == 5
    watched = Site([host("n1"), host("oss2", "watched")], ("clients", "watched"))
    asked = [act for act in actions.acts(watched, lustre(oss=[]), []) if "ssh" in act.programs]
    assert [(act.hosts, act.programs) for act in asked] == [("oss2", ("ssh", "lctl", "zfs"))]


@pytest.mark.parametrize(
    ("declared", "osts", "words"),
    [
        ({"stripe_count": 1, "first_ost": 3}, None, "all on OST 3"),
        ({"osts": [0, 2], "stripe_count": 2}, None, "at most 5.5 GiB: 0, 2"),
        ({"stripe_count": -1}, None, "at most all of it on any OST that there is: Lustre chooses"),
        ({"stripe_count": -1}, {"a-OST0001": {}, "a-OST0000": {}}, "at most 5.5 GiB: a-OST0000, a-OST0001"),
        ({"pool": "fast"}, None, "at most all of it on any OST of pool fast: Lustre chooses"),
    ],
)
def test_bytes_are_told_by_ost(declared: dict, osts: dict | None, words: str) -> None:
    target = lustre(**declared)
    claims = [{"lustre": {"osts": osts}}] if osts else []
    [(what, said)] = target.of_kind.on_each(target.spec, claims, 10 << 30, 512)
    assert what == "of it on each OST" and said == f"{words}; fsage's own notes, less than 1 MiB, on any"


def test_the_page_is_true_for_a_guest_and_before_the_claim(tmp_path: Path) -> None:
    """Neither root nor helper: nobody else's caches, no locks; his own home and not that of who makes the page."""
    answer = {"root": False, "user": "ada (uid 1000)", "capacity_bytes": 3 << 30}
    answer |= {"home": "/home/ada/.local/state/fsage/p1", "directory": "/lustre/p1/ada", "notes": "/home/ada/notes"}
    site = Site([host("n1", **answer)], ("clients",))
    target = lustre(oss=[], capacity_gib=None, pool="fast", first_ost=-1).having(
        limits=limits.of_site({"gib_a_day": 1}), scale={"file_size": 0.5, "tasks": 1}
    )
    place = Results(tmp_path, target.name, "quickstart")
    plan = Plan(load_study(CONFIG / "quickstart.yaml"), target, place, None, CONFIG, CONFIG)
    assert list(actions.by_state([plan])) == [plan.steps(state) for state in plan.missing], "sizes are scaled once"
    page.write(site, target, [plan], [], tmp_path / "page.html")
    said = (
        answer["home"],
        answer["directory"],
        "/home/ada/notes/written.*",
        "as ada (uid 1000)",
        "pages of the measured files alone",
        "at most 3 GiB",
        "not known before the claim, which measures how fast the target is",
    )
    assert on_page(tmp_path / "page.html", *said) == []
    never = ["drop_caches", "lru_size", str(Path.home()), "of the whole host", "helper where"]
    assert on_page(tmp_path / "page.html", *never) == never
    tuned = SimpleNamespace(missing={}, study=SimpleNamespace(tuning={"max_rpcs_in_flight": 16}))
    [row] = [act for act in actions.acts(site, target, [tuned]) if "max_rpcs_in_flight" in act.what]
    assert "are not set" in row.what and not row.places
    root = Site([host("n1", **{**answer, "root": True})], ("clients",))
    [locks] = [act for act in actions.acts(root, target, [plan]) if "lru_size=clear" in act.what]
    phases = 2 * sum(map(len, plan.missing.values()))
    assert locks.most == phases * 2 * len(clients.PAUSES_S) and "own mount" in locks.what
    assert actions.user_words(root) == "ada (uid 1000), by the helper where root is needed"
