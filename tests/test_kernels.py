"""Kernels that run as programs: what is refused, what a panic and a kill leave, and how one is built."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from guests import fsage, needs_kernel, newest
from session import wait_until
from tiers import first_of

from fsage.base import Failure, Misuse, Refusal, shell
from fsage.studies.kernels import building, images
from fsage.studies.kernels.bisection import Bisection, Lies
from fsage.studies.kernels.model import boot, programs, registers, run
from fsage.studies.kernels.model.boot import Kernel
from fsage.studies.kernels.model.images import Image


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"#!/bin/sh\n", "is no program (not ELF)"),
        (b"\x7fELF" + bytes(14) + b"\xf3\x00", "is for another architecture (ELF machine 243)"),
        (None, "No such file"),
    ],
)
def test_what_is_no_kernel_is_refused(tmp_path, content, why):
    program = tmp_path / "linux"
    if content is not None:
        program.write_bytes(content)
    with pytest.raises(Refusal) as refused:
        boot.boot(Kernel("a", program), [], [])
    assert why in str(refused.value)


def test_a_program_that_is_no_kernel_is_ended_and_fills_no_disk():
    ended = boot.boot(Kernel("true", Path("/bin/true").resolve()), [{"do": "try"}], [])
    assert ended.answers == [] and ended.why == "kernel true ended without an answer (status 0): it printed nothing"
    ended = boot.boot(Kernel("endless", Path("/usr/bin/yes").resolve()), [{"do": "try"}], [], limit_s=0.5)
    assert ended.why and "did not end within 0.5 s, and was ended" in ended.why
    assert 0 < len(ended.console) <= boot.CONSOLE_BYTES and len(ended.why) < 4000


def test_a_guest_finds_what_is_in_a_folder_with_a_blank_and_quotes(tmp_path, monkeypatch):
    place = tmp_path / "one's own \"$place"
    place.mkdir()
    (place / "python").symlink_to(sys.executable)
    (place / "linux").write_text('#!/bin/sh\nfor start; do :; done\nexec /bin/sh "$start"\n')
    (place / "linux").chmod(0o755)
    said = "open(sys.argv[1] + '/answers.jsonl', 'w').write(json.dumps([sys.argv[2], os.environ['PATH']]) + '\\n')"
    (place / "guest.py").write_text(f"import json, os, sys\n{said}\n")
    path = f"{place}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(place / "cache"))
    monkeypatch.setattr(sys, "executable", str(place / "python"))
    monkeypatch.setattr(boot, "GUEST", "guest")
    monkeypatch.setattr(boot, "package", lambda: place)
    monkeypatch.setattr(boot, "check", lambda kernel: None)
    ended = boot.boot(Kernel("ours", place / "linux"), [{"do": "try"}], [])
    assert ended.answers == [[str(place / "linux"), path]], ended.why


@pytest.mark.parametrize("places", [[], ["/dev/shm"], ["/proc"]])
def test_no_place_for_temporary_files_is_a_refusal_that_says_what_to_name(monkeypatch, places):
    monkeypatch.setattr(boot, "_places", lambda: list(map(Path, places)))
    if places == ["/proc"]:
        with pytest.raises(Refusal, match=r"/proc .*plain directory"):
            boot.roomy(1 << 20, executed=True)
        return
    with pytest.raises(Refusal, match="outside /dev, and none can be written: name one as TMPDIR"), boot.folder():
        pytest.fail("it is in a folder")
    with pytest.raises(Refusal, match=r"needs \d+ MiB in a folder: .*(has|none can be written).*TMPDIR"):
        boot.roomy(1 << 62)


def test_an_unknown_kernel_and_release_are_refused():
    with pytest.raises(Refusal, match=r"kernel '2\.2': there is .* here"):
        programs.named("2.2")
    with pytest.raises(Misuse, match="the name of a release is wanted"):
        programs.fetch("../x")


@needs_kernel
@pytest.mark.parametrize("hidden", first_of(False, True), ids=["as it is", "with fewer registers"])
def test_a_kernel_makes_mounts_and_reads_each_file_system(monkeypatch, hidden):
    monkeypatch.setattr(registers, "hidden_from", {newest().program} if hidden else set())
    release, reasons = programs.attempt(newest())
    assert release.startswith(newest().name.split("-")[0]) and reasons["ext4"] is None
    assert set(reasons) >= {"ext4", "xfs", "btrfs"}
    assert not shutil.which("mkfs.f2fs") or reasons["f2fs"] is None, "a module of the distribution's kernel"


def test_registers_are_hidden_from_a_kernel_that_says_it_cannot_keep_them(monkeypatch):
    """Its own words, of Linux 6.1 on a Xeon with AMX. Two start at once. If it does not help, it is said what would."""
    monkeypatch.setattr(registers, "hidden_from", set())
    monkeypatch.setattr(boot, "check", lambda kernel: None)
    kernel = Kernel("./linux", Path("linux"))
    console = "userspace - ptrace set fp regs failed, errno = 14\nKernel panic - not syncing: init\n"
    both_began = Barrier(2)
    starts = []

    def ran(*how: object) -> tuple[int, str]:
        starts.append(how[-1])
        if not how[-1]:
            both_began.wait(10)
        return 1, console

    monkeypatch.setattr(boot, "_run", ran)
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(boot.boot, kernel, [{"do": "try", "disk": 0}], []) for _ in range(2)]
    assert [str(each.result().why).endswith(registers.REMEDY) for each in both] == [True, True]
    assert sorted(starts) == [False, False, True, True]
    boot.boot(kernel, [], [])
    assert starts[4:] == [True]


@pytest.mark.parametrize(
    ("release", "has_amx", "hidden"),
    [("6.1.176", True, True), ("6.1.176", False, False), ("6.13", True, False), ("./linux", True, False)],
)
def test_which_kernels_need_not_say_it(monkeypatch, release, has_amx, hidden):
    monkeypatch.setattr(registers, "_has_amx", lambda: has_amx)
    assert registers.are_hidden(release, Path("linux")) == hidden


@needs_kernel
def test_a_panic_is_an_answer():
    panicked = boot.boot(newest(), [{"do": "nothing that there is", "disk": 0}], [])
    assert panicked.why and "the kernel panicked (Kernel panic - not syncing" in panicked.why
    assert "KeyError" in panicked.why, "the last lines are kept"
    assert registers.REMEDY not in panicked.why, "registers are not why"


@needs_kernel
def test_a_kill_leaves_no_guest(tmp_path):
    """Of fsage, by SIGKILL: the guest's processes go, and the next guest removes the folder."""
    code = (
        "from fsage.studies.kernels.model import boot, programs\n"
        "boot.boot(programs.here()[-1], [{'do': 'try', 'disk': 0, 'filesystem': 'ext4'}], [])\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}) as fsage:
        wait_until(lambda: guests_of(tmp_path))
        fsage.kill()
    wait_until(lambda: not guests_of(tmp_path))
    [left] = tmp_path.glob(f"{boot.PREFIX}*")
    os.utime(left, (0, 0))
    again = "from fsage.studies.kernels.model import boot\nwith boot.folder(): pass"
    subprocess.run([sys.executable, "-c", again], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True)
    assert not list(tmp_path.glob(f"{boot.PREFIX}*"))


def guests_of(place: Path) -> str:
    """Numbers of the processes of guests whose folder is below `place`."""
    return shell.run(["pgrep", "-f", f"uml_dir={place}"], ok=(0, 1)).stdout


FORBIDS_PTRACE = """
import ctypes, struct
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 101), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]  # linux/filter.h
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
from fsage.studies.kernels.model import boot, programs
for kernel in programs.here():
    print(kernel.name, boot.boot(kernel, [{"do": "try", "disk": 0, "filesystem": "ext4"}], []).why)
"""


@pytest.mark.long
@needs_kernel
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter has the number that ptrace has on x86_64")
def test_where_ptrace_is_forbidden_that_is_said():
    """As containers forbid it: by a filter of system calls (seccomp)."""
    for line in run([sys.executable, "-c", FORBIDS_PTRACE]).splitlines():
        name, why = line.split(" ", 1)
        if [int(number) for number in re.findall(r"\d+", name)] >= [6, 16]:
            assert why == "None", "it needs none"
        else:
            assert "cannot trace its processes here (ptrace is forbidden, e.g. by seccomp)" in why


def test_what_is_no_source_of_a_kernel_is_refused(tmp_path, monkeypatch):
    for program in building.NEEDED:
        (tmp_path / program).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    empty = tmp_path / "empty"
    at = tmp_path / "me@site"
    for folder in (empty, at):
        folder.mkdir()
    for source, why in (
        (str(empty), "is no source of Linux: arch/um is not there"),
        (f"{tmp_path}/none.tar.xz", "a package linux-source-VERSION, a tarball, a folder, or TREE@COMMIT is wanted"),
        (f"{empty}@v9", "has no commit v9"),
        (str(at), "is no source of Linux: arch/um is not there"),
    ):
        with pytest.raises(Refusal, match=re.escape(why)):
            building.build(source)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Refusal, match=r"building a kernel needs make, gcc, .*: `apt install make gcc "):
        building.build(str(empty))


