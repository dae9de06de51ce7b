"""Targets that are a plain directory, which need no root: create, claim, open, empty, release; and the refusals."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from local_targets import claimed
from session import agent_at_work, wait_until
from states import asked, populate
from test_places import NOBODY, agent

from fsage.base import GIB, MIB, Failure, Refusal
from fsage.host import claiming, states
from fsage.host.__main__ import hold
from fsage.host.system import space
from fsage.host.targets.opening import open_target
from fsage.host.verbs import checks, claim
from fsage.model.declaration import complete
from fsage.run.runs import identity
from fsage.workloads import sequential

Spec = dict[str, Any]


def test_life_of_a_directory(directory_target):
    place = Path(directory_target["directory"])
    with pytest.raises(Refusal, match="does not exist; create the target first"):
        claim.claim(directory_target, {}, False)
    assert claim.create(directory_target, {}, False)["changed"]
    assert not claim.create(directory_target, {}, False)["changed"]
    ours = claim.claim(directory_target, {}, False)["claim"]
    assert not claim.claim(directory_target, {}, False)["changed"]
    assert not claim.create(directory_target, {}, False)["changed"]
    assert ours["capacity_bytes"] == min(GIB, int(0.1 * space.free_bytes(place))) or ours["capacity_bytes"] <= GIB
    assert ours["filesystem_state_known"] is False and ours["device_model"]["kind"] == "none"
    target = open_target(directory_target)
    assert target.front() == [] and target.model_in_place() is None
    (place / "filler/g0").mkdir(parents=True)
    (place / "filler/g0/0000000").write_text("x")
    (place / "users.txt").write_text("not ours")
    target.remount()
    assert (place / "filler").exists()
    target.format()
    assert not (place / "filler").exists() and (place / "users.txt").exists()
    open_target(directory_target)
    released = claim.release(directory_target, {}, False)
    assert "left what is not: users.txt" in released["proof"][0]
    assert [p.name for p in place.iterdir()] == ["users.txt"]
    assert claim.remove(directory_target, {}, False)["left"] == [str(place)]
    (place / "users.txt").unlink()
    assert claim.remove(directory_target, {}, False)["changed"] and not place.exists()


def test_what_somebody_put_among_the_directories_of_filler_is_another_state(directory_target):
    claimed(directory_target)
    request = asked()
    states.scrub(directory_target, request, False)
    filler = Path(directory_target["directory"]) / "filler"
    for put in (Path.touch, lambda path: path.symlink_to("nowhere"), lambda path: path.symlink_to("/etc")):
        filler.mkdir(exist_ok=True)
        put(filler / "notes")
        assert "the target was changed since epoch" in states.scrub(directory_target, request, False)["why"]
        assert not filler.exists() and Path("/etc/passwd").exists()


@pytest.mark.parametrize("there", ["", "project/ada/target"])
def test_release_leaves_each_directory_that_was_there(there, directory_target):
    top = Path(directory_target["directory"]).parent / "projects"
    spec = {**directory_target, "directory": str(top / "project/ada/target")}
    (top / there).mkdir(parents=True)
    before = sorted(top.rglob("*"))
    claim.create(spec, {}, False)
    claim.remove(spec, {}, False)
    assert sorted(top.rglob("*")) == before


def test_a_directory_that_is_not_ours_is_refused(directory_target, tmp_path):
    place = Path(directory_target["directory"])
    place.mkdir()
    (place / "precious").write_text("x")
    for verb in (claim.create, claim.claim):
        with pytest.raises(Refusal, match="not empty, and not claimed by target"):
            verb(directory_target, {}, False)
    assert (place / "precious").read_text() == "x" and len(list(place.iterdir())) == 1
    with pytest.raises(Refusal, match="which is memory"):
        claim.create({**directory_target, "directory": f"/dev/shm/fsage-{os.getpid()}"}, {}, False)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(Refusal, match="not a directory"):
        claim.create({**directory_target, "directory": str(tmp_path / "link")}, {}, False)


def test_a_directory_put_in_place_of_the_claimed_one_is_refused(directory_target):
    """It is known by its inode and its mark, because kernels number devices anew."""
    place = Path(directory_target["directory"])
    target = claimed(directory_target)
    target.claim["stores"][0]["directory_id"]["dev"] += 1
    target.save()
    (place / "filler").symlink_to("/tmp")
    with pytest.raises(Refusal, match="symbolic link"):
        open_target(directory_target).format()
    place.rename(place.with_name("aside"))
    with pytest.raises(Refusal, match="is missing"):
        open_target(directory_target)
    (place / "filler").mkdir(parents=True)
    with pytest.raises(Refusal, match="another directory"):
        open_target(directory_target)
    with pytest.raises(Refusal, match="another directory"):
        claim.claim(directory_target, {}, True)  # as `fsage site` calls it
    released = claim.release(directory_target, {}, False)
    assert "another directory" in released["proof"][0] and (place / "filler").exists()


@pytest.mark.long
@pytest.mark.parametrize("how", ["remove", "claim", "killed"])
def test_a_directory_whose_claim_went_with_its_container_is_taken_over_by_the_claims_id(directory_target, how):
    """The home of users is kept, with the directory in it, and what the host noted is not."""
    place, home = Path(directory_target["directory"]), Path(directory_target["home"])
    old = claimed(directory_target).claim["id"]
    shutil.rmtree(home)
    if how == "killed":
        (place / ".fsage/claim.json").rename(place / ".fsage/.claim.json.17")
        assert claim.create(directory_target, {}, False)["msg"].endswith("is in place")
        return
    (place / "filler").mkdir()
    for verb in (claim.create, claim.claim, claim.release, claim.remove):
        for request in ({}, {"take_over": "another"}):
            said = f"has the mark of target .*share the folder fsage_target.home.*claim .*{old}`.*release .*{old}`"
            with pytest.raises(Refusal, match=said):
                verb(directory_target, request, False)
    run = {"holder": identity("snakemake"), "claim": old}
    with pytest.raises(Refusal, match="has the mark of target"):
        hold(directory_target, run, False)  # so a run is refused once, and not state by state
    with pytest.raises(Refusal, match="names no run"):
        hold(directory_target, {"holder": None}, False)  # of `fsage request`
    assert (place / "filler").exists() and not home.exists()
    request = {"take_over": old}
    assert "would take over" in claim.claim(directory_target, request, True)["msg"] and not home.exists()
    if how == "remove":
        claim.remove(directory_target, request, False)
        assert not place.exists(), "fsage had made it"
        return
    claim.create(directory_target, request, False)
    assert claim.claim(directory_target, request, False)["claim"]["id"] != old
    with pytest.raises(Refusal, match="was claimed anew at"):
        hold(directory_target, run, False)
    assert not (place / "filler").exists()
    assert not claim.claim(directory_target, request, False)["changed"], "the same command again changes nothing"


def test_what_a_machine_holds_is_found_without_the_clone_that_claimed_it(directory_target):
    home = Path(directory_target["home"])
    assert checks.held([home, home / "none"], []) == []
    claimed(directory_target)
    (home / "written.json").write_text("{}")
    (found,) = checks.held([home], [])
    assert found.name == directory_target["name"] and directory_target["directory"] in found.what
    inventory = json.loads(Path(str(found.inventory)).read_text())["all"]
    assert inventory["vars"]["fsage_target"] == complete(directory_target)
    claim.release(inventory["vars"]["fsage_target"], {}, False)
    assert checks.held([home], []) == [] and not Path(directory_target["directory"]).exists()
    claimed(directory_target)
    shutil.rmtree(home)
    (lost,) = checks.held([home], [complete(directory_target)])
    assert lost.take_over and "whose note is lost" in lost.what
    (home / "odd").mkdir(parents=True)
    (home / "odd/claim.json").write_text("{")
    assert "whose note cannot be read" in checks.held([home], [])[0].what


VERSION = 'case "$*" in *--version*) echo fio-3.33; exit;; esac; '


@pytest.mark.parametrize(
    ("fio", "said"),
    [
        ("sleep 60", r"`.*/fio --version` did not end within 0.5 s. .*FSAGE_FIO=/path/to/fio. Nothing can be"),
        ("echo no; exit 3", r"`.*/fio --version` ended with status 3: no"),
        ("echo hello", r"names no version of fio, but prints 'hello'"),
        (f"{VERSION} sleep 60", r"/fio did not end within \d s and was stopped: `fio .* was to write \d+ MiB"),
        (f"{VERSION} kill -SEGV $$", r"/fio was ended by signal 11: `fio "),
    ],
)
def test_a_fio_that_hangs_or_crashes_at_the_claim_is_named(directory_target, tmp_path, monkeypatch, fio, said):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/fio").write_text(f"#!/bin/sh\n{fio}\n")
    (tmp_path / "bin/fio").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr("fsage.host.containers.VERSION_S", 0.5 if fio == "sleep 60" else 30)
    monkeypatch.setattr(claiming, "LEAST_S", 0.5 if "sleep" in fio else 30)
    monkeypatch.setattr(claiming, "SLOWEST_MIB_S", 1e6)
    claim.create(directory_target, {}, False)
    with pytest.raises((Refusal, Failure), match=said):
        claim.claim(directory_target, {}, False)
    claim.release(directory_target, {}, False)
    assert not Path(directory_target["directory"]).exists() and not Path(directory_target["home"]).exists()


@pytest.mark.root
def test_without_root(directory_target, tmp_path):
    """A user without rights gets the directory, and is told why not the rest."""
    home = Path(directory_target["home"]).parent
    home.chmod(0o755)
    os.chown(home, NOBODY, NOBODY)

    def asked(verb: str, spec: Spec) -> tuple[int, Any]:
        return agent(verb, spec, user=NOBODY, HOME=str(home))

    code, answer = asked("create", {"name": "local", "kind": "loop"})
    assert code == 1 and "run it as root" in answer["msg"] and "kind: directory" in answer["msg"]
    code, answer = asked("probe", {"name": "local", "kind": "loop"})
    assert code == 0 and not answer["probe"]["able"]
    assert any("root" in word for word in answer["probe"]["missing"])
    spec = {key: value for key, value in directory_target.items() if key != "home"}
    for verb in ("create", "claim", "release"):
        code, answer = asked(verb, spec)
        assert code == 0 and answer["changed"], answer
    assert not Path(directory_target["directory"]).exists()
    assert not (home / ".local/state/fsage").exists(), "the release takes all"


def test_any_amount_that_fits_can_be_declared(directory_target):
    """Then studies are for the transfer sizes that divide it; others are refused with what would do."""
    directory_target |= {"amount_mib": 96, "budget_gib": 1.5}
    ours = claimed(directory_target).claim
    assert (ours["amount_mib"], ours["passes"], ours["amount_source"]) == (96, 1, "declared")
    fits = {"transfer_size": MIB, "iteration": 1}
    assert f"--size={96 * MIB}" in sequential.commands(sequential.Params.model_validate(fits), ours)[0]["argv"]
    with pytest.raises(ValueError, match=f"does not divide the {96 * MIB} bytes .* declare another amount_mib"):
        sequential.commands(sequential.Params.model_validate({**fits, "transfer_size": 64 * MIB}), ours)


def test_the_amounts_of_all_clients_are_within_the_budget(directory_target):
    spec = complete({**directory_target, "amount_mib": None, "budget_gib": 2})
    assert claiming.room(spec, GIB, 1) == 128 and claiming.room(spec, GIB, 2) == 64
    with pytest.raises(Refusal, match="does not hold 64 MiB for each of 3 tasks"):
        claiming.room(spec, GIB, 3)
    with pytest.raises(Refusal, match=r"amount_mib is 600 for each of 2 tasks, and target .* has 1024 MiB"):
        claiming.room({**spec, "amount_mib": 600}, GIB, 2)


def test_hosts_that_share_a_directory_probe_it_at_the_same_time(directory_target, monkeypatch):
    """Each with a process of the same number, as the first processes of containers have."""
    place = space.existing(directory_target["directory"])
    opened, found = os.open, list[str | None]()

    def another_host_comes(path: Any, flags: int, *mode: int) -> int:
        monkeypatch.setattr(os, "open", opened)
        descriptor = opened(path, flags, *mode)
        found.append(space.why_no_direct_io(place))
        return descriptor

    monkeypatch.setattr(os, "open", another_host_comes)
    assert [space.why_no_direct_io(place), *found] == [None, None]
    for number, why in ((errno.EINVAL, "does not serve O_DIRECT: Inv"), (errno.ENOSPC, "takes no file: No space")):
        monkeypatch.setattr(os, "write", Mock(side_effect=OSError(number, os.strerror(number))))
        assert why in str(space.why_no_direct_io(place))
    assert not list(place.glob(".fsage-direct-*"))


def test_a_fill_by_several_threads_ends_as_soon_as_it_is_told_to(directory_target):
    """As when its run was killed: no thread goes on with its share."""
    claimed(directory_target)
    step = populate(30)
    request = asked(step)
    states.scrub(directory_target, request, False)
    slow = {**directory_target, "limits": {"operations_s": 4}}
    by_four = {**request, "steps": [step.to_json()], "threads": 4}
    with agent_at_work("apply_step", target=slow, request=by_four) as process:
        wait_until(lambda: list(Path(directory_target["directory"]).glob("filler/*/*")))
        process.terminate()
        assert process.wait(10) == 2
        assert "interrupted" in json.loads(process.stdout.read())["msg"]
