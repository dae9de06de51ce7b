"""./run and envs/setup: what they install, when, and what they do when they may not or are killed.

pip and uv are the real ones and install from small locks and a folder of wheels, without a network, as a plain `pip`
configuration names it. apt-get and dnf are programs that record how they were called; unpacking uses the real apt-get
with a repository of its own. The clone's path has blanks and umlauts, HOME is not set, and the umask is 077.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import runpy
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYTHON = os.path.realpath(sys.executable)
SITE = Path(sysconfig.get_path("purelib"))
FILES = ("run", "envs/setup", "envs/pip_settings.py", "envs/system-packages.txt")
TOOLS = (
    *("bash", "cat", "chmod", "cut", "date", "dpkg-deb", "env", "find", "flock", "git", "grep", "head", "id", "ln"),
    *(
        "ls",
        "mkdir",
        "mv",
        "paste",
        "readlink",
        "rm",
        "sed",
        "setsid",
        "sh",
        "sha256sum",
        "sort",
        "stat",
        "tail",
        "tar",
        "true",
    ),
)
PROGRAMS = [
    line.split(maxsplit=1)[0]
    for line in (ROOT / "envs/system-packages.txt").read_text().splitlines()
    if not line.startswith("#")
]
AS_NOBODY = ("/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
#: Hides /usr/sbin (mkfs.*, wipefs) from what follows, in a mount namespace of its own.
WITHOUT_SBIN = (
    "/usr/bin/unshare", "--mount", "--propagation", "private",
    "/bin/bash", "-c", '/bin/mount -t tmpfs none /usr/sbin && "$@"', "-",
)  # fmt: skip

BROKEN_PYTHON = "#!/bin/sh\necho 'pyenv: python3.11: command not found' >&2\nexit 127\n"

# Records the call, and brings every program but those whose package is in the file "unavailable".
MANAGER = """#!/bin/bash
echo "${0##*/} $*" >>"$RECORD"
[[ " $* " == *" install "* ]] || exit 0
if [[ -e $STUBS/manager-is-killed ]]; then
    rm "$STUBS/manager-is-killed"
    kill -9 -- "-$(cut -d' ' -f5 /proc/self/stat)"
fi
while read -r program apt dnf _; do
    for package; do
        if grep -qsx -- "$package" "$STUBS/unavailable"; then continue; fi
        if [[ $package == "$apt" || $package == "$dnf" ]]; then
            printf '#!/bin/sh\\n' >"$STUBS/$program"; chmod +x "$STUBS/$program"
        fi
    done
done <envs/system-packages.txt
"""


def wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> str:
    """Write a wheel of these files into a folder; its line in a lock."""
    information = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: fsage\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files = files | {f"{information}/{file}": text.encode() for file, text in metadata.items()}
    record = "".join(f"{file},,\n" for file in [*files, f"{information}/RECORD"])
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in (files | {f"{information}/RECORD": record.encode()}).items():
            entry = zipfile.ZipInfo(file)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, content)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def files_of(package: str) -> dict[str, bytes]:
    """The files of a package that is installed here, as its wheel has them."""
    files = [Path(file) for file in importlib.metadata.files(package) or () if ".dist-info" not in str(file)]
    return {str(file): (SITE / file).read_bytes() for file in files if file.suffix != ".pyc"}


class Wheels:
    """A folder of wheels, and the locks that ask for them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        self.folder = folder
        script = {"tiny_tests-1.data/scripts/pytest": b"#!/bin/sh\necho pytest of the lock\n"}
        # uv is 55 MB: its wheel has a script that calls a copy of it, which anybody may read.
        shutil.copy(Path(sys.prefix, "bin/uv"), folder / "uv")
        uv = {"uv-1.data/scripts/uv": f'#!/bin/sh\nexec {folder}/uv "$@"\n'.encode()}
        self.locks = {
            "build": wheel(folder, "uv", "1", uv) + wheel(folder, "flit_core", "3", files_of("flit_core")),
            "requirements": wheel(folder, "tiny", "1", {"tiny.py": b"word = 'tiny'\n"}),
            "development": wheel(folder, "tiny-tests", "1", script),
        }


