"""What cannot be read is not "none": whatever this user may not see is named, or stops the work."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest
from ansible.errors import AnsibleActionFail
from hostile.messages import action
from records import CONFIG

import fsage
from fsage import start
from fsage.commands import Where
from fsage.host.device import copies
from fsage.host.filesystems.xfs import ExtentSize
from fsage.host.system import files, kernel_log, mounting, settings
from fsage.host.targets import Target, lease
from fsage.host.verbs import checks, tune
from fsage.layouts import machine
from fsage.plan.target import inventories_in
from fsage.studies.neighbours.instruments import signs
from fsage.studies.replica import age
from fsage.studies.slowdisk.host import cgroups

NOBODY = 65534
NO_PROCESS = 2**22 - 1  # of which Linux has none
HIDDEN = f"""
import os, sys
from fsage.host.targets.lease import ended, start_of
other, own = int(sys.argv[1]), os.getpid()
began = start_of(other)
os.setgroups([])
os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
print(start_of(other), ended(other, began), ended(own, start_of(own)), ended(own, 1), ended({NO_PROCESS}, 1))
"""


@pytest.fixture
def closed():
    """A folder that all may enter, with a folder `secret` in it that belongs to root alone."""
    with tempfile.TemporaryDirectory(prefix="fsage-test-unreadable-", dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        (Path(place) / "secret" / "inner").mkdir(parents=True)
        (Path(place) / "secret" / "file").write_bytes(bytes(8192))
        (Path(place) / "secret").chmod(0o700)
        yield Path(place)


@contextlib.contextmanager
def ordinary_user():
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.root
@pytest.mark.parametrize("option", ["hidepid=0", "hidepid=2"])
def test_a_run_of_another_user_that_proc_hides_has_not_ended(option):
    mounted = f'mount -t proc -o {option} proc /proc && exec "$0" -c "$1" $$'
    shell = f"sleep 60 & {mounted.replace('$$', '$!')}"
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", shell, sys.executable, HIDDEN]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert (said[0] == "None") == (option != "hidepid=0")
    assert said[1:] == ["False", "False", "True", "True"]


def test_only_where_no_data_are_left_a_sparse_file_has_none():
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as pipe, pytest.raises(OSError, match="Illegal seek"):
        assert pipe.stdout
        list(copies.data_ranges(pipe.stdout.fileno(), 0, 4096))
    with tempfile.TemporaryFile() as sparse:
        sparse.truncate(1 << 20)
        assert list(copies.data_ranges(sparse.fileno(), 0, 1 << 20)) == []


def test_a_group_without_a_file_has_no_words_and_one_that_cannot_be_read_is_an_error(tmp_path):
    assert cgroups.words(tmp_path / "cgroup.procs") == []
    with pytest.raises(IsADirectoryError):
        cgroups.words(tmp_path)


@pytest.mark.root
def test_no_directory_is_left_without_its_extent_size(closed):
    with ordinary_user(), pytest.raises(PermissionError):
        ExtentSize().directories(closed)


@pytest.mark.root
def test_a_user_works_where_root_keeps_targets_that_nobody_else_sees(closed, monkeypatch):
    """Each command of a user looks first for what killed runs have set on the host."""
    monkeypatch.setattr(settings, "NOTE", closed / "secret/settings.json")
    with ordinary_user():
        tune.settle({})


@pytest.mark.root
def test_an_inventory_that_is_hidden_is_named(closed, capfd):
    (closed / "local").mkdir()
    (closed / "file").write_text("")
    with ordinary_user():
        assert inventories_in(closed) == [closed / "secret"]
        assert Where("local", closed, closed, CONFIG).other_targets() == {}
    said = capfd.readouterr().err
    assert f"{closed}/secret/group_vars/all/target.yml: cannot be read: Permission denied. secret is left out" in said


@pytest.mark.root
def test_the_size_of_an_image_that_is_hidden_is_not_nothing(closed):
    image = closed / "secret/file"
    home = closed / "home"
    note = home / "mine/images.json"
    note.parent.mkdir(parents=True)
    files.write_json(note, {"images": [{"image": str(image)}]})
    assert [target.what for target in checks.held([home], [])] == [f"made, not claimed, 0.0 GiB in {image.parent}"]
    for path in (home, note.parent, note):
        os.chown(path, NOBODY, NOBODY)
    with ordinary_user():
        (mine,) = checks.held([home], [])
    assert mine.what == (f"made, not claimed, images whose size cannot be read (Permission denied) in {closed}/secret")


@pytest.mark.root
def test_no_run_begins_in_a_folder_that_cannot_be_written_to(closed, monkeypatch):
    monkeypatch.chdir(closed)
    assert start.why_not_here() is None
    with ordinary_user():
        said = start.why_not_here()
    assert said and said.startswith(f"this user cannot write to {closed}, where a run keeps its notes")
    (closed / "full").symlink_to("/proc")
    monkeypatch.setenv("XDG_CACHE_HOME", str(closed / "full"))
    said = start.why_not_here()
    assert said and said.startswith(f"{closed}/full: Snakemake needs a cache there: ")


@pytest.mark.root
def test_a_source_that_is_hidden_may_be_on_the_target(closed):
    claim = {"stores": [{"mount": "/", "image": None}]}
    said = r"whether .*/secret/file is on the target is not known: .*Permission denied"
    with ordinary_user(), pytest.raises(ValueError, match=said):
        age.refuse_target(str(closed / "secret" / "file"), claim)
    with ordinary_user():
        age.refuse_target(str(closed / "none"), claim)


def test_an_answer_that_cannot_be_kept_on_the_launcher_names_its_file(tmp_path):
    (tmp_path / "answer").mkdir()
    with pytest.raises(AnsibleActionFail, match=f"^{tmp_path}/answer.part: Is a directory$"):
        action().keep(tmp_path / "answer", [b"{}"])
    assert not list(tmp_path.glob("*.part"))


def test_an_answer_and_its_name_are_safe_on_the_launcher_before_the_host_may_forget_it(tmp_path, monkeypatch):
    safe = []
    monkeypatch.setattr(os, "fsync", lambda number: safe.append(os.readlink(f"/proc/self/fd/{number}")))
    action().keep(tmp_path / "answer", [b"{}"])
    assert safe == [f"{tmp_path}/answer.part", str(tmp_path)]


@pytest.mark.root
def test_a_machine_without_a_log_of_its_kernel_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel_log, "KMSG", str(tmp_path / "kmsg"))
    assert signs.look({}, None, None)["absent"] == {"kernel": f"there is no {tmp_path}/kmsg here, as in a container"}


def test_no_message_has_an_error_of_the_system_as_python_prints_it():
    handler = re.compile(r"^( *)except .*OSError.* as (\w+):\n((?:\1 .*\n|\n)+)", re.MULTILINE)
    printed = [
        f"{module}: {line.strip()}"
        for module in Path(fsage.__file__).parent.rglob("*.py")
        for _, name, block in handler.findall(module.read_text())
        for line in block.splitlines()
        if re.search(rf"{{{name}}}|str\({name}\)", line) and "isinstance" not in block
    ]
    assert not printed, "fsage.base.in_words says it in words"


NAMED = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'caf' + bytes([233])); print(flush=True); time.sleep(60)"


@pytest.mark.root
@pytest.mark.parametrize("name", [b"a b", b"caf\xe9", b"form\x0c\x0cfeed", "line\u2028s".encode()])
def test_a_mount_and_a_process_may_have_any_name(name, tmp_path):
    point = tmp_path / os.fsdecode(name)
    point.mkdir()
    mounting.mount_call("fsage-test", str(point), "tmpfs", 0, "size=64k")
    try:
        assert machine.mounted_at(point).type == "tmpfs"
        assert "size=64k" in Target.mount_options(Mock(mounts=[point]))[0]
        with open(point / "lock", "w") as held:
            assert files.lock(held.fileno()) and f"process {os.getpid()} " in files.describe_holders(held.fileno())
        with subprocess.Popen([sys.executable, "-c", NAMED], cwd=point, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            assert f"process {process.pid} (caf" in mounting._users(point)
            assert lease.start_of(process.pid) and f"process {process.pid} (`" in files.describe_process(process.pid)
            process.kill()
    finally:
        mounting.unmount(point)
