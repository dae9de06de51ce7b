"""Striping: `lfs setstripe` on directories, and `lfs getstripe -y` to verify where files lie.

The exit status of `setstripe` proves nothing. `-c 999` gives all OSTs. With one OST full, `-i 0` gives another one, and
`-c 2` becomes 1. Each time the status is 0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from fsage.api.host import Target, run
from fsage.api.model import ALL_OSTS, MIB, Failure, Json, JsonView, Segment
from fsage.api.target import fillers, structure

from ..model import LustreSpec, Striping, lustre_of

T = TypeVar("T")
KEYS = r"(?:lmm_)?(stripe_count|stripe_size|stripe_offset|pool|lcme_extent\.e_start|l_ost_idx)"
PAIR = re.compile(rf"{KEYS}:[^\S\n]+(\S+)")
ANY = -1  # any OST may be the first
THREADS = 16
FILES_AT_MOST = 64  # files that are examined, evenly spread: each costs a process


class Component(NamedTuple):
    """One component of a layout (a plain file has one); `osts` in the order of the stripes, empty while it has none."""

    start_bytes: int
    stripe_count: int
    stripe_size_bytes: int
    first: int
    osts: tuple[int, ...]
    pool: str = ""


def parse(text: str) -> list[Component]:
    """The components that `lfs getstripe -y` shows of a file, or with `-d` of a directory. Raises Failure."""
    try:
        components = [Component(**{**block, "osts": tuple(block["osts"])}) for block in _found(text)]
    except (TypeError, ValueError):
        components = []
    if not components:
        raise Failure(f"`lfs getstripe -y` said {text[:80]!r}: no layout")
    return components


def _found(text: str) -> list[Json]:
    """What of each component is in the text. Raises ValueError."""
    components: list[Json] = []
    start = 0
    for match in PAIR.finditer(text):
        key = match[1]
        value = match[2]
        if key == "lcme_extent.e_start":
            start = int(value)
        elif key == "stripe_count":
            components.append({"start_bytes": start, "stripe_count": int(value), "osts": []})
        elif components and key == "stripe_size":
            components[-1]["stripe_size_bytes"] = int(value)
        elif components and key == "stripe_offset":
            components[-1]["first"] = int(value)
        elif components and key == "pool":
            components[-1]["pool"] = value
        elif components and key == "l_ost_idx":
            components[-1]["osts"].append(int(value))
    return components


def components_of(path: Path, *options: str) -> list[Component]:
    """The layout of one file; with `-d` the one that new files in a directory get. Raises Failure."""
    return parse(run(["lfs", "getstripe", "-y", *options, str(path)]).stdout)


def set_on(directory: Path, wanted: Striping, declared: LustreSpec, turn: int = 0) -> None:
    """Set a striping on `directory`, for files made there later, and read it back. Raises Failure.

    Where the target declares a pool or OSTs the files lie there: a stripe on each OST in turn, from number `turn` on.
    """
    count = wanted["stripe_count"]
    size_mib = wanted["stripe_size_mib"]
    first = wanted["first_ost"]
    pool = declared["pool"]
    osts = in_turn(declared, count, turn)
    if osts:
        count = len(osts)
        first = osts[0]
    size = ["-S", f"{size_mib}M"]
    where = _where(pool, osts)
    if osts:
        words = [*where, *size]
    else:
        words = ["-c", str(count), *size, "-i", str(first), *where]
    run(["lfs", "setstripe", *words, str(directory)])
    now = components_of(directory, "-d")
    requested = (count, size_mib * MIB, first, osts, pool or "")
    if [(*component[1:4], component.osts, component.pool if pool else "") for component in now] != [requested]:
        raise Failure(
            f"{directory}: requested {count} stripes of {size_mib} MiB from OST {first} on{_placed(osts, pool)}, "
            "`lfs getstripe -d` shows "
            + "; ".join(
                f"{component.stripe_count} of {component.stripe_size_bytes} bytes from {component.first} on"
                f"{_placed(component.osts, component.pool)}"
                for component in now
            )
        )


def in_turn(declared: LustreSpec, count: int, turn: int) -> tuple[int, ...]:
    """The OSTs of a target's list on which `count` stripes lie, from number `turn` of them on; none without a list."""
    osts = declared["osts"] or ()
    count = len(osts) if count == ALL_OSTS else count
    return tuple(around(osts, turn, count)) if osts else ()


