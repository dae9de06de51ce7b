"""The DAG's counts, dry: what Snakemake would do for the studies as they are shipped."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import preloaded
import pytest

from fsage.plan.pool import Pool
from fsage.recipes import expand
from fsage.run import invocation, runs
from fsage.study import StudyError
from fsage.study.files import load_study

ROOT = Path(__file__).resolve().parents[1]


STUDIES = sorted((path.stem for path in (ROOT / "config").glob("*.yaml")), key=len, reverse=True)


def snakemake(*words: str) -> subprocess.CompletedProcess[str]:
    """Snakemake as it is, without ./run."""
    return preloaded.call("snakemake", *words)


def dry_run(tmp_path: Path, *words: str, options: tuple[str, ...] = (), **settings: object) -> tuple[str, Counter]:
    """Plan lines, and jobs by the step of their rule, or its first word where it is of no study."""
    given = {"results": tmp_path / "results", "target": "local", **settings}
    config = [f"{key}={value}" for key, value in given.items()]
    ran = snakemake("-n", "--verbose", *options, "--config", *config, "--", *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    table = (ran.stdout + ran.stderr).partition("Job stats:")[2].partition("\n\n")[0]
    jobs: Counter = Counter()
    for name, count in re.findall(r"^(\S+) +(\d+)$", table, re.MULTILINE):
        of_study = re.match(rf"(\w+?)_({'|'.join(STUDIES)})_", name)
        jobs[of_study[1] if of_study else name.partition("_")[0]] += int(count)
    return ran.stdout, jobs


@pytest.fixture
def laid_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Pool]]:
    """What a call of Snakemake lays out for words and settings: its pools, by study."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(invocation, "NOTES", tmp_path / "notes")

    def begun(*words: str, **settings: object) -> dict[str, Pool]:
        given = {"results": str(tmp_path / "results"), "target": "local", **settings}
        without = {key: value for key, value in os.environ.items() if not key.startswith("FSAGE_")}
        with mock.patch.dict(os.environ, without, clear=True):
            config = {key: value for key, value in given.items() if value is not None}
            return invocation.begin(config, words).pools

    return begun


def test_counts(tmp_path):
    said, jobs = dry_run(tmp_path, "series1")
    assert "plan series1: 2,240 cells, 288 states, 48 populates, 579 diagnostic cells, 2,819 cells to measure, " in said
    assert said.count("plan ") == 1, "only of the study that was asked for"
    assert jobs["populate"] == 8 and jobs["fragment"] == 56 * 5
    assert jobs["report"] == jobs["series1"] == jobs["claim"] == 1
    assert not (tmp_path / "results").exists(), "a dry run writes nothing"


@pytest.mark.long
def test_two_studies_at_once_are_both_planned(tmp_path):
    said, jobs = dry_run(tmp_path, "series2", "quickstart")
    assert "plan series2: 70 cells, 7 states, 1 populate, 30 diagnostic cells, 100 cells to measure, " in said
    assert "plan quickstart: 20 cells, 4 states, 3 populates, 1 diagnostic cell, 21 cells to measure, " in said
    assert set(re.findall(r"^plan (\w+):", said, re.MULTILINE)) == {"series2", "quickstart"}
    assert jobs["populate"] == 3
    assert jobs["report"] == 2 and jobs["series2"] == jobs["quickstart"] == jobs["claim"] == jobs["count"] == 1


def test_a_part_of_a_study_by_a_file_of_it_in_jobs_of_several_states(tmp_path):
    page = tmp_path / "results/report/local/series1/index.html"
    part = "{capacity: 80, fragmentation: [0, 30, 70]}"
    said, jobs = dry_run(tmp_path, str(page), only=part, batch_states=2)
    assert "plan series1: 105 cells, 11 states, 6 populates" in said
    assert jobs == {"claim": 1, "visit": 6, "report": 1, "total": 8}


def test_a_job_visits_several_states(laid_out):
    [plan] = laid_out("series2")["series2"].plans
    jobs = runs.planned_jobs(plan, 3, adaptive=False)
    assert [len(job.states) for job in jobs] == [3, 3, 1]
    assert [name for job in jobs for name in job.states] == list(plan.missing)
    assert {len(job.states) for job in runs.planned_jobs(plan, None, adaptive=False)} == {1}
    [in_guests] = laid_out("series2", target="virtual")["series2"].plans
    assert [len(job.states) for job in runs.planned_jobs(in_guests, None, adaptive=False)] == [2, 2, 2, 1]


def inventories(tmp_path: Path, *names: str) -> Path:
    """The local target under other names, each on a host of its own."""
    for name in names:
        folder = shutil.copytree(ROOT / "inventories/local", tmp_path / "inventories" / name)
        declared = folder / "group_vars/all/target.yml"
        declared.write_text(declared.read_text().replace("name: local", f"name: {name}"))
        hosts = folder / "hosts.yml"
        of_its_own = hosts.read_text().replace("localhost:", f"{name}.site:")
        hosts.write_text(of_its_own.replace("connection: local", "connection: ssh"))
    return tmp_path / "inventories"