def tree_of(place: Path, changes: Iterable[tuple[str, str]]) -> list[str]:
    """Make a folder a git tree in which each commit gives a file other contents; the commits."""
    git = ["git", "-C", str(place), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]
    run(["git", "init", "-q", str(place)])
    for number, (name, content) in enumerate(changes):
        (place / name).write_text(content)
        run([*git, "add", "-A", "-f"])
        run([*git, "commit", "-q", "-m", f"commit {number}"])
    return run([*git, "rev-list", "--reverse", "HEAD"]).split()


@pytest.mark.parametrize("changed", [1, 4, 8])
def test_the_first_commit_with_other_counts_is_found(tmp_path, monkeypatch, changed):
    """Here the counts stand in the tree; a long test builds kernels."""
    extents = ["3"] * changed + ["40"] * (9 - changed)
    commits = tree_of(tmp_path / "tree", [("file", f"{number} {count}") for number, count in enumerate(extents)])

    def counts(of: Bisection, commit: str, *_: object) -> Lies:
        extents = int(run(["git", "-C", str(of.tree), "show", f"{commit}:file"]).split()[1])
        return Lies(extents, extents - 1)

    monkeypatch.setattr(building, "refuse_unready", lambda: None)
    monkeypatch.setattr(Bisection, "_counted", counts)
    monkeypatch.setattr(Bisection, "_job", lambda of: {})
    monkeypatch.setattr(Bisection, "_recipe", lambda of: None)
    monkeypatch.setattr(images, "of", lambda recipe, kernel: Image(tmp_path, {}))
    monkeypatch.setattr(programs, "some", lambda name: None)
    search = Bisection(None, "80.50", tmp_path / "tree", print)  # counts stand in the tree
    found = search.find(commits[0], commits[-1])
    assert (found.commit, found.subject) == (commits[changed], f"commit {changed}")
    assert (found.before.extents, found.after.extents) == (3, 40) and found.tried <= 5
    with pytest.raises(Refusal, match="--good names an ancestor of --bad"):
        search.find(commits[-1], commits[0])


