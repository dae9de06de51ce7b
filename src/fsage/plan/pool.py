"""A study on one target or on several: which states each measures, and a plan for each.

Targets are alike in what their rates depend on, or not, by what was declared and what was claimed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fsage.base.sizes import counted, duration
from fsage.plan import WHOLE, Plan, load_plan, words
from fsage.plan.results import Results
from fsage.plan.settings import Commands
from fsage.plan.target import Target, load_target
from fsage.study import Study, StudyError
from fsage.study.cells import Cell
from fsage.study.comparisons import REPEAT, SHARE, Bind

Parts = dict[str, tuple[str, ...]]
"""Target -> names of its states, in planned order."""


def partition_states(plans: Mapping[str, Plan], lost: Collection[str] = ()) -> Parts:
    """Return the part of each target; `plans` are those of the whole study. Raises StudyError.

    What is missing of a `lost` target's share goes to the others.
    """
    study = next(iter(plans.values())).study
    if isinstance(study.targets, Bind):
        return _bound(plans, study.targets.bind)
    if study.targets == SHARE:
        return _shared(plans, lost)
    return {name: tuple(plan.states) for name, plan in plans.items()}


def common_states(study: Study, states: Iterable[str]) -> list[str]:
    """Return the states that all targets measure which share a study: those of its primary comparisons."""
    return [name for name in states if study.comparisons_of(name)]


def _bound(plans: Mapping[str, Plan], axis: str) -> Parts:
    """The axis' levels in turn."""
    first = next(iter(plans.values()))
    levels = list(dict.fromkeys(state.axes[axis] for state in first.states.values()))
    if len(levels) < len(plans):
        raise StudyError(
            f"study {first.study.name} gives each target a level of {axis}: it has {len(levels)} levels, and "
            f"{len(plans)} targets were named ({', '.join(plans)})"
        )
    names = list(plans)
    parts: Parts = dict.fromkeys(names, ())
    for name, state in first.states.items():
        turn = levels.index(state.axes[axis])
        parts[names[turn % len(names)]] += (name,)
    return parts


def _shared(plans: Mapping[str, Plan], lost: Collection[str]) -> Parts:
    """The common states on each; of the others each on one: where it was begun, else in runs of equally long work.

    Runs, because the states of one population come one after the other.
    """
    first = next(iter(plans.values()))
    common = common_states(first.study, first.states)
    stay = [name for name in plans if name not in lost]
    if not stay:
        raise StudyError(f"study {first.study.name}: no target is left: {', '.join(plans)} are all said to be lost")
    # Without the common states nobody knows how a lost target compares: what it measured stands in its own results.
    count = [name for name, plan in plans.items() if name in stay or not any(map(plan.to_measure, common))]
    single = [state for state in first.states if state not in common]
    owner: dict[str, str] = {}
    for state in single:
        measured = [name for name in count if not plans[name].to_measure(state)]
        begun = [name for name in stay if plans[name].results.recorded(state)]
        if measured or begun:
            owner[state] = (measured + begun)[0]
    rest = [state for state in single if state not in owner]
    _deal(rest, {name: plans[name] for name in stay}, owner, common)
    parts: Parts = dict.fromkeys(plans, ())
    for state in first.states:
        for name in count:
            if state in common or owner[state] == name:
                parts[name] += (state,)
    return parts


def _deal(states: list[str], plans: Mapping[str, Plan], owner: dict[str, str], common: Sequence[str]) -> None:
    """Give states without an owner to targets, in runs that make their work equally long."""
    names = list(plans)
    work_s = dict.fromkeys(names, 0.0)
    for name, plan in plans.items():
        work_s[name] += sum(map(plan.state_seconds, common))
    for state, name in owner.items():
        if name in plans:
            work_s[name] += plans[name].state_seconds(state)
    each_s = {state: plans[names[0]].state_seconds(state) for state in states}
    open_s = sum(each_s.values())
    even_s = (sum(work_s.values()) + open_s) / len(names)
    room_s = {name: max(0.0, even_s - own_s) for name, own_s in work_s.items()}
    whole_room_s = sum(room_s.values()) or 1
    rest = list(states)
    dealt_s = 0.0
    until_s = 0.0
    for name in names:
        until_s += room_s[name] / whole_room_s * open_s
        while rest and (name == names[-1] or dealt_s + each_s[rest[0]] / 2 <= until_s):
            state = rest.pop(0)
            owner[state] = name
            dealt_s += each_s[state]


MOST_TARGETS = 64
LONGEST_NAME = 80


