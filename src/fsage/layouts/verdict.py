"""A store's layout in two or three sentences, from its numbers alone; and these numbers for a script to fail on."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fsage.base import MIB, Json, Misuse
from fsage.base.sizes import counted, format_size, round_size, significant
from fsage.layouts import filesystems, placement
from fsage.layouts.geometry import BLOCK_BYTES
from fsage.layouts.store import SizeClass

FOUND = "found"
LEAST_PLACELESS = 0.01
"""From this share of files without an extent on they are named."""
WITHOUT = "they are empty or one hole, lie in their inodes, or were just written, and `sync` gives those a place"
"""What the files are called that were looked at themselves."""
WHOLE_BYTES = 64 * MIB
"""Files whose pieces are so long on average are as good as whole: a disk moves that in a third of a second."""
APART_POINTS = 1.0
"""Where df's number differs by so much, it is explained."""
LITTLE_BYTES = 8 * MIB
"""With less free, making a file can fail by itself, for file systems keep some blocks back for their own trees."""
LITTLE = (
    "So little is free that a new file, or an inode of its own, may not be had: how contiguous new files would be, "
    "nobody can say. `df` and `df -i` say what is left for users"
)
UNKNOWN = "These numbers are of the sound part. Nothing is copied (--save, age) before the damage is repaired."
FULL = "full"
INODES = "inodes"
NAMES = (FULL, INODES, *(f"extents_{format_size(size)}" for size in placement.NEW_FILES))
"""What --fail-on can name: percent of blocks and of inodes, and extents of new files."""
FRAGMENTED = "fragmented"
OF_FRAGMENTS = (FRAGMENTED, *NAMES)
PERCENTS = (FULL, INODES, FRAGMENTED)
"""Limits of `fsage fragments`; percent of the files with more extents than necessary."""


@dataclass(frozen=True)
class Verdict:
    """`sentences`: what stands on top. `values`: by what --fail-on calls it; None: not known."""

    sentences: list[str]
    values: Mapping[str, float | None]

    def as_json(self) -> Json:
        """For a script: of `values` those that are known; null: a file of that size does not fit."""
        known = {name: value for name, value in self.values.items() if value is not None}
        values = {name: None if value == math.inf else value for name, value in known.items()}
        return {"sentences": self.sentences, "values": values}


def verdicts(layout: Json) -> list[Verdict]:
    """The verdict on each store of a layout, as `inspect` gives it."""
    return [verdict(store, layout["what"], layout.get("mounted")) for store in layout["stores"]]


def verdict(store: Json, what: str, mounted: dict[str, int] | None) -> Verdict:
    """The verdict on a Store.summary. `mounted`: what statvfs(2) says where it is mounted (`inspect`)."""
    system = filesystems.of_store(store)
    free = placement.classes(store["free_extents"]) if store["free_extents"] else []
    has_sizes = store["device_bytes"] is not None and store["free_bytes"] is not None
    files = placement.new_files(system, store, mounted)
    direct = placement.new_files(system, store, mounted, direct=True)
    values: dict[str, float | None] = dict.fromkeys(NAMES)
    values[FULL] = store["fullness_percent"]
    if mounted and mounted["inodes"]:
        values[INODES] = 100 * (1 - mounted["free_inodes"] / mounted["inodes"])
    for new_file in files:
        values[new_file.name] = math.inf if new_file.high is None else new_file.high
    sentences = list(store.get("warnings", ()))
    unknown_bytes = store.get("unknown_bytes", 0)
    if has_sizes or free:
        sentences.append(_full(store, free, mounted))
    if files:
        lie = placement.sentence(system, files, direct)
        sentences.append(f"{lie} {placement.used_up(store, free)}".strip())
        refused = placement.first_refused(system, store, mounted)
        if refused:
            sentences[-1] += f" {refused.sentence(store['fullness_percent'])}"
        sentences.append(UNKNOWN if unknown_bytes else _never(store) or _worth(store, what, files, direct))
    sentences += _of_files(store, what)
    if has_sizes and not files:
        sentences.append(f"How free space lies is not known: {store['absent']['free_extents']}.")
    return Verdict(sentences, values)


