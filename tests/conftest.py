"""What tests with real file systems share: a mount namespace, local targets, proof that nothing stays.

Targets are made below /var/tmp and the test's own directory, under names that no other session has; nothing
that another target of this machine uses is touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.machinery
import importlib.util
import itertools
import marshal
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import preloaded
import pytest
import yaml
from local_targets import claimed, written
from lustre_site import Site, site_in
from machine import Machine
from session import PREFIX

from fsage.host.device import capabilities, loops
from fsage.host.system import library, mounting, namespace, settings
from fsage.host.verbs import claim
from fsage.layouts.machine import mounts
from fsage.studies.slowdisk.host import cgroups, seek
from fsage.study import Study, StudyError
from fsage.study.files import load_study

pytest_plugins = ["rota", "tiers", "machine_lacks"]

OUTSIDE = pytest.StashKey[int]()
UNCHECKED = b"\1\0\0\0"  # flags of bytecode that is taken without a look at its text (PEP 552)
_numbers = itertools.count(1)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Move into a private mount namespace, and from there into fsage's, as its commands do.

    Copies of other targets' mounts are given up at once: a copy in a namespace pins the file system, so that its owner
    could neither format nor remount it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts what runs in its background so
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored
    os.umask(0o022)  # tests make what other users may read, whatever files of the user's own are like
    if not capabilities.obstacles(capabilities.LOOP_TARGET):
        namespace.unshare(namespace.MS_PRIVATE)
        for mount in reversed(mounts()):
            if mount.source.startswith(("/dev/loop", "fsage-seekdisk-")):
                mounting.unmount(Path(mount.point))
        session.stash[OUTSIDE] = os.open("/proc/self/ns/mnt", os.O_RDONLY)
        namespace.enter()
    preloaded.shims()  # which workers share
    library.zipped = with_bytecode(library.zipped)


def with_bytecode(zipped: Callable[[Mapping[str, bytes]], bytes]) -> Callable[[Mapping[str, bytes]], bytes]:
    """`zipped`, with the bytecode of fsage's modules beside their texts: this Python plays other hosts too.

    Each host agent that tests start would compile a hundred modules, which takes twice as long as what it does then.
    """

    @functools.cache
    def both(contents: tuple[tuple[str, bytes], ...]) -> bytes:
        more = {}
        for name, text in contents:
            path = preloaded.ROOT / "src" / name
            if text and path.is_file() and path.read_bytes() == text:
                code = importlib.machinery.SourceFileLoader(name, str(path)).get_code(name)
                head = importlib.util.MAGIC_NUMBER + UNCHECKED + importlib.util.source_hash(text)
                more[f"{name}c"] = head + marshal.dumps(code)
        return zipped({**dict(contents), **more})

    return lambda contents: both(tuple(contents.items()))


@pytest.fixture
def outside(request: pytest.FixtureRequest) -> Callable[..., subprocess.Popen]:
    """Start a command in the namespace in which the session began: among what everybody on the machine sees."""
    descriptor = request.session.stash[OUTSIDE]

    def start(*words: str, **how: Any) -> subprocess.Popen:
        command = ["nsenter", f"--mount=/proc/self/fd/{descriptor}", *words]
        return subprocess.Popen(command, pass_fds=[descriptor], **how)

    return start


@pytest.fixture
def machine(outside: Callable[..., subprocess.Popen], local_target: dict[str, Any]) -> Iterator[Machine]:
    """A machine of its own; the target is released on it before `local_target` looks whether anything is left."""
    there = Machine(outside)
    yield there
    there.agent("remove", local_target)
    there.end()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Nothing of this session's targets may be left on the machine."""
    left = traces(PREFIX)
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"\nleft behind by this session: {'; '.join(left)}")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing in the temporary folder, also after a failure or Ctrl-C; `--basetemp` names a folder to keep."""
    factory = getattr(config, "_tmp_path_factory", None)
    made = getattr(factory, "_basetemp", None)
    if made and not config.getoption("basetemp"):  # workers are given theirs, below that of the session
        shutil.rmtree(made, onerror=_make_writable)
        with contextlib.suppress(OSError):  # another session has one beside it
            for link in made.parent.glob("*current"):
                link.unlink()
            made.parent.rmdir()


def _make_writable(remove: Callable[[str], object], path: str, _: object) -> None:
    """Remove what a test made read-only; what cannot be removed stays."""
    with contextlib.suppress(OSError):
        for place in (os.path.dirname(path), path):
            os.chmod(place, 0o700)
        remove(path) if remove is not os.scandir else shutil.rmtree(path)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests recorded of simulated estimators and of readers of bent samples, a line each."""
    for name, title in (("simulated", "estimators by simulation"), ("bent", "readers on bent samples")):
        rows = recorded(terminalreporter, name)
        if rows:
            terminalreporter.section(title)
        for row in rows:
            terminalreporter.line("  ".join(map(str, row.values() if isinstance(row, dict) else row)))


def recorded(terminalreporter: Any, name: str) -> list[Any]:
    """What tests recorded under a name."""
    found = []
    for report in itertools.chain(*terminalreporter.stats.values()):
        if getattr(report, "when", "") == "call":
            found += [row for key, row in report.user_properties if key == name]
    return found


@pytest.fixture
def row(record_property: Any) -> Any:
    """Add a row to that table: what was simulated, in which case, what is claimed, how often it came true in trials."""
    from simulated import error  # it loads SciPy, which most tests do without

    def add(what: str, case: str, claim: str, hits: int, trials: int) -> None:
        rate = hits / trials
        record_property("simulated", (what, case, claim, f"{rate:.1%} ± {2 * error(rate, trials):.1%}", f"{trials}"))

    return add


