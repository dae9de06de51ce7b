"""A target as an inventory declares it, and as its claim found it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, Field, ValidationError, model_validator

from fsage import seam
from fsage.model import filesystems, kinds
from fsage.model.claim import Claim
from fsage.model.declaration import complete, home_of
from fsage.model.errors import Refusal
from fsage.model.target import Launcher, Spec
from fsage.plan import results
from fsage.study.study import StudyError, explain, read_yaml, usual_target
from fsage.text.strict import Strict, show, unknown_value

LOCAL, DIRECTORY = "local", "directory"
"""Inventories of the default target: with a file system of its own, and without."""
Positive = Annotated[int, Field(gt=0)]


def _among(names: Callable[[], list[str]]) -> AfterValidator:
    """One of those that there are."""

    def check(value: str) -> str:
        if value not in names():
            raise ValueError(unknown_value(value, names()))
        return value

    return AfterValidator(check)


class Scale(Strict):
    """How the studies' nominal sizes shrink on a small target; transfer sizes never do."""

    file_size: Annotated[float, Field(gt=0, le=1)] = 1.0
    tasks: Positive = 1  # on each client


class Lustre(Strict):
    """What a target of kind lustre is on (fsage.host.lustre). Sizes in GiB and MiB as named."""

    fsname: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,8}$")]
    mgs: Annotated[str, Field(pattern="@")]
    capacity_gib: Annotated[float, Field(gt=0)] | Literal["all"]
    stripe_count: Annotated[int, Field(ge=-1)] = 1
    stripe_size_mib: Positive = 1
    first_ost: Annotated[int, Field(ge=-1)] = -1
    oss: list[str] = Field(default_factory=list)
    tolerance_mib: Annotated[int, Field(ge=0)] | None = None


class Target(Strict):
    """`fsage_target` of an inventory. Sizes in GiB and MiB as named."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
    kind: Annotated[str, _among(kinds.names)]
    filesystem: Annotated[str, _among(filesystems.names)] = "ext4"
    stores: Positive = 1
    size_gib: Positive = 16
    sparse: bool = False
    geometry: dict[str, object] | None = None  # fsage.model.geometry: as another ext4 was made
    minimum_gib: Positive = 2
    image_dir: str | None = None
    mount_dir: str = "/run/fsage/mnt"
    directory: str | None = None
    budget_gib: Annotated[float, Field(gt=0)] = 2
    containers: str | None = None
    run_as: str | None = None
    home: str | None = None
    scale: Scale = Scale()
    allocator_reset: Literal["remount", "none"] = "remount"
    amount_mib: Positive | None = None
    launcher: Launcher = "openmpi"
    launcher_options: list[str] = Field(default_factory=list)
    device_model: dict[str, object] | None = None  # as its kind has it: fsage.host.device.models
    lustre: Lustre | None = None

    @model_validator(mode="after")
    def _as_the_agent_wants_it(self) -> Target:
        try:
            complete(self.model_dump())
        except Refusal as why:
            raise ValueError(str(why)) from why
        return self

    @property
    def spec(self) -> Spec:
        """The complete declaration, as the agent has it."""
        return complete(self.model_dump())

    @property
    def of_kind(self) -> type[kinds.Kind]:
        """What its kind can do."""
        return kinds.named(self.kind)

    @property
    def images(self) -> str | None:
        """The folder of Apptainer images to measure and report with (fsage.host.containers), or None."""
        return self.spec["containers"]

    @property
    def outbox(self) -> Path:
        """Where observations wait on the launcher host, until they are fetched (see fsage.host.cells.outbox)."""
        return home_of(self.spec) / "outbox"


def default_target() -> str:
    """LOCAL where this machine allows it, else DIRECTORY."""
    return DIRECTORY if seam.here().why_no_loops() else LOCAL


def why_directory() -> str | None:
    """Why this machine's default target is a plain directory, and what more rights would give; None where it is not."""
    if not (obstacles := seam.here().why_no_loops()):
        return None
    return (
        f"no file system can be mounted here: {obstacles[0].reason}. fsage measures in a plain directory; its fullness "
        f"and fragmentation are unknown. To have both set and checked: {obstacles[0].remedy}. "
        "`fsage doctor` tells what runs here"
    )


def target_of(studies: Iterable[Path]) -> str:
    """The target of these studies, or targets with commas, where the command names none.

    Raises StudyError where they are not on the same.
    """
    named = {path: usual_target(path) or default_target() for path in studies}
    if len(set(named.values())) > 1:
        where = ", ".join(f"{path.stem} is measured on {name}" for path, name in named.items())
        raise StudyError(
            f"{where}: one run has one target, or one list of them; give the studies apart, or say --config target=NAME"
        )
    return next(iter(named.values()), default_target())


def load_target(inventory: Path) -> Target:
    """The declaration in `<inventory>/group_vars/all/target.yml`. Raises StudyError naming file, key and value."""
    path = inventory / "group_vars" / "all" / "target.yml"
    try:
        declared = read_yaml(path)
    except FileNotFoundError as error:
        targets = sorted(
            p.name for p in inventory.parent.glob("*") if (p / "group_vars" / "all" / "target.yml").exists()
        )
        raise StudyError(
            f"target {inventory.name!r}: {path}: {error.strerror}; there are {', '.join(targets)}"
        ) from error
    if not isinstance(declared, dict) or "fsage_target" not in declared:
        raise StudyError(f"{path}: {show(declared)} is not a block with the key fsage_target")
    try:
        return Target.model_validate(declared["fsage_target"])
    except ValidationError as error:
        raise StudyError(explain(path, error, Target)) from error


def load_claim(path: Path) -> Claim | None:
    """The copy of the claim, or None before the target was claimed. Raises StudyError for what is no claim."""
    claim = results.read(path)
    if claim is not None and not isinstance(claim, dict):
        raise StudyError(f"{path}: {show(claim)} is no claim; move it away and claim the target again")
    return cast(Claim, claim)
