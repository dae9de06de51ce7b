"""A site before anything is changed: each thing that is wrong is found and said."""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import preloaded
import pytest
import yaml

from fsage.base import Refusal
from fsage.commands import Where
from fsage.host.verbs import checks, claim
from fsage.model.declaration import complete
from fsage.plan.target import Target, load_target
from fsage.site import page
from fsage.site.inspect import GROUPS, Host, Site, findings, groups_of, inspect, with_tuned_servers
from fsage.studies.prealloc.model import Interleave
from fsage.study import StudyError

ROOT = Path(__file__).resolve().parents[1]
TARGET = Target(complete({"name": "here", "kind": "directory", "directory": "/data/fsage"}))


def host(name: str, group: str = "clients", **more) -> Host:
    """A host that is as it should be, but for `more` of its answer."""
    answer = {
        **{"able": True, "missing": [], "root": True, "host": name, "kernel": "6.1.0", "memory_bytes": 64 << 30},
        **{"time": time.time(), "tools": {"fio": "3.33", "ior": None}, "places": [], "claim": None},
        **more,
    }
    return Host(name, (group,), answer, time.time(), time.time())


GOOD = Site([host("n1"), host("n2"), host("oss1", "servers")], ("clients", *GROUPS))


def test_the_terminal_shows_each_value_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    places = [{"directory": "/a/very/long/place", "free_gib": 9.5}]
    claimed = host("n1", places=places, claim={"created": "2026-11-22T13:48:17Z", "status": "claimed"})
    page.show(Site([claimed], ("clients",)), TARGET, [], [])
    said = capsys.readouterr().out
    assert "\u2026" not in said and "claimed)" in said and "Nothing stands in the way." in said


def lustre(**more) -> Target:
    """A target on the file system of the example of a site, which has the server oss1."""
    example = load_target(ROOT / "inventories" / "lustre").spec
    return Target(complete({**example, "lustre": {**example["lustre"], "oss": ["oss1"], **more}}))


def inventory(tmp_path, spec, **groups) -> Path:
    """The inventory of a target, with the hosts of each group."""
    place = tmp_path / "inventories" / spec["name"]
    (place / "group_vars/all").mkdir(parents=True)
    (place / "group_vars/all/target.yml").write_text(yaml.safe_dump({"fsage_target": spec}))
    children = {name: {"hosts": hosts} for name, hosts in groups.items()}
    (place / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": children}}))
    return place


OSS = host("oss1", "oss")


@pytest.mark.parametrize(
    ("hosts", "more", "said"),
    [
        ([host("n1"), OSS], {}, None),
        ([host("n1"), OSS], {"oss": ["oss9"]}, "lustre.oss names oss9, which is not in the inventory's"),
        ([host("n1")], {"oss": []}, None),  # a guest's: nothing is asked of servers
        (
            [host("n1", lustre="2.15.5"), host("n2", lustre="2.17.57"), OSS],
            {},
            "clients differ in version of Lustre: n1: 2.15.5; n2: 2.17.57",
        ),
    ],
)
def test_what_is_wrong_with_a_site_with_lustre_is_said(hosts, more, said):
    found = findings(Site(hosts, ("clients", *GROUPS, "oss")), lustre(**more), {})
    assert [said in each for each in found] == ([True] if said else [])


def test_two_targets_on_one_lustre_are_found_and_its_owner_is_told_what_goes():
    good = Site([host("n1"), OSS], ("clients", *GROUPS, "oss"))
    other = lustre(capacity_gib="all", tolerance_mib=0).having(name="other", directory="/mnt/elsewhere")
    third = lustre(fsname="home").having(name="t")
    [found] = findings(good, lustre(), {"other": other, "third": third})
    assert "target other of inventories/other is on the same file system as lustre (10.0.0.1@o2ib:/scratch)" in found
    guest = lustre().having(name="guest", directory="/mnt/elsewhere")
    assert findings(good, lustre(), {"guest": guest}) == [], "directories of guests do not disturb each other"
    within = guest.having(directory="/mnt/scratch/fsage/within")
    assert "shares a file tree" in findings(good, lustre(), {"guest": within})[0]
    [line] = page.destroyed(good, lustre())
    assert line.startswith(
        "files that fsage made in /mnt/scratch/fsage, which fill at most 1024 GiB, and 5% of what is free, of "
        "10.0.0.1@o2ib:/scratch;"
    )


def test_groups_of_groups_are_looked_into():
    """What `ansible-inventory --list` says of an inventory."""
    listed = {"all": {"children": ["ungrouped", "servers"]}, "servers": {"children": ["mds", "oss"]}}
    listed |= {"oss": {"hosts": ["oss02", "oss01"]}, "mds": {"hosts": ["mds01"]}}
    servers = ["mds01", "oss01", "oss02"]
    assert groups_of(listed) == {"servers": servers, "mds": servers[:1], "oss": servers[1:]}


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        (GOOD.hosts, None),
        ([host("oss1", "servers")], "group clients has no host: name at least one in the inventory's hosts.yml"),
        ([host("n1"), host("n2", missing=["fio: install the package fio"])], "n2 lacks fio: install the package fio"),
        ([host("n1"), host("oss1", "servers", root=False)], "oss1 (servers): neither root nor its helper: set"),
        ([host("n1", time=time.time() + 90)], f"the clock of n1 is 90 s ahead of {os.uname().nodename}'s"),
        ([host("n1", time=time.time() - 45)], f"the clock of n1 is 45 s behind {os.uname().nodename}'s"),
        # Seen on a busy one: 8 s went by between its answer and our having it.
        ([replace(host("n1", time=time.time() - 8), asked_at=time.time() - 20)], None),
        ([host("n1"), host("n2", kernel="6.12.0")], "clients differ in kernel: n1: 6.1.0; n2: 6.12.0"),
        (
            [host("n1"), host("n2", images={"/i/fio.sif": "ab"})],
            "clients differ in container images: n1: None; n2: {'/i",
        ),
        ([host("n1"), host("n2", memory_bytes=32 << 30)], "clients differ in memory, GiB: n2: 32; n1: 64"),
        (
            [host("n1"), replace(host("oss1", "servers"), answer=None, why="No route to host")],
            "oss1 (servers) gave no answer: No route",
        ),
        # Ansible, from here, reaches it all the same.
        (
            [host("n1", unreached={"oss1": "Permission denied (publickey)"}), host("oss1", "servers")],
            "n1 launches, and does not reach oss1 as `ssh oss1` does: Permission denied",
        ),
    ],
)
def test_what_is_wrong_is_said(hosts, said):
    assert "no group launcher" in findings(Site(hosts, ("clients", "servers")), TARGET, {})[0]
    found = findings(Site(hosts, ("clients", *GROUPS)), TARGET, {})
    assert [said in each for each in found] == ([True] if said else [])


