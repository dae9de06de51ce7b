"""`snakemake`, `ansible-playbook` and `fsage` without their imports, which cost more than most calls.

`shims()` is a folder to put first on PATH. A shim hands its call (words, environment, working directory, umask, open
files) to a server, where a process that has the program loaded forks and runs the program's own entry point. Signals go
to it, its exit code or signal comes back, and it is killed with its shim. As root it works in its caller's mount
namespace: each worker of pytest has one of its own. The real program runs instead wherever a fork would not be the
same: another namespace of another kind, control group, user or limit, more open files, another PYTHONPATH. A program is
loaded once for each environment that it may have read while it was loaded.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import marshal
import os
import pkgutil
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

OURS = ("snakemake.cli", "snakemake.report", "smart_open", "snakemake_logger_plugin_rich", "fsage")
PROGRAMS = {
    "snakemake": OURS,
    "ansible-playbook": (
        "ansible.cli.playbook",
        *(f"ansible.plugins.inventory.{name}" for name in ("auto", "host_list", "ini", "script", "toml", "yaml")),
        *(f"ansible.plugins.connection.{name}" for name in ("local", "paramiko_ssh", "psrp", "ssh", "winrm")),
        *(f"ansible.plugins.callback.{name}" for name in ("default", "junit", "minimal", "oneline", "tree")),
        *(f"ansible.plugins.shell.{name}" for name in ("cmd", "powershell", "sh")),
        *("ansible.plugins.strategy.linear", "ansible.plugins.vars.host_group_vars", "ansible.plugins.cache.memory"),
        *("ansible.plugins.filter.core", "ansible.plugins.test.core", "ansible.plugins.become.sudo"),
        *("multiprocessing.popen_fork", "multiprocessing.synchronize", "fsage.records.messages", "fsage.host.__main__"),
    ),
    "fsage": ("fsage.cli", *OURS),
}
"""What each loads before a call comes: first what has the entry point, `main`; others may not be there.

Programs of which one needs what the other has are loaded together.
"""

READ_LATER = {"PATH", "PWD", "OLDPWD", "SHLVL", "_", "COLUMNS", "LINES", "PYTHONUNBUFFERED"}
"""Variables that no program reads while it is loaded; nor those of fsage but FSAGE_EXTENSIONS, or of pytest."""
OF_JOBS = {
    "threads": [f"{name}_NUM_THREADS" for name in ("GOTO", "MKL", "NUMEXPR", "OMP", "OPENBLAS")]
    + ["VECLIB_MAXIMUM_THREADS"],
    "folder": ["TEMP", "TEMPDIR", "TMP", "TMPDIR"],
}
"""What Snakemake sets for its jobs; each call has it, so that all share one loaded program."""
SHARED = "FSAGE_TESTS_SHIMS"
LOADED_AT_MOST = 8  # processes that have a program loaded; the one that waited longest goes
CALL_BYTES = 1 << 20
CLONE_NEWNS = 0x20000  # setns(2)
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)

SHIM = """\
#!{python} -IS
# Built-in modules alone: this starts in 10 ms.
import _signal, _socket, marshal, posix, sys

def really():
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ, *{forwarded!r}):
        if number in (_signal.SIGPIPE, _signal.SIGXFSZ) or _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _signal.SIG_DFL)
    posix.execve({program!r}, [{program!r}, *sys.argv[1:]], posix.environ)

if sorted(map(int, posix.listdir("/proc/self/fd"))) != [0, 1, 2, 3]:  # 3 was the folder itself
    really()
call = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
called, early = [], []  # a signal that comes before the call follows it

def forward(number, frame):
    if called:
        call.send(bytes([number]))
    else:
        early.append(number)

for number in {forwarded!r}:
    if _signal.getsignal(number) != _signal.SIG_IGN:
        _signal.signal(number, forward)
