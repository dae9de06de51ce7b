"""From observations to records: unpack what a play fetched, judge it, keep it in the store.

`messages`: what hosts send, and whether it was requested. `store`: the records of a plan, and the manifest of a state.

On a modelled device a sample may be disturbed: it took more than the model charges for its own files. The claim has
the rule before anything is measured (fsage.model.device.DISTURBED), and the rule looks at no other sample. A disturbed
sample is taken again, a few times at most. Each stays in raw/, and the record counts them.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from fsage import parse, recipes, seam, workloads
from fsage.base import Json, JsonView
from fsage.base.message import Unacceptable, shown
from fsage.model import device, signs, structure
from fsage.model.caches import KEPT
from fsage.model.observation import Observation
from fsage.plan import results
from fsage.plan.results import Results
from fsage.records.messages import OBSERVATION_BYTES, Requested, read_observation

PHASES = ("write", "read")


def disturbed_by(record: JsonView) -> str | None:
    """Why a sample is disturbed; None: it is not, or nobody knows."""
    rule = _rule(record)
    charges_s = record.get("model_seconds")
    if not rule or not charges_s or record["status"] != "valid" or record["kind"] in ("traced", "warm_up"):
        return None
    for phase in PHASES:
        seconds = record["metrics"].get(f"{phase}_seconds", 0.0)
        over_percent = 100 * (seconds / charges_s - 1)
        if over_percent > rule["over_percent"]:
            return (
                f"disturbed: {phase} took {seconds:.2f} s, {over_percent:.0f}% over the {charges_s:.2f} s that the "
                "device charges for its extents"
            )
    return None


def takes_again(record: Json, before: Iterable[JsonView]) -> bool:
    """Whether a sample is to be taken again. Notes in its record how many of the cell were disturbed.

    `before`: the records of the attempts before, the last one first.
    """
    rule = _rule(record)
    if not rule or not record.get("model_seconds"):
        return False
    most = rule["again_at_most"] + 1
    disturbed = sum(1 for _ in takewhile(disturbed_by, before)) % most  # after the last attempt another series begins
    reason = disturbed_by(record)
    record["disturbed"] = disturbed + bool(reason)
    if reason and record["disturbed"] == most:
        record["warnings"] = [*record["warnings"], f"{reason}, as were the {disturbed} samples before"]
    return bool(reason) and record["disturbed"] < most


def _rule(record: JsonView) -> Json | None:
    rule: Json | None = (record["conditions"].get("device_model") or {}).get("disturbed")
    return rule


SCHEMA = 1
ENTRIES = 100_000  # of a bundle
BULKY = ("stdout", "stderr", "line_s", "signs")  # kept in the raw observation only
SIGNS = {
    "kernel": "the log of the kernel",
    "connections": "the state of connections to servers",
    "lnet": "LNet's counters",
    "all": "signs of trouble",
}
"""What a look at a host lacks (fsage.model.signs), in words."""
NO_SERVER = "the inventory names no server to log in to"


def make_judgement(observation: JsonView) -> dict[str, object]:
    """Whether one observation ran right, and its numbers."""
    layout = observation["layout"]
    steps = structure.read_all(layout["steps"])
    judged = signs.judge(observation["phases"])
    outcome, charges_s = _judged(observation)
    if judged.failed and outcome.status in ("valid", "failed"):
        outcome = workloads.Outcome("failed", judged.failed)
    return {
        "structure": recipes.built(observation["nominal"]["recipe"], steps, layout["capacity_bytes"]),
        "phases": list(map(_lean, observation["phases"])),
        "status": outcome.status,
        "why": outcome.why,
        "warnings": [*judged.warnings, *signs.lost_osts(observation.get("osts", {}).get("fullness", {}))],
        "absent": absent_of(observation),
        "metrics": outcome.metrics,
        "model_seconds": charges_s,
    }


def _judged(observation: JsonView) -> tuple[workloads.Outcome, float | None]:
    """What the workload says of an observation, and what the device model charges for it (`_charges_s`).

    An error in a workload's code fails its cell, and the reason names the line: the rest of the run goes on.
    """
    over = _of_budget(observation["layout"])
    if over:
        return over, None
    workload = observation["params"]["workload"]
    try:
        outcome = workloads.load(workload).read(observation)
        return outcome, _charges_s(observation, outcome.metrics)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}, line {last.lineno}"
        what = f"{type(error).__name__} {shown(str(error))}"
        return workloads.Outcome("failed", f"workload {workload} cannot judge it: {what} ({place})"), None


def measured_extents(phases: Sequence[JsonView]) -> Json | None:
    """How the measured files lie, as the first phase with a map left them; not those at places before."""
    for phase in phases:
        if phase.get("extents") and not phase.get("leaves"):
            extents: Json = phase["extents"]
            return extents
    return None


def _charges_s(observation: JsonView, metrics: Mapping[str, float]) -> float | None:
    """What the device model charges for a sample of the files where they lie; None where that is not known."""
    model = observation["conditions"].get("device_model") or {}
    extents = measured_extents(observation["phases"])
    workload = workloads.load(observation["params"]["workload"])
    moved_bytes = metrics.get("write_bytes") or metrics.get("read_bytes")
    if not (extents and moved_bytes and hasattr(workload, "moved") and model.get("kind") in device.kinds()):
        return None
    moved = workload.moved(workloads.params_of(observation["params"]), extents, moved_bytes)
    if moved:
        return device.Model.of(model).charges_s(moved)
    return None


def absent_of(observation: JsonView) -> dict[str, str]:
    """What could not be had or known where a cell was measured -> why: a guest has no root, and no login on servers."""
    absent: dict[str, str] = {}
    conditions = observation["conditions"]
    layout = observation["layout"]
    phases = observation["phases"]
    is_remote = bool(conditions.get("lustre"))
    for phase in phases:
        for host, look in phase.get("signs", {}).get("after", {}).items():
            is_remote = is_remote or bool(look.get("connections") or look.get("nfs"))
            for key, why in look.get("absent", {}).items():
                absent[f"{SIGNS.get(key, key)} of {host}"] = why
    for key, why in observation.get("osts", {}).get("absent", {}).items():
        absent[f"{key} of the OSTs"] = why
    for name, note in conditions["tunables"].items():
        if isinstance(note, dict) and "unsupported" in note:
            absent[f"tunable {name}"] = note["unsupported"]
    if not layout["state_known"]:
        absent["how full and fragmented the file system is"] = "others use it too, and its free space is not read"
    why = layout.get("notes", {}).get("digest", {}).get("absent")
    if why:
        absent["a digest of all extents"] = why
    if any(phase.get("metadata") == KEPT for phase in phases):
        absent["cold names and inodes"] = "to drop them needs root or its helper"
    if phases and is_remote:
        if observation.get("servers") == []:
            absent["cold caches of the servers"] = NO_SERVER
        if observation.get("servers") == observation.get("watched") == []:
            absent["settings of the servers (preallocation tables)"] = NO_SERVER
    return {what: str(why) for what, why in absent.items()}


def make_record(observation: Mapping[str, object], raw: Path, root: Path) -> dict[str, object]:
    """Judge one observation: its record, with the place below `root` and the SHA-256 of the raw file that keeps it."""
    digest = hashlib.sha256(results.encoded(observation)).hexdigest()
    return {
        **observation,
        "schema": SCHEMA,
        **make_judgement(observation),
        "raw": {"path": str(raw.relative_to(root)), "sha256": digest},
    }


def _of_budget(layout: JsonView) -> workloads.Outcome | None:
    """A failure where the target held more than its claim allows, whatever was measured."""
    if layout["free_bytes"] >= 0:
        return None
    return workloads.Outcome(
        "failed",
        f"the target held {-layout['free_bytes']} bytes more than the {layout['capacity_bytes']} that its claim allows",
    )


def _lean(phase: JsonView) -> dict[str, object]:
    lean = {key: value for key, value in phase.items() if key not in BULKY}
    if parse.is_launched(phase.get("argv", ())):
        warnings = parse.harmless(f"{phase.get('stdout', '')}\n{phase.get('stderr', '')}")
        if warnings:
            lean["warnings"] = warnings
    if "beside" in phase:
        lean["beside"] = list(map(_lean, phase["beside"]))
    if "by_host" in phase:
        lean["by_host"] = {name: _lean(part) for name, part in phase["by_host"].items()}
    return lean


class Taken(NamedTuple):
    """What became of a bundle: how many observations were new, and a sentence for each that was not taken."""

    new: int
    refused: list[str]


def unpack(bundle: Path, root: Path, target: str) -> Taken:
    """Put the observations of a fetched bundle into raw/ (write-once) and the store.

    A bundle brings everything that waited on the host, also what a lost run of another study left. An observation that
    came before (same id) is not taken twice. What was not requested, a second answer to an attempt, or what is not
    as the agent writes it, is kept below refused/ as it came; the rest of the bundle is taken.
    """
    if not bundle.exists():
        return Taken(0, [])
    new = 0
    refused = []
    requested = Requested(root, target)
    for content in _observations(bundle):
        try:
            if isinstance(content, Unacceptable):
                raise content
            observation = read_observation(content)
            requested.match(observation)
            if not _is_kept(observation, root):
                keep(observation, root, target)
                new += 1
        except Unacceptable as why:
            aside = Results(root, target, "")
            if isinstance(content, bytes):
                place = _set_aside(aside, content)
            else:
                place = _set_aside_bundle(aside, bundle)
            refused.append(f"an observation from target {target} {why}; it is not taken, and kept: {place}")
    seam.flush(root)  # once for all of them: what waited on the host is gone by now
    bundle.unlink()
    return Taken(new, refused)


def _is_kept(observation: Observation, root: Path) -> bool:
    """Whether it came before. Raises Unacceptable for another one of the same requested attempt."""
    where = Results(root, observation["target"], observation["study"])
    state = observation["state"]
    cell = observation["cell"]
    for attempt in range(1, where.attempts(state, cell) + 1):
        raw = results.read(where.raw(state, cell, attempt))
        if _requested(raw) == _requested(observation):
            if raw["id"] == observation["id"]:
                return True
            words = ", ".join(f"{key} {shown(observation[key])}" for key in ("study", "state", "cell", "attempt"))
            raise Unacceptable(f"is a second answer to one request: {words}")
    return False


def _requested(observation: JsonView) -> tuple[str, int]:
    """Which request an observation answers: under which claim, and as which attempt of its cell."""
    return observation["claim"], observation.get("requested_attempt", observation["attempt"])


def _observations(bundle: Path) -> Iterator[bytes | Unacceptable]:
    """The content of each of a bundle's files, or why it has none; nothing comes after what cannot be read."""
    try:
        with tarfile.open(bundle, "r:") as tar:  # never compressed
            for number, member in enumerate(tar):
                if number == ENTRIES:
                    yield Unacceptable(f"is one of more than {ENTRIES}")
                    return
                if not member.isreg() or member.size > OBSERVATION_BYTES or member.issparse():
                    yield Unacceptable(f"is no regular file of at most {OBSERVATION_BYTES} bytes")
                elif content := tar.extractfile(member):
                    yield content.read()
            with open(bundle, "rb") as file:  # tarfile takes a header that is none for the end, without a word
                file.seek(tar.offset)
                if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                    raise tarfile.ReadError("no header, and not the end")
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:  # the tar file's own, not the reader's
        yield Unacceptable(f"cannot be read, nor what comes after it ({error})")


