"""fsage.fsage.agent: one verb of the agent on a host; its answer is the task's result. See plugins/modules/agent.py.

The agent (src/fsage/host, standard library only) gets one JSON object on stdin (target, request and what
the task gives as `input`) and answers with another, whose `changed`, `failed` and `msg` are the task's. It
runs without Ansible's module machinery, where ansible.builtin.command takes 0.5 s a task. On this machine, with the
Python of Ansible, it is a fork of the task's process, which has it loaded. Another Python of this machine runs it from
this collection, if that has no extension. Any other connection brings it along, before the object, and it runs from
memory: nothing that lies on the host is run, and nothing is left there.

The request is data: fsage_request is the path of its file, which is read here and never templated. So is what
a host answers: it names no file on this machine, and what is kept of it is of its type (fsage.records.messages).
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import functools
import json
import multiprocessing
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

SOURCE = Path(__file__).resolve().parents[2] / "src"
if str(SOURCE) not in sys.path:  # an installed collection contains the package
    sys.path.insert(0, str(SOURCE))

from fsage import seam  # noqa: E402
from fsage.base import MIB, Refusal, in_words, message  # noqa: E402
from fsage.host import __main__ as agent  # noqa: E402
from fsage.host.system import kernel  # noqa: E402
from fsage.model import plugins  # noqa: E402

with contextlib.suppress(Exception):  # of an extension: the agent that needs it says so
    agent.load()  # in Ansible's first process, of which those of tasks are forks

PYTHON = "/usr/bin/python3"
REFUSED = 1  # the agent's exit code when nothing was touched
MAIN = "from fsage.host.__main__ import main; sys.exit(main(sys.argv[1:]))"
PART = """\
import base64, sys
with open(sys.argv[1], "rb") as file:
    file.seek(int(sys.argv[2]))
    sys.stdout.write(base64.b64encode(file.read(int(sys.argv[3]))).decode())
"""
ISOLATED = ("-I", "-S", "-c")  # modules from Python and the agent only, never from the current directory
PR_SET_PDEATHSIG = 1  # prctl(2)
REQUEST_BYTES = 64 * MIB
DOING = "FSAGE_DOING"  # environment variable: where it is noted what the agent does at the moment
DOING_BYTES = 8192
LOOK_EVERY_S = {True: 2.0, False: 10.0}  # on this machine, and elsewhere
SKEW_S = 5.0  # clocks may differ by less
ANSWER_BYTES = 256 * MIB  # the evidence of a target with many files
BUNDLE_BYTES = 2048 * MIB
PART_BYTES = 64 * MIB  # of a file that is fetched
HEARD_BYTES = 6 * ANSWER_BYTES  # of memory, while a host answers: Ansible copies the answer several times
WITHOUT = {
    *("probe", "create", "remove", "claim", "release", "recover", "untune", "server_cache_back"),
    *("prealloc", "prealloc_osts", "format_osts", "leave", "restore_tunables"),
}
"""Verbs that need no request."""
GIVEN = (
    *("msg", "proof", "why", "todo", "token", "measured", "remaining", "stopped", "undone", "bundle", "count"),
    *("claim", "evidence", "probe", "osts", "tunables", "device_model"),
)
"""The keys of an answer that become the task's result. Others are dropped: Ansible obeys some (ansible_facts)."""
HELD_BY = "held_by"  # of a refusal: the holder of the target, which is read here and dropped
HOW = "write one with `fsage request STUDY STATE > request.json`, then add `-e fsage_request=request.json`"


