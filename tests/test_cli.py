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

from fsage import __version__, start
from fsage.cli import app
from fsage.commands.common import Where
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


def test_each_command_has_its_place_in_the_help() -> None:
    commands = get_command(app).commands
    assert {command.rich_help_panel for command in commands.values()} == PANELS
    called = {name for name, command in commands.items() if command.rich_help_panel == "(internal)"}
    jobs = (ROOT / "src/fsage/run/runs.py").read_text()
    asked = set(commands) - called
    assert {"visit", "adaptive"} <= called
    assert all(f'("{name}", study' in jobs for name in ("visit", "adaptive"))
    assert {"plan", "report", "advise", "site", "evidence", "remeasure"} <= asked


def test_the_commands_that_messages_name_are_there_with_their_options_and_playbooks() -> None:
    commands, wrong, seen = get_command(app).commands, [], 0
    for path in sorted((ROOT / "src/fsage").rglob("*.py")):
        text = re.sub(r'"\s*\n\s*f?"', "", path.read_text())  # sentences of several lines
        for named in re.findall(r"`(?:\./run )?fsage ([^`]*)`", text):
            named = re.sub(r"\{' (--\w+)' if [^}]*\}", r" \1", named)
            words = re.sub(r"--(target|results|studies|inventories)[= ]\S+( |$)", "", named).split()
            name, seen = words[0] if words else "", seen + 1
            options = {word.partition("=")[0] for word in words if word.startswith("--")}
            known = commands.get(name) and {option for param in commands[name].params for option in param.opts}
            if known is None or not options <= known:
                wrong.append(f"{path}: fsage {named}")
        playbooks = re.findall(r"playbooks/(\w+\.yml)|`(\w+\.yml)`", text)
        wrong += [
            f"{path}: {each}"
            for pair in playbooks
            for each in pair
            if each and not (ROOT / "playbooks" / each).exists()
        ]
    assert not wrong and seen > 10


@pytest.mark.parametrize(
    ("words", "number", "wanted"),
    [
        ("fsage plan quick", 2, "quickstart"),
        ("fsage --target se", 2, "seek"),
        ("fsage --target local request quickstart 80", 5, "80.50@264M"),
    ],
)
def test_a_shell_completes_names(words: str, number: int, wanted: str) -> None:
    asked = {"_FSAGE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    fsage = Path(sys.executable).with_name("fsage")
    done = subprocess.run([fsage], env={**os.environ, **asked}, cwd=ROOT, capture_output=True, text=True)
    assert wanted in done.stdout.split()


def test_bash_completes_names_behind_run() -> None:
    script = "source envs/completion.bash; COMP_WORDS=(./run fsage plan quick); COMP_CWORD=3; _fsage_run"
    script += "; echo ${COMPREPLY[*]}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["quickstart"], done.stderr


COMMANDS = get_command(app).commands


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_page_has_an_example_that_the_command_takes_and_exit_codes(name: str) -> None:
    page = CliRunner().invoke(app, [name, "-h"])
    example = re.search(r"^ *Example: \./run fsage (.*?) *$", page.output, re.MULTILINE)
    assert page.exit_code == 0 and example and "Exit codes: 0 done; 1 " in page.output
    assert not re.search("<[a-z]+>|[{]", page.output.replace("config/<study>", "").replace("'{capacity", ""))
    called, *words = shlex.split(example[1])
    root = get_command(app).make_context("fsage", ["--target", "bare", name])
    root.obj = Where("bare", Path("inventories"), Path("results"), Path("config"))
    command = root.command.commands[called]
    assert called == name and command.make_context(name, list(words), parent=root)
    behind = [*words, "--target", "guest"] if name != "enter" else ["--target", "guest", *words]
    assert command.make_context(name, behind, parent=root).obj.target_name == "guest"


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
        ("quickstart", "No such command 'quickstart'. To measure study quickstart: ./run fsage run quickstart"),
        ("quikstart", "No such command 'quikstart'. To measure study quickstart: ./run fsage run quickstart"),
        ("reprot", "No such command 'reprot'. Did you mean 'report'"),
        ("plan", "Missing argument 'STUDY'"),
        ("run", "Missing argument 'STUDY'"),
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
        ("run quickstart", "snakemake -- quickstart"),
        (
            "--results elsewhere run series1 truth -n --target guest,bare --budget 45m --only '{capacity: 80}'",
            "snakemake --dry-run --config target=guest,bare results=elsewhere 'only={capacity: 80}' budget=45m"
            " -- series1 truth",
        ),
        (
            "run series1 --precision 3% --lost a --batch-states 4 --profile slurm --until 18:00",
            "snakemake --profile slurm --config until=18:00 precision=3% lost=a batch_states=4 -- series1",
        ),
        ("release --target truth", "ansible-playbook -i inventories/truth playbooks/release.yml"),
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
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--config target=local quickstart", "Put -- before the study: ./run snakemake --config target=local -- quick"),
        ("quickstart -C target=local budget", "'budget' comes after --config, which takes KEY=VALUE"),
        ("--config target -- quickstart", "'target' comes after --config, which takes KEY=VALUE, such as --config t"),
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


def imported(*words: str) -> set[str]:
    """Names of what Python imports when it runs these words, first and second level."""
    python = [sys.executable, "-X", "importtime", *words]
    done = subprocess.run(python, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE)
    return {".".join(name.split(".")[:levels]) for name in names for levels in (1, 2)}


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (["--help"], {*LIBRARIES, "pydantic", "yaml", "fsage.plan", "fsage.run", "fsage.study", "fsage.workloads"}),
        (["plan", "quickstart"], {*LIBRARIES, "rich", "fsage.report", "fsage.dataset", "fsage.evidence"}),
    ],
)
def test_a_command_imports_nothing_that_it_does_not_need(words: list[str], unwanted: set[str]) -> None:
    found = imported(str(Path(sys.executable).with_name("fsage")), *words)
    assert "fsage.cli" in found and not found & unwanted


def test_the_rules_import_nothing_that_snakemake_does_not_need_for_a_dry_run() -> None:
    rules = sorted(ROOT.glob("workflow/rules/*.smk"))
    imports = [line for path in rules for line in path.read_text().splitlines() if line.startswith("from fsage")]
    found = imported("-c", "\n".join(imports))
    assert "fsage.plan" in found and not found & {*LIBRARIES, "rich", "fsage.report", "fsage.dataset", "fsage.evidence"}