def _set_aside(where: Results, content: bytes) -> Path:
    path = where.refused(f"{hashlib.sha256(content).hexdigest()[:16]}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _set_aside_bundle(where: Results, bundle: Path) -> Path:
    with open(bundle, "rb") as file:  # which holds good ones too: they are taken from it
        path = where.refused(f"{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}.tar")
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        os.link(bundle, path)
    return path


def keep(observation: JsonView, root: Path, target: str) -> None:
    """Put an observation into raw/ (write-once) and its record into the store, as the next attempt of its cell.

    A record is written once. A disturbed sample has none, so that its cell is measured again. Of those that hosts send
    only what `unpack` accepted comes here, for its words become paths.
    """
    where = Results(root, target, observation["study"])
    state = observation["state"]
    cell = observation["cell"]
    requested = observation["attempt"]
    attempt = requested
    while where.raw(state, cell, attempt).exists():
        attempt += 1
    kept = dict(observation)
    if attempt != requested:
        kept |= {"attempt": attempt, "requested_attempt": requested}
    raw = where.raw(state, cell, attempt)
    record = make_record(kept, raw, root)
    again = takes_again(record, _judged_before(where, state, cell, attempt))
    if not again and not where.record(state, cell).exists():
        results.write(where.record(state, cell), record)
    results.write(raw, kept)  # the last: what is there is not taken out of the bundle again


def _judged_before(where: Results, state: str, cell: str, attempt: int) -> Iterator[JsonView]:
    """What the attempts before came to, the last one first."""
    for number in range(attempt - 1, 0, -1):
        before = results.read(where.raw(state, cell, number))
        yield {**before, **make_judgement(before)}
