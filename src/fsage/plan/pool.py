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
from fsage.plan import words
from fsage.plan.plan import WHOLE, Plan, load_plan
from fsage.plan.results import Results
from fsage.plan.settings import Commands
from fsage.plan.target import Target, load_target
from fsage.study.cells import Cell
from fsage.study.comparisons import REPEAT, SHARE, Bind
from fsage.study.study import Study, StudyError, means

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


def common_states(study: Study, states: Collection[str]) -> list[str]:
    """Return the states that all targets measure which share a study: those of its primary comparisons."""
    named = {text for pair in study.headline for text in (pair.state, pair.against)}
    return [name for name in states if any(means(text, name) for text in named)]


def _bound(plans: Mapping[str, Plan], axis: str) -> Parts:
    """The axis' levels in turn."""
    first = next(iter(plans.values()))
    of_state: dict[str, object] = {name: state.axes[axis] for name, state in first.states.items()}
    levels = list(dict.fromkeys(of_state.values()))
    if len(levels) < len(plans):
        raise StudyError(
            f"study {first.study.name} gives each target a level of {axis}: it has {len(levels)} levels, and "
            f"{len(plans)} targets were named ({', '.join(plans)})"
        )
    parts: dict[str, tuple[str, ...]] = dict.fromkeys(plans, ())
    for state, level in of_state.items():
        name = list(plans)[levels.index(level) % len(plans)]
        parts[name] += (state,)
    return parts


