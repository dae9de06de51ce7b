"""Takes config/*.yaml, the target's inventory and the records that exist; gives PLANS: what is still to be measured."""

import atexit
import difflib
import json
import os
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError

from fsage import window
from fsage.agent.files import boot_id
from fsage.agent.lease import start_of
from fsage.plan import freeze, load_plans, thaw
from fsage.request import HOLDER
from fsage.study import StudyError
from fsage.target import default_target

# Also read by the `fsage` commands that the jobs call.
for name, default in {
    "target": default_target(),
    "results": "results",
    "studies": "config",
    "inventories": "inventories",
    "until": "",
}.items():
    os.environ[f"FSAGE_{name.upper()}"] = str(config.get(name, os.environ.get(f"FSAGE_{name.upper()}", default)))

RESULTS = os.environ["FSAGE_RESULTS"]

try:
    window.closes()
    PLANS = load_plans(
        Path(os.environ["FSAGE_STUDIES"]),
        Path(os.environ["FSAGE_INVENTORIES"]) / os.environ["FSAGE_TARGET"],
        Path(RESULTS),
    )
    for name in PLANS.keys() & set(sys.argv):
        PLANS[name].seconds()  # refuses, before the DAG is built, cells that do not fit the claimed target
except StudyError as error:
    raise WorkflowError(str(error)) from None

# Snakemake itself says only that no rule produces it.
for word in set(sys.argv[1:]) - PLANS.keys() if workflow.is_main_process else ():
    for near in difflib.get_close_matches(word, PLANS, n=1, cutoff=0.8):
        print(f"fsage: no study is called {word!r}; did you mean {near!r}?", file=sys.stderr)

# What is missing is decided once, by the main process: a job that parses this file again must see the same DAG.
if workflow.is_main_process:
    os.environ["FSAGE_FROZEN"] = str(freeze(PLANS, Path(".snakemake/fsage")))
    os.environ[HOLDER] = json.dumps(
        {
            "run": f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}",
            "host": os.uname().nodename,
            "boot_id": boot_id(),
            "pid": os.getpid(),
            "pid_start": start_of(os.getpid()),
            "command": " ".join(["snakemake", *sys.argv[1:]]),
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
    )
    atexit.register(Path(os.environ["FSAGE_FROZEN"]).unlink, missing_ok=True)
else:
    PLANS = thaw(PLANS, Path(os.environ["FSAGE_FROZEN"]))

ASKED = {}  # study -> plan, filled when Snakemake asks for a study's records: so in dry runs too


def records_of(plan):
    """All records of a plan; the first time, say the plan in one line."""

    def records(wildcards):
        if plan.study.name not in ASKED:
            ASKED[plan.study.name] = plan
            if workflow.is_main_process:
                print(plan.line(), *plan.notes(), sep="\n", flush=True)
        return [str(plan.results.record(state, cell.name)) for state, cell in plan.all_cells()]

    return records


MEASURING = []  # filled when this run takes the target's lease


onstart:
    if any(plan.missing for plan in ASKED.values()):
        shell("fsage hold")
        MEASURING.append(os.environ["FSAGE_TARGET"])


onsuccess:
    if MEASURING:
        shell("fsage hold --release")


onerror:
    if MEASURING:
        shell("fsage hold --release")