def tuned(*words):
    """The plan of a study whose state is laid out by files that grow in such a way."""
    estimates = SimpleNamespace(steps=lambda state: [Interleave(1, 4, 1 << 20, *words)])
    return SimpleNamespace(study=SimpleNamespace(name="prealloc"), states=["1M.clean"], estimates=estimates)


def test_root_on_servers_is_missed_by_a_study_that_tunes_them():
    plans = [tuned("together")]
    assert with_tuned_servers(plans) == ["prealloc"] and with_tuned_servers([tuned()]) == []
    server = replace(host("oss1", "servers"), why_no_become="Missing sudo password")
    [found] = findings(replace(GOOD, hosts=[host("n1"), server]), TARGET, {}, plans)
    assert found.startswith("oss1 (servers): states of prealloc need tune_prealloc.yml") and "sudo password" in found


def test_what_reports_need_here_is_missed():
    with_images = TARGET.having(containers="/no/images")
    assert "this machine lacks /no/images/analysis.sif: build it with" in findings(GOOD, with_images, {})[-1]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            TARGET.having(name="there"),
            "target there of .*other shares a file tree with here .* or remove inventories/other if",
        ),
        (TARGET.having(name="in", directory="/data/fsage/in"), "shares a file tree"),
        (TARGET.having(directory="/elsewhere"), "has a target of the same name, here"),
    ],
)
def test_two_targets_on_one_file_system_are_found(other, said):
    [found] = findings(GOOD, TARGET, {"other": other})
    assert re.search(said, found)
    assert findings(GOOD, TARGET, {"apart": TARGET.having(name="a", directory="/data/fsage2")}) == []


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("ssh"), reason="needs ssh: .ci/testbed installs it")
def test_real_hosts_are_asked_and_one_that_does_not_answer_is_told_apart(tmp_path):
    spec = {"name": "mine", "kind": "directory", "directory": str(tmp_path / "t"), "home": str(tmp_path / "home")}
    this_host = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    gone = {"ansible_host": "127.0.0.1", "ansible_port": 1}
    shut = {**this_host, "ansible_become_exe": "/no/sudo", "ansible_become_user": "daemon"}
    site = inspect(inventory(tmp_path, spec, clients={"me": this_host}, servers={"gone": gone, "shut": shut}), True)
    [me] = site.in_group("clients")
    assert me.answer and me.answer["root"] == (os.geteuid() == 0) and me.answer["claim"] is None and me.why is None
    lost, closed = site.in_group("servers")
    assert closed.answer and "/no/sudo" in str(closed.why_no_become) and me.why_no_become is None
    assert lost.answer is None and "refused" in str(lost.why)
    [found] = [each for each in findings(site, Target(complete(spec)), {}) if "gave no answer" in each]
    assert found.startswith("gone (servers) gave no answer: ")
    assert not (tmp_path / "t").exists() and not (tmp_path / "home").exists(), "nothing was changed"
    page.write(site, Target(complete(spec)), [], [found], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "<li>gone (servers) gave no answer: " in text and "<td>gone</td>" in text


def test_what_is_broken_beside_a_target_is_said_and_blocks_nothing(tmp_path, capfd):
    for folder, text in (
        ("mine", "fsage_target: {name: mine, kind: directory}"),
        ("good", "fsage_target: {name: good, kind: directory}"),
        ("tabs", "fsage_target:\n\tname: tabs"),
        ("odd", "fsage_target: {name: other, kind: directory}"),
    ):
        place = tmp_path / "inventories" / folder / "group_vars/all/target.yml"
        place.parent.mkdir(parents=True)
        place.write_text(text)
    studies = tmp_path / "config"
    studies.mkdir()
    where = Where("mine", tmp_path / "inventories", tmp_path / "results", studies)
    assert list(where.other_targets()) == ["good"]
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2 and said[0].startswith("fsage: ") and "odd is left out" in said[0] and "tabs" in said[1]
    with pytest.raises(StudyError, match="name is 'other', and a target has the name of its inventory's folder"):
        replace(where, target_name="odd").target()
    (studies / "broken.yaml").write_text("states: [")
    shutil.copy(ROOT / "config/quickstart.yaml", studies)
    assert [plan.study.name for plan in where.plans([])] == ["quickstart"]
    with pytest.raises(StudyError):
        where.plans(["broken"])


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({}, None),
        ({"budget_gib": 0.1, "scale": {"tasks": 2}}, "does not hold 64 MiB for each of 2 tasks"),
        ({"directory": "full"}, "full: not empty, and not claimed by target mine"),
        ({"directory": "foreign"}, "uid 65534"),
        ({"directory": "marked"}, "--take-over abc"),
        ({"directory": "file"}, "file: not a directory"),
    ],
)
def test_a_site_is_refused_what_its_claim_is_refused_and_by_the_same_words(tmp_path, declared, said):
    for name in ("full", "foreign", "marked/.fsage"):
        (tmp_path / name).mkdir(parents=True, mode=0o700)
    (tmp_path / "full/precious").touch()
    (tmp_path / "file").touch()
    (tmp_path / "marked/.fsage/claim.json").write_text('{"target": "mine", "id": "abc", "store": 0}')
    (tmp_path / "marked/.fsage/claim.json").chmod(0o600)
    if os.geteuid() == 0:
        os.chown(tmp_path / "foreign", 65534, 65534)
    elif declared == {"directory": "foreign"}:
        pytest.skip("root gives folders to others")
    place = str(tmp_path / declared.get("directory", "new"))
    spec = {"name": "mine", "kind": "directory", "home": str(tmp_path / "home"), **declared, "directory": place}
    before = sorted(tmp_path.rglob("*"))
    probed = checks.check_site(spec, {"launches": True}, False)["probe"]
    assert sorted(tmp_path.rglob("*")) == before
    found = findings(Site([host("me", **probed)], ("clients", *GROUPS)), Target(complete(spec)), {})
    assert [said in each for each in found] == ([True] if said else [])
    if said:
        with pytest.raises(Refusal) as claimed:
            claim.create(spec, {}, False)
        assert str(claimed.value) in found[0]


def test_the_command_fails_where_something_stands_in_the_way(tmp_path):
    place = inventory(tmp_path, {"name": "bare", "kind": "directory", "directory": "/var/tmp/none"}, clients={})
    ran = preloaded.call("fsage", "--inventories", place.parent, "--target", "bare", "site", "quickstart")
    assert ran.returncode == 1 and "Fix first: group clients has no host" in ran.stdout.replace("\n", " ")
