"""What docs/adding.md says: a file system, a step, a recipe, a workload with its tool and a figure from one folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import ROOT, Project, succeeded

from fsage import extensions, studies
from fsage.base import Refusal
from fsage.model import plugins

EXTENSION = ROOT / "tests/extension/cut"
STUDY = {
    "name": "cut",
    "title": "A study of nothing but what was added",
    "question": "Does it run?",
    "states": {"recipe": "cut", "percent": 40, "file_size": "8M", "kept": [75, 50], "seed": 1},
    "cells": {"workload": "stream", "transfer_size": "1M"},
}


def extended(folder: Path) -> Path:
    """The extension as somebody has it who lets nobody else change it."""
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".git").mkdir()
    (folder / ".git/config").touch()  # it is kept in version control
    subprocess.run(["chmod", "-R", "go-w", folder], check=True)
    return folder


@pytest.mark.root
@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_was_added_is_planned_built_measured_and_drawn(project: Project, tmp_path: Path) -> None:
    project.env["FSAGE_EXTENSIONS"] = str(extended(tmp_path / "cut"))
    project.write_target(filesystem="ext2")
    (project.root / "config/cut.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
    succeeded(project.run("snakemake", "cut", timeout=500))
    records = records_of(project, "cut")
    assert [record["state"] for record in records] == ["100", "50", "75"]
    for record in records:
        assert record["status"] == "valid" and record["metrics"]["write_bw_mib_s"] > 0, record
        assert all(min(phase["switches"].values()) > 0 for phase in record["phases"])
        assert record["conditions"]["filesystem"] == "ext2" and record["conditions"]["tools"]["dd"]
        assert [step["kind"] for step in record["layout"]["steps"]] == ["populate", "cut"][
            : 1 + (record["state"] != "100")
        ]
    page = next((project.root / "results").rglob("*.html")).read_text()
    assert "Writing beside cut files" in page and "kept of each file, %" in page
    assert "Every file was cut to 50% at least" in page
    del project.env["FSAGE_EXTENSIONS"]
    said = project.fsage("plan", "cut")
    assert said.returncode == 1 and "filesystem is 'ext2': allowed are btrfs, ext4, xfs" in said.stderr
    assert said.stderr.count("\n") == 1


def records_of(project: Project, study: str) -> list[dict]:
    """The records of a study, by state."""
    paths = sorted((project.root / "results/records").glob(f"*/{study}/*/*.json"))
    return [json.loads(path.read_text()) for path in paths]


def from_the_page(project: Project, folder: Path) -> None:
    """Have what docs/adding.md shows: a workload's folder, and a study that uses it."""
    page = (ROOT / "docs/adding.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL))
    (folder / "workloads").mkdir(parents=True)
    (folder / "workloads/scatter.py").write_text(blocks["python"])
    subprocess.run(["chmod", "-R", "go-w", folder], check=True)
    (project.root / "config").mkdir(exist_ok=True)
    (project.root / "config/mystudy.yaml").write_text(blocks["yaml"])
    project.env["FSAGE_EXTENSIONS"] = str(folder)


def test_the_workload_of_the_page_has_ten_lines_and_a_plan(new_project: Project, tmp_path: Path) -> None:
    from_the_page(new_project, tmp_path / "scatter")
    lines = (tmp_path / "scatter/workloads/scatter.py").read_text().splitlines()
    assert len([line for line in lines if line and not line.startswith('"""')]) <= 10
    planned = succeeded(new_project.run(sys.executable, "-m", "fsage", "plan", "mystudy"))
    assert "40 cells, 4 states" in planned.stdout and "0 B written" not in planned.stdout


@pytest.mark.root
@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_workload_of_the_page_is_measured(project: Project, tmp_path: Path) -> None:
    from_the_page(project, tmp_path / "scatter")
    succeeded(project.run("snakemake", "mystudy", timeout=500))
    records = records_of(project, "mystudy")
    assert len(records) == 40
    for record in records:
        assert record["status"] == "valid" and record["metrics"]["write_bw_mib_s"] > 0, record
        assert record["metrics"]["write_bytes"] == project.spec["amount_mib"] << 20


SURROUNDED = """
import json, sys
from contextlib import closing
from types import SimpleNamespace
from fsage.host.instruments import Visit, found
from fsage.host.remote.remote_hosts import Hosts
from fsage.model.declaration import complete

spec = complete(json.loads(sys.argv[1]))
clients = [{"name": "c1"}, {"name": "c2", "python": sys.executable, "local": True}]
(kind,) = [each for each in found() if each.name == "switches"]
with closing(Hosts(spec, None, {"clients": clients, "servers": []})) as hosts:
    switches = kind(Visit(SimpleNamespace(spec=spec), {}, hosts))
    with switches.around_phase({"name": "write"}, {}) as seen:
        pass
print(json.dumps([seen, switches.unsupported({"phases": [1, 2, 3, 4]})]))
"""


def test_an_instrument_that_was_added_works_on_every_client(tmp_path: Path) -> None:
    """It goes to the other client with the host agent, whose Python has no extension."""
    spec = {"name": "t", "kind": "directory", "directory": str(tmp_path / "t"), "home": str(tmp_path / "home")}
    ran = subprocess.run(
        [sys.executable, "-c", SURROUNDED, json.dumps(spec)],
        env={**os.environ, "FSAGE_EXTENSIONS": str(extended(tmp_path / "cut"))},
        capture_output=True,
        text=True,
        check=True,
    )
    seen, why = json.loads(ran.stdout)
    assert seen.keys() == {"c1", "c2"} and min(seen.values()) > 0
    assert why == "it has too many parts"


def linked(folder: Path) -> None:
    (folder / "workloads/other.py").symlink_to("stream.py")


@pytest.mark.parametrize(
    ("change", "named", "said"),
    [
        (lambda folder: folder.rename(folder.with_name("paf")), "paf", "'paf' is not a name, or is the name of a"),
        (
            lambda folder: (folder / "host/rates.j2").touch(0o644),
            "cut",
            "host/rates.j2 is nothing that fsage looks for",
        ),
        (lambda folder: (folder / "recipe.py").chmod(0o666), "cut", "recipe.py is a link, or others than user"),
        (lambda folder: (folder / "host").chmod(0o777), "cut", "/cut/host"),
        (linked, "cut", "workloads/other.py is a link"),
        (lambda folder: (folder / "host.py").touch(0o644), "cut", "/cut/host.py would be hidden by the folder"),
        (lambda folder: None, ".", "/cut is a folder that no study has; allowed are model, kinds, host, "),
    ],
)
def test_a_folder_that_is_not_as_it_must_be_is_refused(
    tmp_path: Path, change: Callable[[Path], object], named: str, said: str
) -> None:
    change(extended(tmp_path / "cut"))
    assert said in refused(str(tmp_path / named))


def test_a_folder_is_named_by_an_absolute_path() -> None:
    assert "cut is no absolute path" in refused("cut")


def refused(extension: str) -> str:
    """The sentence that refuses an extension."""
    env = {**os.environ, "FSAGE_EXTENSIONS": extension}
    ran = subprocess.run([sys.executable, "-m", "fsage.cli", "--version"], env=env, capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stderr.startswith("fsage: FSAGE_EXTENSIONS: ")
    assert "Traceback" not in ran.stderr and ran.stderr.count("\n") == 1
    return ran.stderr


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("model.py", "import nowhere", "cut/model.py, line 1: ModuleNotFoundError: No module named 'nowhere'"),
        (
            "model.py",
            "from fsage.api.model import kinds\nclass Cut(kinds.Loop): ...",
            "both declare 'loop', so",
        ),
        ("doctor.py", "def checks():\n    return 1 / 0", "cut/doctor.py, line 2: ZeroDivisionError: division by zero"),
        ("doctor.py", "", "cut/doctor.py: AttributeError: module 'fsage.studies.cut.doctor' has no attribute 'checks'"),
        ("command.py", "def app(:", "cut/command.py, line 1: SyntaxError: "),
        ("model.py", "import sys\nsys.exit(3)", "cut/model.py, line 2: SystemExit: 3"),
    ],
)
def test_what_is_wrong_in_its_code_is_said_in_a_sentence(tmp_path: Path, file: str, text: str, said: str) -> None:
    (tmp_path / "cut").mkdir(0o755)
    (tmp_path / "cut" / file).write_text(text)
    (tmp_path / "cut" / file).chmod(0o644)
    env = {**os.environ, "FSAGE_EXTENSIONS": str(tmp_path / "cut")}
    ran = subprocess.run([sys.executable, "-m", "fsage", "doctor"], env=env, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 1 and said in ran.stderr and "Traceback" not in ran.stderr


def test_a_workload_that_could_not_be_judged_or_planned_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"old": ["fsage.workloads.metadata", "fsage.workloads.sequential"], "half": ["fsage.workloads.shared"]}
    monkeypatch.setattr(plugins, "_places", lambda core, part: both)
    with pytest.raises(Refusal, match="are all called 'old', so a study must name one otherwise"):
        plugins.module("fsage.workloads", "workloads", "old")
    with pytest.raises(Refusal, match=r"workloads/shared.py has no Params, commands; docs/adding.md says"):
        plugins.module("fsage.workloads", "workloads", "half", ("Params", "commands", "judge"))


