"""Several commands at once, as the tasks of one phase: each with its own output, its times, and what the kernel counted.

A phase that has `tasks`, a list of command lines, is run so. It lasts from the first one's start to the last one's end.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from fsage.agent.errors import Failure
from fsage.agent.shell import stop
from fsage.agent.target import Target

LOOK_EVERY_S = 0.1
TIMEOUT_S = 900.0
OUTPUT_BYTES = 1 << 18
"""Of each task's output so much is kept; more is a failure."""


class Task:
    """One running command. `start_s` and `end_s` by the monotonic clock."""

    def __init__(self, argv: list[str], target: Target, files: ExitStack) -> None:
        self.argv = argv
        self.out, self.err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        self.start_s, self.end_s = time.monotonic(), 0.0
        self.user_s = self.system_s = 0.0
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=self.out,
                stderr=self.err,
                cwd=target.mounts[0] / "measured",
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
                preexec_fn=target.enter_model(),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Failure(f"starting {argv[0]}: {error}") from error
        self.waiting = threading.Thread(target=self._wait, daemon=True)
        self.waiting.start()

    def _wait(self) -> None:
        """Wait for the command alone, that its end is known to the moment and what it used is counted."""
        try:
            _, status, used = os.wait4(self.process.pid, 0)
        except ChildProcessError:  # whoever stopped it has waited for it
            self.end_s = time.monotonic()
            return
        self.end_s, self.user_s, self.system_s = time.monotonic(), used.ru_utime, used.ru_stime
        self.process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)

    def result(self, zero_s: float) -> dict[str, Any]:
        """What it came to; times from `zero_s` on."""
        said = []
        for stream in (self.out, self.err):
            stream.seek(0)
            said.append(stream.read(OUTPUT_BYTES + 1).decode(errors="replace"))
        whole = max(map(len, said)) <= OUTPUT_BYTES
        return {
            "argv": self.argv,
            "rc": self.process.returncode if whole else 125,
            "start_s": self.start_s - zero_s,
            "end_s": self.end_s - zero_s,
            "user_s": self.user_s,
            "system_s": self.system_s,
            "stdout": said[0][:OUTPUT_BYTES],
            "stderr": said[1][:OUTPUT_BYTES] if whole else f"said more than {OUTPUT_BYTES} characters",
        }


def run(target: Target, phase: dict, attend: Callable[[], None]) -> dict[str, Any]:
    """Run all in the device model's group; a phase's result, each task's own in `tasks`.

    Its exit code and stderr are those of the first task that failed, which ends the others. `attend` is called often;
    what it raises ends all. Raises Failure for what cannot be started.
    """
    began, late = time.monotonic(), False
    running: list[Task] = []
    with ExitStack() as files:
        try:
            for argv in phase["tasks"]:
                running.append(Task(argv, target, files))
            while any(one.waiting.is_alive() for one in running):
                attend()
                late = time.monotonic() - began > phase.get("timeout_s", TIMEOUT_S)
                if late or any(one.process.returncode for one in running):
                    break
                next(one for one in running if one.waiting.is_alive()).waiting.join(LOOK_EVERY_S)
        finally:
            for one in running:
                if one.waiting.is_alive():
                    stop(one.process)
            for one in running:
                one.waiting.join()
        found = [one.result(running[0].start_s) for one in running]
    failed = min((one for one in found if one["rc"]), key=lambda one: one["end_s"], default=None)
    error = f"{failed['argv'][0]}: {failed['stderr']}" if failed else ""
    return {
        "rc": failed["rc"] if failed else 0,
        "stdout": "",
        "stderr": f"{error}\nfsage: stopped after {time.monotonic() - began:.0f} s" if late else error,
        "wall_s": time.monotonic() - began,
        "timed_out": late,
        "tasks": found,
    }