here = posix.open(".", posix.O_PATH)
try:
    call.connect({address!r})
    umask = posix.umask(0o77)
    posix.umask(umask)
    asked = marshal.dumps(({program!r}, sys.argv[1:], posix.environ, umask))
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2, here))
    call.sendmsg([asked], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
except OSError:
    really()
called.append(True)
for number in early:
    call.send(bytes([number]))
answer = call.recv(64)
if not answer:
    posix.write(2, b"{program}: the server of preloaded programs ended\\n")
    posix._exit(70)
how, number = marshal.loads(answer)
if how == "real":
    really()
if how == "signal":
    if number not in (_signal.SIGKILL, _signal.SIGSTOP):
        _signal.signal(number, _signal.SIG_DFL)
    posix.kill(posix.getpid(), number)
posix._exit(number)
"""


class Call(NamedTuple):
    """A program's call, by its path.

    `files` are standard input, output and error, the working directory and, in the server, the mount namespace.
    """

    program: str
    words: list[str]
    environment: dict[bytes, bytes]
    umask: int
    files: list[int]

    def read_early(self) -> frozenset[tuple[bytes, bytes]]:
        """What the program may have read of its environment while it was loaded."""
        return frozenset(item for item in self.environment.items() if not _read_later(os.fsdecode(item[0])))


def _read_later(name: str) -> bool:
    return name in READ_LATER or (name.startswith(("FSAGE_", "PYTEST_")) and name != "FSAGE_EXTENSIONS")


BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[1]


@functools.cache
def shims() -> Path:
    """The folder of the shims; their server starts with the first call of this and ends with this process.

    Processes that it starts have the same.
    """
    if SHARED in os.environ:
        return Path(os.environ[SHARED])
    folder, end = serve({str(BIN / name): modules for name, modules in PROGRAMS.items()})
    atexit.register(end)
    os.environ[SHARED] = str(folder)
    return folder


def environment() -> dict[str, str]:
    """PATH with the shims first, and the same for all calls of what the programs read while they are loaded."""
    (home := shims() / "home").mkdir(exist_ok=True)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("FSAGE_", "ANSIBLE_"))},
        **dict.fromkeys(OF_JOBS["threads"], "1"),
        **dict.fromkeys(OF_JOBS["folder"], tempfile.gettempdir()),
        **{"PATH": f"{shims()}:{os.environ['PATH']}:{BIN}", "HOME": str(home)},
        **{"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1"},
    }


def call(program: str, *words: str | Path, **environ: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program in the project's root."""
    env = environment() | {name: str(value) for name, value in environ.items()}
    argv = [shims() / program, *words]
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=240, check=False)


def playbooks(*words: str | Path) -> list[str | Path]:
    """The words of a call in which a playbook has its bare name, as typed in the project's root."""
    there = {path.name for path in ROOT.glob("playbooks/*.yml")}
    return [f"playbooks/{word}" if word in there else word for word in words]


def serve(programs: dict[str, tuple[str, ...]]) -> tuple[Path, Callable[[], None]]:
    """Start a server for programs, by their paths; the folder of their shims, and what ends it."""
    folder = Path(tempfile.mkdtemp(prefix="fsage-preloaded-", dir="/tmp"))  # a short path, and closed to others
    argv = [sys.executable, __file__, str(folder), json.dumps(programs)]
    server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert server.stdin and server.stdout and server.stdout.readline() == b"ready\n"
    for program in programs:
        shim = folder / Path(program).name
        text = SHIM.format(
            python=sys.executable, program=program, address=str(folder / "socket"), forwarded=tuple(map(int, FORWARDED))
        )
        shim.write_text(text)
        shim.chmod(0o700)

    def end() -> None:
        server.communicate(timeout=30)

    return folder, end


# What follows is the server's.


def surroundings(pid: int) -> tuple[object, ...]:
    """What a process has from its parents beside what a call names."""
    of = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (of / "status").read_text().splitlines())
    kept = ("Uid", "Gid", "Groups", "SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")
    spaces = {space.name: os.readlink(space) for space in of.glob("ns/*")}
    if os.geteuid() == 0:
        del spaces["mnt"]  # which a fork can enter
    return (
        spaces,
        os.readlink(of / "root"),
        [status.get(name) for name in (*kept, "Seccomp", "Cpus_allowed")],
        (of / "limits").read_text(),
        os.getpriority(os.PRIO_PROCESS, pid),
    )


