"""Commands beside each other: what each said and when, and that none is left however it ends."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from unittest.mock import Mock

import pytest

from fsage.base import Failure
from fsage.host.system import commands

SAYS = "import sys, time; print('first', flush=True); time.sleep({}); print('second'); sys.exit({})"
FOREVER = ["sleep", "3600"]


def nothing() -> None:
    pass


def children() -> set[str]:
    """Processes that this one started and that live."""
    return set(open(f"/proc/self/task/{os.getpid()}/children").read().split())


def test_ctrl_c_is_said_once_however_often_and_what_ends_then_is_not_disturbed() -> None:
    code = """
from fsage import interrupt
interrupt.handle()
try:
    print("ready", flush=True)
    __import__("time").sleep(60)
except KeyboardInterrupt:
    print("ends", flush=True)
    __import__("sys").stdin.read()
    print("ended", interrupt.came())
    raise
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    for each in (False, True):  # to a job its run tells it
        environment = {**os.environ, **({"FSAGE_RUN": "note"} if each else {})}
        with subprocess.Popen([sys.executable, "-c", code], text=True, env=environment, **pipes) as process:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "ends\n"
            for _ in range(3):
                process.send_signal(signal.SIGINT)
            out, said = process.communicate("")
        assert (out, process.returncode != 0) == ("ended True\n", True)
        assert said == ("" if each else "fsage: stopped; what was measured is kept, and the same command resumes\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_sent_to_a_run_alone_reaches_what_it_started(number: signal.Signals) -> None:
    """After `kill -INT` it said that it was stopped, and measured on to the end of its job."""
    code = """
import subprocess
from fsage import interrupt
interrupt.handle()
job = subprocess.Popen(["sleep", "60"])
try:
    print("ready", flush=True)
    job.wait()
except KeyboardInterrupt:
    print(job.wait(5))
"""
    run = [sys.executable, "-c", code]
    with subprocess.Popen(run, text=True, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.read() == f"{-signal.SIGINT}\n"


def test_ctrl_c_that_meets_python_while_it_begins_waits_until_it_is_answered() -> None:
    """It was a traceback, in the terminal of whoever stopped a run as a job of it began."""
    code = """
import subprocess, sys, threading
from fsage import interrupt
interrupt.handle()
interrupt.defer_in_threads()
begins = "import os, signal; os.kill(os.getpid(), signal.SIGINT); from fsage.__main__ import main; main()"
job = threading.Thread(target=subprocess.run, args=[[sys.executable, "-c", begins]])
job.start()
job.join()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "fsage: stopped; what was measured is kept, and the same command resumes\n"


def test_a_command_that_is_told_to_end_many_times_at_once_stops_all_that_it_runs() -> None:
    """The ends of its parent and of its reader come together: it waited for its own lock, and held the target."""
    code = """
import os, signal
from fsage.host.system import commands
signal.signal(signal.SIGTERM, commands.interrupt)
try:
    commands.run([["sleep", "3600"], ["sleep", "3600"]], lambda: print("runs", flush=True), 60)
except KeyboardInterrupt:
    print(open(f"/proc/self/task/{os.getpid()}/children").read().split())
"""
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == "runs\n"
            while process.poll() is None:
                process.send_signal(signal.SIGTERM)
            assert process.stdout.read().split("\n")[-2] == "[]"


def test_each_has_its_own_output_and_the_time_of_each_line() -> None:
    argvs = [[sys.executable, "-c", SAYS.format(wait, code)] for wait, code in ((0.2, 0), (2, 3))]
    ran = commands.run(argvs, nothing, 60)
    assert [each["rc"] for each in ran] == [0, 3] and {each["stdout"] for each in ran} == {"first\nsecond\n"}
    for each in ran:
        first, second = each["line_s"]
        assert 0 < first <= second <= each["wall_s"] and not each["timed_out"]
    assert second - first > 0.5, "a busy machine hears the first line late"


def test_none_is_left() -> None:
    before = children()
    missing = ["/no/such/program"]
    said = "another command did not start: /no/such/program: No such file"
    ran = commands.run([FOREVER, missing, FOREVER], nothing, 60)
    assert [each["rc"] for each in ran] == [-15, 127, 127]
    assert said in ran[0]["stderr"] and "No such file" in ran[1]["stderr"]
    ran = commands.run([FOREVER, missing], nothing, 60, ["sh", "-c", 'exec "$@"', "front"])
    assert [each["rc"] for each in ran] == [-15, 127] and "/no/such/program: No such file" in ran[1]["stderr"]
    ran = commands.run([FOREVER, ["true"]], nothing, 0.3)
    assert [each["timed_out"] for each in ran] == [True, True] and max(each["wall_s"] for each in ran) < 10
    assert "stopped after" in ran[0]["stderr"]
    with pytest.raises(KeyboardInterrupt):
        commands.run([FOREVER, FOREVER], Mock(side_effect=KeyboardInterrupt), 60)
    assert children() == before


# Its pipes end a moment before it does, as those of a program do that has much to give back.
LINGERS = ["sh", "-c", "exec >&- 2>&-; sleep 0.05"]


def test_who_cannot_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As below a server that does not answer."""
    monkeypatch.setattr(commands, "PATIENCE_S", 0.5)
    monkeypatch.setattr(commands, "stop", lambda process: None)
    with pytest.raises(Failure, match=r"process \d+ was killed at its time limit, and lives on .*does not answer"):
        commands.run([["sleep", "4"]], nothing, 0.3)


def test_the_wait_ends_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval to look in that none of them reaches: whoever slept it would end by it, not by the process."""
    monkeypatch.setattr(commands, "LOOK_EVERY_S", 30.0)
    idle = []

    class Counted(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list:
            seen = super().select(timeout)
            idle.append(not seen)
            return seen

    monkeypatch.setattr(commands.selectors, "DefaultSelector", Counted)
    for _ in range(3):
        assert [each["rc"] for each in commands.run([LINGERS, ["true"]], nothing, 60)] == [0, 0]
    assert idle and not any(idle), "it was woken by what happened each time, never by the end of the interval"


def test_the_wait_ends_with_the_process_on_a_kernel_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "LOOK_EVERY_S", 30.0)
    monkeypatch.delattr(os, "pidfd_open")
    began = time.monotonic()
    assert [each["rc"] for each in commands.run([LINGERS, ["sh", "-c", "exit 3"]], nothing, 60)] == [0, 3]
    assert time.monotonic() - began < 30


def test_a_process_may_end_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is seen as running once more after its pipes ended, and has ended when it is waited for."""

    class EndsUnseen(subprocess.Popen):
        seen = 0

        def poll(self) -> int | None:
            self.wait()
            self.seen += 1
            return None if self.seen == 1 else self.returncode

    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(commands.subprocess, "Popen", EndsUnseen)
    assert [each["rc"] for each in commands.run([["sh", "-c", "exit 3"]], nothing, 60)] == [3]
