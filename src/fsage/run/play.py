"""Running a playbook: its command on record, progress while it runs, and the reason when it fails."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from fsage.base import Failure
from fsage.base.message import printable
from fsage.run import runs
from fsage.run.progress import Line, doing_of
from fsage.text import yaml_text
from fsage.text.shown import Terminal

PLAYBOOKS = Path("playbooks")
DOING = "FSAGE_DOING"  # environment variable: where the action plugin puts what a host does at the moment
PLAIN = {"ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1", "PYTHONUNBUFFERED": "1"}
REFUSED = 1  # the agent's exit code when nothing was touched
LOOK_EVERY_S = 0.5
LINE_EVERY_S = 10.0
SAID_BY_A_HOST = re.compile(r"(?!skipping|Origin)[\w.-]+: (?!\[)")
"""How a line begins that a host's agent says (plugins/action), among those of Ansible's default callback."""
LINE_AGAIN_S = 600.0  # where the output is no terminal: a new line at least, the same one


class PlayFailed(Failure):
    """A playbook ended with an error; the text is the reason it gave, with the log's place.

    `refused`: an agent touched nothing.
    """

    refused = False


def command_line(playbooks: list[str], inventory: Path, extra: Mapping[str, str] | None = None) -> list[str]:
    """`ansible-playbook` with files of PLAYBOOKS, on an inventory, with variables."""
    command = ["ansible-playbook", "-i", str(inventory)]
    command += [str(PLAYBOOKS / name) for name in playbooks]
    if extra:
        command += ["-e", json.dumps(extra)]
    return command


def play(
    playbooks: list[str], inventory: Path, log: Path, progress: Callable[[], Line] | None, **variables: str | Path
) -> None:
    """Run `ansible-playbook` on all `playbooks`, files of PLAYBOOKS, in one call, its output in `log`.

    `variables` are names of files, words of our own: Ansible takes what stands there for a template. `progress` is
    asked for a line now and then. Raises PlayFailed with the failed task's own message.
    """
    extra: dict[str, str] = {}
    for name, value in variables.items():
        if isinstance(value, Path):
            value = value.absolute()
        extra[name] = str(value)
    command = command_line(playbooks, inventory, extra)
    log.parent.mkdir(parents=True, exist_ok=True)
    doing = doing_of(log).absolute()
    with open(log, "w") as out, contextlib.ExitStack() as left:
        left.callback(doing.unlink, missing_ok=True)
        out.write("$ " + " ".join(command) + "\n")
        out.flush()
        env = {**os.environ, **PLAIN, DOING: str(doing)}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env)
        try:
            code = follow(process, progress)
        except KeyboardInterrupt:
            process.wait()  # the terminal's signal reached it too
            raise
    if code:
        output = log.read_text()
        failed = PlayFailed(f"{reason(output)}\n(`{' '.join(command)}` ended with {code}; all of it: {log})")
        failed.refused = bool(re.search(rf"^    rc: {REFUSED}$", output, re.MULTILINE))
        raise failed


def tell(command: list[str]) -> None:
    """Run `ansible-playbook` and print what its hosts say, as it comes; it needs no place for a log.

    Raises PlayFailed with the failed task's own message.
    """
    env = {**os.environ, **PLAIN}
    output = ""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            output += line
            if SAID_BY_A_HOST.match(line):
                print(printable(line.rstrip("\n")), flush=True)
    if process.returncode:
        why = reason(output)
        if "]: UNREACHABLE! =>" in output:
            why += ". If this host does not come back, take it out of the inventory's hosts.yml and release again"
        raise PlayFailed(why)


def follow(process: subprocess.Popen[bytes], progress: Callable[[], Line] | None) -> int:
    """Wait for a process, showing progress: one changing line on a terminal, else a line when something changed.

    Of two jobs of a run that work at once, one has the line on the terminal.
    """
    console = Terminal(stderr=True)
    if progress and console.is_terminal:
        status = None
        with contextlib.ExitStack() as shown:
            while process.poll() is None:
                text = printable(str(progress()))
                if status:
                    status.update(text)
                elif runs.take_line(shown):
                    status = shown.enter_context(console.status(text))
                time.sleep(LOOK_EVERY_S)
    else:
        looked_at = told_at = time.monotonic()
        last_said = ""
        while process.poll() is None:
            time.sleep(LOOK_EVERY_S / 10)
            now = time.monotonic()
            if not progress or now - looked_at < LOOK_EVERY_S or now - told_at < LINE_EVERY_S:
                continue
            looked_at = now
            line = progress()
            if line.what != last_said or now - told_at > LINE_AGAIN_S:
                told_at = now
                last_said = line.what
                print(printable(str(line)), file=sys.stderr, flush=True)
    return process.wait()


def failures(output: str) -> dict[str, str]:
    """What went wrong on each host, by the output of Ansible's default callback (results as YAML)."""
    whys = {}
    for host, result in re.findall(r"^fatal: \[(.+?)\]: \w+! => *\n((?:    .*\n?)+)", output, re.MULTILINE):
        try:
            why = str(yaml_text.load(result)["msg"])
        except (yaml.YAMLError, KeyError, TypeError):
            why = result
        whys[host] = " ".join(why.removeprefix("Task failed: ").split())
    return whys


def reason(output: str) -> str:
    """What went wrong, and on which host, in Ansible's output."""
    whys = failures(output)
    if whys:
        host = list(whys)[-1]
        return f"{host}: {whys[host]}"
    lacking = re.search(r"Could not match supplied host pattern, ignoring: (\w+)", output)
    if lacking:
        return f"the inventory has no group {lacking[1]}: add it to its hosts.yml, if only as `{lacking[1]}:`"
    errors = re.findall(r"^(?:\[ERROR\]:|ERROR!) *(.*)", output, re.MULTILINE) or output.strip().splitlines()
    if errors:
        return errors[-1].strip()
    return "it said nothing"
