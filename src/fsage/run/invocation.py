"""What a call of Snakemake is: the run that it begins or belongs to, and its studies laid out on its targets."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NoReturn, cast

from fsage.base.message import say
from fsage.plan import Plan, results, settings
from fsage.plan.pool import Pool, load_pools, names_of
from fsage.plan.target import target_of, why_default
from fsage.run import resources, runs
from fsage.study import StudyError
from fsage.study.comparisons import SHARE
from fsage.study.files import check_alone, in_folder
from fsage.text.strict import nearest

NOTES = Path(".snakemake/fsage")


@dataclass(frozen=True)
class Invocation:
    """A run and its `pools`, by study; by target, the parts that another target has too (`shared`).

    Where things are stands in the environment (`settings.places`), for the commands that jobs call.
    """

    run: runs.Run
    pools: dict[str, Pool]
    shared: dict[str, set[str]]
    began: datetime

    def jobs(self) -> list[tuple[Plan, int, runs.Job]]:
        """What Snakemake is to do on each target for each study, with its priority: as the run noted, once."""
        planned = runs.jobs()
        jobs = []
        for number, plan in enumerate(self.plans):
            for position, job in enumerate(planned[plan.study.name][plan.target.name]):
                jobs.append((plan, 10**8 - 10**6 * number - position, job))
        return jobs

    @property
    def plans(self) -> list[Plan]:
        """All plans: of each study one a target."""
        plans: list[Plan] = []
        for pool in self.pools.values():
            plans += pool.plans
        return plans

    @property
    def targets(self) -> list[str]:
        """Names of the targets."""
        return names_of(os.environ["FSAGE_TARGET"])

    @property
    def results(self) -> Path:
        """The folder of all results."""
        return Path(os.environ["FSAGE_RESULTS"])

    @property
    def studies(self) -> Path:
        """The folder of the studies."""
        return Path(os.environ["FSAGE_STUDIES"])

    @property
    def folders(self) -> list[Path]:
        """All that a report reads or writes, but for the code."""
        return [self.results, self.studies, Path(os.environ["FSAGE_INVENTORIES"])]

    @property
    def seconds(self) -> float | None:
        """The time that the run has; None where no end was named."""
        if self.run.until:
            return (self.run.until - self.began).total_seconds()
        return None

    def lines(self, pool: Pool, states: bool, jobs: int | str | None, option: str) -> Iterator[str]:
        """What is said of a study before it is measured: its plan, with `states` one line for each state; forecasts.

        `jobs`: how many Snakemake runs at once at most, by which `option`.
        """
        yield from pool.lines(states)
        if pool.several:
            common = set.intersection(*(self.shared[plan.target.name] for plan in pool.at_work))
            wanted = len(pool.at_work)
            if common:
                yield f"note {pool.study.name}: the targets take turns, for all have {' and '.join(sorted(common))}"
            elif isinstance(jobs, int) and jobs < wanted:
                yield (
                    f"note {pool.study.name}: {wanted} targets, and at most {jobs} jobs at once: {option} {wanted} "
                    "allows all"
                )
        if self.run.precision:
            from fsage.run import adaptive  # numpy and scikit-learn

            for plan in pool.at_work:
                yield adaptive.forecast(plan, self.run.precision, self.seconds)


def study_files() -> dict[str, Path]:
    """The studies there are, name -> file."""
    return in_folder(Path(os.environ["FSAGE_STUDIES"]))


def begin(
    config: Mapping[str, object],
    words: Sequence[str],
    goals: Collection[str] | None = None,
    dry: bool = False,
) -> Invocation:
    """The run of a command line, `words`, with its `--config`, noted for its jobs. Raises StudyError, ValueError.

    What is missing is decided here, once: a job that parses the rules again must see the same DAG. `goals`: what
    Snakemake takes for studies, rules and files to make; None where it makes nothing. A `dry` run needs no kernels.
    """
    settings.check(config)
    batch_states = cast("int | None", config.get("batch_states"))
    os.environ |= settings.places(config, os.environ)
    studies = study_files()
    if goals is not None:
        check_goals(goals, studies, words=words)
    requested = settings.requested(words, studies)
    if not os.environ["FSAGE_TARGET"]:
        os.environ["FSAGE_TARGET"] = target_of([studies[name] for name in requested])
        why = why_default(os.environ["FSAGE_TARGET"])
        if why:
            say(why)
    now = datetime.now().astimezone()
    run = runs.Run(
        holder=runs.identity(" ".join(["snakemake", *words])),
        only=settings.narrowed(config, requested),
        lost=tuple(names_of(str(config["lost"]))) if "lost" in config else (),
        until=settings.until(config, now),
        precision=settings.precision(config),
    )
    invocation = _lay_out(run, settings.mentioned(words, studies), now)
    for name in requested:
        for plan in invocation.pools[name].plans:
            plan.check()  # before the DAG is built
            if not dry and goals is not None:
                plan.check_kernels()
        if run.precision:
            _check_budget(invocation, invocation.pools[name], run.precision)
    os.environ[runs.NOTE] = str(runs.note(invocation.pools, run, NOTES, batch_states))
    return invocation


WITHOUT_GOALS = {
    *("lint", "list_rules", "list_target_rules", "print_compilation", "unlock", "list_untracked"),
    *("cleanup_metadata", "cleanup_shadow", "deploy_sources", "target_jobs"),
}
"""Options of Snakemake that need no study."""


def refuse(text: str) -> NoReturn:
    """End Snakemake with a sentence, and nothing of its own."""
    say(text)
    sys.exit(1)


def goals(words: Sequence[str]) -> set[str] | None:
    """What a command line of Snakemake asks for: studies, rules and files. None where it needs none of them."""
    from snakemake.cli import get_argument_parser

    given = get_argument_parser().parse_args(list(words))
    if any(getattr(given, option, None) for option in WITHOUT_GOALS):
        return None
    return set(given.targets)


def check_goals(
    goals: Collection[str], studies: Collection[str], rules: Collection[str] | None = None, words: Sequence[str] = ()
) -> None:
    """Raise StudyError where no study is named, or one in a way in which none is; what is a rule is known once it is.

    Snakemake itself would make the first rule's files, or say that no rule makes them.
    """
    there = f"there are: {', '.join(studies) or 'none'}"
    if not goals:
        taken = settings.requested(words, studies)
        if taken:
            raise StudyError(f"no study is named, for an option takes {taken[0]} as its own: put -- before the study")
        raise StudyError(f"no study is named, so there is nothing to do: ./run snakemake STUDY; {there}")
    for goal in sorted(set(goals) - set(studies) - set(rules or ())):
        path = Path(goal)
        if path.stem in studies and (path.suffix in (".yaml", ".yml") or goal.endswith("/")):
            check_alone(goal)
        unlike_rules = not any(name in goal for name in studies)
        if "/" not in goal and (rules is not None or (unlike_rules and nearest(goal, studies))):
            raise StudyError(f"there is no study {goal!r};{nearest(goal, studies)} {there}")


def join() -> Invocation:
    """The run that this process, a job, belongs to. Raises Superseded when it has lost its licence."""
    run = runs.current()
    return _lay_out(run, list(runs.jobs()), datetime.now().astimezone())


def _lay_out(run: runs.Run, names: Sequence[str], now: datetime) -> Invocation:
    root = Path(os.environ["FSAGE_RESULTS"])
    studies = study_files()
    results.check(root)
    inventories = [Path(os.environ["FSAGE_INVENTORIES"]) / name for name in names_of(os.environ["FSAGE_TARGET"])]
    pools = load_pools([studies[name] for name in names], inventories, root, run.only, run.lost, run.parts)
    return Invocation(run, pools, resources.shared(inventories), now)


def _check_budget(invocation: Invocation, pool: Pool, precision: float) -> None:
    from fsage.run import adaptive  # numpy and scikit-learn

    if pool.several and pool.study.targets != SHARE:
        raise StudyError(
            f"study {pool.study.name}: a budget needs one target, or targets that share the states (targets: share)"
        )
    for plan in pool.at_work if invocation.run.until else ():
        parts = invocation.shared[plan.target.name]
        if parts:
            raise StudyError(
                f"study {pool.study.name}: target {plan.target.name} takes turns with another target, for both use "
                f"{' and '.join(sorted(parts))}. The last one would have no time left. Name one target, or targets "
                "that share nothing, or give precision=3% alone"
            )
    for plan in pool.at_work:
        adaptive.check(plan, precision, invocation.seconds)
