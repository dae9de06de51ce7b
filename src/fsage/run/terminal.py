"""What of Snakemake's own lines is on the screen: the rest is in its log, and what people need is said by the jobs."""

from __future__ import annotations

import logging

from snakemake_interface_logger_plugins.common import LogEvent

HANDLER = "DefaultStreamHandler"
"""As Snakemake calls the one that writes to the screen. Another, of a `--logger`, is left alone."""
MACHINERY = {
    "_build_dag",
    "execute",
    "execute_workflow",
    "log_metadata_info",
    "log_provenance_info",
    "log_workflow_runtime",
    "print_reasons",
    "schedule",
}
"""Functions of Snakemake that tell of its own work."""
TELLS = {LogEvent.ERROR, LogEvent.DEBUG_DAG}
STAYS = ("Nothing to be done", "Shutting down")


class ForPeople(logging.Filter):
    """Lets warnings and errors through, what an executor says (a job's id in Slurm), and that there is nothing to do.

    Events are rules, job tables, shell commands and steps done: a long study has hundreds, and each job says in words
    of the study what it did, also when it failed.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is for people."""
        if event := getattr(record, "event", None):
            return event in TELLS
        if record.levelno > logging.INFO:
            return True
        return record.funcName not in MACHINERY or record.getMessage().startswith(STAYS)


def for_people(logger: str) -> None:
    """From now on the screen has what is for people; the log, which is another handler, has all."""
    for handler in logging.getLogger(logger).handlers:
        if handler.name == HANDLER:
            handler.addFilter(ForPeople())