@dataclass(frozen=True)
class Pool:
    """Plans of one study, one a target, in the order in which the targets were named."""

    plans: tuple[Plan, ...]

    @property
    def study(self) -> Study:
        """What is measured."""
        return self.plans[0].study

    @property
    def several(self) -> bool:
        """Whether there is more than one target."""
        return len(self.plans) > 1

    @property
    def at_work(self) -> list[Plan]:
        """Those on which anything is measured, or was."""
        return [plan for plan in self.plans if plan.states and not plan.lost]

    @property
    def counted(self) -> list[Plan]:
        """Those whose states a run counts too: a whole study that declares it, on file systems of its own."""
        if not self.study.count.with_run or self.study.is_narrowed:
            return []
        return [plan for plan in self.at_work if plan.target.counts]

    @property
    def targets(self) -> list[str]:
        """Their names."""
        return [plan.target.name for plan in self.plans]

    @property
    def commands(self) -> Commands:
        """What messages name."""
        return replace(self.plans[0].commands, target=",".join(self.targets))

    @property
    def name(self) -> str:
        """What results of all together are called: 'ssu1+ssu2', of many their number and a digest."""
        joined = "+".join(self.targets)
        digest = hashlib.sha256(joined.encode()).hexdigest()[:8]
        if len(joined) <= LONGEST_NAME:
            return joined
        return f"{len(self.plans)}-targets-{digest}"

    @property
    def target(self) -> Target:
        """The target, or what all have in common under the names of all."""
        first = self.plans[0].target
        if self.several:
            return first.having(name=",".join(self.targets))
        return first

    @property
    def results(self) -> Results:
        """Where what is made of all together lies: the report."""
        return Results(self.plans[0].results.root, self.name, self.study.name)

    def cells(self) -> Iterator[tuple[Plan, str, Cell]]:
        """(plan, state, cell) of everything."""
        for plan in self.plans:
            for state, cell in plan.all_cells():
                yield plan, state, cell

    def manifests(self) -> list[Path]:
        """The manifests of all planned states, whether they are there or not."""
        manifests: list[Path] = []
        for plan in self.plans:
            manifests += map(plan.manifest, plan.states)
        return manifests

    def files(self) -> list[Path]:
        """What the table is made of: records of all planned cells, and manifests. They may not be there."""
        files: list[Path] = []
        for plan in self.plans:
            files += plan.files()
        return files

    def check_state(self, name: str) -> None:
        """Raise StudyError for a state that the study has not."""
        if not any(name in plan.states for plan in self.plans):
            self.plans[0].check_state(name)

    def check_cell(self, name: str) -> None:
        """Raise StudyError for a cell that no state of the study has."""
        self.plans[0].check_cell(name)

    def compared_records(self, wildcards: object = None) -> list[str]:
        """Records of another study that the report sets beside."""
        records: list[str] = []
        for plan in self.plans:
            records += plan.compared_records()
        return records

    def lines(self, states: bool = False) -> list[str]:
        """The plan for people: a line a target, with `states` one a state, notes, and of several what they come to."""
        sentences = list(map(words.line, self.plans))
        each_is_a_sample = self.several and self.study.targets == REPEAT
        notes: dict[str, None] = {}  # in order, each once
        for plan in self.plans:
            notes |= dict.fromkeys(words.notes(plan, len(self.plans) if each_is_a_sample else None))
        sentences += notes
        if self.several:
            todo = sum(plan.missing_count for plan in self.plans)
            longest = max(plan.seconds() for plan in self.plans)
            sentences.append(
                f"together {self.study.name}: {len(self.plans)} targets, {_how(self.study)}; "
                f"{counted(todo, 'cell')} to measure, about {duration(longest)} if all work at once"
            )
            for difference in unlike(self.plans):
                sentences.append(f"note {self.study.name}: the targets differ: {difference}")
        if states:
            for plan in self.plans:
                sentences += words.state_lines(plan)
        return sentences


def _how(study: Study) -> str:
    if isinstance(study.targets, Bind):
        return f"each a level of {study.targets.bind}"
    if study.targets == SHARE:
        return "which share the states"
    return "each measures all"


