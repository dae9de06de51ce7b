"""Takes config/*.yaml, the targets' inventories and the records that exist; gives PLANS: what is still to be measured."""

import atexit
import difflib
import logging
import os
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from fsage.plan.results import Results
from fsage.plan.target import load_claim
from fsage.run import allocation, failed_jobs, invocation, runs, sharing, terminal

try:
    CALL = invocation.begin(config, sys.argv[1:]) if workflow.is_main_process else invocation.join()
except (ValueError, runs.Superseded) as error:
    raise WorkflowError(str(error)) from None
RUN, POOLS, PLANS, TARGETS, SHARED = CALL.run, CALL.pools, CALL.plans, CALL.targets, CALL.shared

if workflow.is_main_process:
    atexit.register(Path(os.environ[runs.NOTE]).unlink, missing_ok=True)
    logging.getLogger(failed_jobs.LOGGER).addHandler(failed_jobs.FailedJobs())
    if not workflow.output_settings.verbose:
        terminal.for_people(failed_jobs.LOGGER)

# Snakemake itself says only that no rule produces it.
FILES = invocation.study_files()
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
    """What a job that measures asks of Slurm: nothing where srun starts no steps in it."""
    wanted = allocation.RESOURCES if plan.target.launcher == "srun" else ()
    return {name: of_job(plan, name) for name in wanted if name not in OWN}


def on(name):
    """The end of a rule's name that tells targets apart; nothing where there is one."""
    return f"_{name}" if len(TARGETS) > 1 else ""


def alone(plan):
    """Resources of a job that works on a target: the target, and what it shares with others."""
    name = plan.target.name
    return {sharing.of_target(name): 1, **{sharing.resource(part): 1 for part in SHARED[name]}}


# A resource limits nothing unless its limit is set for all.
for name in TARGETS:
    workflow.register_resource(sharing.of_target(name), 1)
for part in sorted(set().union(*SHARED.values())):
    workflow.register_resource(sharing.resource(part), 1)


def few_jobs(pool):
    """What to say where not all targets can be at work at once."""
    given = workflow.resource_settings
    at_once, option = (given.nodes, "--jobs") if given.nodes else (given.cores, "--cores")
    wanted = len(pool.at_work)
    together = set.intersection(*(SHARED[plan.target.name] for plan in pool.at_work)) if pool.several else set()
    if together:
        return [f"note {pool.study.name}: the targets take turns, for all have {' and '.join(sorted(together))}"]
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
                    from fsage.run import adaptive  # numpy and scikit-learn

                    for plan in pool.at_work:
                        print(adaptive.forecast(plan, RUN.precision, CALL.seconds), flush=True)
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
