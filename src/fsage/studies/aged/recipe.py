"""File systems that were aged by use, beside replicas of their free space: how well a replica stands for its original.

Each has three states on one target, one after the other. `original` is as use left it. `copied` has the same free
space, and large files in place of all others. `joined` has as much free space in one run. They are aged here, in a
`way`, or were aged elsewhere, and an image of the metadata was taken.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fsage.api.model import Step
from fsage.api.study import Levels, Problems, Seed, Spelled, State, Strict
from fsage.studies.replica.model import KeepFreeSpace

from .model import Age, Restore, Way

Image = Annotated[str, Spelled(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "the name of a file in layouts/")]
ORIGINAL = "original"
COPIED = "copied"
JOINED = "joined"


class States(Strict):
    """Block `states:` of a study: of each way to use it the original, its replica, and its free space in one run."""

    recipe: Literal["aged"] = "aged"
    ways: Annotated[tuple[Way, ...], Levels(0)] = Field(
        (),
        description="churn: files of many sizes come and go; logs: they grow in turns and the oldest go; packages: "
        "trees of small files are unpacked and removed",
    )
    images: Annotated[tuple[Image, ...], Levels(0)] = Field(
        (), description="files in layouts/ beside the study, of e2image -Q (ext4), xfs_metadump (XFS) or btrfs-image"
    )
    trusted: bool = Field(
        False, description="true: whoever made the images may decide what this machine's kernel reads as a file system"
    )
    fullness_percent: Annotated[int, Field(ge=1, le=90)] = Field(
        70, description="share of the capacity that is in use at the end"
    )
    written_percent: Annotated[int, Field(ge=1, le=2000)] = Field(
        200, description="bytes that are written in all, in percent of the capacity"
    )
    seed: Seed | None = Field(None, description="seed of the use; null: drawn once and recorded")
    reuse: Literal["nested"] = Field("nested", description="each replica copies the original of the state before")

    @model_validator(mode="after")
    def _keys_fit(self) -> States:
        with Problems() as wrong:
            names = [*self.ways, *map(name_of, self.images)]
            if not names:
                wrong.add("ways", "no way and no image: give at least one of either")
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                wrong.add("images", f"two are called {twice[0]}, and states are named after them")
            if self.images and not self.trusted:
                text = (
                    "an image is mounted: this machine's kernel then reads what its maker wrote. fsck checks it first, "
                    "but no file system withstands every malicious image. `trusted: true` says that you trust its maker"
                )
                wrong.add("trusted", text)
            if self.written_percent < self.fullness_percent:
                text = f"{self.written_percent}% written cannot fill {self.fullness_percent}%; it is at least as much"
                wrong.add("written_percent", text)
        return self


def name_of(image: str) -> str:
    """'ost0012.qcow2' -> 'ost0012'."""
    return image.partition(".")[0]


def expand(states: States) -> list[State]:
    """Return the states: of each way and image the original, its replica, and its free space in one run."""
    originals: dict[str, Step] = {}
    for way in states.ways:
        originals[way] = Age(1, way, states.fullness_percent, states.written_percent, states.seed)
    for image in states.images:
        originals[name_of(image)] = Restore(1, image)
    copy = KeepFreeSpace(2, joined=False)
    made = []
    for name, original in originals.items():
        made.append(_state(name, ORIGINAL, (original,)))
        made.append(_state(name, COPIED, (original, copy)))
        made.append(_state(name, JOINED, (original, copy, KeepFreeSpace(3, joined=True))))
    return made


def _state(way: str, holes: str, steps: tuple[Step, ...]) -> State:
    axes: dict[str, object] = {"way": way, "holes": holes}
    nominal = {"recipe": "aged", "axes": axes, "reference": f"{way}.{JOINED}"}
    return State(f"{way}.{holes}", way, axes, nominal, steps)