def traces(name: str) -> list[str]:
    """Loop devices, mounts, control groups, images and who serves them, whose names begin with a target's name."""
    found = [f"mount {m.point}" for m in mounts() if f"/{name}" in m.point]
    found += [f"group {group}" for group in cgroups.names() if group.startswith(cgroups.PREFIX + name)]
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        path = backing.read_text(encoding="utf-8").strip()
        if f"/fsage-{name}" in path or f"/{name}" in path:
            found.append(f"/dev/{backing.parts[3]} on {path}")
    for process in Path("/proc").glob("[0-9]*"):
        words = seek._parameters(int(process.name)) or []
        found += [f"process {process.name} ({word})" for word in words if f"/fsage-{name}" in word]
    return found + [str(path) for path in Path("/var/tmp").glob(f"fsage-test-{name}*")]


@pytest.fixture
def new_target(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The declaration of a loop target of 1 GiB, of which nothing was made yet; all of it is removed afterwards."""
    yield from loop_target(tmp_path)


@pytest.fixture
def local_target(new_target: dict[str, Any]) -> dict[str, Any]:
    """The same with its image there, not yet claimed."""
    return written(new_target)


@pytest.fixture
def other_targets(tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """Three more, for tests of several."""
    with contextlib.ExitStack() as stack:
        target = contextlib.contextmanager(loop_target)
        yield [written(stack.enter_context(target(tmp_path))) for _ in range(3)]


@pytest.fixture
def spec(local_target: dict[str, Any]) -> dict[str, Any]:
    """The same, created and claimed."""
    claimed(local_target)
    return local_target


@pytest.fixture(scope="module")
def new_module_target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """As `new_target`, for all tests of a module."""
    yield from loop_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def module_target(new_module_target: dict[str, Any]) -> dict[str, Any]:
    """As `local_target`, for all tests of a module that work on one target."""
    return written(new_module_target)


def loop_target(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Declare a loop target; in the end remove it, however far it came, and assert that nothing is left."""
    name = f"{PREFIX}{next(_numbers)}"
    place = Path(tempfile.mkdtemp(prefix=f"fsage-test-{name}-", dir="/var/tmp"))
    spec: dict[str, Any] = {
        "name": name,
        "kind": "loop",
        "filesystem": "ext4",
        "stores": 1,
        "size_gib": 1,
        "minimum_gib": 1,
        "image_dir": str(place / "images"),
        "mount_dir": str(tmp_path / "mnt"),
        "home": str(tmp_path / "home"),
        "scale": {"file_size": 0.125, "tasks": 1},
        "allocator_reset": "remount",
        "amount_mib": 64,
        "device_model": None,
    }
    try:
        yield spec
        claim.remove(spec, {}, False)
        home = Path(spec["home"]) / name
        assert not (home / "claim.json").exists() and not (home / "images.json").exists()
        assert not settings.journal_of(home).path.exists()
    finally:
        for backing in place.glob("images/*"):  # a test that failed halfway
            found = loops.identity(str(backing)) or {}
            for device in loops.devices_of(found):
                for mount in reversed(mounts()):
                    if mount.source == device:
                        mounting.unmount(Path(mount.point))
            loops.detach({"image": str(backing), **found})
        shutil.rmtree(place)
    assert not traces(name)


@pytest.fixture(scope="module")
def alone_with_controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One module of this session at a time has the machine's control groups: they move, and look at, what is shared."""
    own = tmp_path_factory.getbasetemp()
    session = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with open(session / "controllers.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A Lustre site's clients."""
    return site_in(tmp_path, monkeypatch, "lfs", "lctl", "findmnt", "ssh")


@pytest.fixture(scope="session")
def quickstart() -> Study:
    """Quickstart with one layout a state, and all iterations at one place."""
    return load_study(Path(__file__).parent / "data/plain/quickstart.yaml")


@pytest.fixture(scope="module")
def figures_undrawn() -> Iterator[None]:
    """Reports have the titles of their figures in place of drawings, in modules about something else."""
    from records import title_alone

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fsage.figures.drawing.draw_all", lambda figures, *_: [*map(title_alone, figures)])
        yield


@pytest.fixture
def directory_target(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The declaration of a plain-directory target of at most 1 GiB, removed afterwards."""
    place = Path(tempfile.mkdtemp(prefix=f"fsage-test-{PREFIX}directory-", dir="/var/tmp"))
    yield {
        "name": f"{PREFIX}{next(_numbers)}",
        "kind": "directory",
        "directory": str(place / "target"),
        "home": str(place / "home"),
        "budget_gib": 1,
        "amount_mib": 64,
    }
    shutil.rmtree(place)


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Study]:
    """Load a study from its blocks, or from the text of a file."""

    def loaded(study: str | dict, name: str = "small") -> Study:
        path = tmp_path / f"{name}.yaml"
        path.write_text(study if isinstance(study, str) else yaml.safe_dump(study, sort_keys=False))
        return load_study(path)

    return loaded


@pytest.fixture
def refused(load: Callable[..., Study], tmp_path: Path) -> Callable[..., str]:
    """Say how a study is refused, without the folder it lies in."""

    def message(study: str | dict) -> str:
        with pytest.raises(StudyError) as caught:
            load(study)
        return str(caught.value).replace(f"{tmp_path}/", "").replace(str(tmp_path), "here")

    return message