def test_a_folder_of_a_clone_needs_no_init_and_a_name_of_its_own(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(studies, "__path__", [*studies.__path__[:1], str(tmp_path)])
    (tmp_path / "README.md").touch()
    (tmp_path / "mine").mkdir()
    assert "mine" in plugins.studies.__wrapped__()
    for name in ("paf", "my-own"):
        (tmp_path / name).mkdir()
        with pytest.raises(Refusal, match=f"{name} is no folder with the name of a study, or has the name"):
            plugins.studies.__wrapped__()
        (tmp_path / name).rmdir()


@pytest.mark.parametrize("name", ["blast", "netflow"])
def test_what_comes_with_a_clone_could_lie_anywhere(tmp_path: Path, name: str) -> None:
    """Its files are those that fsage looks for, and it imports none of its own by an absolute name."""
    shutil.copytree(ROOT / "extensions" / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chmod", "-R", "go-w", tmp_path], check=True)
    for path in sorted((tmp_path / name).rglob("*.py")):
        extensions._judge(path, path.relative_to(tmp_path / name))
        assert f"from fsage.studies.{name}" not in path.read_text(), path


def test_an_isolated_python_has_no_extension(tmp_path: Path) -> None:
    """So it is with agents and with root's helper: a user's environment names nothing that root runs."""
    find = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})"
    look = f"{find}; from fsage.model import plugins; print(len(plugins.EXTENSIONS))"
    env = {**os.environ, "FSAGE_EXTENSIONS": str(extended(tmp_path / "cut"))}
    for words, count in (([], "1"), (["-I"], "0")):
        ran = subprocess.run([sys.executable, *words, "-c", look], env=env, capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == count
