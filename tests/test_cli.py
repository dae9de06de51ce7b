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
PANELS = {"Studies", "Targets", "Results", "Any file system", "Called by the DAG"}


def test_the_version_is_said_and_is_what_citations_name() -> None:
    said = CliRunner().invoke(app, ["--version"])
    assert (said.exit_code, said.output) == (0, f"fsage {__version__}\n")
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__


def test_each_command_has_its_place_in_the_help() -> None:
    commands = get_command(app).commands
    assert {command.rich_help_panel for command in commands.values()} == PANELS
    called = {name for name, command in commands.items() if command.rich_help_panel == "Called by the DAG"}
    rules = "\n".join(path.read_text() for path in [ROOT / "Snakefile", *ROOT.glob("workflow/rules/*.smk")])
    asked = set(commands) - called
    assert called >= {"play", "visit"} and all(
        re.search(rf"\bfsage (--target=\S+ )?{name}\b", rules) for name in ("play", "visit")
    )
    assert {"plan", "report", "advise", "site", "evidence", "remeasure"} <= asked


@pytest.mark.parametrize(
    ("words", "number", "wanted"),
    [
        ("fsage plan quick", 2, "quickstart"),
        ("fsage --target se", 2, "seek"),
        ("fsage request quickstart 80", 3, "80.50@264M"),
    ],
)
def test_a_shell_completes_names(words: str, number: int, wanted: str) -> None:
    asked = {"_FSAGE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    fsage = Path(sys.executable).with_name("fsage")
    done = subprocess.run([fsage], env={**os.environ, **asked}, cwd=ROOT, capture_output=True, text=True)
    assert wanted in done.stdout.split()


def test_a_target_may_be_named_after_plan_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run = CliRunner().invoke
    before, after = (
        run(app, words) for words in (["--target", "truth", "plan", "truth"], ["plan", "truth", "--target", "truth"])
    )
    assert (after.exit_code, after.output) == (0, before.output)
    assert "other" not in after.output and run(app, ["plan", "truth", "--target", "other"]).exit_code != 0
