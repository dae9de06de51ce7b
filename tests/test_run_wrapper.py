"""./run and envs/setup: what they install, when, and what they do when they may not or are killed.

The quick tests run the real scripts in a copy of the tree, with programs on PATH in place of Python, apt-get and
dnf that record how they were called; the last one makes the real environment. dnf is tested in no other way.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = """awk bash cat chmod cp date env find flock grep head id ls mkdir mv ps rm sed setpriv setsid sh sha256sum
sleep sort stat tail true"""
SYSTEM = [
    line.split(maxsplit=3)
    for line in (ROOT / "envs/system-packages.txt").read_text().splitlines()
    if not line.startswith("#")
]

PYTHON = """#!/bin/bash
echo "python" ${*//$'\n'/ } >>"$RECORD"
case "$*" in
    *"sys.version_info"*) [[ ! -e $STUBS/broken ]] && echo "$0" ;;
    *"-m venv "*) venv=${@: -1}; mkdir -p "$venv/bin"; cp "$0" "$venv/bin/python" ;;
    *"-m pip install"*)
        echo "noise of pip"
        if [[ -e $STUBS/pip-kills ]]; then
            mv "$STUBS/pip-kills" "$FSAGE_VENV/half"
            group=$(ps -o pgid= $$)
            kill -9 -- "-${group// /}"
        fi
        [[ ! -e $STUBS/pip-fails ]] || { echo "no route to host"; exit 1; }
        [[ ! -e $STUBS/pip-is-slow ]] || sleep 1
        ;;
esac
"""

# Records the call, and brings every program but those whose package is in the file "unavailable".
MANAGER = """#!/bin/bash
echo "${0##*/} $*" >>"$RECORD"
[[ ! -e /usr/sbin/policy-rc.d ]] || echo "policy: $(/usr/sbin/policy-rc.d; echo $?)" >>"$RECORD"
[[ " $* " == *" install "* ]] || exit 0
if [[ -e $STUBS/manager-is-killed ]]; then
    rm "$STUBS/manager-is-killed"
    group=$(ps -o pgid= $$)
    kill -9 -- "-${group// /}"
fi
for package; do
    if grep -qsx -- "$package" "$STUBS/unavailable"; then echo "Unable to find a match: $package"; exit 1; fi
done
while read -r program apt dnf _; do
    for package; do
        if [[ $package == "$apt" || $package == "$dnf" ]]; then
            printf '#!/bin/sh\\n' >"$STUBS/$program"; chmod +x "$STUBS/$program"
        fi
    done
