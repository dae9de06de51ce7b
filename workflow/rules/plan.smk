"""Takes config/*.yaml, the target's inventory and the records that exist; gives PLANS: what is still to be measured."""

import atexit
import difflib
import logging
import os
import sys
from datetime import datetime
from pathlib import Path

from snakemake.exceptions import WorkflowError

from fsage.run import allocation
from fsage.run import failed_jobs
from fsage.run import runs, terminal
from fsage.plan import results, settings
from fsage.run import window
from fsage.plan.plan import load_plans
from fsage.plan.results import Results
from fsage.plan.target import load_claim, load_target, target_of

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
            until=window.read(until, now) if until else None,
            precision=settings.precision(config),
        )
    else:
        asked, planned, RUN = [], list(FILES), runs.current()
    results.check(Path(RESULTS))
    INVENTORY = Path(os.environ["FSAGE_INVENTORIES"]) / os.environ["FSAGE_TARGET"]
    TARGET = load_target(INVENTORY)
    PLANS = load_plans([FILES[name] for name in planned], INVENTORY, Path(RESULTS), RUN.only)
    for name in asked:
        PLANS[name].seconds()  # refuses, before the DAG is built, cells that do not fit the claimed target
    if workflow.is_main_process and RUN.precision:
        from fsage.run import adaptive  # numpy and scikit-learn

        seconds = (RUN.until - now).total_seconds() if RUN.until else None
        for name in asked:
            adaptive.check(PLANS[name], RUN.precision, seconds)

    # What is missing is decided once, by the main process: a job that parses this file again must see the same DAG.
    if workflow.is_main_process:
        os.environ[runs.NOTE] = str(runs.note(PLANS, RUN, Path(".snakemake/fsage")))
        atexit.register(Path(os.environ[runs.NOTE]).unlink, missing_ok=True)
        logging.getLogger(failed_jobs.LOGGER).addHandler(failed_jobs.FailedJobs())
        if not workflow.output_settings.verbose:
            terminal.for_people(failed_jobs.LOGGER)
    else:
        PLANS = runs.as_noted(PLANS, Path(os.environ[runs.NOTE]))
except (ValueError, runs.Superseded) as error:
    raise WorkflowError(str(error)) from None

# Snakemake itself says only that no rule produces it.
for word in set(sys.argv[1:]) - FILES.keys() if workflow.is_main_process else ():
    for near in difflib.get_close_matches(word, FILES, n=1, cutoff=0.8):
        print(f"fsage: no study is called {word!r}; did you mean {near!r}?", file=sys.stderr)

# How many states one job visits, one after another: many where starting a job costs much.
BATCH_STATES = config.get("batch_states", 1)
HOW = "adaptive" if RUN.precision else "states" if BATCH_STATES == 1 else "batches"


def of_job(resource):
    """A resource of jobs that measure, or None: known when the target is claimed, which a run may do itself."""
    return lambda wildcards: allocation.asked(load_claim(Results(Path(RESULTS), TARGET.name, "").claim)).get(resource)


# The site's own slurm_extra, if it has one, stays, and must then name the clients' nodes itself.
OWN = workflow.resource_settings.default_resources or {}
ALLOCATION = {name: of_job(name) for name in allocation.RESOURCES if name not in OWN}

ASKED = {}  # study -> plan, filled when Snakemake asks for a study's records: so in dry runs too


def records_of(plan):
    """All records of a plan; the first time, say the plan in one line, in a dry run its states too."""

    def records(wildcards):
        if plan.study.name not in ASKED:
            ASKED[plan.study.name] = plan
            if workflow.is_main_process:
                states = plan.state_lines() if workflow.output_settings.dryrun else []
                print(plan.line(), *plan.notes(), *states, sep="\n", flush=True)
                if RUN.precision:
                    print(adaptive.forecast(plan, RUN.precision, seconds), flush=True)
        return [str(plan.results.record(state, cell.name)) for state, cell in plan.all_cells()]

    return records


MEASURING = []  # filled when this run takes the target's lease


onstart:
    # a killed run whose jobs finished everything still holds the target
    if any(plan.missing for plan in ASKED.values()) or runs.gone():
        shell("fsage hold")
        MEASURING.append(os.environ["FSAGE_TARGET"])


onsuccess:
    if MEASURING:
        shell("fsage hold --release")


onerror:
    if MEASURING:
        shell("fsage hold --release")
