"""fsage_agent: one verb of the fsage agent on a host; the agent's answer is the task's result.

The agent (src/fsage/agent, standard library only) gets one JSON object on stdin (target, request and what
the task gives as `input`) and answers with another, whose `changed`, `failed` and `msg` are the task's. It
runs over the bare connection, without Ansible's module machinery: 0.1 s a task where ansible.builtin.command
takes 0.5 s. A local connection runs it from the working tree. Any other brings it along, before the object, and it
runs from memory: nothing that lies on the host is run, and nothing is left there.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import shlex
import signal
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from fsage.agent.hosts.library import BOOT, packed, sent

SOURCE = Path(__file__).resolve().parents[3] / "src"
PYTHON = "/usr/bin/python3"
MAIN = "from fsage.agent.__main__ import main; sys.exit(main(sys.argv[1:]))"
ISOLATED = ("-I", "-S", "-c")  # modules from nowhere but Python and the agent: not from the current directory
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
        stdin = json.dumps(question).encode()
        if self._connection.transport == "local":
            die_with_parent()
            start = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); {MAIN}"
        else:
            start, stdin = BOOT + MAIN, sent(packed()) + stdin
        command = [str(python), *ISOLATED, start, *check, verb]
        return answer_of(verb, self._execute(f"exec {shlex.join(command)}", stdin))

    def _execute(self, line, stdin):
        """Run a shell line; locally with no shell left between this worker and the agent (die_with_parent)."""
        shell = "exec /bin/sh" if self._connection.transport == "local" else None
        return self._low_level_execute_command(line, in_data=stdin, executable=shell)

    def _fetch(self, path):
        ran = self._execute(f"exec base64 {shlex.quote(path)}", None)
        if ran["rc"] != 0:
            raise AnsibleActionFail(f"{path} could not be fetched: {ran['stderr'].strip()}")
        return base64.b64decode(ran["stdout"])


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