@pytest.mark.long
def test_several_targets_share_a_study_and_its_budget(tmp_path, laid_out):
    """80.00, 10.00 and the layouts of 80.50 are measured on each; who measures what: tests/test_several_targets.py."""
    folder = inventories(tmp_path, "a", "b", "c")
    part = {"only": "{capacity: [10, 40, 80], fragmentation: [0, 50]}", "inventories": folder}
    said, jobs = dry_run(tmp_path, "series1", target="a,b,c", **part)
    assert "together series1: 3 targets, which share the states; " in said
    assert "note series1: 3 targets, and at most 2 jobs at once: --cores 3 allows all" in said
    assert jobs["claim"] == 3 and jobs["populate"] + jobs["fragment"] == 18 + 2 * 8
    assert jobs["report"] == jobs["series1"] == 1
    said, jobs = dry_run(tmp_path, "series1", target="a,b", budget="45m", **part)
    assert "budget series1 on a: about " in said and "budget series1 on b: about " in said and jobs["adaptive"] == 2
    with pytest.raises(StudyError, match="a budget needs one target, or targets that share the states"):
        laid_out("quickstart", target="a,b", inventories=str(folder), budget="45m")


@pytest.mark.parametrize(
    ("goals", "why"),
    [
        ([], "no study is named, so there is nothing to do: ./run snakemake STUDY; there are: allocator, "),
        (["quikstart"], "there is no study 'quikstart'; did you mean 'quickstart'? there are: allocator, "),
        (["quickstart2"], "there is no study 'quickstart2'; did you mean 'quickstart'? there are: allocator, "),
        (["config/quickstart.yaml"], "a study is named without folder and ending: write quickstart"),
        (["quickstart/"], "write quickstart"),
        (["claim_local", "quickstart", "results/report/local/quickstart/index.html"], None),
    ],
)
def test_what_is_to_be_made_is_named_so_that_snakemake_finds_it(goals, why):
    with pytest.raises(StudyError, match=re.escape(why)) if why else contextlib.nullcontext():
        invocation.check_goals(goals, sorted(STUDIES))
        invocation.check_goals(goals, sorted(STUDIES), ["claim_local", "report_quickstart"])


@pytest.mark.parametrize("option", ["-R", "--until", "--omit-from"])
def test_an_option_that_takes_the_study_is_the_reason_why_none_is_named(option):
    words = [option, "report_quickstart", "quickstart"]
    said = "an option takes quickstart as its own: put -- before the study"
    with mock.patch.dict(os.environ), pytest.raises(StudyError, match=said):
        invocation.begin({}, words, invocation.goals(words))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["batch_states=0", "--", "quickstart"], "batch_states is 0; a job visits 1 state or more"),
        (["target=local", "--", "quickstart2"], "there is no study 'quickstart2'"),
    ],
)
def test_a_refusal_is_a_sentence_without_words_of_snakemake(tmp_path, words, said):
    ran = snakemake("-n", "--config", f"results={tmp_path}", *words)
    shown = ran.stdout + ran.stderr
    assert ran.returncode == 1 and said in shown
    assert shown.count("fsage: ") == 1 and "Exception" not in shown and "Traceback" not in shown


@pytest.mark.long
def test_images_that_are_not_there_and_a_switch_without_images_are_refused(tmp_path):
    declared = inventories(tmp_path, "local") / "local/group_vars/all/target.yml"
    declared.write_text(declared.read_text().replace("containers: null", "containers: /no/images"))
    why = r"lacks .*/analysis\.sif: build it with `apptainer build .* nothing was touched"
    with pytest.raises(AssertionError, match=why):
        dry_run(tmp_path, "quickstart", inventories=tmp_path / "inventories")
    why = r"/local declares no folder of images: set fsage_target\.containers there"
    with pytest.raises(AssertionError, match=why):
        dry_run(tmp_path, "quickstart", options=("--sdm", "apptainer"))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"taget": "seek"}, "--config taget=…: unknown key; did you mean 'target'?"),
        ({"only": "{capacty: 80}"}, "quickstart: only: capacty: unknown key; did you mean 'capacity'"),
        ({"only": {"capacity:80": None}}, "only: capacity:80: a blank is missing behind the colon: write capacity: 80"),
        ({"precision": 3}, "precision: '3' has no unit: write precision=3%"),
        (
            {"target": "inventories/local"},
            "is a path, and a target is named as its folder in inventories/ is: write local",
        ),
        ({"target": ""}, "--config target= has no value: write it as target=local"),
        ({"target": "locl"}, "No such file or directory; did you mean 'local'? there are: bare, "),
    ],
)
def test_a_setting_that_cannot_be_is_refused(laid_out, settings, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        laid_out("quickstart", **settings)


def test_a_dry_run_says_the_plan_and_its_states_in_order_and_nothing_else(tmp_path):
    ran = snakemake("-n", "quickstart", "--config", "target=local", f"results={tmp_path}")
    plan, *states = ran.stdout.splitlines()
    assert plan.startswith("plan quickstart: 20 cells, 4 states, ")
    states = [line for line in states if not line.startswith("note quickstart: ")]
    planned = load_study(ROOT / "config/quickstart.yaml")
    assert [line.split(":")[0].strip() for line in states] == [state.name for state in expand(planned)]
    assert all(re.fullmatch(r"  \S+: [56] cells, about \d+ s", line) for line in states), states
    assert ran.stderr.startswith("Using workflow specific profile") and ran.stderr.count("\n") == 1