def _full(store: Json, free: list[SizeClass], mounted: dict[str, int] | None) -> str:
    sentence = "How full it is, the text does not say."
    if store["device_bytes"]:
        sentence = (
            f"{store['fullness_percent']:.1f}% full: {round_size(store['used_bytes'])} of "
            f"{round_size(store['device_bytes'])} are in use, the file system's own blocks among them"
            f"{_df(store, mounted)}."
        )
    sentence += "" if mounted else _notes(store, "free")
    if not store["free_extents"]:
        return sentence
    if not free:
        return f"{sentence} Nothing is free."
    extents = store["free_extents"]
    halves = 0
    for size_class in free:
        halves += size_class.bytes
        if 2 * halves >= store["free_bytes"]:
            break
    return (
        f"{sentence} The {round_size(store['free_bytes'])} that are free lie in {extents['count']:,} extents: half of "
        f"them in extents of {round_size(size_class.from_bytes)} and more, the largest "
        f"{round_size(extents['largest_bytes'])}."
    )


def _notes(store: Json, of: str) -> str:
    """What the source says beside its name: numbers that disagree, or what stands for a number that it leaves out."""
    _, *notes = store.get("source", {}).get(of, "").split("; ")
    if notes:
        return f" Note: {'; '.join(notes)}."
    return ""


def _df(store: Json, mounted: dict[str, int] | None) -> str:
    """' (df says 91%: it ...)' where df's number is another."""
    if not mounted or not mounted["bytes"]:
        return ""
    used = mounted["bytes"] - mounted["free_bytes"]
    whole = used + mounted["available_bytes"]
    percent = 100 * used / whole if whole else 100.0
    if abs(percent - store["fullness_percent"]) < APART_POINTS:
        return ""
    reasons = []
    own = store["device_bytes"] - mounted["bytes"]
    if own > 0:
        reasons.append(f"leaves out {round_size(own)} that the file system keeps for itself")
    reserved_bytes = mounted["free_bytes"] - mounted["available_bytes"]
    if reserved_bytes > 0 and percent > store["fullness_percent"]:
        reasons.append(f"counts {round_size(reserved_bytes)} that users cannot have as used")
    if not reasons:
        reasons.append("counts otherwise what the file system keeps for itself")
    return f" (df says {math.ceil(percent)}%: it {' and '.join(reasons)})"


def _never(store: Json) -> str:
    """Why no measurement can be made of a copy; '' where one can."""
    why = store.get("unlike")
    if why:
        return f"What its age costs cannot be measured: {why}."
    if (
        store["bitmap"] and store.get("block_bytes", BLOCK_BYTES) != BLOCK_BYTES
    ):  # with places: else nothing could be copied anyway
        return f"What its age costs cannot be measured: no target has blocks of {store['block_bytes']} bytes."
    return ""


def _worth(store: Json, what: str, files: list[placement.NewFile], direct: list[placement.NewFile]) -> str:
    """Whether to measure, and why."""
    if store["free_bytes"] < LITTLE_BYTES or files[0].high is None:
        return f"{LITTLE}."
    pieces = [new_file for new_file in (*files, *direct) if new_file.high and new_file.high > 1]
    broken = [new_file for new_file in pieces if new_file.size_bytes / (new_file.high or 1) < WHOLE_BYTES]
    if not broken:
        return (
            "A measurement is not worthwhile: new files, each written alone and at once, would be about as contiguous "
            "as on an empty file system."
        )
    worst = broken[0]
    past = "" if worst in files else " that is written past the cache"
    size = round_size(worst.size_bytes)
    why = f"a new file of {size}{past} would have {worst.words()}, and 1 on an empty file system"
    command = f"./run fsage age {shlex.quote(what)}`"
    if what == "-":
        command = "./run fsage age FILE` with this text in a file"
    also = ""
    if not store["bitmap"]:
        also = ". Where the extents lie this text does not say, so that is drawn several times"
    return f"Worth measuring, for {why}: `{command} says what that costs, which depends on the device{also}."


