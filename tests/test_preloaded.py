"""A call of a preloaded program arrives, runs and ends as one of the program itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import preloaded
import pytest
from session import wait_until

LOADED = """\
import json, os, signal, sys, time

EARLY = os.environ.get("READ_EARLY")

def main():
    how, *_ = sys.argv[1:]
    if how == "wait":
        if "handled" in sys.argv:
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
        with open("pid.part", "w") as note:
            note.write(str(os.getpid()))
        os.rename("pid.part", "pid")
        for _ in range(6000):  # not at one go: a signal just before a sleep is handled at its end
            time.sleep(0.01)
    print("to the error output", file=sys.stderr)
    said = {"argv": sys.argv, "input": sys.stdin.read(), "early": EARLY, "folder": os.getcwd(), "path": sys.path}
    said |= {"umask": os.umask(0), "environment": dict(os.environ), "file": sys.modules["__main__"].__file__}
    said |= {"mounts": os.readlink("/proc/self/ns/mnt")}
    said |= {"files": sorted(os.listdir("/proc/self/fd")), "stop": str(signal.getsignal(signal.SIGINT))}
    print(json.dumps(said, sort_keys=True), flush=True)
    if "pid" in sys.argv:
        print(os.getpid())
    if how == "raise":
        raise RuntimeError("why it failed")
    if how == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    return int(how) if how.isdigit() else None if how == "nothing" else how
"""
SCRIPT = "#!{python}\nimport sys\nfrom loaded import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A program, and the shim that stands for it."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "loaded.py").write_text(LOADED)
    (folder / "program").write_text(SCRIPT.format(python=sys.executable))
    (folder / "program").chmod(0o755)
    shims, end = preloaded.serve({str(folder / "program"): ("loaded",)})
    yield folder / "program", shims / "program"
    end()
    assert not shims.exists()


def ended(argv, **how):
    """Exit code, output, and the last line on the error output: above it, a traceback names other files."""
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60, **how)
    return ran.returncode, ran.stdout, ran.stderr.splitlines()[-1]


@pytest.mark.parametrize("how", ["3", "256", "nothing", "a sentence", "raise", "die"])
def test_a_call_is_what_it_is_of_the_program_itself(programs, how, tmp_path):
    folder = tmp_path / "one two ü"
    folder.mkdir()
    for early in ("first", "second", "first"):  # what is read while it is loaded is read of each environment
        env = {**os.environ, "ONE": "a b\n", "HOME": "/h", "READ_EARLY": early}
        argv = [how, "", "two words", "ü\n"]
        itself, served = (
            ended([program, *argv], cwd=folder, input="what\nis read", umask=0o027, env=env) for program in programs
        )
        assert served == itself and json.loads(served[1])["early"] == early


def test_a_signal_reaches_it_and_it_ends_with_its_caller(programs, tmp_path):
    def waiting(program):
        """The program at work, and its process, which is not the shim's."""
        (tmp_path / "pid").unlink(missing_ok=True)
        started = subprocess.Popen([program, "wait", "handled"], cwd=tmp_path)
        wait_until(lambda: (tmp_path / "pid").exists())
        return started, int((tmp_path / "pid").read_text())

    for program in programs:
        started, pid = waiting(program)
        assert (pid == started.pid) == (program == programs[0])
        started.terminate()
        assert started.wait(timeout=30) == 7
    started, pid = waiting(programs[1])
    started.kill()
    assert started.wait(timeout=30) == -9
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize(
    "front",
    [
        ["prlimit", "--nofile=100"],
        ["env", "PYTHONPATH=/elsewhere"],
        pytest.param(["unshare", "--uts"], marks=[pytest.mark.root, pytest.mark.unshare]),
    ],
)
def test_where_a_fork_would_differ_the_program_itself_is_run(programs, front):
    for words, same in (([], False), (front, True)):
        argv = [*words, programs[1], "0", "pid"]
        started = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pid = int(started.communicate(timeout=60)[0].splitlines()[-1])
        assert (pid == started.pid) == same and started.returncode == 0
