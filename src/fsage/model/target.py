"""What is declared of a target (`fsage_target`), complete."""

from __future__ import annotations

from typing import Literal, TypedDict

from fsage.model.typed import Json

Launcher = Literal["openmpi", "mpich", "srun"]


class Scale(TypedDict):
    """How the studies' nominal sizes shrink on a small target."""

    file_size: float
    tasks: int  # on each client


class Striping(TypedDict):
    """How files of a directory are striped."""

    stripe_count: int  # -1: all OSTs
    stripe_size_mib: int
    first_ost: int  # -1: any


class LustreSpec(Striping):
    """What a target of kind lustre is on; sizes in GiB and MiB as named."""

    fsname: str
    mgs: str
    capacity_gib: float | Literal["all"]
    oss: list[str]
    tolerance_mib: int  # by how much others may change the used space of each OST


class Spec(TypedDict):
    """A complete declaration: every key present, each as its kind and DEFAULTS have it. Sizes in GiB and MiB as named.

    What it may be is checked by `complete`, and on the machine of the study by fsage.target too.
    """

    name: str
    kind: str
    filesystem: str
    stores: int
    size_gib: int
    sparse: bool
    geometry: Json | None  # fsage.model.geometry
    minimum_gib: int
    image_dir: str | None
    mount_dir: str
    home: str
    scale: Scale
    allocator_reset: str
    amount_mib: int | None
    launcher: Launcher
    launcher_options: list[str]
    device_model: Json | None
    directory: str
    budget_gib: float
    containers: str | None
    run_as: str | None
    lustre: LustreSpec | None