def _of_files(store: Json, what: str) -> Iterator[str]:
    """How the files lie that were looked at."""
    for name, files in (store["files"] or {}).items():
        count = files["files"]
        if not count:
            continue
        if not files["extents"]:
            yield _none_of(count) + _notes(store, "files")
            continue
        if not files["extents_per_file"]:
            yield f"Files have {files['extents']:,} extents, where {count:,} would do."
            continue
        several = sum(number for extents, number in files["extents_per_file"].items() if int(extents) > 1)
        extents = counted(files["extents"], "extent")
        if count == 1:
            sentence = f"The file {name} has {extents}."
        else:
            share = f"{100 * several / count:.1f}% of {count:,} files {name} have 2 extents or more"
            sentence = f"{share}; all files have {extents}, {significant(files['extents'] / count)} each."
        sentence += _notes(store, "files")
        placeless = files["extents_per_file"].get("0", 0)  # no sign of how well they lie
        if placeless and placeless >= LEAST_PLACELESS * count:
            sentence += f" {placeless:,} of {count:,} have none: {WITHOUT}."
        yield sentence
        if several and name == FOUND:
            yield f"`./run fsage fragments {shlex.quote(what)}` lists the worst."


def _none_of(count: int) -> str:
    return f"None of {counted(count, 'file')} has an extent: {WITHOUT}."


def of_fragments(fragments: Json) -> Verdict:
    """On files that were looked at (fsage.layouts.fragments.summary)."""
    every = fragments["all"]
    broken = fragments["files_in_pieces"]
    if not every["files"]:
        return Verdict(["No file was found."], {FRAGMENTED: 0.0})
    if not every["extents"]:
        return Verdict([_none_of(every["files"])], {FRAGMENTED: 0.0})
    percent = 100 * broken / every["files"]
    sentence = (
        f"{broken:,} of {every['files']:,} files ({percent:.1f}%) have more extents than they need: all in "
        f"{every['extents']:,} extents, where {every['ideal_extents']:,} would do."
    )
    if fragments["device"] and every["read_s_at_most"]:
        sentence += (
            f" Reading them cold takes {significant(every['read_s_at_most'])} s at most, and jumps are "
            f"{100 * every['gain_s_at_most'] / every['read_s_at_most']:.2g}% of that: more cannot be gained."
        )
    return Verdict([sentence], {FRAGMENTED: percent})


def parse_limits(text: str, names: Sequence[str]) -> dict[str, float]:
    """'full=90,extents_64M=12' of --fail-on. Raises Misuse."""
    limits = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        most = 100.0 if name in PERCENTS else math.inf
        if name not in names or not 0 <= value <= most or value == math.inf or name in limits:
            raise Misuse(
                f"--fail-on {part!r}: it is NAME=NUMBER, each once, such as {FULL}=90; names are {', '.join(names)}; "
                "a percentage is at most 100"
            )
        limits[name] = value
    return limits


def reached(values: Mapping[str, float | None], limits: Mapping[str, float]) -> list[str]:
    """A sentence for each limit that is reached. Raises ValueError where a value is not known."""
    unknown = [name for name in limits if name in values and values[name] is None]
    if unknown:
        raise ValueError(f"--fail-on {unknown[0]}: that is not known here")
    sentences = []
    for name, value in values.items():
        if name in limits and value is not None and value >= limits[name]:
            much = "more than fits" if value == math.inf else f"{value:.4g}"
            sentences.append(f"{name} is {much}, at or above the limit of {limits[name]:g} (--fail-on)")
    return sentences
