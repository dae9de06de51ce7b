"""The command line itself: its version, its help, what a shell completes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from fsage import __version__
from fsage.cli import app

ROOT = Path(__file__).parents[1]
LIBRARIES = {
    *("ansible", "jinja2", "matplotlib", "numpy", "pandas", "pyarrow", "rocrate", "scipy", "seaborn", "sklearn"),
    *("prometheus_client", "snakemake", "threadpoolctl"),
}
"""Each takes a tenth of a second or more to import, or brings one that does."""
PANELS = {"Studies", "Targets", "Results", "Any file system", "Called by the DAG"}


def test_the_version_is_said_and_is_what_citations_name() -> None:
    said = CliRunner().invoke(app, ["--version"])
    assert (said.exit_code, said.output) == (0, f"fsage {__version__}\n")
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__


def test_each_command_has_its_place_in_the_help() -> None:
    commands = get_command(app).commands
    assert {command.rich_help_panel for command in commands.values()} == PANELS
    called = {name for name, command in commands.items() if command.rich_help_panel == "Called by the DAG"}
    rules = "\n".join(path.read_text() for path in sorted(ROOT.glob("workflow/rules/*.smk")))
    asked = set(commands) - called
    assert {"visit", "adaptive"} <= called
    assert all(re.search(rf"\bfsage (--target=\S+ )?{name}\b", rules) for name in ("visit", "adaptive"))
    assert {"plan", "report", "advise", "site", "evidence", "remeasure"} <= asked


def test_the_commands_that_messages_name_are_there_with_their_options_and_playbooks() -> None:
    commands, wrong, seen = get_command(app).commands, [], 0
    for path in sorted((ROOT / "src/fsage").rglob("*.py")):
        text = re.sub(r'"\s*\n\s*f?"', "", path.read_text())  # sentences of several lines
        for named in re.findall(r"`(?:\./run )?fsage ([^`]*)`", text):
            words = re.sub(r"--(target|results|studies|inventories)[= ]\S+ ", "", named).split()
            name, seen = words[0] if words else "", seen + 1
            options = {word.partition("=")[0] for word in words if word.startswith("--")}
            known = commands.get(name) and {option for one in commands[name].params for option in one.opts}
            if known is None or not options <= known:
                wrong.append(f"{path}: fsage {named}")
        playbooks = re.findall(r"playbooks/(\w+\.yml)|`(\w+\.yml)`", text)
        wrong += [
            f"{path}: {one}" for pair in playbooks for one in pair if one and not (ROOT / "playbooks" / one).exists()
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


def test_a_target_may_be_named_after_plan_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run = CliRunner().invoke
    before, after = (
        run(app, words) for words in (["--target", "truth", "plan", "truth"], ["plan", "truth", "--target", "truth"])
    )
    assert (after.exit_code, after.output) == (0, before.output)
    assert "other" not in after.output and run(app, ["plan", "truth", "--target", "other"]).exit_code != 0


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
