"""Starting a kernel as a program, with a piece of work for it; whatever it does, it ends, and nothing of it is left.

The guest's root is this machine's own file system (hostfs), so that this Python runs in it. The guest writes its
answers into a file, line by line: those before a panic count.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import NamedTuple

from fsage.api.model import MIB, Failure, Json, Refusal

from . import registers

GUEST = "fsage.studies.kernels.host.guest"
"""The module that a guest runs."""
PREFIX = "fsage-guest-"
UNUSED_S = 86400.0  # code of another version
ABANDONED_S = 60.0  # a folder that nobody holds, and that is not just being made
MEMORY_MIB = 384  # of a guest
START_S = 180.0
JOB_S = 60.0  # a guest has so long, on a machine that does much else
LONGEST_S = 3600.0  # for a state
CONSOLE_BYTES = 1 << 18
SHOWN = 80
TAIL = 6  # lines of the console that a message has
EM_X86_64 = {"x86_64": 62, "i686": 3, "aarch64": 183}
"""Numbers of ELF's e_machine (elf.h)."""
# It outlives neither the guest nor fsage: its standard input ends when fsage does, however that happens. A kernel's
# processes are traced by its first one, and stay when only that one is killed: all of the group are. Of what the guest
# says only the end is kept, for a guest may say things without end. A kernel and its processes take turns, one at a
# time: over two processors that takes twice as long as on one.
KEEPER = """
import os, resource, select, signal, subprocess, sys, time
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
until = time.monotonic() + float(sys.argv[1])
kept_bytes = int(sys.argv[2])
os.sched_setaffinity(0, {int(sys.argv[3])})
pipe = subprocess.PIPE
guest = subprocess.Popen(
    sys.argv[4:], stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True
)
ended, console = os.pidfd_open(guest.pid), guest.stdout.fileno()
os.set_blocking(console, False)
watched, said, status = [0, ended, console], b"", None

def read():
    global said
    try:
        part = os.read(console, 1 << 16)
    except BlockingIOError:
        return False
    said = (said + part)[-kept_bytes:]
    return bool(part)

try:
    while status is None:
        ready, _, _ = select.select(watched, [], [], max(0, until - time.monotonic()))
        if console in ready and not read():
            watched.remove(console)
        if ended in ready:
            status = guest.wait()
        elif 0 in ready or time.monotonic() >= until:
            status = 124
except KeyboardInterrupt:
    status = 130
try:
    os.killpg(guest.pid, signal.SIGKILL)
except ProcessLookupError:
    pass
guest.wait()
while read():
    pass
sys.stdout.buffer.write(said)
sys.stdout.buffer.flush()
sys.exit(status if status >= 0 else 128 - status)
"""
SPARED = "raid6_select_algo,raid6_init,calibrate_xor_blocks"
"""What a kernel leaves out as it starts: for half of the time it would compare ways to compute parity, for RAID alone.

Kernels call it by other names since Linux 7.
"""
HUNG = 124
KEEPERS = set[subprocess.Popen[bytes]]()
"""The guests that this process has at the moment."""
PROCESSORS = Path("/sys/devices/system/cpu")
"""Whose folders guests lock."""
PATIENCE_S = 20.0
LOOK_EVERY_S = 0.05
"""How long a guest waits for a processor that becomes free, and how often it looks."""


class Kernel(NamedTuple):
    """A kernel that is a program."""

    name: str
    program: Path

    @property
    def libraries(self) -> Path:
        """Those of its own release, where it was unpacked with them."""
        return self.program.parent / "lib"


class Ended(NamedTuple):
    """What came of a guest: its answers, one for each piece of its work, and why there are no more."""

    answers: list[Json]
    why: str | None
    console: str

    def answer(self, number: int = 0) -> Json:
        """What it answered to a piece of its work. Raises Failure."""
        if number >= len(self.answers):
            raise Failure(self.why or "the guest did not come to it")
        answer = self.answers[number]
        if "error" in answer:
            raise Failure(answer["error"])
        return answer


