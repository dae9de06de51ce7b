"""A cell on Lustre, with a real fio: locks given back, placement verified, what the OSTs did and how full they are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from lustre_site import INSTANCE, NEIGHBOUR, Knobs, Site, at_servers, brw_stats, lustre_target, recorded
from states import bring

from fsage.base import Refusal
from fsage.host import states
from fsage.host.cells import measure
from fsage.host.system import settings
from fsage.host.targets import lease
from fsage.host.verbs import claim
from fsage.model import structure
from fsage.model.declaration import complete
from fsage.studies.lustre.helper import lctl
from fsage.studies.lustre.host import clients, ldiskfs
from fsage.studies.lustre.host.lustre import Lustre
from fsage.studies.lustre.host.osts import LustreOsts
from fsage.studies.paf.model import Populate

pytestmark = pytest.mark.root
MIB = 1 << 20
STEPS = [Populate(1, percent=1, file_bytes=(16 * MIB,), seed=1, files_at_once=4)]
REQUEST = {"state": "wanted", "steps": STEPS, "study": "test"}
UNUSED = "lctl get_param " + " ".join(
    f"ldlm.namespaces.lustre-{each}-{INSTANCE}.lock_unused_count" for each in ("OST*-osc", "MDT*-mdc")
)
CLIENTS = [f"lustre-{each}-{INSTANCE}" for each in ("OST0000-osc", "OST0001-osc", "MDT0000-mdc")]
CLEAR = "lctl set_param -n " + " ".join(f"ldlm.namespaces.{name}.lru_size=clear" for name in CLIENTS)
ASKED = "lctl get_param osd-*.lustre-OST*.brw_stats"
FILE = "measured.0.0"
ARGV = ["fio", "--name=measured", "--rw=write", "--bs=1M", "--size=8M", "--direct=1", "--fallocate=none"]
CELL = {
    "name": "w_1",
    "kind": "planned",
    "order": 1,
    "attempt": 1,
    "params": {},
    "phases": [{"name": "write", "argv": ARGV, "reads": False}],
}


def locks(count: int) -> str:
    """Unused locks; the metadata server's own connections, of the recorded list of namespaces, hold some always."""
    assert set(CLIENTS) <= {
        line.rpartition("namespaces.")[2] for line in recorded("lctl_list_param_ldlm_ns.txt").split()
    }
    own = "ldlm.namespaces.lustre-OST0000-osc-MDT0000.lock_unused_count=7\n"
    return own + "".join(f"ldlm.namespaces.{name}.lock_unused_count={count}\n" for name in CLIENTS)


@pytest.fixture
def spec(tmp_path: Path, site: Site) -> dict:
    """A target in a state."""
    spec = lustre_target(tmp_path, site)
    place = Path(spec["directory"])
    site.answer(ASKED, brw_stats(25), brw_stats(41))
    site.answer(UNUSED, locks(3), locks(1), locks(0))
    site.answer(CLEAR)
    site.answer(f"lfs getstripe -y {place}/measured/{FILE}", recorded("lfs_getstripe_y_plain_f1.txt"))
    claim.claim(spec, {}, False)
    bring(spec, *STEPS)
    return spec


def measured(spec: dict, site: Site | None = None, name: str = "w_1", **more: object) -> dict:
    """Measure one cell that writes a file; its observation. With `site` a server is asked, too."""
    request = {**REQUEST, "cells": [{**CELL, "name": name}], **more}
    if site:
        spec["lustre"]["oss"], request = ["oss1"], {**request, **at_servers("oss1")}
        site.commits()
        site.answer("lctl get_param osd-*.*.mntdev")
    answer = measure.measure(spec, request, False)
    assert answer["measured"] == 1, answer
    (path,) = (Path(spec["home"]) / "scratch" / "outbox").rglob(f"{name}.1.json")
    return json.loads(path.read_text())


