"""A whole project in a folder of its own: a copy of the tree, a small loop-backed target, a study of 16 cells."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import preloaded
import yaml
from testbed import wait_for

from fsage.plan import load_plan

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = ("meta", "playbooks", "plugins", "roles")
TREE = ["Snakefile", "ansible.cfg", "workflow", "profiles", "tune_prealloc.yml", *COLLECTION]

MEASURE = ("--omit-from", "report_small", "--", "small")
"""Words for Snakemake: what is missing is measured without the report, which takes as long as a few cells."""
CELLS = 16  # 4 states x 2 transfer sizes x 2 iterations
FEW = {
    "states__capacity": [30],
    "cells__transfer_size": ["4M"],
    "headline": [{"label": "pieces", "state": "30.50", "against": "30.00"}],
}
FEW_CELLS = 4
"""The same study with two of the states, and one size of transfer."""

STUDY: dict[str, Any] = {
    "name": "small",
    "title": "A study small enough for a test",
    "question": "Does what must be true hold?",
    "states": {"recipe": "paf", "capacity": [30, 60], "fragmentation": [0, 50], "file_size": ["8M"], "seed": 67005},
    "cells": {
        "workload": "sequential",
        "phases": ["write", "read"],
        "transfer_size": ["1M", "4M"],
        "iterations": 2,
        "direct": True,
        "tool": "fio",
    },
    "headline": [{"label": "fullness", "state": "60.00", "against": "30.00"}],
}


@dataclass
class Project:
    """A clone at work. `snakemake`, `fsage` and `playbook` run what a user would type."""

    root: Path
    spec: dict
    env: dict

    def write_study(self, **changes: object) -> None:
        study = copy.deepcopy(STUDY)
        for key, value in changes.items():
            block, _, name = key.rpartition("__")
            (study[block] if block else study)[name] = value
        (self.root / "config").mkdir(exist_ok=True)
        (self.root / f"config/{study['name']}.yaml").write_text(yaml.safe_dump(study, sort_keys=False))

    def write_target(self, **changes: object) -> None:
        self.spec.update(changes)
        self.declare(self.spec)

    def declare(self, spec: dict) -> None:
        """Write the inventory of a target of this machine."""
        folder = self.root / "inventories" / spec["name"] / "group_vars" / "all"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "target.yml").write_text(yaml.safe_dump({"fsage_target": spec}))
        shutil.copy(ROOT / "inventories/local/hosts.yml", folder.parents[1] / "hosts.yml")

    def own_source(self) -> None:
        """Have a copy of src/ to edit, in place of the link to the one that the preloaded programs have."""
        (self.root / "src").unlink()
        shutil.copytree(ROOT / "src", self.root / "src")  # with bytecode, which is of use as long as nothing is edited
        self.env |= {"PYTHONPATH": str(self.root / "src"), "ANSIBLE_CONFIG": str(self.root / "ansible.cfg")}

    def shared_source(self) -> None:
        """Have the link again."""
        shutil.rmtree(self.root / "src")
        (self.root / "src").symlink_to(ROOT / "src")
        del self.env["PYTHONPATH"]
        self.env["ANSIBLE_CONFIG"] = str(ROOT / "ansible.cfg")

    def run(self, *argv: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        how: dict[str, Any] = {"cwd": self.root, "env": self.env, "stdin": subprocess.DEVNULL, "timeout": timeout}
        return subprocess.run(argv, capture_output=True, text=True, **how)

    def start(self, *argv: str) -> subprocess.Popen:
        """Start the program itself in a process group of its own, output to a file; what a killed one leaves goes."""
        temporary = self.root / "tmp"
        temporary.mkdir(exist_ok=True)
        path = self.env["PATH"].replace(f"{preloaded.shims()}:", "")
        really = {**self.env, "PATH": path, "TMPDIR": str(temporary)}
        with open(self.root / "started.log", "w") as out:
            how: dict[str, Any] = {"cwd": self.root, "env": really, "stdin": subprocess.DEVNULL}
            return subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, **how)

    def log(self) -> str:
        """What the program that was started last printed."""
        return (self.root / "started.log").read_text()

    def wait_amid(self, run: subprocess.Popen, condition: Callable[[], object], seconds: float = 120) -> None:
        """Wait until a condition holds while a run is on."""
        wait_for(lambda: condition() or run.poll() is not None, seconds, f"see {self.root}/started.log")
        assert run.poll() is None, self.log()

    def fetched(self) -> set[tuple[str, str]]:
        """State and file of each observation that was fetched."""
        return {(path.parent.name, path.name) for path in (self.root / "results/raw").rglob("*.json")}

    def observed(self) -> set[tuple[str, str]]:
        """The same, and of those that wait on the host."""
        return self.fetched() | {(path.parent.name, path.name) for path in (self.home / "outbox").rglob("*.json")}

    def snakemake(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("snakemake", *(words or ("small",)))

    def measure(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Measure what is missing, as `snakemake small` does, without the report."""
        return self.run("snakemake", *options, *MEASURE)

    def fsage(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("fsage", *words)

    def playbook(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("ansible-playbook", "-i", f"inventories/{self.spec['name']}", *preloaded.playbooks(*words))

    def asked(self, **request: object) -> str:
        """The words that give a playbook a request."""
        (self.root / "asked.json").write_text(json.dumps(request))
        return "fsage_request=asked.json"

    @property
    def mount(self) -> Path:
        return Path(self.spec["mount_dir"]) / self.spec["name"] / "0"

    @property
    def home(self) -> Path:
        return Path(self.spec["home"]) / self.spec["name"]

    def record_files(self, target: str = "") -> dict[str, Path]:
        """state/cell -> record on a target."""
        folder = self.root / "results" / "records" / (target or self.spec["name"]) / "small"
        return {str(path.relative_to(folder))[:-5]: path for path in sorted(folder.glob("*/*.json"))}

    def records(self, target: str = "") -> dict[str, dict]:
        return {name: json.loads(path.read_text()) for name, path in self.record_files(target).items()}

    def states(self, target: str) -> set[str]:
        """Those that were measured on a target."""
        return {name.partition("/")[0] for name in self.record_files(target)}

    def manifests(self, target: str = "") -> list[dict]:
        folder = self.root / "results" / "manifests" / (target or self.spec["name"]) / "small"
        return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]

    def skipped(self, target: str = "") -> dict[str, dict]:
        """state/cell -> the row of a manifest that says why it was not measured."""
        return {
            f"{manifest['state']}/{row['cell']}": row
            for manifest in self.manifests(target)
            for row in manifest["cells"]
            if row["why"]
        }

    def whole(self, count: int) -> dict[str, dict]:
        """The records, which must be so many: all valid and as planned, each taken in its state."""
        records = self.records()
        assert len(records) == count and {record["status"] for record in records.values()} == {"valid"}
        inventory = self.root / "inventories" / self.spec["name"]
        plan = load_plan(self.root / "config/small.yaml", inventory, self.root / "results")
        for state, cell in plan.all_cells():
            record = records[f"{state}/{cell.name}"]
            assert record["check"]["agreed"] and record["check"]["state"] == state
            assert (record["params"], record["order"], record["kind"]) == (cell.params, cell.order, cell.kind)
            assert record["nominal"] == plan.states[state].nominal
        return records

    def taken(self) -> dict[str, tuple[str, int]]:
        """state/cell -> (id of the observation, inode of the record): the same while a cell is not measured again."""
        files = self.record_files()
        return {name: (record["id"], files[name].stat().st_ino) for name, record in self.records().items()}


def succeeded(ran: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """A command that must have succeeded."""
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


def printed(ran: subprocess.CompletedProcess[str]) -> str:
    """What a command printed, in one line."""
    return " ".join((ran.stdout + ran.stderr).split())


def kill_group(process: subprocess.Popen, number: int = signal.SIGKILL) -> int:
    """Signal a whole process group and wait."""
    os.killpg(process.pid, number)
    return process.wait(timeout=60)


def make_project(root: Path, spec: dict) -> Project:
    """Copy the tree to `root`, but for src/, which is linked to, and declare target and study."""
    root.mkdir()
    for name in TREE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / name)
    (root / "src").symlink_to(ROOT / "src")
    (root / "envs/collections/ansible_collections/fsage").mkdir(parents=True)
    (root / "envs/collections/ansible_collections/fsage/fsage").symlink_to("../../../..")
    made = Project(root, dict(spec), {**preloaded.environment(), "FSAGE_TARGET": spec["name"]})
    made.write_target()
    made.write_study()
    return made


def descendants(ancestor: int, name: str) -> list[int]:
    """The processes of a program that a process started, directly or not."""
    parents = {}
    named = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            program, _, rest = (entry / "stat").read_text().partition(" (")[2].rpartition(") ")
        except OSError:
            continue
        parents[int(entry.name)] = int(rest.split()[1])
        if program == name:
            named.append(int(entry.name))
    found = []
    for process in named:
        above = process
        while above in parents and above != ancestor:
            above = parents[above]
        if above == ancestor:
            found.append(process)
    return found
