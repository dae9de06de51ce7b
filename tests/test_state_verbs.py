"""The verbs that bring a target into a state, on a plain directory: what each answers, changes and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_targets import Spec, claimed
from states import MIB, asked, bring, fragment, populate

from fsage.base import Failure, Refusal
from fsage.host import states
from fsage.host.states import inspection
from fsage.host.states.inspection import digest, fingerprint
from fsage.host.structure import fillers
from fsage.host.targets import claims
from fsage.host.targets.opening import open_target
from fsage.model.claim import BUILDING, MEASURING, READY, Token
from fsage.model.structure import Shard

SMALL = populate(1, sizes=(MIB,))
FILES = 10  # that 1% of the directory's 1 GiB holds
HOLED = fragment(50)


@pytest.fixture
def ready(directory_target: Spec) -> Spec:
    """A target with `SMALL` on it."""
    claimed(directory_target)
    bring(directory_target, SMALL)
    return directory_target


TODO = asked(SMALL, HOLED)


def now(spec: Spec) -> Token:
    found = claims.read_token(open_target(spec).mounts[0])
    assert found
    return found


def test_a_new_directory_is_emptied_first_and_asking_alone_does_nothing(directory_target):
    mount = claimed(directory_target).mounts[0]
    before = claims.read_token(mount)
    would = states.scrub(directory_target, asked(SMALL, reuse="fresh"), True)
    assert would["changed"] and would["msg"].startswith("would empty target")
    assert claims.read_token(mount) == before
    states.empty(open_target(directory_target), "for this test")
    emptied = now(directory_target)
    assert (emptied.state, emptied.done, emptied.files, emptied.bytes) == ("empty", (), 0, 0)
    assert emptied.emptied_because == "for this test" and emptied.status == READY
    bring(directory_target, SMALL)
    made = now(directory_target)
    assert made.instance == emptied.instance and made.epoch == emptied.epoch + 2 > 2
    states.empty(open_target(directory_target), "again")
    assert now(directory_target).epoch > made.epoch and now(directory_target).instance != made.instance


def test_a_state_of_more_steps_than_a_token_holds_is_said(ready):
    before = now(ready)
    with pytest.raises(Failure, match="bytes, and 16384 fit"):
        claims.token_changed(open_target(ready).mounts[0], before, done=(SMALL,) + 300 * (HOLED,))
    assert now(ready) == before


def test_what_is_there_is_not_emptied(ready):
    before = now(ready)
    for request in (asked(SMALL), asked(SMALL, reuse="fresh"), TODO):
        answer = states.scrub(ready, request, False)
        assert (answer["changed"], answer["msg"]) == (
            False,
            f"target {ready['name']} is at 'wanted'; {len(request['steps']) - 1} steps to do",
        )
    assert now(ready) == before


@pytest.mark.parametrize("request_", [asked(SMALL, HOLED, reuse="fresh"), asked(HOLED)], ids=["fresh", "elsewhere"])
def test_what_cannot_be_reached_is_emptied_and_the_reason_is_kept(ready, request_):
    before = now(ready)
    assert states.scrub(ready, request_, True)["changed"] and now(ready) == before, "only asked"
    answer = states.scrub(ready, request_, False)
    assert answer["changed"] and answer["why"] == "'wanted' cannot be reached from 'wanted'"
    assert now(ready).emptied_because == answer["why"] and now(ready).files == 0


def test_a_step_is_begun_once_and_only_when_it_is_next(ready):
    before = now(ready)
    assert states.begin("populate", ready, asked(SMALL), False) is None
    assert states.begin("populate", ready, TODO, False) is None, "a fragment comes next"
    assert states.begin("fragment", ready, TODO, True) == HOLED
    with pytest.raises(Refusal, match="only an empty target leads to state 'wanted'"):
        states.begin("fragment", ready, asked(HOLED), False)
    assert now(ready) == before, "only asked"
    assert states.begin(None, ready, TODO, False) == HOLED
    assert (now(ready).status, now(ready).step, now(ready).clients) == (BUILDING, HOLED, 1)
    with pytest.raises(Refusal, match=r"'fragmnt' is no kind of step: there are .*, fragment, "):
        states.apply_step(ready, asked(SMALL, step_kind="fragmnt"), False)
    with pytest.raises(Refusal, match=r"was interrupted at epoch \d+; run scrub.yml"):
        states.begin("fragment", ready, TODO, False)


def test_a_step_from_a_state_that_was_changed_is_refused(ready):
    Path(next(fillers(open_target(ready).mounts[0])).path).unlink()
    with pytest.raises(Refusal, match=r"cannot fragment target .*: the target was changed since epoch \d+: 9 files"):
        states.begin("fragment", ready, TODO, False)
    assert states.diagnose(ready, TODO, False)["todo"] == ["scrub", "populate", "fragment"]


def test_a_shard_without_files_changed_nothing(ready):
    states.begin("fragment", ready, TODO, False)
    answers = [states.work(ready, TODO, HOLED, Shard(index, 40)) for index in range(40)]
    deleted = sum(answer.files for answer in answers)
    assert 0 < deleted < FILES and min(answer.files for answer in answers) == 0
    ended = states.end(ready, TODO, HOLED)
    assert ended["token"]["files"] == FILES - deleted and ended["token"]["state"] == "wanted"


def test_work_that_was_not_announced_is_refused(ready):
    before = now(ready)
    with pytest.raises(Refusal, match=r"does not expect this fragment step; run fragment\.yml again"):
        states.work(ready, TODO, HOLED)
    with pytest.raises(Refusal, match="does not expect the end of this fragment step"):
        states.end(ready, TODO, HOLED)
    assert now(ready) == before
    states.begin("fragment", ready, TODO, False)
    with pytest.raises(Refusal, match="does not expect this fragment step"):
        states.work(ready, TODO, fragment(51))


def test_a_state_on_the_way_is_called_so_and_its_evidence_is_refused(ready):
    states.empty(open_target(ready), "again")
    states.begin("populate", ready, TODO, False)
    states.work(ready, TODO, SMALL)
    assert states.end(ready, TODO, SMALL)["token"]["state"] == "on the way to wanted"
    with pytest.raises(Refusal, match="is not in state 'wanted': on the way to wanted"):
        states.evidence(ready, TODO, False)


@pytest.mark.parametrize(
    ("clients", "request_"),
    [(2, TODO), (1, TODO), (2, asked(SMALL, HOLED, reuse="fresh")), (2, asked(SMALL, fragment(60))), (2, asked(SMALL))],
    ids=["several clients", "one client", "fresh", "another step", "no step"],
)
def test_what_several_clients_had_begun_goes_on_and_else_it_is_begun_again(ready, clients, request_):
    begun = claims.token_changed(open_target(ready).mounts[0], now(ready), status=BUILDING, step=HOLED, clients=clients)
    answer = states.scrub(ready, request_, False)
    if clients == 1 or request_ is not TODO:
        assert answer["changed"] and answer["why"] == f"building its state was interrupted at epoch {begun.epoch}"
        return
    assert (answer["changed"], answer["msg"]) == (False, f"target {ready['name']}: fragment resumes")
    assert states.begin("populate", ready, TODO, True) is None
    assert states.begin("fragment", ready, TODO, True) == HOLED
    assert now(ready) == begun


def test_a_torn_token_counts_as_none(ready):
    mount = open_target(ready).mounts[0]
    path = claims.token_path(mount)
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + b"X" + whole[41:])
    assert claims.read_token(mount) is None
    with pytest.raises(Refusal, match=r"no readable state token; run scrub\.yml"):
        states.begin("fragment", ready, TODO, False)


def test_a_token_of_another_claim_is_not_believed(ready):
    mount = open_target(ready).mounts[0]
    claims.token_changed(mount, now(ready), claim="another")
    assert inspection.inspect(open_target(ready)) == (None, "the token belongs to another claim (another)")
    assert states.diagnose(ready, asked(SMALL), False)["todo"] == ["scrub", "populate"]


def test_what_a_killed_cell_left_is_removed_and_the_state_is_ready_again(ready):
    target = open_target(ready)
    claims.token_changed(target.mounts[0], now(ready), status=MEASURING, cell="a")
    left = target.mounts[0] / "measured/left"
    left.write_bytes(b"x" * MIB)
    found, why = inspection.inspect(open_target(ready))
    assert found and (found.status, why) == (READY, None) and not left.exists()
    assert now(ready) == found


def test_each_file_is_in_the_fingerprint_the_digest_and_the_layout(ready):
    """A directory counts its files' blocks, and not its file system's."""
    target = open_target(ready)
    found = now(ready)
    whole = fingerprint(target)
    lie = digest(target.mounts)
    assert (whole["files"], whole["bytes"]) == (FILES, FILES * MIB) and "osts" not in whole
    assert "error" in lie or lie["extents"] >= FILES, "not every file system has FIEMAP"
    layout = inspection.layout_record(target, found)
    assert layout["used_bytes"] == found.held_bytes >= found.bytes == FILES * MIB
    assert layout["used_bytes"] + layout["free_bytes"] == target.capacity_bytes
    assert (layout["filler_files"], layout["state_known"]) == (FILES, False)