def names_of(text: str) -> list[str]:
    """'ssu1,ssu2' -> both names. Raises StudyError for none, and for one that stands there twice."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise StudyError(f"target: {text!r} has an empty name; write target=ssu1,ssu2")
    for name in names:
        if "/" in name or name in (".", ".."):
            raise StudyError(
                f"target: {name!r} is a path, and a target is named as its folder in inventories/ is: "
                f"write {Path(name).name.strip('.') or 'local'}"
            )
    for name in names:
        if names.count(name) > 1:
            raise StudyError(f"target: {text!r} names {name} twice")
    if len(names) > MOST_TARGETS:
        raise StudyError(f"target: {len(names)} targets; allowed are {MOST_TARGETS} at most")
    return names


def load_pool(
    study_file: Path,
    inventories: Sequence[Path],
    results_root: Path,
    only: Mapping[str, object] = WHOLE,
    lost: Collection[str] = (),
    parts: Parts | None = None,
) -> Pool:
    """Lay out a study on the targets of these inventories. Raises StudyError.

    `lost`: names of targets on which nothing more is measured. `parts`: of each target, as a run has dealt them; None:
    they are dealt now.
    """
    plans = {path.name: load_plan(study_file, path, results_root, only) for path in inventories}
    every = list(plans.values())
    if len(every) == 1:
        return Pool(tuple(every))
    refuse_same(every)
    study = every[0].study
    differing = "; ".join(unlike(every))
    if study.targets == SHARE and differing:
        raise StudyError(
            f"study {study.name}: targets that share states are to be alike, and these are not: {differing}. "
            "Give each a run of its own, or let the study say `targets: repeat`"
        )
    parts = parts or partition_states(plans, lost)
    return Pool(tuple(replace(plan, part=parts[name], lost=name in lost) for name, plan in plans.items()))


def load_pools(
    studies: Iterable[Path],
    inventories: Sequence[Path],
    results_root: Path,
    only: Mapping[str, object] = WHOLE,
    lost: Collection[str] = (),
    parts: Mapping[str, Parts] | None = None,
) -> dict[str, Pool]:
    """Studies' files on these targets, by name of the study. Raises StudyError."""
    for inventory in inventories:
        load_target(inventory)  # also where no study is on it
    targets = [path.name for path in inventories]
    for name in lost:
        if name not in targets:
            raise StudyError(f"lost: {name!r} is none of the targets that this run has: {', '.join(targets)}")
    pools: dict[str, Pool] = {}
    for path in studies:
        of_study = (parts or {}).get(path.stem)
        pools[path.stem] = load_pool(path, inventories, results_root, only, lost, of_study)
    return pools


DECLARED = ("kind", "filesystem", "stores", "scale", "allocator_reset", "launcher", "launcher_options", "device_model")
CLAIMED = ("kernel", "tasks", "amount_mib", "tools", "images")
CAPACITY_WITHIN = 0.01
"""Capacities that differ by more are unlike: AA% of them are other sizes."""


def unlike(plans: Sequence[Plan]) -> list[str]:
    """Return in what targets differ, each in words: 'filesystem: ext4 on ssu1, xfs on ssu2'."""
    differences: list[str] = []
    for key in DECLARED:
        differences += _differing(key, {plan.target.name: plan.target.spec.get(key) for plan in plans})
    claims = {plan.target.name: plan.claim for plan in plans if plan.claim}
    for key in CLAIMED:
        differences += _differing(key, {name: claim.get(key) for name, claim in claims.items()})
    sizes = {name: claim["capacity_bytes"] for name, claim in claims.items() if "capacity_bytes" in claim}
    if sizes and max(sizes.values()) > (1 + CAPACITY_WITHIN) * min(sizes.values()):
        differences += _differing("capacity", {name: f"{size / 2**30:.4g} GiB" for name, size in sizes.items()})
    return differences


def refuse_same(plans: Sequence[Plan]) -> None:
    """Raise StudyError where two targets are one: a state that a run builds on one would be destroyed by the other."""
    owners: dict[str, str] = {}
    for plan in plans:
        for identity in set(_identities(plan)):
            other = owners.setdefault(identity, plan.target.name)
            if other != plan.target.name:
                raise StudyError(
                    f"targets {other} and {plan.target.name} are two names of one: both have {identity}; "
                    "name one of them"
                )


def _identities(plan: Plan) -> Iterator[str]:
    """What a target is told by, in words."""
    claim = plan.claim
    declared = plan.target.of_kind.told_by(plan.target.spec)
    if declared:
        yield declared
    if claim is None:
        return
    for store in claim["stores"]:
        if "image_id" in store:
            of = store["image_id"]
            yield f"image {of['dev']}:{of['ino']} on machine {claim.get('machine', claim.get('host'))}"
        for uuid in store.get("uuids", ()):
            yield f"a file system of UUID {uuid}"
        if "directory_id" in store:
            yield f"directory {_text(store['directory_id'])}"


def _differing(what: str, by_target: Mapping[str, object]) -> list[str]:
    """In a sentence, if the values of the targets differ."""
    values = set(map(_text, by_target.values()))
    if len(values) < 2:
        return []
    on_each = ", ".join(f"{_text(value)} on {name}" for name, value in by_target.items())
    return [f"{what.replace('_', ' ')}: {on_each}"]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True)
