"""A target as an inventory declares it, and as its claim found it; what it rules out before anything is built."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypedDict, cast

import yaml

from fsage import seam
from fsage.base import MIB, Json, Refusal
from fsage.base.message import write_whole
from fsage.model import kinds, limits
from fsage.model.claim import Claim
from fsage.model.declaration import complete, home_of
from fsage.model.request import Phase
from fsage.model.structure import Step, achieved
from fsage.model.target import Spec
from fsage.plan import results
from fsage.study import StudyError
from fsage.study.cells import Cell
from fsage.study.files import read_yaml, usual_target, workload_of
from fsage.text.strict import nearest, show

LOCAL = "local"
KERNEL = "kernel"
DIRECTORY = "directory"
"""Inventories of the default target: with a file system of its own, mounted by a guest's kernel, and without any."""
GUESTS = "uml"
"""The kind of KERNEL."""
NEEDED = ("name", "kind")
DECLARATION = Path("group_vars/all/target.yml")
"""Where an inventory declares its target."""


@dataclass(frozen=True)
class Target:
    """A target as its inventory declares it. `spec`: complete, as its hosts have it."""

    spec: Spec

    @property
    def name(self) -> str:
        """Its name, which its inventory has too."""
        return self.spec["name"]

    @property
    def file_scale(self) -> float:
        """How the studies' nominal file sizes shrink on it."""
        return self.spec["scale"]["file_size"]

    def having(self, **values: object) -> Target:
        """The same but for some keys of its declaration."""
        return Target(cast(Spec, {**self.spec, **values}))

    @property
    def of_kind(self) -> type[kinds.Kind]:
        """What its kind can do."""
        return kinds.named(self.spec["kind"])

    @property
    def counts(self) -> bool:
        """Whether a file of one task on its one file system can be counted in memory (fsage.count)."""
        return self.of_kind.own_stores and self.spec["stores"] == 1 and self.spec["scale"]["tasks"] == 1

    @property
    def images(self) -> str | None:
        """The folder of Apptainer images to measure and report with (fsage.host.containers), or None."""
        return self.spec["containers"]

    def why_not_made(self, memory_bytes: int) -> str | None:
        """Why it cannot be made on this machine as it is now, with so much memory; None where it can, or is there."""
        return seam.why_not_made(self.spec, memory_bytes)

    def write(self, inventory: Path, like: Path, note: str) -> None:
        """Write an inventory that declares it, and is else as another one. `note`: the first line, who made it."""
        shutil.copytree(like, inventory, dirs_exist_ok=True, ignore=shutil.ignore_patterns(DECLARATION.name))
        declared = yaml.safe_dump({"fsage_target": dict(self.spec)}, sort_keys=False)
        write_whole(inventory / DECLARATION, f"---\n# {note}\n{declared}")

    @property
    def outbox(self) -> Path:
        """Where observations wait on the launcher host, until they are fetched (see fsage.host.cells.observed)."""
        return home_of(self.spec) / "outbox"

    # What it rules out whatever its state is, refused before anything is built. Each check raises ValueError.

    def check_kind(self, usual: str | None, workload: ModuleType, cell: Cell) -> None:
        """Refuse what no cell on this kind of target could tell anything of. `usual`: the target of the study."""
        remedy = f"take a target of kind {GUESTS}, such as --target {usual or KERNEL}"
        name = cell.params["workload"]
        kernel = cell.params.get("kernel")
        if not self.of_kind.guests and getattr(workload, "IN_GUESTS", False):
            raise ValueError(f"workload {name} needs a guest's own disk: {remedy}")
        if not self.of_kind.guests and kernel:
            raise ValueError(f"kernel {kernel}: cells of this target have its host's own kernel: {remedy}")
        why = self.of_kind.tells_nothing(self.spec, name)
        if why:
            raise ValueError(why)

    def check_steps(self, steps: Iterable[Step]) -> None:
        """Refuse a state that a target which is declared like this cannot have."""
        for step in steps:
            if step.ONE_STORE and self.spec["stores"] > 1:
                raise ValueError(
                    f"to {step.describe()} needs a target with one store, and this one declares {self.spec['stores']}"
                )
            if step.WANTS and not any(getattr(self.of_kind, name) for name in step.WANTS):
                raise ValueError(
                    f"to {step.describe()} needs a file system that fsage made and nobody else uses, and a target of "
                    f"kind {self.spec['kind']} has none: take another, such as --target {LOCAL}"
                )

    def check_room(self, claim: Claim | None, steps: Sequence[Step]) -> None:
        """Refuse a state that it has no room for, even when it is empty.

        Before the claim, the declaration says how large it is at most.
        """
        if claim:
            capacity_bytes = claim.get("capacity_bytes")
        else:
            capacity_bytes = self.of_kind.most_bytes(self.spec)
        if capacity_bytes is None:
            return
        for step in steps:
            why = step.unavailable_because(capacity_bytes)
            if why:
                raise ValueError(why)

    def check_rates(self, phases: Sequence[Phase]) -> None:
        """Refuse a workload that cannot be kept to the site's rates."""
        for phase in phases:
            why = limits.why_not_kept(self.spec["limits"], phase)
            if why:
                raise ValueError(f"{why}; nothing was touched")

    def check_declared(self, inventory: Path, workload: ModuleType, params: object) -> None:
        """Refuse what the declared numbers rule out before there is a claim."""
        amount_mib = self.spec["amount_mib"]
        check_amount = getattr(workload, "check_amount", None)
        if amount_mib and check_amount:
            check_amount(params, amount_mib)
        nodes = getattr(params, "nodes", None)
        if not nodes:
            return
        hosts_file = inventory / "hosts.yml"
        clients = _declared_clients(hosts_file)
        if clients and nodes > clients:
            raise ValueError(
                f"nodes: {nodes} are more than the group clients of {hosts_file} has, {clients}. "
                "Leave these cells out (--config 'only={nodes: N}'), or name more"
            )