def _shared(plans: Mapping[str, Plan], lost: Collection[str]) -> Parts:
    """The common states on each; of the others each on one: where it was begun, else in runs of equally long work.

    Runs, because the states of one population come one after the other.
    """
    first = next(iter(plans.values()))
    common = common_states(first.study, first.states)

    def whole(target: str, state: str) -> bool:
        return not plans[target].to_measure(state)

    stay = [name for name in plans if name not in lost]
    if not stay:
        raise StudyError(f"study {first.study.name}: no target is left: {', '.join(plans)} are all said to be lost")
    # Without the common states nobody knows how a lost target compares: what it measured stands in its own results.
    count = [name for name in plans if name in stay or all(whole(name, state) for state in common)]
    owner: dict[str, str] = {}
    for state in first.states:
        measured = (name for name in count if whole(name, state))
        begun = (name for name in stay if plans[name].results.recorded(state))
        if state not in common and (first_target := next(measured, None) or next(begun, None)):
            owner[state] = first_target
    work = {
        name: sum(
            plans[name].state_seconds(state) for state in first.states if state in common or owner.get(state) == name
        )
        for name in stay
    }
    rest = [state for state in first.states if state not in common and state not in owner]
    each = {state: first.state_seconds(state) for state in rest}
    even = (sum(work.values()) + sum(each.values())) / len(stay)
    room = {name: max(0.0, even - work[name]) for name in stay}
    dealt = 0.0
    until = 0.0
    for name in stay:
        until += room[name] / (sum(room.values()) or 1) * sum(each.values())
        while rest and (name == stay[-1] or dealt + each[rest[0]] / 2 <= until):
            state = rest.pop(0)
            owner[state] = name
            dealt += each[state]
    return {
        name: tuple(state for state in first.states if name in count and (state in common or owner[state] == name))
        for name in plans
    }


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
        return ((plan, state, cell) for plan in self.plans for state, cell in plan.all_cells())

    def manifests(self) -> list[Path]:
        """The manifests of all planned states, whether they are there or not."""
        return [plan.manifest(state) for plan in self.plans for state in plan.states]

    def files(self) -> list[Path]:
        """What the table is made of: records of all planned cells, and manifests. They may not be there."""
        return [path for plan in self.plans for path in plan.files()]

    def check_state(self, name: str) -> None:
        """Raise StudyError for a state that the study has not."""
        next((plan for plan in self.plans if name in plan.states), self.plans[0]).check_state(name)

    def check_cell(self, name: str) -> None:
        """Raise StudyError for a cell that no state of the study has."""
        self.plans[0].check_cell(name)

    def compared_records(self, wildcards: object = None) -> list[str]:
        """Records of another study that the report sets beside."""
        return [path for plan in self.plans for path in plan.compared_records()]

    def lines(self, states: bool = False) -> list[str]:
        """The plan for people: a line a target, with `states` one a state, notes, and of several what they come to."""
        sentences = list(map(words.line, self.plans))
        over = len(self.plans) if self.several and self.study.targets == REPEAT else None
        sentences += dict.fromkeys(note for plan in self.plans for note in words.notes(plan, over))
        if self.several:
            todo = [sum(map(len, plan.missing.values())) for plan in self.plans]
            longest = max(plan.seconds() for plan in self.plans)
            sentences.append(
                f"together {self.study.name}: {len(self.plans)} targets, {_how(self.study)}; "
                f"{counted(sum(todo), 'cell')} to measure, about {duration(longest)} if all work at once"
            )
            sentences += [
                f"note {self.study.name}: the targets differ: {difference}" for difference in unlike(self.plans)
            ]
        for plan in self.plans if states else ():
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
    paths = [name for name in names if "/" in name or name in (".", "..")]
    if paths:
        raise StudyError(
            f"target: {paths[0]!r} is a path, and a target is named as its folder in inventories/ is: "
            f"write {Path(paths[0]).name.strip('.') or 'local'}"
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise StudyError(f"target: {text!r} names {twice[0]} twice")
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
    if len(plans) == 1:
        return Pool(tuple(plans.values()))
    study = next(iter(plans.values())).study
    refuse_same(list(plans.values()))
    if study.targets == SHARE and (differing := unlike(list(plans.values()))):
        raise StudyError(
            f"study {study.name}: targets that share states are to be alike, and these are not: "
            + "; ".join(differing)
            + ". Give each a run of its own, or let the study say `targets: repeat`"
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
    strange = [name for name in lost if name not in {path.name for path in inventories}]
    if strange:
        raise StudyError(
            f"lost: {strange[0]!r} is none of the targets that this run has: "
            f"{', '.join(path.name for path in inventories)}"
        )
    return {
        path.stem: load_pool(path, inventories, results_root, only, lost, (parts or {}).get(path.stem))
        for path in studies
    }


DECLARED = ("kind", "filesystem", "stores", "scale", "allocator_reset", "launcher", "launcher_options", "device_model")
CLAIMED = ("kernel", "tasks", "amount_mib", "tools", "images")
CAPACITY_WITHIN = 0.01
"""Capacities that differ by more are unlike: AA% of them are other sizes."""


def unlike(plans: Sequence[Plan]) -> list[str]:
    """Return in what targets differ, each in words: 'filesystem: ext4 on ssu1, xfs on ssu2'."""
    sentences: list[str] = []
    for key in DECLARED:
        values = {plan.target.name: _text(plan.target.spec.get(key)) for plan in plans}
        sentences += _differing(key, values)
    claims = {plan.target.name: plan.claim for plan in plans if plan.claim}
    for key in CLAIMED:
        sentences += _differing(key, {name: _text(claim.get(key)) for name, claim in claims.items()})
    sizes = {name: claim["capacity_bytes"] for name, claim in claims.items() if "capacity_bytes" in claim}
    if sizes and max(sizes.values()) > (1 + CAPACITY_WITHIN) * min(sizes.values()):
        sentences += _differing("capacity", {name: f"{size / 2**30:.4g} GiB" for name, size in sizes.items()})
    return sentences


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


def _differing(what: str, values: dict[str, str]) -> Iterable[str]:
    if len(set(values.values())) < 2:
        return []
    return [f"{what.replace('_', ' ')}: " + ", ".join(f"{value} on {name}" for name, value in values.items())]


def _text(value: object) -> str:
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True)