def _groups(pid: int) -> str:
    """The control groups of a process."""
    return Path(f"/proc/{pid}/cgroup").read_text()


def _received(channel: socket.socket) -> Call | None:
    """A call with all descriptors that came with it; None where the other end is closed."""
    data, files, _, _ = socket.recv_fds(channel, CALL_BYTES, 8)
    if not data:
        return None
    program, words, environment, umask = marshal.loads(data)
    return Call(program, words, environment, umask, files)


def _answer(caller: socket.socket, how: str, number: int) -> None:
    with contextlib.suppress(OSError):  # the shim is gone
        caller.send(marshal.dumps((how, number)))
    caller.close()


def front(folder: Path, programs: dict[str, list[str]]) -> Callable[[], Any]:
    """Take calls, pass each on to who has its program loaded. In a process that runs a call, return what it runs."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(str(folder / "socket"))
    listening.listen(64)
    os.chdir("/")
    own, python = surroundings(os.getpid()), _of_python(os.environb)
    loaded: dict[tuple[str, frozenset[tuple[bytes, bytes]]], socket.socket] = {}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    with open("/dev/null", "w") as nothing:
        os.dup2(nothing.fileno(), 1)
    waiting = select.poll()
    waiting.register(listening, select.POLLIN)
    waiting.register(0, select.POLLHUP)  # the tests' end
    while True:
        if 0 in (number for number, _ in waiting.poll()):
            shutil.rmtree(folder, ignore_errors=True)  # also where the tests were killed
            sys.exit(0)
        caller, _ = listening.accept()
        pid = int.from_bytes(caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
        call = _received(caller)
        if not call:
            caller.close()
            continue
        try:
            same = len(call.files) == 4 and _of_python(call.environment) == python and surroundings(pid) == own
            same = same and _groups(pid) == _groups(os.getpid())  # controllers come and go, for all processes
            call.files.append(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY))
        except OSError:  # it is gone
            same = False
        if not same:
            _answer(caller, "real", 0)
        else:
            together = {name: m for name, m in programs.items() if set(m) & set(programs[call.program])}
            key = min(together), call.read_early()
            if key not in loaded:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if not _forked():
                    for other in (listening, ours, *loaded.values()):
                        other.close()
                    return loader(call, together, theirs, [caller.detach(), *call.files])
                theirs.close()
                loaded[key] = ours
                if len(loaded) > LOADED_AT_MOST:
                    loaded.pop(next(iter(loaded))).close()
            loaded[key] = loaded.pop(key)  # the one used last stands last
            data = marshal.dumps((call.program, call.words, call.environment, call.umask))
            try:
                socket.send_fds(loaded[key], [data], [*call.files, caller.fileno()])
                caller.close()
            except OSError:  # it could not be loaded; the program itself says why
                loaded.pop(key).close()
                _answer(caller, "real", 0)
        for number in call.files:
            os.close(number)


def _of_python(environment: Any) -> dict[bytes, bytes]:
    return {
        key: value for key, value in environment.items() if key.startswith(b"PYTHON") and key != b"PYTHONUNBUFFERED"
    }


def loader(first: Call, programs: dict[str, list[str]], channel: socket.socket, files: list[int]) -> Callable[[], Any]:
    """Load programs, then fork for each call. Returns in the forks, with what they are to run."""
    for number in files:
        os.close(number)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with open("/dev/null") as nothing:
        os.dup2(nothing.fileno(), 0)
    _set_environment(first.environment)
    sys.path[0] = str(Path(first.program).parent)
    sys.argv = [first.program]
    entries = {name: importlib.import_module(modules[0]) for name, modules in programs.items()}
    for name in _modules([name for modules in programs.values() for name in modules]):
        with contextlib.suppress(ImportError):  # it is loaded when it is needed, if it is
            importlib.import_module(name)
    if first.program.endswith("ansible-playbook"):
        shutil.rmtree(sys.modules["ansible.constants"].DEFAULT_LOCAL_TMP)  # each call has one of its own
        with contextlib.suppress(Exception):  # of an extension
            sys.modules["fsage.host.__main__"].load()
    gc.collect()
    gc.freeze()
    running: dict[int, tuple[int, int, int]] = {}  # by the descriptors of process and caller
    waiting = select.poll()
    waiting.register(channel, select.POLLIN)
    over = False
    while not over or running:
        number = waiting.poll()[0][0]  # one: what it ends may be among the others
        if number == channel.fileno():
            call = _received(channel)
            if not call:  # nothing more will come
                over = True
                waiting.unregister(channel)
                continue
            caller = call.files.pop()
            pid = _forked()
            if not pid:
                for known in (*running, channel.detach(), caller):
                    os.close(known)
                return functools.partial(run, call, entries[call.program].main)
            for received in call.files:
                os.close(received)
            process = os.pidfd_open(pid)
            for known in (process, caller):
                running[known] = (pid, process, caller)
                waiting.register(known, select.POLLIN)
            continue
        pid, process, caller = running[number]
        if number == process:
            _, status = os.waitpid(pid, 0)
            code = os.waitstatus_to_exitcode(status)
            for known in (process, caller):
                with contextlib.suppress(KeyError):  # a shim that is gone
                    waiting.unregister(known)
                del running[known]
            os.close(process)
            _answer(socket.socket(fileno=caller), "exit" if code >= 0 else "signal", abs(code))
        elif sent := _signal_of(caller):
            os.kill(pid, sent)
        else:  # the shim is gone
            waiting.unregister(caller)
            _kill(pid)
    os._exit(0)


def _forked() -> int:
    with (
        warnings.catch_warnings()
    ):  # of the threads that numerical libraries keep for themselves, and have ready in a fork
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _signal_of(caller: int) -> int | None:
    """The signal that a shim got; None where it is gone."""
    try:
        return next(iter(os.read(caller, 1)), None)
    except OSError:
        return None


def _modules(names: list[str]) -> Iterator[str]:
    """These and, of fsage, all that commands load when they are called; but not scikit-learn."""
    for name in names:
        yield name
        if name == "fsage":
            for module in pkgutil.walk_packages(importlib.import_module(name).__path__, "fsage."):
                if not re.search(r"__main__|adaptive", module.name):
                    yield module.name


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has no group yet
        os.kill(pid, signal.SIGKILL)


def _set_environment(environment: dict[bytes, bytes]) -> None:
    os.environb.clear()
    os.environb.update(environment)


def run(call: Call, entry: Callable[..., Any]) -> Any:
    """Be that call: what a process is started with, then the program."""
    os.setsid()
    *standard, folder, mounts = call.files
    if not os.path.samestat(os.fstat(mounts), os.stat("/proc/self/ns/mnt")):
        assert ctypes.CDLL(None).setns(mounts, CLONE_NEWNS) == 0
    os.fchdir(folder)
    for number, came in enumerate(standard):
        os.dup2(came, number)
    for came in call.files:
        os.close(came)
    os.umask(call.umask)
    _set_environment(call.environment)
    sys.argv = [call.program, *call.words]
    sys.orig_argv = [sys.executable, *sys.argv]
    sys.modules["__main__"].__file__ = call.program
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdout.reconfigure(line_buffering=unbuffered or os.isatty(1), write_through=unbuffered)  # type: ignore[union-attr]
    sys.stderr.reconfigure(write_through=unbuffered)  # type: ignore[union-attr]
    if call.program.endswith("ansible-playbook"):
        constants = sys.modules["ansible.constants"]
        place = Path(constants.DEFAULT_LOCAL_TMP).parent
        place.mkdir(parents=True, exist_ok=True)
        constants.DEFAULT_LOCAL_TMP = tempfile.mkdtemp(prefix="ansible-local-", dir=place)
        atexit.register(shutil.rmtree, constants.DEFAULT_LOCAL_TMP, ignore_errors=True)
    return entry()


def leave(code: Any) -> None:
    """End as `sys.exit` does, but without taking apart what was loaded: that would copy all of it."""
    if code is None or isinstance(code, int):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit((code or 0) & 0xFF)
    sys.exit(code)


if __name__ == "__main__":
    called = front(Path(sys.argv[1]), json.loads(sys.argv[2]))
    try:
        code = called()
    except SystemExit as exit:
        code = exit.code
    leave(code)
