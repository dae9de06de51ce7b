"""A plain directory as a target, for users without root.

It has a budget instead of a capacity, and nothing is known of the file system's state.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from fsage.base import Call, Json, Refusal
from fsage.host.system import files, places, space
from fsage.host.targets import claims
from fsage.layouts import machine
from fsage.model import declaration
from fsage.model.claim import Claim
from fsage.model.target import Spec

OURS = ("filler", "measured", ".fsage")
MARKS = (".fsage-target.json", "claim.json")
"""Files in `.fsage` that name the claim: on Lustre the whole claim, for other clients; on all kinds its id."""
PROBE = "probe"
"""What is looked at for the sake of others (fsage.studies.neighbours): it stays as long as the claim."""
MADE = "directory.json"
"""The note in a target's home that fsage made the directory, and those from `below` on, which the release removes."""


def measured_files(mounts: list[Path]) -> list[Path]:
    """All files that a cell's commands made, as paths without symbolic links."""
    found: list[Path] = []
    for mount in map(Path, map(os.path.realpath, mounts)):
        folder = mount / "measured"
        if folder.is_dir():
            if not os.access(folder, os.R_OK | os.X_OK):  # a cell's command took the right from its owner
                with places.opened(mount) as store:
                    places.make_in(store, folder)
            found += machine.regular_files(folder)
    return sorted(found)


def why_no_place(place: Path) -> str | None:
    """Why no files can be measured here, by this user; None when they can."""
    parent = space.existing(place)
    if not os.access(parent, os.W_OK):
        return f"{place}: {parent} cannot be written by user {os.geteuid()}; declare another fsage_target.directory"
    why = space.why_no_direct_io(parent)
    if why:
        return f"{why}; declare a fsage_target.directory on another file system"
    return None


def probe_folder(mount: Path) -> Path:
    """The directory of a target for files that are looked at for the sake of others, made if it is missing."""
    folder = mount / ".fsage" / PROBE
    with places.opened(mount) as store, places.inside(store, ".fsage", folder.parent) as above:
        places.make_in(above, folder)
    return folder


def create(spec: Spec, check: bool) -> Json:
    """Make the directory. Raises Refusal where it exists, unless it is empty or this target's already."""
    place = Path(spec["directory"])
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise Refusal(f"{place}: not a directory; declare another fsage_target.directory")
    places.check(place)
    if _holds_anything(place) and not _claimed(spec, place):
        mark = files.read_json(place / ".fsage/claim.json")
        owner = f"it is of target {mark['target']}" if mark else "not empty"
        raise Refusal(
            f"{place}: {owner}, and not claimed by target {spec['name']}; declare another fsage_target.directory"
        )
    why = why_no_place(place)
    if why:
        raise Refusal(why)
    parent = space.existing(place)
    changed = not place.is_dir()
    if changed and not check:
        places.make(place, places.PASSABLE if spec["run_as"] else places.PRIVATE)
        files.write_json(declaration.home_of(spec) / MADE, {**identity(place), "below": str(parent)})
    return {"changed": changed, "msg": f"{place} is {'made' if changed else 'in place'}"}


def made(spec: Spec) -> bool:
    """Whether fsage made the directory, which is still the same."""
    noted = files.read_json(declaration.home_of(spec) / MADE)
    try:
        return bool(noted) and _lasting(identity(Path(spec["directory"]))).items() <= noted.items()
    except FileNotFoundError:
        return False


def undo_create(spec: Spec) -> list[str]:
    """Remove the directory, and those above it that fsage made, where nothing is in it; a sentence about it."""
    place = Path(spec["directory"])
    note = declaration.home_of(spec) / MADE
    proof = []
    if made(spec):
        try:
            place.rmdir()
        except OSError as error:  # the note stays, and the next release tries again
            return [f"left {place}, which fsage made: {error.strerror}"]
        proof.append(f"{place} is gone")
        below = Path(files.read_json(note).get("below", place.parent))
        with contextlib.suppress(OSError):  # others have something there
            for above in place.parents[: len(place.relative_to(below).parts) - 1]:
                above.rmdir()
                proof.append(f"{above} is gone")
    if note.exists():
        files.remove(note)
    return proof