class Clone:
    """What of a clone the wrapper needs, with small locks, and a PATH on which every program is here, as a stub."""

    def __init__(self, home: Path, wheels: Wheels) -> None:
        self.root, self.stubs, self.record = home / "a clöne", home / "stubs", home / "record"
        self.venv = self.root / ".venv"
        self.environment = {
            "PATH": str(self.stubs),
            "RECORD": str(self.record),
            "STUBS": str(self.stubs),
            "FSAGE_PYTHON": PYTHON,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels.folder),
        }
        (self.root / "envs").mkdir(parents=True)
        (self.root / "src/fsage").mkdir(parents=True)
        (self.root / "src/fsage/__init__.py").write_text('"""Small."""\n__version__ = "1"\n')
        for name in FILES:
            shutil.copy(ROOT / name, self.root / name)
        for name, text in wheels.locks.items():
            self.lock(name).write_text(text)
        (self.root / "pyproject.toml").write_text(
            '[project]\nname = "fsage"\ndynamic = ["version", "description"]\n[build-system]\n'
            'requires = ["flit-core"]\nbuild-backend = "flit_core.buildapi"\n'
        )
        self.stubs.mkdir()
        for name in TOOLS:
            (self.stubs / name).symlink_to(shutil.which(name, path="/usr/bin:/usr/sbin") or f"/usr/bin/{name}")
        for program in PROGRAMS:
            self.stub(program, "#!/bin/sh\n")

    def lock(self, name: str) -> Path:
        return self.root / f"envs/{name}.lock"

    def stub(self, name: str, text: str) -> None:
        (self.stubs / name).write_text(text)
        (self.stubs / name).chmod(0o755)

    def start(self, *command: str, prefix: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*prefix, str(self.root / "run"), *command],
            env=self.environment | environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            umask=0o077,
        )

    def run(self, *command: str, prefix: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*command, prefix=prefix, **environment)
        stdout, stderr = process.communicate(timeout=100)
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def recorded(self, word: str = "") -> list[str]:
        """The calls of apt-get, dpkg and dnf since the last look, those with the word in them."""
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        self.record.unlink(missing_ok=True)
        return [line for line in lines if word in line]


@pytest.fixture(scope="module")
def wheels() -> Iterator[Wheels]:
    """Where any user may read them."""
    home = Path("/var/tmp") / f"fsage-test-wheels-{os.getpid()}"
    try:
        yield Wheels(home)
    finally:
        shutil.rmtree(home)


@pytest.fixture
def clone(tmp_path: Path, wheels: Wheels) -> Clone:
    return Clone(tmp_path, wheels)


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory, wheels: Wheels) -> tuple[Clone, subprocess.CompletedProcess[str]]:
    """A clone, of an archive that root unpacked, and its first call; the first Python on PATH does not run."""
    clone = Clone(tmp_path_factory.mktemp("made"), wheels)
    clone.stub("python3.11", BROKEN_PYTHON)
    clone.stub("python3", f'#!/bin/sh\nexec {PYTHON} "$@"\n')
    results = clone.root / "results"
    results.mkdir()
    results.chmod(0o775)
    shows = 'echo "$PWD|$VIRTUAL_ENV|$PATH|$ANSIBLE_CONFIG|${PYTHONPATH-unset}|$1"; exit 7'
    return clone, clone.run("bash", "-c", shows, "-", "two words", PYTHONPATH="/elsewhere", FSAGE_PYTHON="")


@pytest.fixture(scope="module")
def made(called: tuple[Clone, subprocess.CompletedProcess[str]]) -> Clone:
    """The clone, whose environment is there."""
    return called[0]


@pytest.fixture
def ready(clone: Clone, made: Clone) -> Clone:
    """Another clone, with the same environment."""
    clone.environment["FSAGE_VENV"] = str(made.venv)
    return clone


@pytest.fixture
def bare(ready: Clone) -> Clone:
    """A clone on a machine with an environment and without any of the programs; to be run behind WITHOUT_SBIN."""
    for program in PROGRAMS:
        (ready.stubs / program).unlink()
    return ready


