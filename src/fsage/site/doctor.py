"""What runs on this machine and what does not: its capabilities, the kinds of targets, the studies, each with why."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

from fsage import seam, workloads
from fsage.base import Json, Refusal
from fsage.base.message import say
from fsage.model import device, filesystems, kinds, plugins, tools
from fsage.model.answers import HeldTarget
from fsage.model.declaration import HOME_OF_ROOT, complete, home_of, usual_home
from fsage.model.target import Spec
from fsage.plan import load_plan
from fsage.plan.settings import PLACES
from fsage.plan.target import inventories_in, load_target, target_of
from fsage.study import StudyError
from fsage.study.files import in_folder

FIO = "fio"  # calibrates every target


class Check(NamedTuple):
    """One row: what it is about, what it is for or where it would run, and why it cannot be had here."""

    name: str
    detail: str
    obstacles: list[str]

    @property
    def runs(self) -> bool:
        """Whether it runs here."""
        return not self.obstacles


class Held(NamedTuple):
    """A target that this machine holds, whatever clone claimed it: what it is, and the command that gives it back."""

    name: str
    detail: str
    give_back: str


class Diagnosis(NamedTuple):
    """All checks of this machine, by table, and what it holds."""

    capabilities: list[Check]
    targets: list[Check]
    studies: list[Check]
    held: list[Held]

    def checks(self) -> dict[str, list[Check]]:
        """The tables by name."""
        return {"capabilities": self.capabilities, "targets": self.targets, "studies": self.studies}

    def as_json(self) -> dict[str, list[dict[str, object]]]:
        """Tables as lists of {"name", "detail", "runs", "obstacles"}; `held`: of {"name", "detail", "give_back"}."""
        tables: dict[str, list[dict[str, object]]] = {}
        for table, checks in self.checks().items():
            tables[table] = [{**check._asdict(), "runs": check.runs} for check in checks]
        tables["held"] = [holding._asdict() for holding in self.held]
        return tables


def diagnose(studies: Path, inventories: Path, results: Path) -> Diagnosis:
    """Try everything once; nothing stays. A study is checked on the target that it would be measured on here."""
    capabilities = []
    for able in seam.capabilities():
        capabilities.append(Check(able.name, able.purpose, [str(able.obstacle)] if able.obstacle else []))
    for study in plugins.having("doctor"):
        capabilities += plugins.of_study(study, "doctor").checks()
    return Diagnosis(
        capabilities,
        [*_kinds_of_targets(), *_device_models()],
        [_study(path, inventories, results) for path in in_folder(studies).values()],
        _held(inventories),
    )


def show(diagnosis: Diagnosis) -> None:
    """Print the tables."""
    from rich.table import Table  # the rows of a study's own checks need none
    from rich.text import Text

    from fsage.text.shown import Terminal

    console = Terminal()
    heads = (("Capability", "for"), ("Target", "what it is"), ("Study", "on target"))
    for (head, detail), checks in zip(heads, diagnosis.checks().values(), strict=True):
        table = Table(head, detail, "here", "why not, and what helps", box=None, header_style="bold", pad_edge=False)
        for check in checks:
            answer = Text("yes", "green") if check.runs else Text("no", "bold red")
            table.add_row(check.name, check.detail, answer, "; ".join(check.obstacles))
        console.print(table)
        console.print()
    for holding in diagnosis.held:
        console.print(f"Held here: {holding.name}, {holding.detail}.")
        console.print(f"  {holding.give_back}", soft_wrap=True)


def _held(inventories: Path) -> list[Held]:
    """What this machine holds: by its notes, and by marks in the directories that this clone's inventories declare."""
    declared: dict[str, Spec] = {}
    homes = {HOME_OF_ROOT, usual_home()}
    for inventory in inventories_in(inventories):
        try:
            spec = load_target(inventory).spec
            declared[inventory.name] = spec
            homes.add(Path(spec["home"]))
        except StudyError as why:
            say(f"{why}. {inventory.name} is left out")
    noted = seam.held(sorted(homes), list(declared.values()))
    return [_given_back(target, inventories / target.name, declared.get(target.name)) for target in noted]