def test_a_cell_that_does_not_repeat_names_no_commit(tmp_path, monkeypatch):
    """Just mounted, a count depends on what was read ahead: a bisection named a commit that changed nothing."""
    counts = iter([Lies(45, 27), Lies(36, 18)])
    monkeypatch.setattr(Bisection, "_kernel", lambda of, commit: None)
    monkeypatch.setattr(Bisection, "_once", lambda of, *_: next(counts))
    search = Bisection(None, "80.50", tmp_path, print)
    with pytest.raises(Failure, match=r"gives 45 extents, 27 jumps, and counted again 36 extents.*does not repeat"):
        search._counted("a" * 40, {}, Image(tmp_path, {}))


SOURCE = "linux-source-6.1"
REQUESTS = re.compile(r"(#define MB_DEFAULT_ORDER2_REQS\s+)2\b")
"""From which power of two on ext4 takes a group by its largest free extent (mb_order2_req)."""


@pytest.mark.long
@pytest.mark.timeout(5400)
@needs_kernel
def test_of_eight_commits_the_one_that_changes_the_allocator_is_named(tmp_path, monkeypatch):
    """A small tree made from linux-source: kernels are built, and one cell is counted in each."""
    try:
        building.refuse_unready()
        run(["apt-get", "download", SOURCE], tmp_path)
    except (Refusal, Failure) as why:
        pytest.skip(str(why))
    run(["dpkg-deb", "--extract", str(next(tmp_path.glob("*.deb"))), str(tmp_path / "package")])
    tree = tmp_path / "tree"
    tree.mkdir()
    run(["tar", "-x", "-f", str(next(tmp_path.glob("package/usr/src/*.tar.xz"))), "--strip-components=1"], tree)
    header = (tree / "fs/ext4/mballoc.h").read_text()
    assert len(REQUESTS.findall(header)) == 1
    changes = [(f"fs/ext4/number{number}.h", f"/* {number} */\n") for number in range(9)]
    changes[6] = ("fs/ext4/mballoc.h", REQUESTS.sub(r"\g<1>60", header))
    tree_of(tree, changes)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FSAGE_VENV", str(tmp_path / "venv"))
    (tmp_path / "venv/programs/kernels").mkdir(parents=True)
    words = ["bisect", "kernels", "--target", "kernel", "--state", "80.50+1@264M", "--tree", str(tree)]
    said = fsage([*words, "--good", "HEAD~8", "--bad", "HEAD"], dict(os.environ))
    assert said.split("\n")[0].endswith("commit 6"), said