def around(osts: Sequence[T], start: int, count: int) -> list[T]:
    """So many of the OSTs in turn, from number `start` of them on."""
    return [osts[(start + number) % len(osts)] for number in range(count)]


def _where(pool: str | None, osts: Sequence[int]) -> list[str]:
    """Options of `lfs setstripe`: on which OSTs, or in which pool."""
    if osts:
        return ["-o", ",".join(map(str, osts))]
    return ["-p", pool] if pool else []


def one_on_each(folder: Path, numbers: Sequence[int]) -> dict[str, Path]:
    """A file in a directory on each OST that has room for one, by the OST's name. Raises Failure."""
    paths = {}
    for number in numbers:
        path = folder / f"OST{number:04x}"
        if not path.exists():
            run(["lfs", "setstripe", "-c", "1", "-i", str(number), str(path)])
        if components_of(path)[0].osts == (number,):
            paths[path.name] = path
        else:  # the OST is full, so Lustre took another one
            path.unlink()
    if not paths:
        raise Failure(f"{folder}: no file can be made on any of the OSTs {', '.join(map(str, numbers))}")
    return paths


def any_on(place: Path, number: int) -> bool:
    """Whether a file below `place` has a stripe on an OST, by the layouts that the MDTs have; if not known, yes."""
    ran = run(["lfs", "find", str(place), "--type", "f", "--ost", str(number)], ok=range(256))
    return bool(ran.stdout.strip()) or ran.returncode != 0


def _placed(osts: Sequence[int], pool: str | None) -> str:
    """The OSTs or the pool of a layout, in words."""
    if pool:
        return f" in pool {pool}"
    return f" on OSTs {', '.join(map(str, osts))}" if osts else ""


def compose(directory: Path, segments: Sequence[Segment], declared: LustreSpec) -> None:
    """Set a layout of these segments on `directory`, for files made there later, and read it back. Raises Failure.

    They lie where the target declares, as in `set_on`. The last component has no end: otherwise a write beyond the
    segments would fail.
    """
    words = []
    for number, segment in enumerate(segments, 1):
        if number == len(segments):
            end = "-1"
        else:
            end = f"{segment.end_bytes // MIB}M"
        words += ["-E", end, "-c", str(segment.stripes), "-S", f"{segment.stripe_bytes // MIB}M"]
        words += _where(declared["pool"], in_turn(declared, segment.stripes, segment.first))
    run(["lfs", "setstripe", *words, str(directory)])
    now = [component[:3] for component in components_of(directory, "-d")]
    wanted = _components_wanted(segments)
    if now != wanted:
        raise Failure(
            f"{directory}: requested components (start, stripes, bytes of a stripe) {wanted}, "
            f"`lfs getstripe -d` shows {now}"
        )


def cut(directory: Path, segments: Sequence[Segment], declared: LustreSpec) -> list[Path]:
    """Make a directory for each segment, striped as it, and read that back; where they are. Raises Failure."""
    places = [directory / structure.segment_folder(number) for number in range(len(segments))]
    for place, segment in zip(places, segments):
        place.mkdir(exist_ok=True)
        size_mib = segment.stripe_bytes // MIB
        wanted: Striping = {"stripe_count": segment.stripes, "stripe_size_mib": size_mib, "first_ost": ANY}
        set_on(place, wanted, declared, segment.first)
    return places


def _components_wanted(segments: Sequence[Segment]) -> list[tuple[int, int, int]]:
    return [(segment.start_bytes, segment.stripes, segment.stripe_bytes) for segment in segments]