def boot(
    kernel: Kernel,
    work: Sequence[Json],
    disks: Sequence[Path],
    limit_s: float | None = None,
    virtual: bool = False,
    stopped: Event | None = None,
) -> Ended:
    """Run a kernel until it has done its work. Raises Refusal where it cannot be started here.

    `disks`: images, the guest's /dev/ubda, ubdb ... With `virtual` the guest's clock stands still while it works, and
    jumps to the end of each wait. Each piece of work then has its image as a file: `ubd` waits for a helper outside.
    `stopped`: set when no more guests are to be started.
    """
    check(kernel)
    limit_s = limit_s or START_S + JOB_S * len(work)
    stopped = stopped or Event()
    with folder() as own:
        arguments = _prepared(own, kernel, work, disks, virtual)
        hidden = registers.are_hidden(kernel.name, kernel.program)
        status, console = _run(own, kernel, arguments, limit_s, stopped, hidden)
        if not hidden and registers.TOO_MANY in console:  # it has started nothing yet
            registers.hidden_from.add(kernel.program)
            status, console = _run(own, kernel, arguments, limit_s, stopped, True)
        answers = list(_answers(own / "answers.jsonl"))
    why = None if len(answers) == len(work) else _why(kernel, status, console, limit_s)
    return Ended(answers, why, console)


def answer_to(kernel: Kernel, job: Json, disk: Path, virtual: bool = False) -> Json:
    """What a guest answers to one piece of work on one disk, which may take long. Raises Refusal, Failure."""
    return boot(kernel, [{**job, "disk": 0}], [disk], LONGEST_S, virtual).answer()


def _prepared(own: Path, kernel: Kernel, work: Sequence[Json], disks: Sequence[Path], virtual: bool) -> list[str]:
    """Put what a guest reads into a folder of its own; the arguments of its kernel."""
    if virtual:
        work = [{**job, "image": str(disks[job["disk"]])} for job in work]
    (own / "work.json").write_text(json.dumps(list(work)), encoding="utf-8")
    words = [sys.executable, "-S", "-m", GUEST, str(own), str(kernel.program)]
    variables = {"PYTHONPATH": str(package()), "PATH": os.environ["PATH"]}
    prefix = os.environ.get("PYTHONPYCACHEPREFIX")
    if prefix:
        variables["PYTHONPYCACHEPREFIX"] = prefix
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    (own / "start").write_text(f"{given} exec {shlex.join(words)}\n", encoding="utf-8")
    arguments = [f"mem={MEMORY_MIB}M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw"]
    arguments += ["quiet", "panic=-1", "con=null", "con0=null,fd:2", "ssl=null", f"uml_dir={own}/"]
    arguments.append(f"initcall_blacklist={SPARED}")
    arguments.append("seccomp=auto")  # since Linux 6.16 a guest's processes need no ptrace, and fault faster
    if virtual:
        arguments.append("time-travel=inf-cpu")
    else:
        for number, disk in enumerate(disks):
            link = own / f"disk{number}"  # the name of an image may have commas and blanks, where a path may not
            link.symlink_to(disk.absolute())
            arguments.append(f"ubd{'abcdefgh'[number]}={link}")
    return [*arguments, "init=/bin/sh", "--", str(own / "start")]