def _given_back(target: HeldTarget, inventory: Path, declared: Spec | None) -> Held:
    ours = declared is not None and home_of(declared) == target.home
    source = inventory if ours else target.inventory
    if not target.kind:
        return Held(target.name, target.what, "look as root, or as the user who claimed it")
    if source is None:
        return Held(target.name, target.what, f"its inventory is not noted: write inventories/{target.name} again")
    own_stores = kinds.named(target.kind).own_stores
    if ours:
        words = ["./run", "fsage", "release", f"--target={target.name}"]
        if str(source.parent) != PLACES["inventories"]:
            words.append(f"--inventories={source.parent}")
        if own_stores:
            words.append("--images")
        if target.take_over:
            words.append(f"--take-over={target.take_over}")
    else:
        words = ["./run", "ansible-playbook", "-i", str(source), "playbooks/release.yml"]
        if own_stores:
            words += ["playbooks/local_target.yml", "-e", "fsage_local_target_state=absent"]
        words += ["-e", "claim_copy="]  # a target of this clone may have the same name
    what = target.what
    if not source.absolute().is_relative_to(Path.cwd()):  # those of `fsage age` lie below its study
        what = f"{what}, by another clone"
    return Held(target.name, what, f"give it back: {shlex.join(words)}")


def _fio() -> list[str]:
    if shutil.which(FIO):
        return []
    return ["fio is not on PATH; `./run true` names the ways to get it"]


def _kinds_of_targets() -> list[Check]:
    """A row for each file system that fsage makes itself, and one for each other kind."""
    checks = []
    for name in kinds.names():
        if not kinds.named(name).own_stores:
            checks.append(Check(name, kinds.named(name).title, [*_fio(), *_lacking({"kind": name})]))
            continue
        for filesystem in filesystems.names():
            declared = {"kind": name, "filesystem": filesystem}
            what = f"{filesystem} of its own, in an image file"
            checks.append(Check(f"{name}, {filesystem}", what, [*_fio(), *_lacking(declared)]))
    return checks


def _lacking(declared: Json) -> list[str]:
    """What this host lacks for a target that is declared like this, and by default otherwise."""
    try:
        return seam.lacking(complete({"name": "doctor", **kinds.named(declared["kind"]).example, **declared}))
    except Refusal as why:
        return [str(why)]


def _device_models() -> list[Check]:
    """A row for each device model of loop targets."""
    checks = []
    for name in device.declarable():
        why = seam.why_no_model(name)
        obstacles = [*seam.lacking(complete({"name": "doctor", "kind": "loop"})), *([why] if why else [])]
        checks.append(Check(f"device_model {name}", "a disk of known costs below a loop target", obstacles))
    return checks


def _study(path: Path, inventories: Path, results: Path) -> Check:
    """Whether a study runs on its usual target, or on this machine's default one."""
    target_name = ""
    try:
        target_name = target_of([path])
        inventory = inventories / target_name
        target = load_target(inventory)
        plan = load_plan(path, inventory, results)
        plan.check()
        obstacles = [*_fio(), *seam.lacking(target.spec)]
        programs: set[str] = set()
        for workload in {cell.params["workload"] for _, cell in plan.all_cells()}:
            programs.update(getattr(workloads.load(workload), "PROGRAMS", ()))
        kinds_of_steps: set[str] = set()
        for state in plan.states.values():
            kinds_of_steps |= {step.kind for step in state.parts}
        if "defragment" in kinds_of_steps:
            tool = filesystems.named(target.spec["filesystem"]).defragmenter
            programs |= {tool.command[0]} if tool else set()
        for name in sorted(programs):
            if not shutil.which(name):
                obstacles.append(f"{name} is not on PATH: {tools.install(name)}")
    except (StudyError, Refusal) as why:
        obstacles = [str(why)]
    return Check(path.stem, target_name, obstacles)
