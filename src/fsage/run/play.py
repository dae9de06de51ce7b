"""Running playbooks for a job: the command on record, progress with an estimate, the reason when it fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from fsage.model.errors import Failure
from fsage.model.message import printable
from fsage.text import yaml_text
from fsage.text.terminal import Terminal

PLAYBOOKS = Path("playbooks")
REFUSED = 1  # the agent's exit code when nothing was touched
LOOK_EVERY_S = 0.5
LINE_EVERY_S = 10.0  # where the output is no terminal


class PlayFailed(Failure):
    """A playbook ended with an error; the text is the reason it gave, with the log's place.

    `refused`: an agent touched nothing.
    """

    refused = False


def play(
    playbooks: list[str], inventory: Path, log: Path, progress: Callable[[], str] | None, **variables: str | Path
) -> None:
    """Run `ansible-playbook` on all `playbooks`, files of PLAYBOOKS, in one call, its output in `log`.

    `variables` are names of files, words of our own: Ansible takes what stands there for a template. `progress` is
    asked for a line now and then. Raises PlayFailed with the failed task's own message.
    """
    extra = {name: str(value.absolute() if isinstance(value, Path) else value) for name, value in variables.items()}
    files = (str(PLAYBOOKS / name) for name in playbooks)
    command = ["ansible-playbook", "-i", str(inventory), *files, *(["-e", json.dumps(extra)] if extra else [])]
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as out:
        out.write("$ " + " ".join(command) + "\n")
        out.flush()
        env = {**os.environ, "ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1", "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env)
        try:
            code = follow(process, progress)
        except KeyboardInterrupt:
            process.wait()  # the terminal's signal reached it too
            raise
    if code:
        failed = PlayFailed(f"{reason(log.read_text())}\n(`{' '.join(command)}` ended with {code}; all of it: {log})")
        failed.refused = bool(re.search(rf"^    rc: {REFUSED}$", log.read_text(), re.MULTILINE))
        raise failed


def follow(process: subprocess.Popen[bytes], progress: Callable[[], str] | None) -> int:
    """Wait for a process, showing progress: one changing line on a terminal, else a line every ten seconds."""
    console = Terminal(stderr=True)
    if progress and console.is_terminal:
        with console.status(progress()) as status:
            while process.poll() is None:
                time.sleep(LOOK_EVERY_S)
                status.update(progress())
    else:
        told_at = time.monotonic()
        while process.poll() is None:
            time.sleep(LOOK_EVERY_S / 10)
            if progress and time.monotonic() - told_at > LINE_EVERY_S:
                told_at = time.monotonic()
                print(printable(progress()), file=sys.stderr, flush=True)
    return process.wait()


def reason(output: str) -> str:
    """What went wrong, and on which host, in the output of Ansible's default callback (results as YAML)."""
    failures = re.findall(r"^fatal: \[(.+?)\]: \w+! => *\n((?:    .*\n?)+)", output, re.MULTILINE)
    for host, result in reversed(failures):
        try:
            message = yaml_text.load(result)["msg"]
        except (yaml.YAMLError, KeyError, TypeError):
            continue
        return f"{host}: {' '.join(str(message).removeprefix('Task failed: ').split())}"
    errors = re.findall(r"^(?:\[ERROR\]:|ERROR!) *(.*)", output, re.MULTILINE) or output.strip().splitlines()
    return errors[-1].strip() if errors else "it said nothing"
