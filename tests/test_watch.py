"""Between two cells the kernel tells whether somebody else did anything to the structure; nothing is missed by that."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from local_targets import claimed
from measuring import asked, cell, observed
from states import bring, populate

from fsage.host.cells import measure
from fsage.host.states import inspection
from fsage.host.states.inspection import fingerprint
from fsage.host.states.structure_check import StructureCheck
from fsage.host.structure import files, fillers
from fsage.host.system import fanotify, mounting
from fsage.host.targets import claims
from fsage.host.targets.opening import open_target
from fsage.layouts import machine
from fsage.workloads import metadata

pytestmark = pytest.mark.root
MIB = 1 << 20
ACTS = {  # what a stranger does to {0}; {1}, {2} are others, and the directory {3} is not of the structure
    "written": "f = open({0!r}, 'r+b'); f.write(b'x')",
    "grown": "os.truncate({0!r}, os.path.getsize({0!r}) + 4096)",
    "cut": "os.truncate({0!r}, os.path.getsize({0!r}) - 4096)",
    "punched": "f = os.open({0!r}, 2); C.fallocate(f, 3, ctypes.c_long(0), ctypes.c_long(65536))",
    "extended": "os.posix_fallocate(os.open({0!r}, 2), os.path.getsize({0!r}), 65536)",
    "stored into": "m = mmap.mmap(os.open({0!r}, 2), 4096); m[0] = 7; m.close()",
    "touched": "os.utime({0!r}, ns=(1, 2))",
    "replaced": "os.rename({1!r}, {0!r})",
    "renamed": "os.rename({0!r}, {0!r} + 'x'); os.rename({2!r}, {0!r})",
    "written by another name": "os.link({0!r}, n := {3!r} + '/x%d' % os.getpid()); f = open(n, 'r+b'); f.write(b'x')",
    "moved to another directory": "os.rename({0!r}, {3!r} + '/y')",
    "created": "open({0!r} + 'y', 'w')",
    "deleted": "os.unlink({0!r} + 'y')",
}


def stranger(act, mount):
    """Another process."""
    (mount / "elsewhere").mkdir(exist_ok=True)
    some = sorted(str(path) for path in (mount / "filler" / "g1").iterdir())[:3]
    text = "import ctypes, mmap, os; C = ctypes.CDLL(None); " + act.format(*some, str(mount / "elsewhere"))
    subprocess.run([sys.executable, "-c", text], check=True)


def now_of(target):
    """The token, had the state been declared ready just now."""
    inspection.settle(target)
    found = claims.read_token(target.mounts[0])
    assert found
    return replace(found, fingerprint=fingerprint(target)["hash"])


def undisturbed(check, now):
    """Whether events say so; where memory is short the kernel may forget what it need not tell, and tells it once."""
    return any(check.differs(now) == (None, "events") for _ in range(3))


@pytest.fixture(params=["ext4", *(pytest.param(name, marks=pytest.mark.long) for name in ("xfs", "btrfs"))])
def watched(request, local_target):
    """A target in a state, on each file system, and what looks at it."""
    local_target["filesystem"] = request.param
    claimed(local_target)
    bring(local_target, populate(40))
    target = open_target(local_target)
    (target.mounts[0] / "elsewhere").mkdir()
    with contextlib.closing(StructureCheck(target)) as check:
        assert check.why_unwatched is None
        yield target, check


def test_what_a_stranger_does_between_two_looks_is_noticed(watched):
    target, check = watched
    mount, own = target.mounts[0], "/measured/of_a_cell"
    now = now_of(target)
    assert check.differs(now) == (None, "files"), "the first look is at all of them"
    for number, (act, code) in enumerate(ACTS.items()):
        for step in ("f = open({3!r} + '/.." + own + "', 'wb'); f.write(bytes(99))", code):
            assert undisturbed(check, now), f"nothing was {act} yet"
            stranger(step, mount)
            if own in step:
                (mount / own[1:]).unlink()
                inspection.settle(target)
            if number % 2:
                target.remount()
        why, looked_at = check.differs(now)
        assert why and looked_at == "files", f"{act} was not noticed"
        now = now_of(target)
        assert check.differs(now)[0] is None
    is_lost_when_others_mount(target, check)
    is_lost_when_the_queue_is_full(target, check)


def is_lost_when_others_mount(target, check):
    mount, now = target.mounts[0], now_of(target)
    there = machine.mounted_at(mount)
    assert there and target.watch and check.differs(now)[0] is None
    other = Path(f"{mount}-other")
    other.mkdir()
    by_us = [contextlib.nullcontext(), target.watch.mounting(there.source)]
    for number, mounting_again in enumerate(by_us):  # a stranger unmounts it, or comes between when we do
        assert undisturbed(check, now)
        mounting.unmount(mount)
        target.watch.unmounted(there.source)
        subprocess.run(["mount", "-t", there.type, there.source, other], check=True)
        stranger(f"os.utime({{0!r}}, ns=(1, {number}))", other)
        mounting.unmount(other)
        with mounting_again:
            subprocess.run(["mount", "-t", there.type, there.source, mount], check=True)
        why, looked_at = check.differs(now)
        assert why and looked_at == "files"
        now = now_of(target)
        assert check.differs(now)[0] is None
    other.rmdir()


def is_lost_when_the_queue_is_full(target, check):
    now = now_of(target)
    assert undisturbed(check, now)
    many = int(Path("/proc/sys/fs/fanotify/max_queued_events").read_text(encoding="ascii")) + 1
    stranger(f"[open({{3!r}} + '/x%d' % n, 'w').close() for n in range({many})]", target.mounts[0])
    assert target.watch and not target.watch.quiet()


@pytest.mark.long
def test_cells_are_checked_by_events_and_those_that_make_names_are_not_watched(local_target):
    target = claimed(local_target)
    steps = [populate(30)]
    bring(local_target, *steps)
    names = metadata.Params(tool="fio", files_per_task=20, iteration=1)
    cells = [cell(local_target, name) for name in ("a", "b", "c", "d")]
    cells[1] |= {"params": names.model_dump(), "phases": metadata.commands(names, target.claim)}
    answer = measure.measure(local_target, {**asked(cells), "steps": steps, "state": "wanted"}, False)
    assert answer["measured"] == 4 and not answer["lost"], answer
    looks = [observed(local_target, each["name"])[0]["check"] for each in cells]
    assert [look["looked_at"] for look in looks] == ["files", "events", "files", "events"]
    assert len({look["fingerprint"] for look in looks}) == 1


def test_without_the_right_to_watch_all_files_are_looked_at_and_that_is_said(local_target):
    claimed(local_target)
    bring(local_target, populate(20))
    text = (
        "import json, sys; from fsage.host.states.structure_check import StructureCheck; "
        "from fsage.host.kinds.loop import Loop; from fsage.host.targets import claims; from pathlib import Path; "
        "spec, claim = json.load(sys.stdin); target = Loop(spec, claim); now = claims.read_token(target.mounts[0]); "
        "target.devices = ['/dev/null']; check = StructureCheck(target); "
        "print(json.dumps([check.differs(now), check.differs(now), check.why_unwatched]))"
    )
    target = open_target(local_target)
    given = json.dumps([target.spec, target.claim])
    deprived = ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", text]
    said = subprocess.run(deprived, input=given, capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == [[None, "files"], [None, "files"], "fanotify: Operation not permitted (EPERM)"]


@pytest.mark.long
def test_what_moved_without_an_event_is_noticed_when_the_visit_ends(local_target):
    """By e4defrag's call, which tells nobody; the extents tell."""
    claimed(local_target)
    bring(local_target, populate(30))
    target = open_target(local_target)
    now = now_of(target)
    with contextlib.closing(StructureCheck(target)) as check:
        assert check.whole_differs(now) is None
        path = next(fillers(target.mounts[0])).path
        stat = os.stat(path)
        os.rename(path, target.mounts[0] / "elsewhere")  # as this process, which is not watched
        files.fallocate(Path(path), stat.st_size)
        assert check.whole_differs(replace(now, fingerprint=fingerprint(target)["hash"])) is not None


def test_what_changes_nothing_is_harmless():
    of_file = bytes((1, 0)) + (4).to_bytes(2, sys.byteorder)
    assert fanotify._harmless(fanotify.OPEN | fanotify.ON_DIRECTORY, of_file)
    assert fanotify._harmless(fanotify.ATTRIB, of_file), "a name less: another event says whose"
