"""What is shown while a playbook runs: one line that changes on a terminal, plain lines in a pipe."""

from __future__ import annotations

import logging
import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from fsage.run import progress

LINES = ("quickstart: 3 of 20 cells; about 1 min left", "quickstart: 4 of 20 cells; about 50 s left")
SAME = "quickstart: 4 of 20 cells; about 40 s left"
SHOWN = f"""
import subprocess
from itertools import chain, repeat
from fsage.run import play
from fsage.run.progress import Line
play.LOOK_EVERY_S, play.LINE_EVERY_S = 0.1, 0.2
# Each stands for several looks: a loaded machine draws a terminal's line late.
shown = chain(repeat({LINES[0]!r}, 4), repeat({LINES[1]!r}, 4), repeat({SAME!r}))
lines = (Line(*line.replace("; ", "|; ").split("|")) for line in shown)
raise SystemExit(play.follow(subprocess.Popen(["sleep", "2"]), lambda: next(lines)))
"""


def on_a_terminal(*argv: str) -> str:
    """What a command prints whose terminal this is."""
    ours, its = pty.openpty()
    process = subprocess.Popen(argv, stdin=its, stdout=its, stderr=its, env={**os.environ, "TERM": "xterm"})
    os.close(its)
    shown = b""
    with suppress(OSError):  # how a terminal says that nobody has it any more
        while some := os.read(ours, 4096):
            shown += some
    os.close(ours)
    assert process.wait() == 0, shown
    return shown.decode()


def test_on_a_terminal_one_line_changes_and_is_gone_in_the_end() -> None:
    shown = on_a_terminal(sys.executable, "-c", SHOWN)
    assert all(line in shown for line in LINES)
    assert shown.count("\n") <= 1 and "\r" in shown, "the line is written over"
    assert shown.rstrip("\r\n").endswith("\x1b[2K"), "and erased"


@pytest.mark.long
def test_in_a_pipe_each_is_a_line_without_anything_that_steers() -> None:
    ran = subprocess.run([sys.executable, "-c", SHOWN], capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines() == list(LINES) and "\x1b" not in ran.stderr and not ran.stdout


def test_of_a_lost_node_no_advice_is_given_that_the_profile_forbids(capsys: pytest.CaptureFixture[str]) -> None:
    advice = "Consider enabling requeueing for such cases by setting the 'requeue' flag in the executor settings."
    said = {"rule_msg": f"'NODE_FAIL'. {advice}For further details", "rule_name": "visit_a", "log": []}
    progress.FailedJobs().emit(logging.makeLogRecord({**said, "event": LogEvent.JOB_ERROR}))
    expected = "fsage: visit_a: 'NODE_FAIL'. The same command measures what is left. For further details\n"
    assert capsys.readouterr().err == expected