def of_files(
    files: Iterable[Path],
    declared: Striping,
    osts: int,
    segments: Sequence[Segment] = (),
    allowed: Collection[int] = (),
) -> Json:
    """The placement of written files, compared with the declared striping, or with `segments`.

    `allowed`: OSTs that they may lie on, where not all are.
    Returns {"files", "looked_at" (number of files examined), "stripes" (their number by OST), "astray" (a sentence for
    each file that lies elsewhere)}.
    """
    allowed = frozenset(allowed)
    if declared["stripe_count"] == ALL_OSTS:
        wanted = osts
    else:
        wanted = declared["stripe_count"]
    wanted_parts = _components_wanted(segments)
    stripes: Counter[int] = Counter()
    astray = []
    every = sorted(files)
    paths = every[:: -(-len(every) // FILES_AT_MOST) or 1]
    with ThreadPoolExecutor(THREADS) as pool:
        for path, components in zip(paths, pool.map(components_of, paths)):
            osts_of_file = [index for component in components for index in component.osts]
            stripes.update(osts_of_file)
            if allowed and not allowed.issuperset(osts_of_file):
                astray.append(f"{path} lies on OSTs {osts_of_file}, declared are {sorted(allowed)}")
            elif segments:
                parts = [
                    (component.start_bytes, len(set(component.osts)), component.stripe_size_bytes)
                    for component in components
                ]
                if parts != wanted_parts:
                    requested = f"requested were {wanted_parts}"
                    astray.append(f"{path} has components (start, OSTs, bytes of a stripe) {parts}, {requested}")
            elif len(components) > 1 or len(set(osts_of_file)) != wanted:
                astray.append(
                    f"{path} has {len(set(osts_of_file))} stripes on OSTs {osts_of_file}, requested were {wanted}"
                )
            elif declared["first_ost"] not in (ANY, osts_of_file[0]):
                astray.append(f"{path} begins on OST {osts_of_file[0]}, requested was {declared['first_ost']}")
            elif components[0].stripe_size_bytes != declared["stripe_size_mib"] * MIB:
                astray.append(f"{path} has stripes of {components[0].stripe_size_bytes} bytes")
    return {
        "files": len(every),
        "looked_at": len(paths),
        "stripes": {str(index): number for index, number in sorted(stripes.items())},
        "astray": astray,
    }


def placement(target: Target, written: list[Path], segments: Sequence[Segment] = ()) -> Json:
    """The placement of a target's written files (of_files)."""
    declared = lustre_of(target.spec)
    osts = target.claim["lustre"]["osts"]
    usable = target.claim["lustre"].get("usable", [])
    return of_files(written, declared, len(usable or osts), segments, usable)


def of_striped(target: Target, written: list[Path], notes: JsonView) -> Json:
    """The placement of a cell's files in a state (its notes), which may have a layout of its own (of_files)."""
    segments = structure.noted_segments(notes)
    if not _in_folders(notes):
        return placement(target, written, segments)
    measured = target.mounts[0] / "measured"
    looked_at = 0
    stripes_on = Counter[str]()
    astray = list[str]()
    left = set(written)
    for number, segment in enumerate(segments):
        own = [path for path in written if measured / structure.segment_folder(number) in path.parents]
        placed = placement(target, own, [segment._replace(start_bytes=0)])
        looked_at += placed["looked_at"]
        stripes_on.update(placed["stripes"])
        astray += placed["astray"]
        left -= set(own)
    astray += [f"{path} is in no segment's directory" for path in sorted(left)]
    return {"files": len(written), "looked_at": looked_at, "stripes": dict(stripes_on), "astray": astray}


def make_folders(target: Target, notes: JsonView) -> None:
    """Make the directories of a state's segments, where each segment has one. Raises Failure."""
    if _in_folders(notes):
        cut(target.mounts[0] / "measured", structure.noted_segments(notes), lustre_of(target.spec))


def _in_folders(notes: JsonView) -> bool:
    return bool(structure.noted_segments(notes)) and notes["stripe"]["realisation"] == structure.SEGMENTS


def verify_fillers(target: Target) -> None:
    """Raise Failure where one of a sample of the structure's files lies on other OSTs than declared."""
    paths = [Path(entry.path) for entry in fillers(target.mounts[0])]
    astray = placement(target, paths)["astray"]
    if astray:
        raise Failure(f"the files do not lie as requested: {len(astray)} of a sample lie elsewhere: {astray[0]}")