def _run(
    own: Path, kernel: Kernel, arguments: list[str], limit_s: float, stopped: Event, hidden: bool
) -> tuple[int, str]:
    """Run a kernel on a processor of its own, with registers `hidden` from it or not; its status and console."""
    memory = roomy(MEMORY_MIB * MIB, executed=True)  # a guest's memory is a file that is executed
    words = ["env", f"TMPDIR={memory}", f"LD_LIBRARY_PATH={kernel.libraries}", f"./{kernel.program.name}"]
    if hidden:
        words = [*registers.FRONT, *words, *registers.WITHOUT_AVX]
    with open(own / "console", "w+b") as console, processor(stopped) as number:
        keeper = [sys.executable, "-ISc", KEEPER, str(limit_s), str(CONSOLE_BYTES), str(number)]
        process = subprocess.Popen(
            [*keeper, *words, *arguments],
            stdin=subprocess.PIPE,
            stdout=console,
            stderr=console,
            cwd=kernel.program.parent,
        )
        KEEPERS.add(process)
        try:
            status = process.wait()
        finally:
            KEEPERS.discard(process)
            _end(process)
        console.seek(0)
        return status, console.read().decode("utf-8", "replace")


@contextlib.contextmanager
def processor(stopped: Event) -> Iterator[int]:
    """A processor that no other guest has; after PATIENCE_S any. Raises Refusal where it is `stopped`."""
    numbers = sorted(os.sched_getaffinity(0))
    until = time.monotonic() + PATIENCE_S
    while not stopped.is_set():
        for number in numbers:
            with contextlib.ExitStack() as lock:
                try:
                    lock.enter_context(_locked(PROCESSORS / f"cpu{number}"))
                except BlockingIOError:  # another guest has it
                    continue
                except OSError:  # this container shows none
                    until = 0.0
                    continue
                yield number
                return
        if time.monotonic() > until:
            yield random.choice(numbers)
            return
        stopped.wait(LOOK_EVERY_S)
    raise Refusal("the guests were ended")


def kept() -> Path:
    """Where is kept what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fsage"


def package() -> Path:
    """Where a guest finds fsage: where this process does; of a zip in a folder, where its bytecode is kept too."""
    whole = Path(__file__).parents[4]
    if whole.is_dir():
        return whole
    digest = hashlib.sha256(whole.read_bytes()).hexdigest()[:12]
    place = kept() / "guests" / digest
    place.parent.mkdir(parents=True, exist_ok=True)
    for other in place.parent.iterdir():  # of other versions
        with contextlib.suppress(FileNotFoundError):  # another guest's has its name just now
            if time.time() - other.stat().st_mtime > UNUSED_S:
                shutil.rmtree(other, ignore_errors=True)
    if not place.exists():
        part = Path(tempfile.mkdtemp(dir=place.parent))
        with zipfile.ZipFile(whole) as archive:
            archive.extractall(part)
        try:
            part.rename(place)
        except OSError:  # another command was faster
            shutil.rmtree(part)
    os.utime(place)
    return place


def disk(path: Path, size_bytes: int) -> Path:
    """Make an empty disk for a guest, a file without blocks; its path. Raises Failure."""
    with open(path, "xb") as file:
        try:
            file.truncate(size_bytes)
        except OSError as error:
            raise Failure(
                f"{path} cannot be a file of {size_bytes} bytes, without blocks: {error.strerror}. `ulimit -f` and the "
                f"file system of that folder say how large a file may be"
            ) from None
    return path


def end_all() -> None:
    """End all guests of this process; whoever waits for them continues."""
    for keeper in list(KEEPERS):
        _end(keeper)


def _end(keeper: subprocess.Popen[bytes]) -> None:
    assert keeper.stdin
    keeper.stdin.close()  # then the keeper ends the guest
    keeper.wait()


def _answers(path: Path) -> Iterator[Json]:
    """The answers; a last line that was not finished is none."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)