def take(place: Path) -> None:
    """Make root the owner again of a directory that was given to a user."""
    if os.path.lexists(place):
        os.lchown(place, 0, 0)


def identity(place: Path) -> Json:
    """The device and inode numbers of a directory."""
    stat = os.lstat(place)
    return {"dev": stat.st_dev, "ino": stat.st_ino}


def verify(place: Path, claim: Claim, identify: Callable[[Path], Json] = identity) -> None:
    """`Refusal` unless `place` is the very directory that was claimed, and nobody else can write to it."""
    store = claim["stores"][0]
    try:
        identity_now = identify(place)
    except FileNotFoundError:
        raise Refusal(
            f"{place} is missing; nothing was touched. Release target {claim['target']} and claim it again"
        ) from None
    places.check(place)
    if _lasting(identity_now) != _lasting(store["directory_id"]):
        raise Refusal(
            f"{place} is another directory than the one that was claimed ({identity_now}, not "
            f"{store['directory_id']}); nothing was touched. Bring that one back, or release target "
            f"{claim['target']}, which leaves this one as it is, and claim it again"
        )
    mark = files.read_json(place / ".fsage/claim.json")
    if not mark or mark.get("id") != claim["id"]:
        raise Refusal(
            f"{place}/.fsage/claim.json does not name claim {claim['id']}: it belongs to another claim, or was "
            "changed; nothing was touched"
        )


def _lasting(identity: Json) -> Json:
    """What tells a directory for good: the kernel numbers devices anew at each boot, and in each container."""
    return {key: value for key, value in identity.items() if key != "dev"}


def clear(place: Path, keep_mark: bool, threads: int = 1, spend: Call = lambda: None) -> list[str]:
    """Remove fsage's own trees in `place`; names of all other entries, which stay, are returned."""
    inside = [m.point for m in machine.mounts() if Path(place) in Path(m.point).parents]
    if inside:
        raise Refusal(f"{inside[0]} is mounted inside {place}: fsage does not delete below a mount; unmount it")
    trees = [name for name in OURS if os.path.lexists(place / name)]
    with contextlib.ExitStack() as open_now:
        top = open_now.enter_context(places.opened(place))
        # All trees are opened and judged before anything is removed: what is put in their place later is not touched.
        trees_open = {name: open_now.enter_context(places.inside(top, name, place / name)) for name in trees}
        for name in trees:
            if name != ".fsage":
                places.empty(trees_open[name], place / name, threads, spend)
                places.remove_emptied(top, place / name)
        if ".fsage" in trees:
            for entry in os.listdir(trees_open[".fsage"]):
                # The marks are removed last: without them nothing shows that the rest is fsage's.
                if entry not in MARKS and not (keep_mark and entry.startswith((*MARKS, PROBE))):
                    places.remove_in(trees_open[".fsage"], place / ".fsage" / entry)
            if not keep_mark:
                for mark in MARKS:
                    files.remove(place / ".fsage" / mark)
                places.remove_emptied(top, place / ".fsage")
        return sorted(entry for entry in os.listdir(top) if entry not in OURS)


def anything_ours(place: Path) -> bool:
    """Whether a tree of fsage's is there. An empty `.fsage`, which a killed release may leave, is removed."""
    with contextlib.suppress(OSError):
        (place / ".fsage").rmdir()
    return any(os.path.lexists(place / name) for name in OURS)


def _holds_anything(place: Path) -> bool:
    """Whether something is in a directory; a `.fsage` without a mark is what a killed claim or release may leave."""
    entries = os.listdir(place) if place.is_dir() else []
    if entries == [".fsage"] and (place / ".fsage").is_dir():
        return any(not name.startswith(".claim.json.") for name in os.listdir(place / ".fsage"))
    return bool(entries)


def _claimed(spec: Spec, place: Path) -> bool:
    claim = claims.read(declaration.home_of(spec))
    marks = (files.read_json(place / ".fsage" / name) for name in MARKS)
    return claim is not None and any(mark and mark.get("id") == claim["id"] for mark in marks)
