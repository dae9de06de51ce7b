"""Takes config/*.yaml, the targets' inventories and what the store has; gives CALL: what is still to be measured."""

import atexit
import gc
import os
import shlex
import subprocess
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from fsage import interrupt
from fsage.base import Refusal, in_words
from fsage.base.message import say
from fsage.model import plugins
from fsage.plan.results import Results
from fsage.run import invocation, progress, resources, runs

gc.freeze()  # what is imported stays: looking through it again and again took a tenth of a dry run
if workflow.is_main_process:
    interrupt.handle()

# The only place that reads the command line. A job that parses this again belongs to the run that wrote the note.
try:
    GOALS = invocation.goals(sys.argv[1:]) if workflow.is_main_process else None
    if workflow.is_main_process:
        CALL = invocation.begin(config, sys.argv[1:], GOALS, workflow.output_settings.dryrun)
    else:
        CALL = invocation.join()
except (ValueError, OSError, Refusal, runs.Superseded) as error:
    invocation.refuse(in_words(error))
except (Exception, SystemExit) as error:
    why = plugins.blamed(error)
    if why is None:
        raise
    invocation.refuse(why)

if workflow.is_main_process:
    RUN_NOTES = (Path(os.environ[runs.NOTE]), runs.told_by(Path(os.environ[runs.NOTE])))
    for note in RUN_NOTES:
        atexit.register(note.unlink, missing_ok=True)
    progress.set_up(workflow.output_settings.verbose)

# A resource limits nothing unless its limit is set for all.
for name in CALL.targets:
    for resource in resources.of_target(name, CALL.shared[name]):
        workflow.register_resource(resource, resources.EACH)


def resources_of(plan):
    """Resources of a job that visits a target: the target, and what it shares with others."""
    return resources.of_target(plan.target.name, CALL.shared[plan.target.name], plan.target.of_kind.guests)


def allocation_of(plan):
    """What a job that measures asks of Slurm. What the site's profile sets itself, such as slurm_extra, stays."""
    return resources.of_slurm(plan, workflow.resource_settings.default_resources or {})


def on(name):
    """The end of a rule's name that tells targets apart; nothing where there is one."""
    return f"_{name}" if len(CALL.targets) > 1 else ""


REQUESTED = {}  # study -> its plans, filled when Snakemake asks for a study's manifests: so in dry runs too


def end_without_output(error):
    """End before anything is begun: what Snakemake says goes to standard output too, so it would add a traceback."""
    if not isinstance(error, BrokenPipeError):  # of a reader that has enough, such as head
        say(f"standard output: {error.strerror}")
    for note in RUN_NOTES:
        note.unlink(missing_ok=True)
    os._exit(1)


def manifests_of(pool):
    """The manifests of a study's states; the first time, say the plan in one line, in a dry run its states too."""

    paths = []

    def manifests(wildcards):
        if not paths:
            REQUESTED[pool.study.name] = pool
            if workflow.is_main_process:
                limits = workflow.resource_settings
                jobs, option = (limits.nodes, "--jobs") if limits.nodes else (limits.cores, "--cores")
                lines = CALL.lines(pool, workflow.output_settings.dryrun, jobs, option)
                try:
                    print(*lines, sep="\n", flush=True)
                except OSError as error:
                    end_without_output(error)
            paths.extend(map(str, pool.manifests()))
        return paths

    return manifests


def code_of_reports(wildcards):
    """The file of the package that was changed last: no other makes a report older than its code."""
    code = (path for path in Path("src/fsage").rglob("*") if path.suffix in (".py", ".j2", ".css", ".js"))
    return str(max(code, key=lambda path: path.stat().st_mtime))


HELD = []  # targets whose lease this run takes


def to_hold():
    """Targets on which this run measures; all, where a killed run may still hold them."""
    measured = [plan.target.name for pool in REQUESTED.values() for plan in pool.plans if plan.missing]
    left = [name for name in CALL.targets if name not in CALL.run.lost] if runs.gone() else []
    return [name for name in CALL.targets if name in (*measured, *left)]


def let_go():
    """Give the leases back. What fails is said by the command itself, and ends this run, too."""
    if not HELD:
        return
    with interrupt.deferred():
        code = subprocess.call(["fsage", "hold", "--release", *HELD])
    if code:
        sys.exit(1)
