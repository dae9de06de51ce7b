"""The command line itself: its version, its help, what a shell completes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from fsage import __version__, commands, start
from fsage.cli import app
from fsage.commands import Where, jobs
from fsage.run import play

ROOT = Path(__file__).parents[1]
LIBRARIES = {
    *("ansible", "jinja2", "matplotlib", "numpy", "pandas", "pyarrow", "rocrate", "scipy", "seaborn", "sklearn"),
    *("prometheus_client", "snakemake", "threadpoolctl"),
}
"""Each takes a tenth of a second or more to import, or brings one that does."""
PANELS = {"Studies", "Targets", "Results", "Any file system", "(internal)"}


def test_the_version_is_said_and_is_what_citations_name() -> None:
    said = CliRunner().invoke(app, ["--version"])
    assert (said.exit_code, said.output) == (0, f"fsage {__version__}\n")
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__


def test_paths_are_found_from_where_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`./run` works in the project's root, also where a link to it is called elsewhere."""
    (tmp_path / "saved.txt").write_text((ROOT / "tests/data/evidence/e2freefrag.txt").read_text())
    monkeypatch.setattr(commands, "CALLED_FROM", tmp_path)
    run = CliRunner().invoke
    assert run(app, ["evidence", "saved.txt", "--html", "page.html"]).exit_code == 0
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    refused = (
        run(app, ["fragments", "absent"]),
        run(app, ["--studies", "absent", "plan"]),
        run(app, ["plan", "--results", "saved.txt"]),
        run(app, ["image", "saved.txt", "-o", "new.img", "--filesystem", "xfs"]),
    )
    for done in refused:
        assert str(tmp_path) in done.output + str(done.exception), done


COMMANDS = get_command(app).commands


def test_each_command_has_its_place_in_the_help() -> None:
    assert {command.rich_help_panel for command in COMMANDS.values()} == PANELS
    internal = {name for name, command in COMMANDS.items() if command.rich_help_panel == "(internal)"}
    jobs = (ROOT / "src/fsage/run/runs.py").read_text()
    assert {"visit", "adaptive"} <= internal
    assert all(f'("{name}", study' in jobs for name in ("visit", "adaptive"))
    assert not {"plan", "report", "advise", "site", "evidence", "remeasure"} & internal