def test_a_cell_has_cold_locks_placement_and_what_the_osts_did(spec: dict, site: Site) -> None:
    site.commands()
    seen = measured(spec, site)
    assert (seen["status"], seen["why"]) == ("done", None)
    (phase,) = seen["phases"]
    assert phase["placement"] == {"files": 1, "looked_at": 1, "stripes": {"1": 1}, "astray": []}
    assert phase["cache_drop"] == "lru_size=clear, drop_caches=3"
    assert phase["extents"]["mean_position"] is None
    assert seen["osts"]["brw_stats"]["lustre-OST0000"]["disk fragmented I/Os"] == {"1": [0, 16]}
    assert set(seen["osts"]["brw_stats"]) == set(seen["osts"]["fullness"]["after"])
    assert seen["osts"]["absent"] == {}
    assert seen["conditions"]["mount_options"][0].startswith("rw,flock,checksum,")
    assert seen["conditions"]["lustre"]["declared"]["stripe_count"] == 1
    commands = site.commands()
    assert commands.count(ASKED) == 2
    first = commands.index(UNUSED)
    assert commands[first : first + 5] == [UNUSED, CLEAR, UNUSED, CLEAR, UNUSED], "what was in use at first too"
    site.answer(ASKED, stderr="error: get_param: Input/output error\n", rc=5)
    place = f"{spec['directory']}/measured/{FILE}"
    site.answer(f"lfs getstripe -y {place}", recorded("lfs_getstripe_y_s2_f1.txt"))  # though setstripe said nothing
    seen = measured(spec, site, "w_2")
    assert seen["why"] == f"write: 1 files lie elsewhere: {place} has 2 stripes on OSTs [0, 1], requested were 1"
    assert seen["osts"]["brw_stats"] is None
    assert "Input/output error" in seen["osts"]["absent"]["brw_stats"]


def test_a_cell_under_a_setting_that_its_study_does_not_name_is_not_valid(spec: dict, site: Site) -> None:
    """Which, what it is, and who noted it; so is one whose own tunables somebody changed, and no other."""
    knobs = Knobs(site, max_rpcs_in_flight="8")
    rpcs = {f"osc.lustre-OST000{number}-osc-{INSTANCE}.max_rpcs_in_flight": "16" for number in (0, 1)}
    mine = lease.holder_of(complete(spec))
    other = {**mine, "target": "own2", "home": "/var/lib/fsage/own2"}
    lctl.tune("lustre", other, rpcs)
    why = measured(spec)["why"]
    assert "OST0000-osc-ff11000110ffb000.max_rpcs_in_flight of" in why and "is 16, was 8" in why
    assert f"the study does not name it: target own2 of user {os.geteuid()} (/var/lib/fsage/own2, since" in why
    named = measured(spec, name="w_2", tuning={"max_rpcs_in_flight": 16})
    assert named["why"] is None, "it is what the study names, whoever set it"
    lctl.tune("lustre", other, {name.replace(INSTANCE, NEIGHBOUR): "32" for name in rpcs})
    assert measured(spec, name="w_4")["why"] is None, "of another mount, and the own one has its first value again"
    knobs.change(known=dict.fromkeys(rpcs, "64"))
    changed = measured(spec, name="w_3", tuning={"max_rpcs_in_flight": 16})
    assert "is 64, and the study names 16: tune_clients.yml sets it" in changed["why"]


@pytest.mark.long
def test_a_table_that_another_target_set_on_a_watched_server_fails_the_cell_of_a_guest(
    spec: dict, tmp_path: Path
) -> None:
    """He may log in there, and its note is for everybody."""
    table = tmp_path / "prealloc_table"
    table.write_text("256 512\n")
    other = {**lease.holder_of(complete(spec)), "target": "own2", "home": "/var/lib/fsage/own2"}
    tables = settings.Kind(ldiskfs.KIND, lambda names: dict.fromkeys(names, "4 8"), lambda values, before: None)
    settings.change(other, tables, {str(table): "256 512"})
    seen = measured(spec, hosts={"watched": at_servers("oss1")["hosts"]["servers"]})
    assert (seen["servers"], seen["watched"], seen["status"]) == ([], ["oss1"], "failed")
    assert "is 256 512, was 4 8, and target scratch has not set it: target own2 of user" in seen["why"]