class ActionModule(ActionBase):
    """The action of the task fsage.fsage.agent; its options are in plugins/modules/agent.py."""

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp=None, task_vars=None):
        """Run the verb and return the agent's answer."""
        result = super().run(tmp, task_vars)
        blocks = {key: {"type": "dict", "default": {}} for key in ("add", "save", "save_in", "fetch")}
        words = {"verb": {"type": "str", "required": True}, "put_away": {"type": "str", "default": ""}}
        _, given = self.validate_argument_spec({**words, **blocks})
        host = task_vars["inventory_hostname"]
        hosts = self._hosts(task_vars)
        launcher = next((client["name"] for client in hosts["clients"]), host)
        try:
            if self._task.run_once and host != launcher:  # it would do the launcher's share, and measure in its name
                raise message.Unacceptable(f"{launcher} launches, and --limit leaves it out: name it there too")
            request = request_of(given["verb"], task_vars.get("fsage_request"))
        except message.Unacceptable as why:
            return {**result, "failed": True, "changed": False, "rc": REFUSED, "msg": f"{why}; nothing was touched"}
        question = {
            "target": self._variable("fsage_target", task_vars),
            "hosts": hosts,
            "request": {**request, **given["add"]},
        }
        if not question["target"]:
            raise AnsibleActionFail(
                "fsage_target is not defined for this host; an inventory declares it in group_vars/all/target.yml"
            )
        answer = self._ask(given["verb"], question, task_vars)
        holder = answer.pop(HELD_BY, None)
        if answer["failed"] and (run := dead_holder(holder)):
            # The host that keeps the lease cannot look up a process of this machine.
            request = question["request"]
            gone = {"gone": [*request.get("gone", ()), run]}
            answer = self._ask(given["verb"], {**question, "request": {**request, **gone}}, task_vars)
            answer.pop(HELD_BY, None)
        if not answer["failed"]:
            proof = [message.printable(line) for line in answer.get("proof", ())]
            if self._task.diff and answer["changed"]:
                result["diff"] = {"prepared": "\n".join(proof)}
                proof = []
            for line in (message.printable(answer["msg"]), *proof):
                self._display.display(f"{host}: {line}")
            if not self._task.check_mode:
                self._keep(given, answer, question, task_vars)
        return {**result, **answer}

    def _keep(self, given, answer, question, task_vars):
        """Save parts of an answer in the files that the request or a variable names, each checked by its type."""
        host = task_vars["inventory_hostname"]

        def place_of(name):
            place = question["request"].get(name) or task_vars.get(name)
            if place is None and name == "claim_copy":
                return usual_copy(question["target"].get("name"))
            place = place or ""
            if not isinstance(place, str) or "\0" in place:
                raise AnsibleActionFail(f"{name} is {message.shown(place)}: the path of a file is wanted")
            return Path(place) if place else None

        try:
            for key, name in given["save"].items():
                if place := place_of(name):
                    keep(place, [accepted(key, answer, question)])
            for key, name in given["save_in"].items():
                if place := place_of(name):
                    if not message.is_name(host):
                        raise message.Unacceptable(f"would be saved in a file named after {message.shown(host)}")
                    keep(place / f"{host}.json", [accepted(key, answer, question)])
            for key, name in given["fetch"].items():
                if not (place := place_of(name)):
                    raise AnsibleActionFail(f"the request names no file on this machine as {name!r}; {HOW}")
                keep(place, self._fetch(answer.get(key), self._python(task_vars)))
            if given["put_away"] and (place := place_of(given["put_away"])):
                put_away(place)
        except message.Unacceptable as why:
            raise AnsibleActionFail(f"what {host} answered {why}; nothing of it is kept") from None

    def _variable(self, name, task_vars):
        return self._templar.template(task_vars.get(name, {}))

    def _hosts(self, task_vars):
        """Clients, the launcher first, and servers: name, Python, and whether the host is this machine."""
        groups = task_vars["groups"]
        variables = task_vars["hostvars"]
        launcher = groups.get("launcher", [])
        clients = groups.get("clients", [])
        if launcher and (len(launcher) > 1 or launcher[0] not in clients):
            raise AnsibleActionFail(
                f"the group launcher has {', '.join(launcher)}: name one host of the group clients, which has "
                f"{', '.join(clients)}; or none, for the first of them"
            )
        roles = {
            "clients": [*launcher, *(name for name in clients if name not in launcher)],
            "servers": groups.get("servers", []),
            "watched": groups.get("watched", []),
        }

        def host(name):
            value = variables[name]
            return {
                "name": name,
                "python": value.get("ansible_python_interpreter", PYTHON),
                "local": value.get("ansible_connection") == "local",
            }

        return {role: list(map(host, names)) for role, names in roles.items()}

    def _python(self, task_vars):
        return str(self._variable("ansible_python_interpreter", task_vars) or PYTHON)

    def _ask(self, verb, question, task_vars):
        check = ["--check"] if self._task.check_mode else []
        stdin = json.dumps(question).encode()
        local = self._connection.transport == "local"
        end_with_parent(signal.SIGKILL if local else signal.SIGTERM)
        ended = threading.Event()
        if self._is_own(task_vars):
            run = Forked([*check, verb], stdin).wait  # before there is a thread
        else:
            run = functools.partial(self._execute, *self._line(task_vars, [*check, verb], stdin))
        if place := os.environ.get(DOING):
            threading.Thread(target=self._look, args=(question["target"], Path(place), ended), daemon=True).start()
        try:
            return answer_of(verb, run())
        finally:
            ended.set()

    def _is_own(self, task_vars):
        """Whether the agent is to run as this process would: on this machine, by its Python, and as its user."""
        own = self._connection.transport == "local" and self._python(task_vars) == sys.executable
        return own and not self._task.become and not any(self._task.environment or ())

    def _line(self, task_vars, words, stdin):
        """The shell line that runs the agent elsewhere, and its standard input."""
        if self._connection.transport == "local" and not plugins.EXTENSIONS:
            start = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); {MAIN}"
        else:
            boot, code = seam.boot()
            start = boot + MAIN
            stdin = code + stdin
        return f"exec {shlex.join([self._python(task_vars), *ISOLATED, start, *words])}", stdin

    def _look(self, target, place, ended):
        """Note at `place` what the agent does at the moment, time after time until it has ended."""
        local = self._connection.transport == "local"
        began = time.time()
        home = doing_of(target)
        beside = place.with_suffix(f".{os.getpid()}")
        while home and not ended.wait(LOOK_EVERY_S[local]):
            with contextlib.suppress(Exception):  # progress is no reason to fail
                if local:
                    text = subprocess.run(["sh", "-c", home], capture_output=True, check=True).stdout
                else:
                    text = self._connection.exec_command(home, sudoable=False)[1]
                if message.read(text, DOING_BYTES)["since"] > began - SKEW_S:
                    beside.write_bytes(text)
                    beside.replace(place)

    def _execute(self, line, stdin):
        """Run a shell line; locally with no shell left between this worker and the agent (end_with_parent)."""
        if self._connection.transport == "local":
            return self._low_level_execute_command(line, in_data=stdin, executable="exec /bin/sh")
        try:
            with bounded(HEARD_BYTES):
                return self._low_level_execute_command(line, in_data=stdin)
        except MemoryError:
            reason = f"more than {HEARD_BYTES >> 20} MiB of memory hold; the rest was not read"
            return {"rc": REFUSED, "stdout": "", "stderr": reason}

    def _fetch(self, path, python):
        """The parts of a host's file."""
        if not isinstance(path, str) or not path.isprintable():
            raise message.Unacceptable(f"names {message.shown(path)} as its file")
        offset = 0
        while True:
            words = [python, *ISOLATED, PART, path, str(offset), str(PART_BYTES)]
            ran = self._execute(f"exec {shlex.join(words)}", None)
            if ran["rc"] != 0:
                last_line = ran["stderr"].strip().rpartition("\n")[2]
                raise AnsibleActionFail(f"{path} could not be fetched: {message.printable(last_line)}")
            try:
                part = base64.b64decode(ran["stdout"])
            except ValueError as error:
                raise message.Unacceptable(f"has a file, {path}, that does not come as it was sent: {error}") from None
            offset += len(part)
            if len(part) > PART_BYTES or offset > BUNDLE_BYTES:
                raise message.Unacceptable(f"has a file of more than {BUNDLE_BYTES} bytes, {path}, which stays there")
            yield part
            if len(part) < PART_BYTES:
                return