@pytest.fixture
def users_clone(wheels: Wheels) -> Iterator[Clone]:
    """A clone that is another user's, where that user can get at it, and a Python of all users."""
    home = Path("/var/tmp") / f"fsage-test-run-{os.getpid()}"
    try:
        clone = Clone(home, wheels)
        clone.environment["FSAGE_PYTHON"] = "/usr/bin/python3"
        for path in (home, *home.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
        yield clone
    finally:
        shutil.rmtree(home)


# --- the environment -----------------------------------------------------------------------------------------------


def test_first_call_installs_what_the_locks_hold_and_the_second_does_nothing(
    called: tuple[Clone, subprocess.CompletedProcess[str]],
) -> None:
    clone, done = called
    assert done.returncode == 7, f"a Python that does not run is passed over: {done.stderr}"
    assert done.stdout.rstrip("\n").split("|") == [
        str(clone.root),
        str(clone.venv),
        f"{clone.venv}/programs:{clone.venv}/bin:{clone.stubs}:/usr/sbin:/sbin",
        f"{clone.root}/ansible.cfg",
        "unset",
        "two words",
    ]
    assert all(line.startswith("fsage: ") for line in done.stderr.splitlines()), "noise of pip and uv is for the log"
    mode = stat.S_IMODE((clone.root / "results").stat().st_mode)
    assert mode == (0o775 if os.geteuid() else 0o755), "root refuses where a group may write"
    again = clone.run("python", "-c", "import fsage, tiny; print(fsage.__file__, tiny.word)")
    assert (again.stdout, again.stderr) == (f"{clone.root}/src/fsage/__init__.py tiny\n", "")
    assert "Audited" not in (clone.venv / "setup.log").read_text()


def test_what_tests_need_comes_when_they_are_asked_for_and_once(made: Clone) -> None:
    assert made.run("pytest").stdout == "pytest of the lock\n"
    assert made.run("true", FSAGE_DEVELOP="1").stderr == made.run("true").stderr == ""
    with made.lock("development").open("a") as file:
        file.write("# another\n")
    assert made.run("true").stderr == "", "a run does not care"
    assert "more Python packages" in made.run("pytest").stderr


@pytest.mark.long
@pytest.mark.parametrize("name", ["requirements", "build"])
def test_package_with_another_hash_is_refused_and_the_next_call_goes_on(clone: Clone, name: str) -> None:
    right = clone.lock(name).read_text()
    clone.lock(name).write_text(right.replace("sha256:", "sha256:" + "0" * 8).replace(right[-9:], "\n"))
    done = clone.run("echo", "not to be run")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search("do not match|hash mismatch", done.stderr, re.IGNORECASE), done.stderr
    assert f"failed; all it said is in {clone.venv}/setup.log" in done.stderr
    clone.lock(name).write_text(right)
    assert clone.run("python", "-c", "import tiny").returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("moment", ["pip sync", "install --require-hashes", "--editable"])
def test_killed_at_any_moment_then_again(clone: Clone, moment: str) -> None:
    process, log = clone.start("true"), clone.venv / "setup.log"
    while not (log.exists() and moment in log.read_text()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (clone.venv / "bin").mkdir(exist_ok=True)
    (clone.venv / "bin/half").touch()
    done = clone.run("python", "-c", "import fsage, tiny")
    assert done.returncode == 0, done.stderr
    assert not (clone.venv / "bin/half").exists()


@pytest.mark.long
def test_two_at_once_set_up_once(clone: Clone) -> None:
    two = [clone.start("true") for _ in range(2)]
    said = [process.communicate(timeout=100)[1] for process in two]
    assert [process.returncode for process in two] == [0, 0]
    assert sum("ready after" in text for text in said) == 1
    assert sum("another ./run is setting up" in text for text in said) == 1


@pytest.mark.long
def test_environment_is_made_again_where_it_is_broken_or_moved(clone: Clone) -> None:
    clone.run("true")
    (clone.venv / "bin/python").unlink()
    assert "ready after" in clone.run("true").stderr
    clone.root = clone.root.rename(clone.root.with_name("moved"))
    assert "ready after" in clone.run("true").stderr


def test_no_python(clone: Clone) -> None:
    done = clone.run("true", FSAGE_PYTHON="/opt/py/bin/python3", FSAGE_INSTALL="no")
    assert "no Python >= 3.11 with the modules venv and pip (or ensurepip) is /opt/py/bin/python3" in done.stderr
    clone.stub("python3.11", BROKEN_PYTHON)
    done = clone.run("true", FSAGE_PYTHON="", FSAGE_INSTALL="no")
    assert done.returncode == 1
    assert "no Python >= 3.11 with" in done.stderr and "apt-get install python3-venv" in done.stderr


def test_a_path_in_which_no_package_works_is_refused_before_the_set_up(clone: Clone) -> None:
    for name in ("a:b", "a$b", "a\tb"):
        done = clone.run("true", FSAGE_VENV=str(clone.root / name))
        assert done.returncode == 1 and "no package works in" in done.stderr and not (clone.root / name).exists()
    clone.root = clone.root.rename(clone.root.with_name("new\nline"))
    assert "no package works in" in clone.run("true", FSAGE_VENV=str(clone.venv)).stderr


def test_unknown_command_and_none(ready: Clone) -> None:
    link = ready.stubs / "link"
    link.symlink_to(ready.root / "run")
    done = ready.run(prefix=(str(link), "snakemkae"))
    assert done.returncode == 127
    assert "there is no command 'snakemkae'" in done.stderr
    done = ready.run()
    assert done.returncode == 2
    assert done.stderr.startswith("./run COMMAND [ARGUMENT ...]") and "FSAGE_VENV" in done.stderr


def test_fsage_is_told_where_it_was_called_and_ctrl_c_waits_for_it(ready: Clone) -> None:
    shows = "#!/bin/bash\necho ${FSAGE_CALLED_FROM-unset} $(/usr/bin/awk '/^SigBlk/ { print $2 }' /proc/self/status)\n"
    for name in ("fsage", "another"):
        ready.stub(name, shows)
    assert ready.run("fsage").stdout == f"/ {1 << signal.SIGINT - 1:016x}\n"
    assert ready.run("another").stdout == f"unset {0:016x}\n"


@pytest.mark.long
@pytest.mark.root
def test_clone_and_environment_of_others(users_clone: Clone) -> None:
    users_clone.venv.mkdir(mode=0o755)
    done = users_clone.run("true", prefix=AS_NOBODY)
    assert done.returncode == 1
    assert f"cannot write to {users_clone.venv} (it belongs to root" in done.stderr and "FSAGE_VENV=" in done.stderr
    (users_clone.venv / "pyvenv.cfg").write_text("executable = /root/somewhere/python3.11\n")
    done = users_clone.run("true", prefix=AS_NOBODY)
    assert done.returncode == 1
    assert "cannot run the Python of" in done.stderr and "/root/somewhere/python3.11, which root made" in done.stderr
    assert "FSAGE_PYTHON=/usr/bin/python3" in done.stderr
    (users_clone.venv / "pyvenv.cfg").unlink()
    subprocess.run([*AS_NOBODY, "git", "init", "--quiet", users_clone.root], check=True, cwd="/")
    done = users_clone.run("bash", "-c", "git status --short && python -c 'import fsage'")
    assert done.returncode == 0, done.stderr
    outside = [path for path in users_clone.root.rglob("*") if users_clone.venv not in (path, *path.parents)]
    assert {path.stat().st_uid for path in outside} == {65534}, "root leaves nothing in a user's clone"


def test_uv_is_told_what_pip_is_told() -> None:
    for_uv = runpy.run_path(str(ROOT / "envs/pip_settings.py"))["for_uv"]
    lines = """global.index-url='https://mirror/simple'\nglobal.extra-index-url='\\nhttps://a\\nhttps://b'
        global.timeout='30'\ninstall.timeout='40'\n:env:.timeout='50'\nfreeze.timeout='60'
        install.trusted-host='mirror other'\nglobal.cert='/my ca.pem'\nglobal.proxy='http://p:1'\n:env:.no-index='0'"""
    assert for_uv(lines.splitlines(), {"ALL_PROXY": "http://uv:2"}) == {
        "UV_DEFAULT_INDEX": "https://mirror/simple",
        "UV_INDEX": "https://a https://b",
        "UV_HTTP_TIMEOUT": "50",
        "UV_INSECURE_HOST": "mirror other",
        "SSL_CERT_FILE": "/my ca.pem",
    }


# --- programs ------------------------------------------------------------------------------------------------------


def test_without_fio_it_stops_and_names_the_ways_to_one(ready: Clone) -> None:
    (ready.stubs / "fio").unlink()
    ready.stub("apt-get", MANAGER)
    done = ready.run("true", FSAGE_INSTALL="no")
    assert done.returncode == 1 and ready.recorded() == []
    for said in (
        "an administrator brings them with: apt-get install fio",
        "FSAGE_FIO=/path/to/fio ./run ...",
        f"Debian's package, unpacked into {ready.environment['FSAGE_VENV']}: FSAGE_INSTALL=unpack ./run ...",
        "stopped: nothing can be measured without fio",
    ):
        assert said in done.stderr
    done = ready.run("true", FSAGE_INSTALL="yes")
    assert done.returncode == 1
    assert done.stderr == "fsage: stopped: FSAGE_INSTALL is 'yes'; allowed: no, unpack, or nothing\n"


@pytest.mark.long
def test_fio_of_a_path_is_used_and_remembered_in_an_environment_of_another_lock_too(clone: Clone) -> None:
    clone.stub("my fio-3.39", "#!/bin/sh\necho mine\n")
    mine, none = clone.stubs / "my fio-3.39", clone.stubs / "none"
    done = clone.run("true", FSAGE_FIO=str(none))
    assert (done.returncode, done.stderr) == (1, f"fsage: stopped: FSAGE_FIO is {none}, and that is no program\n")
    assert clone.run("fio", FSAGE_FIO=str(mine)).stdout == "mine\n", "it goes before the one on PATH"
    assert clone.run("fio").stdout == "mine\n", "it is remembered"
    with clone.lock("requirements").open("a") as file:
        file.write("# another\n")
    done = clone.run("fio")
    assert done.stdout == "mine\n" and "ready after" in done.stderr


@pytest.mark.root
def test_apt_installs_what_is_missing_after_a_killed_installation_too(bare: Clone) -> None:
    bare.stub("apt-get", MANAGER)
    bare.stub("dpkg", MANAGER)
    (bare.stubs / "manager-is-killed").touch()
    assert bare.run("true", prefix=WITHOUT_SBIN).returncode < 0
    calls = [
        "dpkg --configure -a",
        "apt-get update",
        "apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends --no-remove"
        " e2fsprogs fio mount util-linux",
    ]
    assert bare.recorded() == calls
    done = bare.run("true", prefix=WITHOUT_SBIN)
    assert (done.returncode, done.stdout, bare.recorded()) == (0, "", calls), done.stderr
    bare.run("true", prefix=WITHOUT_SBIN)
    assert bare.recorded() == []


@pytest.mark.root
def test_dnf_installs_and_what_cannot_be_had_is_not_asked_for_again(bare: Clone) -> None:
    bare.stub("dnf", MANAGER)
    (bare.stubs / "unavailable").write_text("e2fsprogs\n")
    done = bare.run("true", prefix=WITHOUT_SBIN)
    assert done.returncode == 0, done.stderr
    install = "dnf install --assumeyes --setopt=install_weak_deps=False "
    assert bare.recorded() == [f"{install}e2fsprogs fio util-linux"]
    assert "mkfs.ext4: without it no ext4 targets" in done.stderr and "wipefs" not in done.stderr
    again = bare.run("true", prefix=WITHOUT_SBIN)
    assert (again.returncode, again.stderr) == (0, "")
    bare.run("true", prefix=WITHOUT_SBIN, FSAGE_PYTHON="", FSAGE_VENV=f"{bare.root}/new")
    assert bare.recorded() == [f"{install}e2fsprogs", f"{install}python3.11"]


@pytest.mark.long
@pytest.mark.root
@pytest.mark.skipif(not shutil.which("apt-get"), reason="needs apt-get")
def test_fio_is_unpacked_for_a_user_without_an_administrator(users_clone: Clone) -> None:
    """By the real apt-get, out of a repository with a fio and with a library that it needs and that is not here."""
    home = users_clone.root.parent
    repository = home / "repository"
    repository.mkdir()
    index = ""
    for package, file, text, depends in (
        ("fio", "usr/bin/fio", "#!/bin/sh\necho fio-9.9 $LD_LIBRARY_PATH\n", "Depends: libaio9\n"),
        ("libaio9", "usr/lib/somewhere/libaio.so.9", "", ""),
    ):
        tree = home / package
        control = (
            f"Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@n>\nDescription: x\n{depends}"
        )
        for path, content in ((tree / file, text), (tree / "DEBIAN/control", control)):
            path.parent.mkdir(parents=True)
            path.write_text(content)
            path.chmod(0o755)
        subprocess.run(["dpkg-deb", "--build", tree, repository], check=True, capture_output=True)
        built = (repository / f"{package}_1_all.deb").read_bytes()
        digest = hashlib.sha256(built).hexdigest()
        index += f"{control}Filename: ./{package}_1_all.deb\nSize: {len(built)}\nSHA256: {digest}\n\n"
    (repository / "Packages").write_text(index)
    (home / "sources.list").write_text(f"deb [trusted=yes] copy:{repository} ./\n")
    (home / "status").touch()
    (home / "apt.conf").write_text(
        f'Dir::Etc::SourceList "{home}/sources.list"; Dir::Etc::SourceParts "-"; Dir::State::status "{home}/status";'
    )
    (users_clone.stubs / "fio").unlink()
    for name in ("apt-get", "dpkg"):
        (users_clone.stubs / name).symlink_to(f"/usr/bin/{name}")
    done = users_clone.run("fio", prefix=AS_NOBODY, FSAGE_INSTALL="unpack", APT_CONFIG=f"{home}/apt.conf")
    assert done.stdout == f"fio-9.9 {users_clone.venv}/unpacked/usr/lib/somewhere\n", done.stderr
    again = users_clone.run("bash", "-c", 'fio; echo "$HOME"', prefix=AS_NOBODY, HOME="/nowhere")
    assert (again.stdout, again.stderr) == (f"{done.stdout}{users_clone.venv}/home\n", ""), "it is remembered"