done <envs/system-packages.txt
"""


class Clone:
    """A copy of what the wrapper needs, and a PATH on which every program is here, as a stub."""

    def __init__(self, home: Path, root: Path) -> None:
        self.root, self.stubs, self.record = root, home / "stubs", home / "record"
        self.venv = root / ".venv"
        self.environment = {
            "HOME": str(home),
            "PATH": str(self.stubs),
            "RECORD": str(self.record),
            "STUBS": str(self.stubs),
            "CI": "true",
        }
        (root / "envs").mkdir(parents=True)
        for name in (
            "run",
            "pyproject.toml",
            "envs/setup",
            "envs/stamp.sh",
            "envs/system-packages.txt",
            "envs/testbed-packages.txt",
            "envs/requirements.lock",
            "envs/development.lock",
        ):
            shutil.copy(ROOT / name, root / name)
        self.stubs.mkdir()
        for name in TOOLS.split():
            (self.stubs / name).symlink_to(shutil.which(name) or f"/usr/bin/{name}")
        for program, *_ in SYSTEM:
            self.stub(program, "#!/bin/sh\n")
        self.stub("python3.11", PYTHON)

    def stub(self, name: str, text: str) -> None:
        (self.stubs / name).write_text(text)
        (self.stubs / name).chmod(0o755)

    def argv(self, *command: str) -> list[str]:
        return [str(self.root / "run"), *command]

    def run(self, *command: str, prefix: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*prefix, *self.argv(*command)],
            env=self.environment | environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            start_new_session=True,
        )

    def recorded(self, program: str = "", argument: str = "") -> list[str]:
        """The calls of a program since the last look, those with the argument in them."""
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        self.record.unlink(missing_ok=True)
        return [line for line in lines if line.startswith(program) and argument in line]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path, tmp_path / "a clone")


@pytest.fixture
def bare(clone: Clone) -> Clone:
    """A clone on a machine without any of the system packages; to be run behind WITHOUT_SBIN."""
    for program, *_ in SYSTEM:
        (clone.stubs / program).unlink()
    return clone


#: Hides /usr/sbin (mkfs.*, losetup, and policy-rc.d) from what follows, in a mount namespace of its own.
WITHOUT_SBIN = (
    "/usr/bin/unshare", "--mount", "--propagation", "private",
    "/bin/bash", "-c", '/bin/mount -t tmpfs none /usr/sbin && "$@"; rc=$?; /bin/ls /usr/sbin; exit $rc', "-",
)  # fmt: skip


def test_first_call_sets_up_and_runs_the_command_in_the_environment(clone: Clone) -> None:
    shows = 'echo "$PWD|$VIRTUAL_ENV|$PATH|$ANSIBLE_CONFIG|${PYTHONPATH-unset}|$1"; exit 7'
    done = clone.run("bash", "-c", shows, "-", "two words", PYTHONPATH="/elsewhere")
    assert done.returncode == 7
    where, venv, path, ansible, pythonpath, argument = done.stdout.rstrip("\n").split("|")
    assert (where, venv, ansible) == (str(clone.root), str(clone.venv), f"{clone.root}/ansible.cfg")
    assert path == f"{clone.venv}/bin:{clone.stubs}:/usr/sbin:/sbin"
    assert (pythonpath, argument) == ("unset", "two words")
    lines = done.stderr.splitlines()
    assert any("Python packages into" in line and "once" in line for line in lines)
    assert all(line.startswith("fsage: ") for line in lines), "pip's noise belongs in the log"
    assert "noise of pip" in (clone.venv / "setup.log").read_text()


def test_packages_come_with_hashes_and_none_chooses_another(clone: Clone) -> None:
    clone.run("true")
    first, second, own = clone.recorded("python", "-m pip install")
    assert "--require-hashes --no-deps" in first and first.endswith("build.txt")
    assert "--require-hashes --no-deps --no-build-isolation" in second and second.endswith("envs/requirements.lock")
    assert own.endswith("--no-index --no-deps --no-build-isolation --editable .")
    tools = {line.split("==")[0] for line in (clone.venv / "build.txt").read_text().splitlines() if "==" in line}
    assert tools == {"pip", "setuptools", "flit-core"}


def test_what_tests_need_comes_when_they_are_asked_for_and_once(clone: Clone) -> None:
    clone.run("true")
    assert not clone.recorded("python", "development.lock")
    clone.stub("pytest", "#!/bin/sh\n")
    assert clone.run("pytest").returncode == 0
    assert len(clone.recorded("python", "-r envs/development.lock")) == 1
    for environment in ({"FSAGE_DEVELOP": "1"}, {}):
        assert clone.run("true", **environment).stderr == ""
    assert clone.recorded() == []
    with (clone.root / "envs/development.lock").open("a") as file:
        file.write("# another\n")
    assert clone.run("true").stderr == "", "a run does not care"
    clone.run("pytest")
    assert len(clone.recorded("python", "pip install")) == 1


def test_second_call_does_nothing(clone: Clone) -> None:
    clone.run("true")
    clone.recorded()
    done = clone.run("true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert clone.recorded() == []


@pytest.mark.parametrize("name", ["envs/requirements.lock", "pyproject.toml"])
def test_what_the_environment_is_made_from_has_changed(clone: Clone, name: str) -> None:
    clone.run("true")
    clone.recorded()
    with (clone.root / name).open("a") as file:
        file.write("# another\n")
    assert clone.run("true").returncode == 0
    assert clone.recorded("python", "-m venv")


def test_clone_that_was_moved_gets_an_environment_of_its_own(clone: Clone) -> None:
    clone.run("true")
    clone.recorded()
    clone.root = clone.root.rename(clone.root.with_name("moved"))
    assert clone.run("true").returncode == 0
    assert clone.recorded("python", "-m venv")[0].endswith("moved/.venv")


def test_environment_elsewhere(clone: Clone, tmp_path: Path) -> None:
    done = clone.run("bash", "-c", 'echo "$VIRTUAL_ENV"', FSAGE_VENV=f"{tmp_path}/other place")
    assert done.stdout == f"{tmp_path}/other place\n"
    assert not clone.venv.exists()


def test_environment_whose_python_went_away_is_made_again(clone: Clone) -> None:
    clone.run("true")
    clone.recorded()
    (clone.venv / "bin/python").unlink()
    assert clone.run("true").returncode == 0
    assert clone.recorded("python", "-m venv")


def test_killed_half_way_then_again(clone: Clone) -> None:
    (clone.stubs / "pip-kills").touch()
    assert clone.run("true").returncode == -signal.SIGKILL
    assert (clone.venv / "half").exists()
    clone.recorded()
    assert clone.run("true").returncode == 0
    assert len(clone.recorded("python", "-m pip install")) == 3
    assert not (clone.venv / "half").exists()


def test_two_at_once_set_up_once(clone: Clone) -> None:
    (clone.stubs / "pip-is-slow").touch()
    two = [
        subprocess.Popen(clone.argv("true"), env=clone.environment, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [process.communicate(timeout=60)[1] for process in two]
    assert [process.returncode for process in two] == [0, 0]
    assert len(clone.recorded("python", "-m venv")) == 1
    assert sum("another ./run is setting up" in text for text in said) == 1


def test_failing_pip_stops_with_its_reason_and_is_tried_again(clone: Clone) -> None:
    (clone.stubs / "pip-fails").touch()
    done = clone.run("echo", "not to be run")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no route to host" in done.stderr and f"all it said is in {clone.venv}/setup.log" in done.stderr
    (clone.stubs / "pip-fails").unlink()
    assert clone.run("true").returncode == 0


def test_python_that_does_not_run_is_passed_over(clone: Clone) -> None:
    clone.stub("python3.11", "#!/bin/sh\necho 'pyenv: python3.11: command not found' >&2\nexit 127\n")
    clone.stub("python3", PYTHON)
    assert clone.run("true").returncode == 0
    assert clone.recorded("python", "-m venv")


def test_no_python(clone: Clone) -> None:
    (clone.stubs / "broken").touch()
    done = clone.run("true", FSAGE_INSTALL="no")
    assert done.returncode == 1
    assert (
        "no Python >= 3.11 with the module ensurepip" in done.stderr and "apt-get install python3-venv" in done.stderr
    )
    done = clone.run("true", FSAGE_PYTHON="/opt/py/bin/python3", FSAGE_INSTALL="no")
    assert "FSAGE_PYTHON (/opt/py/bin/python3) is no Python >= 3.11" in done.stderr


def test_unknown_command_and_none(clone: Clone) -> None:
    done = clone.run("snakemkae", "quickstart")
    assert done.returncode == 127
    assert "there is no command 'snakemkae'" in done.stderr
    done = clone.run()
    assert done.returncode == 2
    assert done.stderr.startswith("./run COMMAND [ARGUMENT ...]") and "FSAGE_VENV" in done.stderr


def test_without_fio_it_stops_and_names_what_is_missing(clone: Clone) -> None:
    (clone.stubs / "fio").unlink()
    clone.stub("apt-get", MANAGER)
    done = clone.run("true", FSAGE_INSTALL="no")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "fsage: missing here:",
        "fsage:   fio: without it nothing can be measured",
        "fsage: an administrator brings them with: apt-get install fio",
        "fsage: stopped: nothing can be measured without fio",
    ]
    assert clone.recorded() == []


@pytest.mark.root
def test_apt_installs_what_is_missing_and_starts_no_service(bare: Clone) -> None:
    bare.stub("apt-get", MANAGER)
    bare.stub("dpkg", MANAGER)
    done = bare.run("true", prefix=WITHOUT_SBIN)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "", "policy-rc.d stays behind"
    assert [line for line in bare.recorded() if not line.startswith("python")] == [
        "dpkg --configure -a",
        "policy: 101",
        "apt-get update",
        "policy: 101",
        "apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends --no-remove"
        " btrfs-progs e2fsprogs fio mount ncbi-blast+ util-linux xfsprogs",
        "policy: 101",
    ]
    bare.run("true", prefix=WITHOUT_SBIN)
    assert bare.recorded() == []


@pytest.mark.root
def test_policy_of_the_machine_stays(bare: Clone) -> None:
    bare.stub("apt-get", MANAGER)
    policy = "/usr/sbin/policy-rc.d"
    theirs = f"""printf '#!/bin/sh\\nexit 104\\n' >{policy}; chmod 755 {policy}; "$@"; cat {policy}"""
    done = bare.run("true", prefix=(*WITHOUT_SBIN, "/bin/bash", "-c", theirs, "-"))
    assert done.stdout.startswith("#!/bin/sh\nexit 104\n")
    assert set(bare.recorded("policy")) == {"policy: 104"}


@pytest.mark.root
def test_what_brings_up_a_cluster_is_installed_only_when_asked_for(clone: Clone) -> None:
    clone.stub("apt-get", MANAGER)
    clone.run("true", prefix=WITHOUT_SBIN)
    assert not clone.recorded("apt-get")
    clone.run("true", prefix=WITHOUT_SBIN, FSAGE_TESTBED="1")
    [installed] = clone.recorded("apt-get", " install ")
    assert {"slurmctld", "slurmd", "openssh-server", "munge"} <= set(installed.split())


@pytest.mark.root
def test_killed_installation_is_finished_and_its_policy_taken_back(bare: Clone) -> None:
    bare.stub("apt-get", MANAGER)
    (bare.stubs / "manager-is-killed").touch()
    twice = """setsid -w "$@"; ls /usr/sbin; "$@" """
    done = bare.run("true", prefix=(*WITHOUT_SBIN, "/bin/bash", "-c", twice, "-"))
    assert (done.returncode, done.stdout) == (0, "policy-rc.d\n"), done.stderr


@pytest.mark.root
def test_dnf_installs_one_by_one_where_a_package_does_not_exist(bare: Clone) -> None:
    bare.stub("dnf", MANAGER)
    (bare.stubs / "unavailable").write_text("btrfs-progs\n")
    done = bare.run("true", prefix=WITHOUT_SBIN)
    assert done.returncode == 0, done.stderr
    install = "dnf install --assumeyes --setopt=install_weak_deps=False "
    assert bare.recorded("dnf") == [
        install + "btrfs-progs e2fsprogs fio ncbi-blast+ util-linux xfsprogs",
        *(
            install + package
            for package in ("btrfs-progs", "e2fsprogs", "fio", "ncbi-blast+", "util-linux", "xfsprogs")
        ),
    ]
    assert "mkfs.btrfs: without it no btrfs targets" in done.stderr
    assert "mkfs.xfs" not in done.stderr
    again = bare.run("true", prefix=WITHOUT_SBIN)
    assert (again.returncode, again.stderr) == (0, ""), "what cannot be had is not asked for again"
    assert bare.recorded() == []


@pytest.mark.root
def test_dnf_brings_python(bare: Clone) -> None:
    (bare.stubs / "broken").touch()
    bare.stub("dnf", MANAGER)
    done = bare.run("true", prefix=WITHOUT_SBIN)
    assert done.returncode == 1
    assert "dnf install --assumeyes --setopt=install_weak_deps=False python3.11" in bare.recorded()


@pytest.fixture
def users_clone() -> Iterator[Clone]:
    """A clone that is another user's, where that user can get at it."""
    home = Path("/var/tmp") / f"fsage-test-run-{os.getpid()}"
    try:
        clone = Clone(home, home / "clone")
        for path in (home, *home.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
        yield clone
    finally:
        shutil.rmtree(home)


AS_NOBODY = ("/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


@pytest.mark.root
def test_without_root_it_says_what_it_cannot_do_and_goes_on(users_clone: Clone) -> None:
    users_clone.stub("apt-get", MANAGER)
    done = users_clone.run("id", "-u", prefix=AS_NOBODY)
    assert (done.returncode, done.stdout) == (0, "65534\n")
    assert "without root: no file system can be made, mounted or emptied" in done.stderr
    assert "plain directory" in done.stderr
    assert users_clone.recorded("apt-get") == []


@pytest.mark.root
def test_root_in_a_users_clone_leaves_nothing_outside_the_environment(users_clone: Clone) -> None:
    git = shutil.which("git")
    assert git
    subprocess.run([*AS_NOBODY, git, "init", "--quiet", users_clone.root], check=True)
    done = users_clone.run(git, "status", "--short")
    assert done.returncode == 0, done.stderr
    outside = [path for path in users_clone.root.rglob("*") if users_clone.venv not in (path, *path.parents)]
    assert {path.stat().st_uid for path in outside} == {65534}


@pytest.mark.root
def test_environment_that_cannot_be_written(users_clone: Clone) -> None:
    users_clone.venv.mkdir(mode=0o755)
    done = users_clone.run("true", prefix=AS_NOBODY)
    assert done.returncode == 1
    assert f"cannot write to {users_clone.venv} (it belongs to root" in done.stderr and "FSAGE_VENV=" in done.stderr


@pytest.mark.long
@pytest.mark.timeout(900)
def test_real_environment(tmp_path: Path) -> None:
    """From the lock, in a bare environment: the commands work through ./run and when it is activated."""
    clone = tmp_path / "clone"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name, follow_symlinks=False)
    bare = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"} | {
        k: v for k, v in os.environ.items() if k.startswith("PIP_")
    }
    commands = "snakemake --version && ansible-playbook --version && fsage --help && pytest --version"
    for shell in (f"./run bash -c '{commands}'", f". .venv/bin/activate && {commands}"):
        done = subprocess.run(
            ["bash", "-c", shell],
            cwd=clone,
            env=bare,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert f"config file = {clone}/ansible.cfg" in done.stdout
        assert f"executable location = {clone}/.venv/bin/ansible-playbook" in done.stdout
