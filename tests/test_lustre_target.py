"""A target on Lustre: the agent's own verbs, with `lfs`, `lctl` and `findmnt` that answer as a real site did."""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from lustre_site import DESTROYS, FINDMNT, SERVERS, Site, at_servers, lustre_target, recorded, session
from states import bring
from tiers import first_of

import fsage
from fsage.base import Failure, Refusal
from fsage.host import helper, states
from fsage.host.__main__ import hold
from fsage.host.remote import probe
from fsage.host.structure import fillers
from fsage.host.system import files, privilege
from fsage.host.targets import kinds
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.layouts.freespace import Counting
from fsage.model.declaration import complete
from fsage.model.structure import Shard
from fsage.run.runs import identity
from fsage.studies.lustre.helper import VERBS, lctl
from fsage.studies.lustre.host import servers
from fsage.studies.paf.model import Populate
from fsage.studies.replica.host import free_space_layout

pytestmark = pytest.mark.root
MIB = 1 << 20
CAPACITY_BYTES = 2 * 7256456 << 10
STEPS = [Populate(1, percent=1, file_bytes=(4 * MIB,), seed=1, files_at_once=4)]
REQUEST = {"state": "1.00", "steps": STEPS, "study": "test"}


@pytest.fixture
def spec(tmp_path: Path, site: Site) -> dict:
    return lustre_target(tmp_path, site)


@pytest.fixture
def whole(tmp_path: Path, site: Site) -> dict:
    """The same target, with the file system for itself."""
    return lustre_target(tmp_path, site, capacity_gib="all")


def root_of(spec: dict) -> Path:
    return Path(spec["directory"]).parent


def test_a_claim_notes_what_lfs_df_has_and_marks_the_file_system(whole: dict, site: Site) -> None:
    spec, ours = whole, claim.claim(whole, {}, False)["claim"]
    assert ours["capacity_bytes"] == CAPACITY_BYTES
    assert ours["stores"][0]["directory_id"] == {"fid": "[0x200000401:0x6:0x0]"}
    assert ours["lustre"]["version"] == "2.17.57_62_gc881f8ebcb"
    assert ours["filesystem_state_known"]
    assert set(ours["lustre"]["osts"]) == {"lustre-OST0000", "lustre-OST0001"}
    place = spec["directory"]
    calibrating = f"lfs df {place}"  # in the first claim of the session
    assert [command for command in site.commands() if command != calibrating] == [
        *(FINDMNT, SERVERS),  # for a mark of a claim that is noted nowhere
        *(FINDMNT, SERVERS),
        f"lfs df {root_of(spec)}",
        "lctl get_param -n version",
        f"lfs path2fid {place}",
        f"lfs setstripe -c 1 -S 1M -i -1 {place}/filler",
        f"lfs getstripe -y -d {place}/filler",
        f"lfs setstripe -c 1 -S 1M -i -1 {place}/measured",
        f"lfs getstripe -y -d {place}/measured",
    ]
    assert json.loads((root_of(spec) / ".fsage-target.json").read_text())["id"] == ours["id"]
    assert not claim.claim(spec, {}, False)["changed"]
    (Path(place) / "somebody's").touch()
    assert f"{root_of(spec)}/.fsage-target.json is gone" in claim.release(spec, {}, False)["proof"]
    assert [path.name for path in root_of(spec).rglob("*")] == ["fsage", "somebody's"]
    (Path(place) / "somebody's").rename(root_of(spec) / "users")
    with pytest.raises(Refusal, match="holds users"):
        claim.claim(spec, {}, False)


@pytest.mark.long
def test_a_release_removes_what_an_ended_run_left_and_says_so(spec: dict) -> None:
    claim.claim(spec, {}, False)
    home = Path(spec["home"]) / "scratch"
    another = home.with_name("another")
    another.mkdir()
    waiting = home / "outbox/claim/study/state/cell.1.json"
    waiting.parent.mkdir(parents=True)
    waiting.write_text("{}")
    proof = claim.release(spec, {}, False)["proof"]
    assert f"1 observations of runs that were ended, never fetched, were removed from {home / 'outbox'}" in proof
    assert not home.exists()
    assert claim.leave(spec, {}, False)["msg"] == "this host keeps nothing of target scratch"
    another.rmdir()
    assert claim.leave(spec, {}, True)["proof"] == [] and home.parent.exists()
    assert claim.leave(spec, {}, False)["proof"] == [f"{home.parent} is gone"]
    home.mkdir(parents=True)
    (home / "images.json").write_text("{}")
    assert claim.leave(spec, {}, False)["msg"] == f"this host keeps of target scratch images.json in {home}"