@pytest.mark.parametrize(
    ("words", "number", "wanted"),
    [
        ("fsage plan quick", 2, "quickstart"),
        ("fsage --target se", 2, "seek"),
        ("fsage --target local request quickstart 80", 5, "80.50@264M"),
    ],
)
def test_a_shell_completes_names(words: str, number: int, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    asked = {"_FSAGE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    assert wanted in CliRunner().invoke(app, [], prog_name="fsage", env=asked).output.split()


def test_bash_completes_names_behind_run() -> None:
    script = "source envs/completion.bash; COMP_WORDS=(./run fsage plan quick); COMP_CWORD=3; _fsage_run"
    script += "; echo ${COMPREPLY[*]}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["quickstart"], done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_page_has_an_example_that_the_command_takes_and_exit_codes(name: str) -> None:
    root = get_command(app).make_context("fsage", ["--target", "bare", name])
    root.obj = Where("bare", Path("inventories"), Path("results"), Path("config"))
    command = root.command.commands[name]
    example, codes = command.epilog.split("\n\n")
    assert codes.startswith("Exit codes: 0 done; 1 ")
    called, *words = shlex.split(example.removeprefix("Example: ./run fsage "))
    assert called == name and command.make_context(name, list(words), parent=root)
    behind = [*words, "--target", "guest"] if name != "enter" else ["--target", "guest", *words]
    assert command.make_context(name, behind, parent=root).obj.target_name == "guest"


def test_a_help_page_ends_with_the_example_and_has_no_type_in_brackets() -> None:
    page = CliRunner().invoke(app, ["report", "-h"])
    assert page.exit_code == 0 and "Example: ./run fsage report" in page.output and "Exit codes: 0" in page.output
    assert not re.search("<[a-z]+>|[{]", page.output.replace("config/<study>", ""))


def test_options_of_all_commands_count_before_and_behind_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run = CliRunner().invoke
    before = run(app, ["--target", "truth", "plan", "truth"])
    after = run(app, ["--target", "small", "plan", "--target=truth", "truth"])
    assert (after.exit_code, after.output) == (0, before.output)
    wrong = run(app, ["plan", "truth", "--target", "thruth"])
    assert wrong.exit_code != 0 and "did you mean 'truth'" in str(wrong.exception)
    assert "'' is empty" not in str(wrong.exception)
    empty = run(app, ["plan", "truth", "--target", ""])
    assert empty.exit_code == 2 and "is empty" in empty.output
    assert "README.md is no folder" in str(run(app, ["plan", "truth", "--studies", "README.md"]).exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("quikstart", "No such command 'quikstart'. To measure study quickstart: ./run fsage run quickstart"),
        ("reprot", "No such command 'reprot'. Did you mean 'report'"),
        ("plan", "Missing argument 'STUDY'"),
        ("fragments ''", "A word of the command line is empty"),
    ],
)
def test_what_is_no_command_has_a_hint(words: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ran = CliRunner().invoke(app, shlex.split(words), env={"COLUMNS": "200"})
    assert ran.exit_code == 2 and said in " ".join(ran.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "--results elsewhere run series1 truth -n --target guest,bare --budget 45m --only '{capacity: 80}'",
            "snakemake --dry-run --config target=guest,bare results=elsewhere 'only={capacity: 80}' budget=45m"
            " -- series1 truth",
        ),
        (
            "run series1 --precision 3% --lost a --batch-states 4 --profile slurm --until 18:00",
            "snakemake --profile slurm --config until=18:00 precision=3% lost=a batch_states=4 -- series1",
        ),
        (
            "release --target truth --images",
            "ansible-playbook -i inventories/truth playbooks/release.yml playbooks/local_target.yml -e "
            """'{"fsage_local_target_state": "absent"}'""",
        ),
        (
            "release --take-over abc --target truth",
            """ansible-playbook -i inventories/truth playbooks/release.yml -e '{"fsage_take_over": "abc"}'""",
        ),
    ],
)
def test_a_command_prints_the_line_that_it_becomes(words: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    became: list[list[str]] = []
    for name in ("execv", "execvp"):
        monkeypatch.setattr(os, name, lambda file, words: became.append(list(words)))
    monkeypatch.setattr(play, "tell", became.append)
    ran = CliRunner().invoke(app, shlex.split(words))
    assert ran.exit_code == 0 and ran.output == f"fsage: ./run {line}\n"
    assert became[0][-len(shlex.split(line)) + 1 :] == shlex.split(line)[1:]


ANSIBLE = """
PLAY [Release the target] ******************************************************
localhost: no tunables to put back here

TASK [fsage.fsage.release : Remove everything of fsage from the target] ********
changed: [localhost]
client-01.site: released target local

PLAY [Restore the settings of a Lustre target's servers] ***********************
skipping: no hosts matched
"""
REFUSED = """[ERROR]: Task failed: Action failed: untune: /var/lib/fsage/local: Permission denied
Origin: /clone/roles/release/tasks/main.yml:2:3
fatal: [localhost]: FAILED! =>
    changed: true
    msg: 'untune: /var/lib/fsage/local: Permission denied'
    rc: 2
"""
RECAP = "localhost                  : ok=1    changed=0    unreachable=0    failed=1    skipped=0\n"


def test_of_a_release_what_the_hosts_say_is_told_and_why_it_failed(capfd: pytest.CaptureFixture[str]) -> None:
    play.tell(["printf", "%s", ANSIBLE + RECAP])
    assert capfd.readouterr() == (
        "localhost: no tunables to put back here\nclient-01.site: released target local\n",
        "",
    )
    with pytest.raises(play.PlayFailed) as failed:
        play.tell(["sh", "-c", 'printf %s "$1"; exit 2', "sh", REFUSED + RECAP])
    assert str(failed.value) == "localhost: untune: /var/lib/fsage/local: Permission denied"
    gone = "fatal: [n3]: UNREACHABLE! =>\n    msg: ssh says no\n    unreachable: true\n"
    with pytest.raises(play.PlayFailed, match=r"^n3: ssh says no\. If it does not come back, take it out of"):
        play.tell(["sh", "-c", 'printf %s "$1"; exit 4', "sh", gone + RECAP])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--config target=local quickstart", "Put -- before the study: ./run snakemake --config target=local -- quick"),
        ("quickstart -C target=local budget", "'budget' comes after --config, which takes KEY=VALUE"),
        ("quickstart --target lustre", "./run fsage run STUDY --target lustre"),
        ("quickstart --budget=45m", "./run snakemake --config budget=45m -- STUDY"),
        ("--until 18:00 quickstart", "--config until=18:00"),
        ("--config only={capacity: 80} -- quickstart", "put it in quotes, such as 'only={capacity: 80}'"),
        ("-n --cores -3 quickstart", "--cores -3: give a whole number from 1 on, or all"),
        ("-n quickstart --config target=a,b budget=45m", None),
        ("--until report_small -- small", None),
        ("--config target=a -n small --omit-from report_small -- small", None),
        ("quickstart -- --target", None),
    ],
)
def test_slips_of_snakemake_have_one_sentence(words: str, said: str | None) -> None:
    found = start.slip(words.split())
    assert found is None if said is None else said in found


NOT_TO_PLAN = {*LIBRARIES, "rich", "fsage.report", "fsage.dataset", "fsage.evidence"}
RULES = [line for path in ROOT.glob("workflow/rules/*.smk") for line in path.read_text().splitlines()]
FSAGE = str(Path(sys.executable).with_name("fsage"))


@pytest.mark.parametrize(
    ("words", "wanted", "unwanted"),
    [
        (
            [FSAGE, "--help"],
            "fsage.cli",
            {*LIBRARIES, "pydantic", "yaml", "fsage.plan", "fsage.run", "fsage.study", "fsage.workloads"},
        ),
        ([FSAGE, "plan", "quickstart"], "fsage.cli", NOT_TO_PLAN),
        (["-c", "\n".join(line for line in RULES if line.startswith("from fsage"))], "fsage.plan", NOT_TO_PLAN),
        (["-c", "import fsage.advise.show, fsage.run.conclusion"], "fsage.report", {"matplotlib", "seaborn"}),
    ],
    ids=["help", "plan", "a dry run", "advice and headline"],
)
def test_a_command_imports_nothing_that_it_does_not_need(words: list[str], wanted: str, unwanted: set[str]) -> None:
    python = [sys.executable, "-X", "importtime", *words]
    done = subprocess.run(python, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE)
    found = {".".join(name.split(".")[:levels]) for name in names for levels in (1, 2)}
    assert wanted in found and not found & unwanted


def test_a_lease_that_cannot_be_given_back_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def give(where: Where, target: str, wanted: str, killed: object) -> None:
        if target == "local":
            raise play.PlayFailed("local does not answer")
        given.append((target, wanted))

    monkeypatch.setattr(jobs, "_lease", give)
    ran = CliRunner().invoke(app, ["hold", "--release", "local", "directory"])
    assert (str(ran.exception), given) == ("local does not answer", [("directory", "absent")])