def _declared_clients(hosts_file: Path) -> int | None:
    """How many clients an inventory names one by one; None where ranges or other files name them."""
    try:
        names = read_yaml(hosts_file)["all"]["children"]["clients"]["hosts"]
    except (OSError, StudyError, LookupError, TypeError):
        return None
    if names and not any("[" in str(name) for name in names):
        return len(names)
    return None


def check_places(claim: Claim, state: str, steps: tuple[Step, ...], place: int, makes_bytes: int) -> None:
    """Raise ValueError where the files of a cell, at all places `makes_bytes`, do not fit beside those of the state."""
    if not makes_bytes or "capacity_bytes" not in claim:
        return
    if place == 1 and any(step.SIMULATED for step in steps):  # the host refuses what does not fit
        return
    capacity_bytes = claim["capacity_bytes"]
    if makes_bytes <= _least_left_bytes(steps, capacity_bytes):
        return
    left_bytes = float(capacity_bytes)
    for share in achieved(steps, capacity_bytes):
        left_bytes -= share["bytes"] * (1 - share["deleted_share_bytes"])
    if makes_bytes > left_bytes:
        if place > 1:
            what, less = f"places: {place} files take", "fewer places, a smaller amount_mib"
        else:
            what, less = "the files of a cell take", "a smaller amount_mib, amount_percent or file_size"
        raise ValueError(
            f"{what} {makes_bytes / MIB:.0f} MiB, and state {state} leaves {left_bytes / MIB:.0f} MiB; give {less}, or "
            "a larger target (size_gib)"
        )


@cache
def _least_left_bytes(steps: tuple[Step, ...], capacity_bytes: int) -> int:
    """What a state's files leave as if nothing were deleted: which ones are, is drawn file by file."""
    made = achieved([step for step in steps if not step.DELETES], capacity_bytes)
    return capacity_bytes - sum(share["bytes"] for share in made)


def default_target(workload: str | None = None) -> str:
    """LOCAL where this machine allows it; else KERNEL where a kernel that is a program works, else DIRECTORY.

    A workload that must be timed tells more in a directory than in a guest.
    """
    if not seam.why_no_loops():
        return LOCAL
    told_by_guests = workload is None or workload in kinds.named(GUESTS).counts
    if told_by_guests and not why_no_guest():
        return KERNEL
    return DIRECTORY


