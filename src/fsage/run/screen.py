"""What of Snakemake's own lines is on the screen: the rest is in its log, and what people need is said by the jobs."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from snakemake_interface_logger_plugins.common import LogEvent

from fsage import interrupt
from fsage.base.message import lines, printable

HANDLER = "DefaultStreamHandler"
"""Snakemake's name of its screen logger. Loggers given by `--logger` stay as they are."""
OWN = f"{os.sep}snakemake{os.sep}"
"""Snakemake itself; executors are packages of their own."""
TELLS = {LogEvent.ERROR, LogEvent.DEBUG_DAG}
STAYS = ("Nothing to be done", "Shutting down", "Report created", "Unlocking", "Unlocked", "Congratulations")


SAID_BY_JOBS = re.compile(
    r"Command 'set -euo pipefail;  fsage .*' returned non-zero exit status (1|130)\.|"
    r"Exiting because a job execution failed|--keep-incomplete mode is set|"
    r"At least one job did not complete successfully",
    re.DOTALL,
)
"""What Snakemake adds where a job has ended in a sentence. How a job ended that could not say why stays."""


NO_RULE = re.compile(r"No rule to produce (\S+) \(if you use input functions")
"""How Snakemake refuses a file that nothing makes."""
WITHOUT_GOALS = {
    *("lint", "list_rules", "list_target_rules", "print_compilation", "unlock", "list_untracked"),
    *("cleanup_metadata", "cleanup_shadow", "deploy_sources", "target_jobs"),
}
"""Options of Snakemake that need no study."""


def refuse(text: str) -> NoReturn:
    """End Snakemake with a sentence, and nothing of its own."""
    print(lines(f"fsage: {text}"), file=sys.stderr)
    sys.exit(1)


def goals(words: Sequence[str]) -> set[str] | None:
    """What a command line of Snakemake asks for: studies, rules and files. None where it needs none of them."""
    from snakemake.cli import get_argument_parser

    given = get_argument_parser().parse_args(list(words))
    if any(getattr(given, option, None) for option in WITHOUT_GOALS):
        return None
    return set(given.targets)


class ForPeople(logging.Filter):
    """Lets warnings and errors through, what an executor says (a job's id in Slurm), and that there is nothing to do.

    Events are rules, job tables, shell commands and steps done: a long study has hundreds, and each job says in words
    of the study what it did, also when it failed.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is for people. Who stopped a run knows why it ended."""
        if interrupt.came() or SAID_BY_JOBS.search(record.getMessage()):
            return False
        unknown = NO_RULE.search(record.getMessage())
        if unknown:
            record.msg = f"fsage: {unknown[1]}: no study has a result of this name; give a study instead of a file"
        event = getattr(record, "event", None)
        if event:
            return event in TELLS
        if record.levelno > logging.INFO:
            return True
        return OWN not in record.pathname or record.getMessage().startswith(STAYS)


def set_up(verbose: bool) -> None:
    """From now on the screen has what is for people, or all (`verbose`); the log, which is another handler, has all."""
    logger = logging.getLogger("snakemake.logging")
    logger.addHandler(FailedJobs())
    for handler in logger.handlers:
        if handler.name == HANDLER and not verbose:
            handler.addFilter(ForPeople())


class FailedJobs(logging.Handler):
    """Prints, of each job that a scheduler lost or refused, what the scheduler says and what the job said last.

    Snakemake, quiet about rules, would keep that to itself. Jobs of this machine have said themselves what was wrong.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Print the complaint of one record; all other records are left to Snakemake."""
        message = getattr(record, "rule_msg", None)
        if message and record.__dict__.get("event") == LogEvent.JOB_ERROR:
            text = " ".join(message.partition("\n    sbatch call:")[0].split())
            print(printable(f"fsage: {record.__dict__['rule_name']}: {text}"), file=sys.stderr)
            for log in map(Path, record.__dict__["log"][-1:]):  # the scheduler's comes last
                print(printable(f"fsage: its log is {log}{last_words(log)}"), file=sys.stderr)


def last_words(log: Path) -> str:
    """The last line that fsage wrote into a job's log."""
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("fsage: ")]
    except OSError:
        return ""
    if lines:
        return f"; it last said: {lines[-1].removeprefix('fsage: ')}"
    return ""