def _why(kernel: Kernel, status: int, console: str, limit_s: float) -> str:
    lines = [_shown(line.strip()) for line in console.splitlines() if line.strip()]
    panic = next((number for number, line in enumerate(lines) if "Kernel panic" in line), None)
    tail = "; ".join(lines[:panic][-TAIL:]) or "it printed nothing"
    if "unable to mount root" in console.lower():
        return f"kernel {kernel.name} has no hostfs, so nothing of this machine can run in it: {tail}"
    if registers.may_be_why(console) and registers.are_hidden(kernel.name, kernel.program):
        tail = f"{tail}; {registers.REMEDY}"
    if panic is not None:
        return f"kernel {kernel.name}: the kernel panicked ({lines[panic].strip(chr(39))}). Before that: {tail}"
    if status == HUNG:
        return f"kernel {kernel.name} did not end within {limit_s:g} s, and was ended. It said last: {tail}"
    if "ptrace" in console.lower():
        return f"kernel {kernel.name} cannot trace its processes here (ptrace is forbidden, e.g. by seccomp): {tail}"
    return f"kernel {kernel.name} ended without an answer (status {status}): {tail}"


def _shown(line: str) -> str:
    """Short, and with no character that a terminal obeys."""
    text = ascii(line)
    if len(text) <= SHOWN:
        return text
    return f"{text[: SHOWN - 3]}..."


def check(kernel: Kernel) -> None:
    """Raise Refusal for what is no program of this machine's architecture."""
    program = kernel.program
    try:
        with open(program, "rb") as file:
            head = file.read(20)
    except OSError as error:
        raise Refusal(f"{program}: {error.strerror}; a kernel that is a program is wanted (User Mode Linux)") from error
    if head[:4] != b"\x7fELF":
        raise Refusal(f"{program} is no program (not ELF); a kernel built with ARCH=um is wanted")
    machine = int.from_bytes(head[18:20], "little")
    if machine != EM_X86_64.get(platform.machine(), machine):
        raise Refusal(f"{program} is for another architecture (ELF machine {machine}); this is {platform.machine()}")
    if not os.access(program, os.X_OK):
        raise Refusal(f"{program} may not be executed by this user")


def roomy(size: int, executed: bool = False) -> Path:
    """A folder with room for so many bytes that are gone after a command, `executed` or not. Raises Refusal."""
    seen = []
    wanted = "a folder"
    if executed:
        wanted += " from which programs may be executed"
    for place in _places():
        status = os.statvfs(place)
        if executed and status.f_flag & os.ST_NOEXEC:
            seen.append(f"{place} is mounted noexec")
        elif status.f_bavail * status.f_frsize < size:
            seen.append(f"{place} has {status.f_bavail * status.f_frsize // MIB} MiB")
        else:
            return place
    raise Refusal(
        f"a guest needs {size // MIB} MiB in {wanted}: {', '.join(seen) or 'none can be written'}. Name one as TMPDIR, "
        "or measure on a plain directory, which needs no kernel"
    )


def _places() -> list[Path]:
    """Folders for what is gone after a command; a kernel's command line takes neither spaces nor commas."""
    named = os.environ.get("TMPDIR")
    places = map(os.path.realpath, [*([named] if named else []), "/dev/shm", "/tmp", "/var/tmp"])
    return [Path(place) for place in dict.fromkeys(places) if os.access(place, os.W_OK) and _PLAIN(place)]


_PLAIN = re.compile(r"[\w./+-]+").fullmatch


@contextlib.contextmanager
def folder(place: Path | None = None) -> Iterator[Path]:
    """A folder for one guest, in one that it sees if none is named; what killed commands left is removed first.

    Raises Refusal where none can be written that a guest sees.
    """
    for shelter in _places():
        for left in shelter.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError), _locked(left):
                status = left.stat()
                if status.st_uid == os.geteuid() and time.time() - status.st_mtime > ABANDONED_S:
                    shutil.rmtree(left, ignore_errors=True)
    outside = [shelter for shelter in _places() if not shelter.is_relative_to("/dev")]  # a guest has a /dev of its own
    if not (place or outside):
        raise Refusal(
            "a guest needs a folder for temporary files outside /dev, and none can be written: name one as TMPDIR"
        )
    own = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place or outside[0]))
    try:
        with _locked(own):
            yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a folder. Raises OSError where another process does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