class Forked:
    """The agent in a child of this process; it reads `stdin`, and its output is kept in memory."""

    def __init__(self, words, stdin):
        """Start it."""
        self.files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
        with open(self.files[0], "wb", closefd=False) as file:
            file.write(stdin)
        os.lseek(self.files[0], 0, os.SEEK_SET)
        self.pid = os.fork()
        if not self.pid:
            self.become_agent(words)

    def become_agent(self, words):
        """Run the agent's main with files and signals of its own; it does not return."""
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, file in enumerate(self.files):
                os.dup2(file, number)
            for name in os.listdir("/proc/self/fd"):
                if int(name) > 2:
                    with contextlib.suppress(OSError):  # that of the folder
                        os.close(int(name))
            sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
            sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
            sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
            code = agent.main(words)
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def wait(self):
        """What it answered, as a command's result."""
        _, status = os.waitpid(self.pid, 0)
        texts = []
        for file in self.files[1:]:
            os.lseek(file, 0, os.SEEK_SET)
            with open(file, encoding="utf-8", errors="replace") as output:
                texts.append(output.read())
        os.close(self.files[0])
        return {"rc": os.waitstatus_to_exitcode(status), "stdout": texts[0], "stderr": texts[1]}


def request_of(verb, given):
    """The request in the file that the variable fsage_request names, as `given` on the command line."""
    needed = verb not in WITHOUT
    if given is None:
        if needed:
            raise message.Unacceptable(f"this playbook needs a request, and none was given: {HOW} to this command")
        return {}
    if not isinstance(given, str):
        raise message.Unacceptable(
            "fsage_request is given as data, which Ansible would take for templates, and the path of a file is "
            f"wanted: {HOW} (not -e @request.json)"
        )
    try:
        return message.read_block(message.read_file(given, REQUEST_BYTES))
    except (OSError, ValueError) as why:
        raise message.Unacceptable(
            f"fsage_request: {in_words(why, message.shown(given))}; the path of a request's file is wanted: {HOW}"
        ) from None


