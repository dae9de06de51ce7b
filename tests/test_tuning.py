"""What `tuning:` may name: known tunables with plain values, below their subsystem's directory, and put back."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_targets import claimed

from fsage.base import Refusal
from fsage.host.device import loops
from fsage.host.verbs import checks, claim, tune
from fsage.model import tuning
from fsage.model.tuning import OF_QUEUE
from fsage.study import StudyError
from fsage.study.files import load_study

CONFIG = Path(__file__).parents[1] / "config"
PATHS = ("../../../etc/hostname", "../uevent", "iosched/low_latency", "/etc/hostname", "read_ahead_kb/../nomerges")
VALUES: tuple[Any, ...] = (None, True, 1.5, float("nan"), [1], {}, "", "a\nb", "{{ 1 }}", "x" * 33, 2**64)


def load_with(place: Path, **wanted: Any) -> dict[str, Any]:
    """The tuning of the quickstart, once read with it."""
    study = yaml.safe_load((CONFIG / "quickstart.yaml").read_text())
    path = place / "quickstart.yaml"
    path.write_text(yaml.safe_dump({**study, "tuning": wanted}))
    return load_study(path).tuning


def test_a_study_names_known_tunables_only(tmp_path):
    wanted = {"read_ahead_kb": 128, "scheduler": "mq-deadline", "max_rpcs_in_flight": 256}
    assert load_with(tmp_path, **wanted) == wanted
    for names in tuning.KNOWN.values():  # as the agent knows them
        assert set(load_with(tmp_path, **dict.fromkeys(names, 1))) == set(names)
    with pytest.raises(StudyError, match=r"tuning\.read_ahead_bk: .* did you mean 'read_ahead_kb'\? .*nr_requests"):
        load_with(tmp_path, read_ahead_bk=128)
    for name in PATHS:
        with pytest.raises(StudyError, match="is no tunable that is known"):
            load_with(tmp_path, **{name: "x"})
    for value in VALUES:
        with pytest.raises(StudyError, match=r"tuning\.nr_requests: .* is wanted"):
            load_with(tmp_path, nr_requests=value)


@pytest.mark.skipif(not Path("/sys/block/loop0").exists(), reason="this kernel has no loop device to look at")
def test_all_that_a_block_queue_offers_for_writing_is_known():
    writable = set()
    for knob in Path("/sys/block").glob("loop*/queue/*"):
        with contextlib.suppress(FileNotFoundError):  # other tests remove devices
            if knob.is_file() and knob.stat().st_mode & 0o200:
                writable.add(knob.name)
    assert writable and writable <= set(OF_QUEUE)


def test_a_knob_lies_inside_its_queue(tmp_path):
    (tmp_path / "queue").mkdir()
    (tmp_path / "elsewhere").write_text("0")
    (tmp_path / "queue/nomerges").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refusal, match="nomerges is no tunable of a block queue; nothing was touched"):
        loops.tune([tmp_path / "queue"], "nomerges", 2, None, False)
    assert (tmp_path / "elsewhere").read_text() == "0"


@pytest.mark.root
def test_the_agent_sets_no_other_file_and_the_next_study_has_no_tunables_of_the_last_one(
    local_target, tmp_path, monkeypatch
):
    """Each is noted before it is set; what is not as a study says is told; all goes with the device."""
    target = claimed(local_target)
    victim = tmp_path / "victim"
    victim.write_text("keep\n")
    (queues,) = target.queues()
    knob = queues / "nomerges"
    before = knob.read_text()
    note = Path(local_target["home"]) / local_target["name"] / "tunables.json"

    def set_to(tuning: dict[str, Any], check: bool = False) -> dict[str, Any]:
        return tune.tune(local_target, checks.checked({"tuning": tuning}, None), check)

    for name in (*PATHS, os.path.relpath(victim, queues.resolve())):
        with pytest.raises(Refusal, match=r"is no tunable that is known;.*; nothing was touched"):
            set_to({name: "overwritten"})
    for value in VALUES:
        with pytest.raises(Refusal, match=r"tuning\.nomerges is .*; nothing was touched"):
            set_to({"nomerges": value})
    assert victim.read_text() == "keep\n" and not note.exists()

    set_knob = loops.set_knob
    seen = []

    def looking(knob: Path, value: object) -> None:
        seen.append(json.loads(note.read_text())["nomerges"]["before"])
        set_knob(knob, value)

    monkeypatch.setattr(loops, "set_knob", looking)
    set_to({"nomerges": 2, "max_rpcs_in_flight": 8})
    assert knob.read_text() == "2\n" and seen == [[before.strip()]]
    assert json.loads(note.read_text()) == {
        "max_rpcs_in_flight": {"asked": 8, "unsupported": "no block queue of the target has it"},
        "nomerges": {"asked": 2, "before": [before.strip()], "now": ["2"]},
    }
    assert target.astray({"nomerges": 2}) == []
    assert "queue is 2, and the study does not name it" in target.astray({})[0]
    assert "queue is 2, and the study names 1" in target.astray({"nomerges": 1})[0]
    said = [f"{knob}: 2 -> {before.strip()}"]
    assert tune.restore(local_target, {}, True)["proof"] == said and knob.read_text() == "2\n"
    for put_back in (
        lambda: tune.restore(local_target, {}, False),
        lambda: tune.untune(local_target, {}, False),
        lambda: set_to({}),
    ):
        set_to({"nomerges": 2})
        assert put_back()["proof"] == said
        assert knob.read_text() == before and not note.exists()
        assert not put_back()["changed"]
    set_to({"nomerges": 2})
    claim.release(local_target, {}, False)
    if knob.exists():  # made again, as new
        assert knob.read_text() == before != "2\n"
