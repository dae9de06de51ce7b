"""Takes config/*.yaml, the targets' inventories and the records that exist; gives PLANS: what is still to be measured."""

import atexit
import difflib
import logging
import os
import shlex
import sys
from datetime import datetime
from pathlib import Path

from snakemake.exceptions import WorkflowError

from fsage.run import allocation, failed_jobs, runs, sharing, terminal, window
from fsage.plan import results, settings
from fsage.plan.pool import load_pools, names_of
from fsage.plan.results import Results
from fsage.plan.target import load_claim, target_of
from fsage.study.study import StudyError
from fsage.study.targets import SHARE

try:
    if workflow.is_main_process:  # a job that parses this file again has these already
        settings.check(config)
        os.environ |= settings.places(config, os.environ)
    RESULTS, STUDIES = os.environ["FSAGE_RESULTS"], Path(os.environ["FSAGE_STUDIES"])
    FILES = {path.stem: path for path in sorted(STUDIES.glob("*.yaml"))}
    if workflow.is_main_process:
        asked = settings.asked_for(sys.argv[1:], FILES)
        planned = settings.mentioned(sys.argv[1:], FILES)
        if not os.environ["FSAGE_TARGET"]:
            os.environ["FSAGE_TARGET"] = target_of([FILES[name] for name in asked])
        now, until = datetime.now().astimezone(), str(config.get("until", "")).strip()
        if "budget" in config:
            if until:
                raise ValueError("budget=… and until=… both say when it ends: give one")
            until = (now + window.length(str(config["budget"]).strip())).isoformat()
        RUN = runs.Run(
            holder=runs.identity(" ".join(["snakemake", *sys.argv[1:]])),
            only=settings.narrowed(config, asked),
            lost=tuple(names_of(str(config["lost"]))) if "lost" in config else (),
            until=window.read(until, now) if until else None,
            precision=settings.precision(config),
        )
    else:
        asked, planned, RUN = [], runs.studies(), runs.current()
    results.check(Path(RESULTS))
    TARGETS = names_of(os.environ["FSAGE_TARGET"])
    INVENTORIES = [Path(os.environ["FSAGE_INVENTORIES"]) / name for name in TARGETS]
    POOLS = load_pools([FILES[name] for name in planned], INVENTORIES, Path(RESULTS), RUN.only, RUN.lost, RUN.parts)
    PLANS = [plan for pool in POOLS.values() for plan in pool.plans]
    SHARED = sharing.shared(INVENTORIES)
    for name in asked:
        for plan in POOLS[name].plans:
            plan.seconds()  # refuses, before the DAG is built, cells that do not fit the claimed target
    if workflow.is_main_process and RUN.precision:
        from fsage.run import adaptive  # numpy and scikit-learn

        seconds = (RUN.until - now).total_seconds() if RUN.until else None
        for name in asked:
            if POOLS[name].several and POOLS[name].study.targets != SHARE:
                raise StudyError(f"study {name}: a budget is of one target, or of several that share the states")
            for plan in POOLS[name].at_work:
                adaptive.check(plan, RUN.precision, seconds)

    # What is missing is decided once, by the main process: a job that parses this file again must see the same DAG.
    if workflow.is_main_process:
        os.environ[runs.NOTE] = str(runs.note(POOLS, RUN, Path(".snakemake/fsage")))
        atexit.register(Path(os.environ[runs.NOTE]).unlink, missing_ok=True)
        logging.getLogger(failed_jobs.LOGGER).addHandler(failed_jobs.FailedJobs())
        if not workflow.output_settings.verbose:
            terminal.for_people(failed_jobs.LOGGER)
    else:
        runs.as_noted(POOLS, Path(os.environ[runs.NOTE]))
except (ValueError, runs.Superseded) as error:
    raise WorkflowError(str(error)) from None

# Snakemake itself says only that no rule produces it.
for word in set(sys.argv[1:]) - FILES.keys() if workflow.is_main_process else ():
    for near in difflib.get_close_matches(word, FILES, n=1, cutoff=0.8):
        print(f"fsage: no study is called {word!r}; did you mean {near!r}?", file=sys.stderr)

# How many states one job visits, one after another: many where starting a job costs much.
BATCH_STATES = config.get("batch_states", 1)
HOW = "adaptive" if RUN.precision else "states" if BATCH_STATES == 1 else "batches"


def of_job(plan, resource):
    """A resource of jobs that measure, or None: known when the target is claimed, which a run may do itself."""
    return lambda wildcards: allocation.asked(load_claim(plan.results.claim)).get(resource)


# The site's own slurm_extra, if it has one, stays, and must then name the clients' nodes itself.
OWN = workflow.resource_settings.default_resources or {}


def allocation_of(plan):
    """What a job that measures asks of Slurm."""
    return {name: of_job(plan, name) for name in allocation.RESOURCES if name not in OWN}


def on(name):
    """The end of a rule's name that tells targets apart; nothing where there is one."""
    return f"_{name}" if len(TARGETS) > 1 else ""


def share_of(plan, part):
    """How much of a part that targets share a job takes."""
    return lambda wildcards: sharing.takes(part, load_claim(plan.results.claim))


def alone(plan):
    """Resources of a job that works on a target: the target, and what it shares with others."""
    shares = {sharing.resource(part): share_of(plan, part) for part in SHARED[plan.target.name]}
    return {sharing.of_target(plan.target.name): 1, **shares}


# A resource limits nothing unless its limit is set for all.
for name in TARGETS:
    workflow.register_resource(sharing.of_target(name), 1)
for part in sorted(set().union(*SHARED.values())):
    workflow.register_resource(sharing.resource(part), sharing.WHOLE)


def few_jobs(pool):
    """What to say where not all targets can be at work at once."""
    given = workflow.resource_settings
    at_once, option = (given.nodes, "--jobs") if given.nodes else (given.cores, "--cores")
    wanted = len(pool.at_work)
    if not pool.several or not isinstance(at_once, int) or at_once >= wanted:
        return []
    return [
        f"note {pool.study.name}: {wanted} targets, and at most {at_once} jobs at once: {option} {wanted} allows all"
    ]


ASKED = {}  # study -> its plans, filled when Snakemake asks for a study's records: so in dry runs too


def records_of(pool):
    """All records of a study; the first time, say the plan in one line, in a dry run its states too."""

    def records(wildcards):
        if pool.study.name not in ASKED:
            ASKED[pool.study.name] = pool
            if workflow.is_main_process:
                print(*pool.lines(states=workflow.output_settings.dryrun), *few_jobs(pool), sep="\n", flush=True)
                if RUN.precision:
                    for plan in pool.at_work:
                        print(adaptive.forecast(plan, RUN.precision, seconds), flush=True)
        return list(map(str, pool.records()))

    return records


def to_hold():
    """Targets on which this run measures; all, where a killed run may still hold them."""
    measured = [plan.target.name for pool in ASKED.values() for plan in pool.plans if plan.missing]
    left = [name for name in TARGETS if name not in RUN.lost] if runs.gone() else []
    return [name for name in TARGETS if name in (*measured, *left)]


MEASURING = []  # targets whose lease this run takes


onstart:
    MEASURING.extend(to_hold())
    if MEASURING:
        shell(f"fsage hold {shlex.join(MEASURING)}")


onsuccess:
    if MEASURING:
        shell(f"fsage hold --release {shlex.join(MEASURING)}")


onerror:
    if MEASURING:
        shell(f"fsage hold --release {shlex.join(MEASURING)}")
