"""What a job of the DAG does: bring states about, measure their missing cells by playbooks, write their manifests.

A playbook runs with its command on record and progress with an estimate, and the reason is told when it fails. Which
cells a visit measures follows from what is recorded, and from the stop rule.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import yaml

from fsage import recipes, workloads
from fsage.base import Failure
from fsage.base.message import printable, say
from fsage.base.sizes import counted
from fsage.plan import results
from fsage.plan.plan import Plan
from fsage.records import record, store
from fsage.records.store import Reason, metrics_of
from fsage.run import request, runs
from fsage.run.progress import Line, Progress, doing_of
from fsage.statistics import median_interval
from fsage.study.cells import Cell
from fsage.text import yaml_text
from fsage.text.terminal import Terminal

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
        raise PlayFailed(reason(output))


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
    errors = re.findall(r"^(?:\[ERROR\]:|ERROR!) *(.*)", output, re.MULTILINE) or output.strip().splitlines()
    if errors:
        return errors[-1].strip()
    return "it said nothing"


SHOWN = 5


def visit(plan: Plan, states: list[str], inventory: Path) -> None:
    """Build and measure state after state, and write the manifest of each.

    A state that fails does not keep the others from being tried. Raises PlayFailed with what each said.
    """
    failed: list[str] = []
    for state in states:
        try:
            measure(plan, state, inventory)
        except PlayFailed as error:
            if len(states) == 1:
                raise
            failed.append(f"state {state}: {error}")
            say(failed[-1])
    if failed:
        raise PlayFailed("\n".join(failed))


def measure(plan: Plan, state: str, inventory: Path) -> None:
    """Measure the cells of `state` that have no record, and write its manifest.

    What a killed run left between host and records is collected first and not measured again. Raises PlayFailed
    when cells are left; what was measured is in the store, and the next run measures the rest.
    """
    take(plan, state)
    progress = None
    failed = None
    why = "no reason"
    requested: list[tuple[str, int]] = []
    while not failed:
        todo = due(plan, state)
        attempts = attempted(plan, state, todo)
        if not todo or attempts == requested:  # the same again: what is left was not taken
            break
        requested = attempts
        progress = Progress(plan, state)
        failed, refused = visit_cells(plan, state, todo, inventory, progress)
        if refused:
            why = refused[0]
    runs.check()
    lacking = store.write_manifest(plan, state, {} if failed else unneeded(plan, state))
    if lacking:
        names = [cell.name for cell in lacking[:SHOWN]]
        if len(lacking) > SHOWN:
            names.append("…")
        cells = f"{counted(len(lacking), 'cell')} of state {state} ({', '.join(names)})"
        raise PlayFailed(f"not measured: {cells}: {failed or why}")
    if progress:
        say(progress.done())


def attempted(plan: Plan, state: str, cells: Iterable[Cell]) -> list[tuple[str, int]]:
    """Names of cells, and how often each was measured: a disturbed one is measured again."""
    return [(cell.name, plan.results.attempts(state, cell.name)) for cell in cells]


def visit_cells(
    plan: Plan, state: str, cells: list[Cell], inventory: Path, progress: Progress
) -> tuple[PlayFailed | None, list[str]]:
    """Measure `cells` of a state into the store; what failed, if anything, and what came home and was not taken.

    A state that has no evidence yet is built first, by the same call. Where it is an image, the scrub makes it.
    """
    failed = None
    first = ["tune_clients.yml"]
    plan.results.bundle(state).parent.mkdir(parents=True, exist_ok=True)
    if not plan.results.state(state).exists():
        cell_s = min((progress.own.cells_s[cell.name] for cell in cells), default=0.0)
        runs.check_window(plan, f"state {state} with a cell in it", progress.own.reach_s + cell_s)
        steps = recipes.BEFORE_STEPS if plan.target.of_kind.guests else plan.states[state].playbooks
        first = [*steps, "evidence.yml"]
    file = plan.results.request(f"visit_{state}")
    results.write(file, request.make(plan, state, cells))
    try:
        play([*first, "measure.yml"], inventory, plan.results.log(f"visit_{state}"), progress, fsage_request=file)
    except PlayFailed as error:
        failed = error
    return failed, take(plan, state)


def take(plan: Plan, state: str) -> list[str]:
    """Put into the store what a play fetched, also one of a killed run; what was not taken of it, each said."""
    bundle = plan.results.bundle(state)
    refused = record.unpack(bundle, plan.results.root, plan.target.name).refused
    for sentence in refused[:SHOWN]:
        say(sentence)
    if len(refused) > SHOWN:
        say(f"and {len(refused) - SHOWN} more, all below {plan.results.refused('')}")
    return refused


def due(plan: Plan, state: str) -> list[Cell]:
    """Cells to measure in the next visit, in planned order; none when all is measured or may be skipped.

    Without a stop rule: all. With one: first the least number of iterations; then, visit by visit, one iteration
    more of each group whose interval is not narrow enough; in the end what stands behind the planned cells.
    """
    todo = plan.to_measure(state)
    axes = plan.study.cells
    if axes.stop is None:
        return todo
    last = max(cell.order for cell in plan.cells[state] if cell.kind == "planned")
    first = []
    for cell in todo:
        if cell.order < last and (cell.kind != "planned" or cell.params["iteration"] <= axes.iterations):
            first.append(cell)
    if first:
        return first
    more = [cells[0] for group, cells in groups(todo).items() if not _narrow(plan, state, group)]
    return more or [cell for cell in todo if cell.kind != "planned"]


def unneeded(plan: Plan, state: str) -> dict[str, Reason]:
    """The planned cells of a state that the stop rule leaves out, each with the reason."""
    stop = plan.study.cells.stop
    if stop is None:
        return {}
    reasons: dict[str, Reason] = {}
    planned = groups(plan.cells[state])
    for group, cells in groups(plan.to_measure(state)).items():
        if _narrow(plan, state, group):
            count = sum(plan.results.record(state, cell.name).exists() for cell in planned[group])
            enough = f"narrower than {stop.interval_percent:g}% of it after {count} iterations"
            reason = Reason(f"not needed: the interval of the median was {enough}")
            for cell in cells:
                reasons[cell.name] = reason
    return reasons


def groups(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Planned cells by all that they have in common, in order of their iterations."""
    by_group: dict[str, list[Cell]] = {}
    planned = [cell for cell in cells if cell.kind == "planned"]
    for cell in sorted(planned, key=lambda cell: cell.params["iteration"]):
        by_group.setdefault(group_of(cell), []).append(cell)
    return by_group


def group_of(cell: Cell) -> str:
    """What cells that differ in the iteration alone have in common."""
    return json.dumps({**cell.params, "iteration": None, "place": None}, sort_keys=True)


def _narrow(plan: Plan, state: str, group: str) -> bool:
    """Whether every rate of a group has an interval that is narrow enough."""
    stop = plan.study.cells.stop
    if stop is None:
        return False
    cells = groups(plan.cells[state])[group]
    metrics = [metrics_of(plan, state, cell) or {} for cell in cells]
    for rate in workloads.rates_of(cells[0].params):
        interval = median_interval([of_cell[rate] for of_cell in metrics if rate in of_cell])
        if interval is None:
            return False
        middle = (interval.high + interval.low) / 2
        if (interval.high - interval.low) / middle * 100 >= stop.interval_percent:
            return False
    return True
