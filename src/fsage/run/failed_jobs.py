"""What became of jobs that failed on a cluster: Snakemake, quiet about rules, would keep that to itself.

The jobs of this machine have said themselves what was wrong.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from snakemake_interface_logger_plugins.common import LogEvent

from fsage.model.message import printable

LOGGER = "snakemake.logging"


class FailedJobs(logging.Handler):
    """Prints, of each job that a scheduler lost or refused, what the scheduler says and what the job said last."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the complaint of one record; all other records are left to Snakemake."""
        said = getattr(record, "rule_msg", None)
        if said and record.__dict__.get("event") == LogEvent.JOB_ERROR:
            text = " ".join(said.partition("\n    sbatch call:")[0].split())
            print(printable(f"fsage: {record.__dict__['rule_name']}: {text}"), file=sys.stderr)
            for log in map(Path, record.__dict__["log"][-1:]):  # the scheduler's comes last
                print(printable(f"fsage: its log is {log}{last_words(log)}"), file=sys.stderr)


def last_words(log: Path) -> str:
    """The last line that fsage wrote into a job's log."""
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("fsage: ")]
    except OSError:
        return ""
    return f"; it last said: {lines[-1].removeprefix('fsage: ')}" if lines else ""
