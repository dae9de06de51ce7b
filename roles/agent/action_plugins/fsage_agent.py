"""fsage_agent: one verb of the fsage agent on a host; the agent's answer is the task's result.

The agent (src/fsage/agent, standard library only) gets one JSON object on stdin (target, request and what
the task gives as `input`) and answers with another, whose `changed`, `failed` and `msg` are the task's. It
runs over the bare connection, without Ansible's module machinery: 0.1 s a task where ansible.builtin.command
takes 0.5 s. A local connection runs it from the working tree. Any other gets it once, as
<home>/lib/fsage-<digest>.zip.
"""

from __future__ import annotations

import base64
import ctypes
import hashlib
import json
import os
import shlex
import signal
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from fsage.agent import lease
from fsage.agent.hosts.library import packed

SOURCE = Path(__file__).resolve().parents[3] / "src"
HOME = "/var/lib/fsage"
PYTHON = "/usr/bin/python3"
NOT_INSTALLED = 97  # exit code of our own shell line, which the agent never gives
PR_SET_PDEATHSIG = 1  # prctl(2)


class ActionModule(ActionBase):
    """Arguments.

    verb: what the agent shall do (required).
    input: more keys for the agent; they win over target and request.
    save: {key: path}, puts what the answer holds under `key` as JSON into a file on the controller.
    fetch: {key: path}, copies the host's file that the answer names under `key` to the controller.
    """

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp=None, task_vars=None):
        """Run the verb and return the agent's answer."""
        result = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(
            {
                "verb": {"type": "str", "required": True},
                "input": {"type": "dict", "default": {}},
                "save": {"type": "dict", "default": {}},
                "fetch": {"type": "dict", "default": {}},
            }
        )
        question = {
            "target": self._variable("fsage_target", task_vars),
            "request": self._variable("fsage_request", task_vars),
            "hosts": self._hosts(task_vars),
            **given["input"],
        }
        if not question["target"]:
            raise AnsibleActionFail(
                "fsage_target is not defined for this host; an inventory declares it in group_vars/all/target.yml"
            )
        answer = self._ask(given["verb"], question, task_vars)
        if answer["failed"] and (holder := answer.get("held_by")) and lease.dead_here(holder):
            # The host that keeps the lease cannot look up a process of this machine.
            request = question["request"]
            gone = {"gone": [*request.get("gone", ()), holder["run"]]}
            answer = self._ask(given["verb"], {**question, "request": {**request, **gone}}, task_vars)
        if not answer["failed"]:
            for line in (answer["msg"], *answer.get("proof", ())):
                self._display.display(f"{task_vars['inventory_hostname']}: {line}")
            if not self._task.check_mode:
                for key, path in given["save"].items():
                    keep(path, json.dumps(answer[key], indent=1).encode() + b"\n")
                for key, path in given["fetch"].items():
                    keep(path, self._fetch(answer[key]))
        return {**result, **answer}

    def _variable(self, name, task_vars):
        return self._templar.template(task_vars.get(name, {}))

    def _hosts(self, task_vars):
        """Clients, the launcher first, and servers, each with its name, its Python, and whether it is this machine."""
        groups, variables = task_vars["groups"], task_vars["hostvars"]
        launcher, clients = groups.get("launcher", []), groups.get("clients", [])
        if launcher and (len(launcher) > 1 or launcher[0] not in clients):
            raise AnsibleActionFail(
                f"the group launcher has {', '.join(launcher)}: name one host of the group clients, which has "
                f"{', '.join(clients)}; or none, for the first of them"
            )
        roles = {
            "clients": [*launcher, *(name for name in clients if name not in launcher)],
            "servers": groups.get("servers", []),
        }

        def host(name):
            known = variables[name]
            return {
                "name": name,
                "python": known.get("ansible_python_interpreter", PYTHON),
                "local": known.get("ansible_connection") == "local",
            }

        return {role: [host(name) for name in names] for role, names in roles.items()}

    def _ask(self, verb, question, task_vars):
        python = self._variable("ansible_python_interpreter", task_vars) or PYTHON
        check = ["--check"] if self._task.check_mode else []
        command = [str(python), "-S", "-m", "fsage.agent", *check, verb]  # -S: no packages, a quicker start
        stdin = json.dumps(question).encode()
        if self._connection.transport == "local":
            die_with_parent()
            return answer_of(verb, self._execute(agent_line(str(SOURCE), command), stdin))
        code = packed()
        home, digest = question["target"].get("home") or HOME, hashlib.sha256(code).hexdigest()[:12]
        library = f"{home}/lib/fsage-{digest}.zip"
        line = f"[ -e {shlex.quote(library)} ] || exit {NOT_INSTALLED}; {agent_line(library, command)}"
        ran = self._execute(line, stdin)
        if ran["rc"] == NOT_INSTALLED:
            self._install(code, library)
            ran = self._execute(line, stdin)
        return answer_of(verb, ran)

    def _execute(self, line, stdin):
        """Run a shell line; locally with no shell left between this worker and the agent (die_with_parent)."""
        shell = "exec /bin/sh" if self._connection.transport == "local" else None
        return self._low_level_execute_command(line, in_data=stdin, executable=shell)

    def _fetch(self, path):
        ran = self._execute(f"exec base64 {shlex.quote(path)}", None)
        if ran["rc"] != 0:
            raise AnsibleActionFail(f"{path} could not be fetched: {ran['stderr'].strip()}")
        return base64.b64decode(ran["stdout"])

    def _install(self, code, library):
        place, path = shlex.quote(str(Path(library).parent)), shlex.quote(library)
        ran = self._execute(f"mkdir -p {place} && cat > {path}.$$ && mv {path}.$$ {path}", code)
        if ran["rc"] != 0:
            raise AnsibleActionFail(f"The agent could not be put to {library}: {ran['stderr'].strip()}")


def agent_line(library, command):
    """The shell line that becomes the agent."""
    return f"exec env PYTHONPATH={shlex.quote(library)} {shlex.join(command)}"


def answer_of(verb, ran):
    """What the agent said; a sentence of our own when it said nothing that can be read."""
    try:
        answer = json.loads(ran["stdout"].strip().rpartition("\n")[2])
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or "msg" not in answer:
        last = ran["stderr"].strip().rpartition("\n")[2] or "nothing"
        return {
            "failed": True,
            "changed": True,
            "msg": f"The agent's {verb} ended with exit code {ran['rc']} and no answer; it last said: {last}",
            "stderr": ran["stderr"],
        }
    return {**answer, "failed": bool(answer.get("failed")) or ran["rc"] != 0, "rc": ran["rc"]}


def keep(path, content):
    """Put `content` into a file on the controller: all of it and safe on disk, or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def die_with_parent():
    """End this worker when ansible-playbook is killed.

    Workers are sessions of their own, so a SIGKILL to the process group of ansible-playbook does not reach
    them, and a worker that lives on keeps its agent measuring for nobody. The agent watches its parent, which
    is this worker.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)