def accepted(key, answer, question):
    """The value under `key` of an answer, checked by its type, as bytes of JSON."""
    from fsage.records import messages  # imported late: other tasks need no pydantic

    return messages.saved(key, answer.get(key), question["target"], question["request"])


def doing_of(target):
    """A shell line that prints what the agent does on a target at the moment; None for one without a name."""
    name = target.get("name")
    home = target.get("home")
    if not message.is_name(name) or not isinstance(home, (str, type(None))):
        return None
    if home is None:
        place = '"$([ "$(id -u)" = 0 ] && echo /var/lib/fsage || echo ~/.local/state/fsage)"'
    elif home.startswith("~/"):
        place = f"~/{shlex.quote(home[2:])}"
    else:
        place = shlex.quote(home)
    return f"head -c {DOING_BYTES} {place}/{name}/doing.json"


def dead_holder(holder):
    """The run that holds the target, where its process ran on this machine and has ended; else None."""
    whole = isinstance(holder, dict) and message.is_name(holder.get("run"))
    return holder["run"] if whole and seam.dead(holder) else None


def answer_of(verb, ran):
    """The agent's answer as a result; where it printed none, a result that says so."""
    try:
        answer = message.read(ran["stdout"].strip().rpartition("\n")[2], ANSWER_BYTES)
        well = isinstance(answer, dict) and isinstance(answer.get("msg"), str)
        lines = answer.get("proof", []) if well else None
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            answer = None
    except message.Unacceptable:
        answer = None
    if answer is None:
        last = message.printable(ran["stderr"].strip().rpartition("\n")[2]) or "nothing"
        for file, line in re.findall(r'^  File "(.+)", line (\d+)', ran["stderr"], re.MULTILINE)[-1:]:
            last += f" ({message.printable(file)}, line {line})"
        return {
            "failed": True,
            "changed": True,
            "msg": f"The agent's {verb} ended with exit code {ran['rc']} and no answer; it last said: {last}",
            "stderr": message.lines(ran["stderr"]),
        }
    failed = bool(answer.get("failed")) or ran["rc"] != 0
    kept = {key: answer[key] for key in (*GIVEN, HELD_BY) if key in answer}
    kept["msg"] = message.lines(answer["msg"])  # Ansible shows it as it is
    return {**kept, "changed": bool(answer.get("changed")), "failed": failed, "rc": ran["rc"]}


def usual_copy(target):
    """The file in which plans and requests expect the copy of a target's claim (fsage.plan.results)."""
    if not message.is_name(target):
        raise message.Unacceptable(f"would be saved in a file named after target {message.shown(target)}")
    return Path(os.environ.get("FSAGE_RESULTS") or "results") / "targets" / f"{target}.json"


def keep(path, parts):
    """Put bytes, part by part, into a file on the controller: all of it and safe on disk, or not at all."""
    path = Path(os.path.abspath(path))
    if os.geteuid() == 0:  # it goes where nobody else could have put a link
        os.umask(os.umask(0o077) | 0o022)
        try:
            with seam.opened(path.parent, make=0o755, sticky=True):
                pass
        except Refusal as why:
            raise AnsibleActionFail(str(why)) from None
    beside = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
        with open(beside, "xb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        with kernel.opened_folder(path.parent) as folder:  # or a power loss may take its name back
            os.fsync(folder)
    except OSError as error:
        raise AnsibleActionFail(in_words(error, path)) from None
    finally:
        with contextlib.suppress(OSError):  # said already
            beside.unlink()


def put_away(path):
    """Rename the copy of a released claim: no plan believes it any more, and an archive still holds it."""
    with contextlib.suppress(FileNotFoundError):
        path.replace(path.with_suffix(".released.json"))


@contextlib.contextmanager
def bounded(most_bytes):
    """Limit the memory of this worker, which serves one task of one host, and of what it starts.

    Ansible keeps whatever ssh gives it. Raises MemoryError.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    limits = [limit for limit in (soft, now + most_bytes) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def end_with_parent(number):
    """Have this worker end by a signal when ansible-playbook is killed.

    Workers have sessions of their own, so a SIGKILL to the process group of ansible-playbook does not reach them. A
    worker that lives on would keep its agent measuring. On this machine the agent watches its parent, which is this
    worker. Elsewhere it notices that its connection ends, and that needs SIGTERM: Ansible's handler passes it on to
    ssh, which would wait for the agent else.
    """
    parent = multiprocessing.parent_process()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if parent and os.getppid() != parent.pid:
        os._exit(1)