@pytest.mark.long
def test_only_osts_that_files_lie_on_matter(spec: dict, site: Site) -> None:
    claim.claim(spec, {}, False)
    target = open_target(spec)
    osts = target.osts
    find = f"lfs find {spec['directory']} --type f --ost"
    site.answer(f"{find} 0", f"{spec['directory']}/measured/a\n")
    site.answer(f"{find} 1")
    assert osts.is_used("lustre-OST0000") and not osts.is_used("lustre-OST0001")
    site.answer(f"{find} 1", stderr="error", rc=5)
    assert osts.is_used("lustre-OST0001"), "what is not known is not no"
    target.claim["lustre"]["usable"] = [0]
    assert not osts.is_used("lustre-OST0001")


def test_a_mark_on_an_ost_that_was_deactivated(spec: dict, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux answers ESHUTDOWN to who reads it: the OST is named, and a release leaves what it cannot verify."""
    claim.claim(spec, {}, False)
    place = Path(spec["directory"])
    mark = place / ".fsage" / "claim.json"
    read_json = files.read_json

    def read(path: Path) -> Any:
        if path == mark:
            raise OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN), str(path))
        return read_json(path)

    monkeypatch.setattr(files, "read_json", read)
    no_answer = pytest.raises(OSError, match="Cannot send after transport endpoint shutdown")
    with no_answer:
        open_target(spec)  # all OSTs are named: what else it is, nobody knows
    with no_answer:
        claim.release(spec, {}, False)
    one_ost = re.sub(r"lustre-OST0001.*\n", "", recorded("lfs_df.txt"))
    one_ost = re.sub(r"(summary: +)15387320 +2784 +14512912", r"\1 7693660 1392 7256456", one_ost)
    for asked in (root_of(spec), place):
        site.answer(f"lfs df {asked}", one_ost)
    gone = "scratch was claimed with lustre-OST0001, which `lfs df` does not name any more"
    with pytest.raises(Refusal, match="half released"):
        open_target(spec)
    proof = " ".join(claim.release(spec, {}, False)["proof"])
    assert not (Path(spec["home"]) / "scratch/claim.json").exists()
    assert f"left {place} as it is: " in proof and f"Target {gone}; delete it by hand" in proof
    assert mark.exists()


@pytest.mark.long
def test_a_second_target_on_the_file_system_of_one_is_refused_from_anywhere(
    whole: dict, site: Site, tmp_path: Path
) -> None:
    spec = whole
    claim.claim(spec, {}, False)
    other = {**spec, "name": "other", "home": str(tmp_path / "another_host"), "directory": str(root_of(spec) / "other")}
    Path(other["directory"]).mkdir()
    with pytest.raises(Refusal, match=r"target scratch has claimed .* two targets on one file system"):
        claim.claim(other, {}, False)
    assert list(Path(other["directory"]).iterdir()) == []
    Path(other["directory"]).rmdir()
    run = {"holder": {**identity("test"), "run": "2"}}
    hold(other, run, False)  # as a study begins, which then claims
    with pytest.raises(Refusal, match=r"target scratch has claimed .* two targets on one file system"):
        claim.create(other, {}, False)
    hold(other, {**run, "release": True}, False)
    assert not Path(other["directory"]).exists() and not (tmp_path / "another_host" / "other").exists()
    claim.release(spec, {}, False)
    Path(spec["directory"]).rmdir()
    site.answer(f"lfs path2fid {other['directory']}", recorded("lfs_path2fid.txt"))
    claim.create(other, {}, False)
    assert "would claim" in claim.claim(other, {}, True)["msg"]


@pytest.mark.long
def test_another_client_knows_the_claim_from_the_file_system(spec: dict, tmp_path: Path) -> None:
    ours = claim.claim(spec, {}, False)["claim"]
    there = {**spec, "home": str(tmp_path / "another_host")}
    assert open_target(there).claim == ours
    with pytest.raises(Refusal, match="has not been claimed"):
        open_target({**there, "name": "else"})
    states.scrub(spec, REQUEST, False)
    begun = states.begin("populate", spec, REQUEST, False)
    shares = [Shard(index, 2) for index in (0, 1)]
    for where, share in ((spec, shares[0]), (there, shares[1])):
        assert states.work(where, REQUEST, begun, share).files
    with pytest.raises(Refusal, match="may only populate and fragment"):
        states.scrub(there, REQUEST, False)  # the lease that guards the target is on the other host
    states.end(spec, REQUEST, begun)


def test_states_are_reached_and_a_scrub_deletes_and_proves_it(spec: dict, site: Site) -> None:
    assert not claim.claim(spec, {}, False)["claim"]["filesystem_state_known"], "others write beside it"
    bring(spec, *STEPS)
    left = list(fillers(Path(spec["directory"])))
    assert len(left) == (4 << 30) // 100 // (4 * MIB)
    site.commands()
    anew = {**REQUEST, "state": "empty", "steps": []}
    site.answer("ssh*", stderr="No route to host\n", rc=255)
    away = {"hosts": {"servers": [{"name": "oss9", "python": "python3", "local": False}]}}
    with pytest.raises(Refusal, match="host oss9 does not answer: No route to host; nothing was touched"):
        states.scrub(spec, {**anew, **away}, False)
    assert [entry.path for entry in fillers(Path(spec["directory"]))] == [entry.path for entry in left]
    assert states.scrub(spec, anew, False)["changed"]
    assert not list(fillers(Path(spec["directory"])))
    commands = site.commands("lfs")
    assert f"lfs setstripe -c 1 -S 1M -i -1 {spec['directory']}/filler" in commands
    assert commands.count(f"lfs df {spec['directory']}") >= 2
    assert not any("mkfs" in command for command in commands)


@pytest.mark.long
def test_a_structure_that_lies_elsewhere_is_never_ready(spec: dict, site: Site) -> None:
    """One OST is full, and what was to begin there was begun on another."""
    spec["lustre"]["first_ost"] = 0
    for tree in ("filler", "measured"):
        site.answer(f"lfs setstripe -c 1 -S 1M -i 0 {spec['directory']}/{tree}")
        text = recorded("lfs_getstripe_plain_dir_d.txt").replace("offset: -1", "offset: 0")
        site.answer(f"lfs getstripe -y -d {spec['directory']}/{tree}", text.splitlines()[0])
    claim.claim(spec, {}, False)
    states.scrub(spec, REQUEST, False)
    begun = states.begin("populate", spec, REQUEST, False)
    states.work(spec, REQUEST, begun)
    with pytest.raises(Failure, match=r"lie elsewhere: .*/g1/0000000 begins on OST 1, requested was 0"):
        states.end(spec, REQUEST, begun)
    assert states.diagnose(spec, REQUEST, False)["todo"] == ["scrub", "populate"]


def test_a_scrub_after_which_objects_are_left_fails(whole: dict, site: Site) -> None:
    spec, _ = whole, claim.claim(whole, {}, False)
    site.answer(f"lfs df {spec['directory']}", session("enospc_one_ost.txt")["lfs df /mnt/lustre"][0]["stdout"])
    with pytest.raises(Failure, match=r"lustre-OST0000 holds 369 MiB after all .* held 1 MiB when it was claimed"):
        states.scrub(spec, REQUEST, False)


def test_a_host_is_asked_whether_it_is_a_client_of_that_file_system(spec: dict) -> None:
    found = probe.probe(spec, {})
    assert (found["lustre"], found["missing"]) == ("2.17.57_62_gc881f8ebcb", [])
    assert found["places"] == [{"directory": spec["directory"], "free_gib": 4.0}]
    other = {**spec, "lustre": {**spec["lustre"], "fsname": "home"}}
    (missing,) = probe.probe(other, {})["missing"]
    assert "10.0.2.15@tcp:/home is declared" in missing


@pytest.mark.long
def test_who_launches_tries_every_other_host_and_his_rights_there(
    spec: dict, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the way that it reaches them while cells are measured; another host does not try."""
    n1, n2, oss1, oss2 = [{"name": name, "python": "python3", "local": False} for name in ("n1", "n2", "oss1", "oss2")]
    hosts = {"clients": [n1, n2], "servers": [oss1, oss2]}
    front = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o UpdateHostKeys=no"
    site.answer(f"{front} n2 true")
    site.answer(f"{front} oss1 true", stderr="oss1: Permission denied (publickey).\n", rc=255)
    site.answer(f"{front} oss2 true")
    (why,) = probe.probe(spec, {"hosts": hosts, "launches": True})["unreached"].items()
    assert why[0] == "oss1" and why[1].endswith("Permission denied (publickey).")
    monkeypatch.setattr(os, "geteuid", lambda: 54321)  # a user may there what the rules allow; nothing of it is called
    on_servers = [*probe.PLAIN, *(f"{verb} lustre" for verb in VERBS[helper.SERVERS])]
    for verb in on_servers:
        site.answer(f"{front} oss2 sudo -n -l {privilege.HELPER} {verb}", rc=int(verb == "lustre-sync lustre"))
    why = probe.unreached(complete(spec), {"hosts": hosts})["oss2"]
    assert why.startswith(f"the right to call {privilege.HELPER} lustre-sync lustre: install the rules of `fsage site")
    assert {"hello", *probe.PLAIN} == {*helper.VERBS}
    sources = "".join(path.read_text() for path in Path(fsage.__file__).parent.rglob("*.py"))
    asked = {*re.findall(r'@(?:privilege\.)?privileged\("([a-z-]+)"\)', sources), lctl.FREE_SPACE}
    assert asked == {*probe.PLAIN, *VERBS[helper.CLIENTS], *VERBS[helper.SERVERS]}


@pytest.mark.parametrize("alone", first_of(False, True))
def test_a_target_whose_claim_was_lost_with_its_client_is_taken_over_by_the_mark(
    tmp_path: Path, site: Site, alone: bool
) -> None:
    spec = lustre_target(tmp_path, site, **({"capacity_gib": "all"} if alone else {}))
    old = claim.claim(spec, {}, False)["claim"]["id"]
    shutil.rmtree(spec["home"])
    for verb in (claim.create, claim.claim, claim.release):
        with pytest.raises(Refusal, match=f"has the mark of target .*--take-over {old}"):
            verb(spec, {}, False)
    claim.release(spec, {"take_over": old}, False)
    assert [path.name for path in root_of(spec).rglob("*")] == ["fsage"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"free_percent": 101}, "free_percent is 101"),
        ({"osts": [0, 1]}, r"osts is \[0, 1\]: each file has a stripe on each, so stripe_count 2"),
        ({"osts": [0, 7], "stripe_count": 2}, r"osts has \[7\], and lustre has \[0, 1\]"),
        ({"stripe_count": 3}, "stripe_count is 3, and lustre has 2 OSTs"),
        ({"first_ost": 7}, r"first_ost is 7, and lustre has \[0, 1\]"),
        ({"mgs": "10.0.9.9@o2ib"}, "10.0.9.9@o2ib:/lustre is declared"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_touched(
    tmp_path: Path, site: Site, more: dict, says: str
) -> None:
    spec = lustre_target(tmp_path, site, **more)
    with pytest.raises(Refusal, match=says):
        claim.claim(spec, {}, False)
    assert [path.name for path in root_of(spec).rglob("*")] == ["fsage"]
    assert not any("setstripe" in command for command in site.commands())


def test_the_budget_is_the_least_of_what_limits_it(spec: dict, site: Site) -> None:
    """The owner declares, users leave room for others, and a quota that is reached gives nothing."""
    asked = f"lfs quota -q -p 42 {spec['directory']}"
    site.answer("lfs project -d*", f"   42 P {spec['directory']}\n")
    for more, quota, least, bytes_ in (
        ({}, 0, "capacity_gib", 4 << 30),
        ({"free_percent": 5}, 0, "5% of what is free", int(CAPACITY_BYTES * 0.05)),
        ({"osts": [1], "capacity_gib": None}, 0, "100% of what is free", CAPACITY_BYTES // 2),
        ({}, 3 << 20, "quota of project 42", (3 << 30) - 4096),
    ):
        site.answer(asked, f"  /l  4  0  {quota}  -  1  0  20000  - \n")
        declared = complete({**spec, "lustre": {**spec["lustre"], **more}})
        offer: Any = cast(Any, kinds.named("lustre")).offer(declared)
        assert offer.capacity_bytes == bytes_
        assert min(offer.noted["lustre"]["budget"].items(), key=lambda item: item[1]) == (least, bytes_)
    site.answer(asked, "  /l  9*  0  8  -  1  0  20000  - \n")
    with pytest.raises(Refusal, match="has no budget: quota of project 42 leaves nothing"):
        claim.claim(spec, {}, False)


def test_a_target_that_is_not_the_claimed_one_is_refused(spec: dict, site: Site) -> None:
    claim.claim(spec, {}, False)
    with pytest.raises(Refusal, match=r"claimed with lustre\.stripe_count 1, and 2 is declared"):
        open_target({**spec, "lustre": {**spec["lustre"], "stripe_count": 2}})
    site.answer(f"lfs path2fid {spec['directory']}", "[0x200000401:0x99:0x0]\n")
    with pytest.raises(Refusal, match="another directory than the one that was claimed"):
        open_target(spec)
    (Path(spec["directory"]) / ".fsage/.fsage-target.json").unlink()
    with pytest.raises(Refusal, match="names no target"):
        open_target(spec)


@pytest.mark.long
def test_a_layout_is_copied_onto_one_ost_whose_server_is_asked(spec: dict, site: Site) -> None:
    """The name of its device stays on the server."""
    claim.claim(spec, {}, False)
    target = open_target(spec)
    target.lustre.update(first_ost=1, oss=["oss1", "oss2"])
    with pytest.raises(Failure, match=r"where nobody else writes: declare lustre.capacity_gib all"):
        free_space_layout.check(target)
    target.state_known = True
    target.osts.servers = at_servers("oss1", "oss2")["hosts"]["servers"]
    mntdev = "osd-ldiskfs.lustre-OST0001.mntdev"
    shutil.copy(site.bin / "lfs", site.bin / "dumpe2fs")
    site.answer(f"lctl get_param {mntdev}", f"{mntdev}=/dev/vdd\n")
    site.answer("dumpe2fs /dev/vdd", (Path(__file__).parent / "data/evidence/dumpe2fs.txt").read_text())
    ends: list[list[int]] = []
    layout = target.laid_space(Counting(keep=lambda *each: ends.extend(map(list, zip(*each, strict=True)))))
    assert layout.found["free_extents"]["count"] == len(ends) > 3 and ends == sorted(ends)
    site.answer(f"lctl get_param {mntdev}", "")
    with pytest.raises(Failure, match=r"none of the servers oss1, oss2 serves lustre-OST0001 with ldiskfs"):
        target.laid_space()


def test_servers_commit_and_count_what_is_left(spec: dict, site: Site) -> None:
    """Over one connection, which ends with the target."""
    claim.claim(spec, {}, False)
    assert servers.sync(open_target(spec).osts) is None, "there are none"
    target = open_target(spec)
    target.osts.servers = at_servers("mds1")["hosts"]["servers"]
    site.commits(to_destroy="2\n1\n")
    assert servers.sync(target.osts) == 3
    site.answer(DESTROYS)
    assert servers.sync(target.osts) is None, "an OSS does not know"
    site.answer(DESTROYS, stderr="Input/output error", rc=5)
    with pytest.raises(Failure, match=r"mds1: `lctl get_param .* ended with status 5: Input/output error"):
        servers.sync(target.osts)
    processes = [agent.process for agent in target.osts.agents]
    del target
    gc.collect()
    assert [process.poll() for process in processes] == [0]


@pytest.mark.parametrize("killed", first_of("later", "not", "at its first mark"))
def test_a_claim_whose_striping_is_refused_leaves_nothing_in_the_next_ones_way(
    killed: str, spec: dict, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`killed`: before it could take back what it had made."""
    place = Path(spec["directory"])
    text = recorded("lfs_getstripe_plain_dir_d.txt").splitlines()[0]
    site.answer(f"lfs getstripe -y -d {place}/measured", text.replace("stripe_count:  1", "stripe_count:  2"))
    with monkeypatch.context() as context, pytest.raises(Failure, match="requested 1 stripes of 1 MiB from OST -1 on"):
        if killed != "not":
            context.setattr("fsage.host.verbs.claim.give_back", lambda spec, check: None)
        claim.claim(spec, {}, False)
    assert (list(place.iterdir()) == []) == (killed == "not")
    if killed == "at its first mark":
        (place / "filler").rmdir()
        (place / "measured").rmdir()
        (place / ".fsage/claim.json").unlink()
    site.answer(f"lfs getstripe -y -d {place}/measured", text)
    claim.create(spec, {}, False)
    assert claim.claim(spec, {}, False)["changed"]
    claim.release(spec, {}, False)
    assert list(place.iterdir()) == []