@pytest.mark.long
def test_busy_locks_of_others_on_the_mount_are_a_note_and_no_failure(
    spec: dict, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another mount of the file system nothing is asked, nor cancelled: `site` has no answer to that."""
    monkeypatch.setattr(clients, "PAUSES_S", (0.0, 0.0))
    site.answer(UNUSED, locks(3))
    site.commands()
    seen = measured(spec)
    assert seen["status"] == "done", seen["why"]
    assert seen["phases"][0]["cache_drop"] == "lru_size=clear (9 of others' stay), drop_caches=3"
    assert site.commands().count(CLEAR) == 4, "twice, at most so often"


def test_servers_are_asked_before_anything_is_changed(tmp_path: Path, site: Site) -> None:
    spec = lustre_target(tmp_path, site, oss=["oss1"])
    site.answer(ASKED, stderr="error: get_param: Input/output error\n", rc=5)
    with pytest.raises(Refusal, match=r"lustre\.oss: oss1: .*Input/output error; nothing was touched"):
        claim.claim(spec, at_servers("oss1"), False)
    site.answer(ASKED, recorded("lctl_brw_stats.txt"))
    with pytest.raises(Refusal, match="names oss1, and none of them serves lustre-OST0001: name every server of OSTs"):
        claim.claim(spec, at_servers("oss1"), False)
    assert [path.name for path in Path(spec["directory"]).parent.rglob("*")] == ["fsage"]


def grown(mib: int) -> str:
    """`lfs df` when somebody has written so much on the first OST."""
    used, available = 1392, 7256456
    text = recorded("lfs_df.txt")
    line = next(line for line in text.splitlines() if "OST0000" in line)
    more = line.replace(str(used), str(used + mib * 1024)).replace(str(available), str(available - mib * 1024))
    return text.replace(line, more)


def test_what_others_write_during_a_cell_is_noticed_beyond_the_tolerance(spec: dict, site: Site) -> None:
    """Usually a tenth of what fsage may take of the OST: here 205 MiB."""
    asked = f"lfs df {spec['directory']}"
    site.answer(asked, grown(190))
    seen = measured(spec)
    assert seen["status"] == "done" and seen["check"]["osts_changed_bytes"] == 190 * MIB
    site.answer(asked, *[recorded("lfs_df.txt")] * 3, grown(230))
    seen = measured(spec, name="w_2")
    assert seen["status"] == "failed"
    assert "OST0000 holds 231.4 MiB, where 1.4 MiB were left. Either somebody else writes" in seen["why"]
    site.answer(asked, grown(1030))
    answer = measure.measure(spec, {**REQUEST, "cells": [{**CELL, "name": "w_3"}]}, False)
    assert not answer["measured"], "nor where it was written between visits"
    assert "lustre-OST0000 holds 1031.4 MiB, where 1.4 MiB were left" in answer["lost"]


def test_of_a_file_system_of_its_own_nothing_is_tolerated(tmp_path: Path, site: Site) -> None:
    spec = lustre_target(tmp_path, site, capacity_gib="all")
    target = Lustre(
        complete(spec), {"stores": [{"filesystem": "lustre", "mount": "/"}], "filesystem_state_known": True}
    )
    assert target.osts.tolerance_bytes == 0
    spec["lustre"]["tolerance_mib"] = 5
    with pytest.raises(Refusal, match=r"tolerance_mib is 5, and capacity_gib all: .* leave it out"):
        complete(spec)


@pytest.mark.long
def test_pieces_left_to_the_servers_are_refused_unless_the_servers_are_tuned_so(
    spec: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = structure.read(
        {"kind": "interleave", "generation": 1, "files": 2, "granularity_bytes": MIB, "method": "together"}
    )
    request = {"state": "1M.clean", "steps": [step], "study": "test"}
    states.scrub(spec, request, False)
    with pytest.raises(
        Refusal, match=r"in extents of 1MiB, and tune_prealloc.yml set nothing: run it with tune_prealloc_size=1"
    ):
        states.begin("interleave", spec, request, False)
    now = {f"lustre-OST000{number}": {"prealloc_table": "32 64 128"} for number in (0, 1)}
    path = Path(spec["home"]) / "scratch" / "tunables.json"
    path.write_text(json.dumps({"preallocation": {"asked": {"size": "1MiB"}, "now": now}}))
    tables = {"oss1": {"tables": dict.fromkeys(now, "256 512 1024 2048")}}
    monkeypatch.setattr(LustreOsts, "ask_servers", lambda self, **what: tables)
    with pytest.raises(Refusal, match=r"OST0000 has prealloc_table '256 512 1024 2048'; lustre-OST0001 has"):
        states.begin("interleave", spec, request, False)
    tables["oss1"]["tables"] = dict.fromkeys(now, "32 64 128")
    assert states.begin("interleave", spec, request, False)