@cache
def why_no_guest() -> str | None:
    """Why no kernel runs here as a program; None where one does. It is tried once a process."""
    return "; ".join(seam.lacking(complete({"name": KERNEL, "kind": GUESTS}))) or None


def why_default(name: str) -> str | None:
    """Why this machine's default target has this name, what it can say, and what more rights would give."""
    if name not in (KERNEL, DIRECTORY) or not (obstacles := seam.why_no_loops()):
        return None
    why = f"no file system can be mounted here: {obstacles[0].reason}."
    if name == KERNEL:
        return (
            f"{why} So a Linux kernel that is a program mounts them, as target {KERNEL}. Fullness and fragmentation "
            "are set and checked, and where bytes lie is counted. Rates are computed for a modelled disk; nothing is "
            f"timed. To have them timed: {obstacles[0].remedy}"
        )
    return (
        f"{why} fsage measures in a plain directory; its fullness and fragmentation are unknown. To have both set and "
        f"checked: {obstacles[0].remedy}. Or have a kernel that is a program: {why_no_guest()}"
    )


def target_of(studies: Iterable[Path]) -> str:
    """The target of these studies, or targets with commas, where the command names none.

    Raises StudyError where they are not on the same.
    """
    named = {path: usual_target(path) or default_target(workload_of(path)) for path in studies}
    if not named:
        return default_target()
    if len(set(named.values())) > 1:
        where = ", ".join(f"{path.stem} is measured on {name}" for path, name in named.items())
        raise StudyError(
            f"{where}: one run has one target, or one list of them; give the studies apart, or say --config target=NAME"
        )
    return next(iter(named.values()))


def inventories_in(folder: Path) -> list[Path]:
    """The inventories in a folder, in order: what declares a target, and what hides from this user whether it does."""
    found = []
    for inventory in sorted(folder.iterdir()):
        try:
            (inventory / DECLARATION).lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # whoever reads the declaration is told why it cannot be
            pass
        found.append(inventory)
    return found


def targets_in(folder: Path) -> list[Target]:
    """The declarations of the inventories in a folder, in order; one that cannot be read is left out."""
    targets = []
    for inventory in inventories_in(folder):
        with contextlib.suppress(StudyError):
            targets.append(load_target(inventory))
    return targets


def load_target(inventory: Path) -> Target:
    """The declaration of an inventory. Raises StudyError naming file, key and value."""
    path = inventory / DECLARATION
    try:
        declared = read_yaml(path)
    except FileNotFoundError as error:
        targets = []
        if inventory.parent.is_dir():
            targets = [folder.name for folder in inventories_in(inventory.parent)]
        raise StudyError(
            f"target {inventory.name!r}: {path}: {error.strerror};{nearest(inventory.name, targets)} "
            f"there are: {', '.join(targets) or 'none'}"
        ) from error
    if not isinstance(declared, dict) or "fsage_target" not in declared:
        raise StudyError(f"{path}: {show(declared)} is not a block with the key fsage_target")
    block = declared["fsage_target"]
    try:
        for key in NEEDED:
            if isinstance(block, dict) and key not in block:
                raise Refusal(f"fsage_target.{key} is missing")
        target = Target(complete(block))
    except Refusal as why:
        raise StudyError(f"{path}: {why}") from why
    if target.name != inventory.name:
        raise StudyError(
            f"{path}: fsage_target.name is {target.name!r}, and a target has the name of its inventory's folder, which "
            f"is {inventory.name!r}: name one after the other"
        )
    return target


def is_here(inventory: Path) -> bool:
    """Whether an inventory's hosts are this machine."""
    hosts = inventory / "hosts.yml"
    return hosts.exists() and "ansible_connection: local" in hosts.read_text(encoding="utf-8")


class Calibrated(TypedDict, total=False):
    """What a report says of a claim, which with a crate comes from elsewhere."""

    calibration: Json


def load_claim(path: Path) -> Claim | None:
    """The copy of the claim, or None before the target was claimed. Raises StudyError for what is no claim."""
    try:
        return cast(Claim, results.read_as(Calibrated, path))
    except ValueError as why:
        raise StudyError(str(why)) from why
