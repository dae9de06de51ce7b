"""What others prepared where root, or who runs, keeps files: refused in a sentence, and nothing of it is touched."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from local_targets import Spec, claimed
from session import SOURCE

from fsage.base import Failure, Refusal
from fsage.host import states
from fsage.host.__main__ import VERBS
from fsage.host.cells import observed
from fsage.host.states import inspection
from fsage.host.structure.files import make_room
from fsage.host.system import files, mounting, places
from fsage.host.system.library import BOOT, packed, sent
from fsage.host.targets import directories, lease
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.model import plugins
from fsage.model.declaration import complete
from fsage.model.request import Request
from fsage.plan.target import load_target
from fsage.run.runs import identity
from fsage.study import StudyError

root = pytest.mark.root
NOBODY = 65534
EMPTY: Request = {"steps": [], "state": "empty", "reuse": "fresh"}


def agent(verb: str, spec: Spec, *front: str, user: int | None = None, **environment: str) -> tuple[int, Any]:
    """Exit code and answer of a verb, in a process of its own."""
    python = "/usr/bin/python3" if user else sys.executable  # that of another user may not be his
    request = {"holder": identity("snakemake")} if verb == "hold" else {}
    done = subprocess.run(
        [*front, python, "-m", "fsage.host", verb],
        input=json.dumps({"target": spec, "request": request}),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        timeout=30,
        user=user,
        group=user,
        extra_groups=[] if user else None,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
    )
    assert done.stdout and not done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def everything(top: Path) -> dict[str, Any]:
    """All that is below a directory: modes, owners, sizes, times."""
    paths = [top, *sorted(top.rglob("*"))]
    return {
        str(path): (found.st_mode, found.st_uid, found.st_size, found.st_mtime_ns)
        for path in paths
        if (found := path.lstat())
    }


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A directory that is nothing of fsage's."""
    place = tmp_path / "precious"
    (place / "below").mkdir(parents=True)
    (place / "file").write_text("x")
    (place / "below/file").write_text("x")
    return place


@pytest.fixture
def place(directory_target: Spec) -> Path:
    """The directory of a claimed target of that kind."""
    claimed(directory_target)
    return Path(directory_target["directory"])


# --- directories -----------------------------------------------------------------------------------------------------


@root
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            "chmod 777 home; chown nobody home",
            r"/home belongs to nobody \(uid 65534\) and can be written to by others \(mode 0777\)"
            r".*`chown root /.*/home` and `chmod go-w /.*/home`",
        ),
        ("chmod 775 home", r"/home can be written to by others \(mode 0775\)"),
        ("chmod 777 .", r"above can be written to by others"),
        ("mv home real; ln -s real home; chown -h nobody home", r"home is a symbolic link of nobody \(uid 65534\)"),
        (
            "mv home real; ln -s real home; chmod 1777 .",
            r"home is a symbolic link of root \(uid 0\), in a directory of mode 1777",
        ),
        ("rm -r home; touch home", r"home is a file, where a directory is wanted"),
    ],
)
def test_a_home_that_others_have_a_hand_in_is_refused(directory_target, tmp_path, spoil, message):
    home = tmp_path / "above/home"
    (home / directory_target["name"]).mkdir(parents=True)
    home.chmod(0o755)
    subprocess.run(["sh", "-ec", spoil], cwd=home.parent, check=True)
    before = everything(tmp_path)
    with pytest.raises(Refusal, match=message):
        files.write_json(home / "target/claim.json", {})
    spec = {**directory_target, "home": str(home)}
    for verb in ("create", "remove", "claim", "release", "hold", "bundle", "recover"):
        with pytest.raises(Refusal, match=message):
            VERBS[verb](spec, {"holder": identity("snakemake")}, False)
    assert everything(tmp_path) == before and not Path(spec["directory"]).exists()


@root
def test_what_every_system_has_on_the_way_is_allowed(tmp_path):
    """What is made there is for its owner alone, whatever the umask."""
    (tmp_path / "disk/tmp").mkdir(parents=True)
    (tmp_path / "disk/tmp").chmod(0o1777)
    (tmp_path / "run").symlink_to("disk")  # of root's, where only root can make one: as /var/run
    (tmp_path / "disk/up").symlink_to("../disk")
    claim_of_mine = tmp_path / "run/up/tmp/mine/below/claim.json"
    old = os.umask(0o777)
    try:
        files.write_json(claim_of_mine, {"a": 1})
    finally:
        os.umask(old)
    assert files.read_json(claim_of_mine) == {"a": 1} and files.read_json(tmp_path / "none/x.json") is None
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "disk/tmp").rglob("*")}
    assert modes == {"mine": 0o700, "below": 0o700, "claim.json": 0o600}
    (tmp_path / "round").symlink_to("round")
    for place, why in (
        (tmp_path / "round/x", "more than 8 symbolic links"),
        (tmp_path / "run/tmp", r"tmp can be written to by others \(mode 1777\).*a directory of its own below it"),
        ("relative", "a path from / on is wanted"),
        ("/a/../b", "a path from / on is wanted"),
    ):
        with pytest.raises(Refusal, match=why):
            places.make(place)


@root
def test_what_cannot_be_written_whole_leaves_what_was_there_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "claim.json"
    files.write_json(path, {"a": 1})

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_json(path, {"a": 2})
    assert list(tmp_path.iterdir()) == [path] and files.read_json(path) == {"a": 1}


@root
def test_what_a_target_keeps_is_for_its_owner_alone(directory_target):
    old = os.umask(0)
    try:
        claim.create(directory_target, {}, False)
        claim.claim(directory_target, {}, False)
        states.scrub(directory_target, EMPTY, False)
        observed.bundle(directory_target, {}, False)
    finally:
        os.umask(old)
    tops = [Path(directory_target["home"]), Path(directory_target["directory"])]
    for path in [each for top in tops for each in (top, *top.rglob("*"))]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@root
@pytest.mark.parametrize(
    ("verb", "kind", "home"),
    [("hold", "loop", "closed/home"), ("create", "directory", "closed/home"), ("hold", "directory", "made")],
)
def test_a_user_who_may_not_look_is_told_the_whole_path_and_what_helps(verb, kind, home, new_target, directory_target):
    """In the last case he may look, and can make nothing there."""
    above = Path(directory_target["home"]).parent
    above.chmod(0o755)
    (above / "closed").mkdir(mode=0o700)
    spec = new_target if kind == "loop" else directory_target
    otherwise = ", or take a target that needs no root: --target directory" if kind == "loop" else ""
    code, answer = agent(verb, {**spec, "home": str(above / home)}, user=NOBODY)
    assert (code, answer["msg"]) == (
        2,
        f"{verb}: {above / home}: Permission denied; give the command as root, or as the user who claimed target "
        f"{spec['name']}{otherwise}",
    )


@root
def test_a_user_without_a_name_is_told_by_the_number_what_to_type(directory_target, tmp_path):
    """What belongs to another user, who is not root, is no place for him."""
    above = Path(directory_target["home"]).parent
    above.chmod(0o755)
    os.chown(above, 1, 1)
    code, answer = agent("create", {**directory_target, "home": str(above / "home")}, user=424242)
    said = answer["msg"]
    assert code == 1 and "belongs to daemon (uid 1)" in said, said
    assert "uid 424242 uses only" in said and f"`chown 424242 {above}`" in said, said


# --- attack 5: links, forged notes, planted locks --------------------------------------------------------------------


@root
def test_a_forged_list_of_images_deletes_nothing(new_target, precious):
    home = Path(new_target["home"]) / new_target["name"]
    home.mkdir(parents=True)
    forged = {"image": str(precious / "file"), "status": "planned", "bytes": 1}
    note = home / "images.json"
    note.write_text(json.dumps({"declared": {"stores": 1, "size_gib": 1, "sparse": False}, "images": [forged]}))
    for path in (note, home, home.parent):  # the file alone, then what it lies in too
        os.chown(path, NOBODY, NOBODY)
        for verb in (claim.remove, claim.create):
            with pytest.raises(Refusal, match=rf"{path} belongs to nobody \(uid 65534\)"):
                verb(new_target, {}, False)
    assert (precious / "file").read_text() == "x" and note.exists()
    for path in (home.parent, home):
        os.chown(path, 0, 0)
    note.unlink()


@root
@pytest.mark.parametrize("name", ["measured", ".fsage"])
def test_a_link_in_a_directory_target_is_not_followed(directory_target, place, precious, name):
    (place / name).mkdir(exist_ok=True)
    shutil.copytree(place / name, precious, dirs_exist_ok=True)
    (place / name).rename(place / "aside")
    for link in (place / name, place / "filler"):
        link.symlink_to(precious)
    before = everything(precious)
    with pytest.raises(Refusal, match="is a symbolic link, where fsage makes a directory; nothing below it was"):
        states.scrub(directory_target, EMPTY, False)
    with pytest.raises(Refusal, match="is a symbolic link"):
        directories.clear(place, keep_mark=False)
    with pytest.raises(Refusal, match="is a symbolic link"):
        make_room([place], 1)
    assert everything(precious) == before and (place / name).is_symlink()


@root
@pytest.mark.parametrize("victim", ["measured", "measured/sub"])
def test_what_is_swapped_in_while_files_are_removed_is_not_touched(
    place, directory_target, precious, monkeypatch, victim
):
    """The moment after `measured` was listed, another directory is in its place, or a link in that of one in it."""
    target = open_target(directory_target)
    for folder in ("measured", "measured/sub", "measured/sub/below"):  # names as in what is swapped in
        (place / folder).mkdir(mode=0o700, exist_ok=True)
        (place / folder / "file").write_text("x")
    before = list(everything(precious).values())
    instead = precious
    scandir = os.scandir

    def swapping(of: Any) -> Any:
        nonlocal instead
        listed = list(scandir(of))
        if type(of) is int and os.readlink(f"/proc/self/fd/{of}") == f"{place}/measured":
            (place / victim).rename(place / "aside")
            if victim == "measured":
                instead = precious.rename(place / victim)
            else:
                (place / victim).symlink_to(precious)
        return contextlib.nullcontext(listed)

    with monkeypatch.context() as patched, contextlib.suppress(Failure):
        patched.setattr(os, "scandir", swapping)
        inspection.remove_measured(target)
    assert (place / "aside").exists() and list(everything(instead).values()) == before


@root
def test_removing_is_bounded_and_says_what_it_left(tmp_path):
    top = tmp_path / "top"
    deep = top
    for _ in range(places.DEEPEST + 5):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with places.opened(top) as above, pytest.raises(Failure, match=r"more than 100 directories in each other"):
        places.empty(above, top)
    (tmp_path / "other/disk").mkdir(parents=True)
    mounting.mount_call("none", str(tmp_path / "other/disk"), "tmpfs", 0, "")
    try:
        (tmp_path / "other/disk/file").write_text("x")
        with pytest.raises(Failure, match=r"disk is another file system, mounted there; it was left as it is"):
            places.remove(tmp_path / "other")
        assert (tmp_path / "other/disk/file").exists()
    finally:
        mounting.unmount(tmp_path / "other/disk")


PLANTED = {
    "mkfifo lock": "is a FIFO of root",
    "ln -s elsewhere lock": "is a symbolic link of root",
    "touch lock; chown nobody lock": "belongs to nobody (uid 65534) (mode 0644), so that others could have written it",
    "touch other; ln other lock": "has 2 names (hard links)",
}


@root
@pytest.mark.parametrize("plant", PLANTED)
def test_what_is_planted_where_a_lock_or_a_claim_is_kept_is_refused_at_once(directory_target, place, plant):
    """Of a claim, which is only read, a second name is no harm."""
    home = Path(directory_target["home"]) / directory_target["name"]
    states.diagnose(directory_target, {}, False)  # all locks are there
    for name in ("open.lock", "lease.lock", "lock", "claim.json"):
        if name == "claim.json" and "ln other" in plant:
            continue
        path = home / name
        path.rename(home / "aside")
        subprocess.run(["sh", "-ec", plant.replace("lock", name)], cwd=home, check=True)
        before = everything(home)
        with pytest.raises(Refusal, match=f"{path} {re.escape(PLANTED[plant])}.*nothing was touched"):
            states.diagnose(directory_target, {}, False)
        assert everything(home) == before
        (home / "aside").rename(path)
        (home / "other").unlink(missing_ok=True)


@root
def test_who_holds_a_lock_is_named(directory_target, place, monkeypatch):
    home = Path(directory_target["home"]) / directory_target["name"]
    program = "import fcntl, sys, time; lock = open(sys.argv[1]); fcntl.flock(lock, fcntl.LOCK_EX); "
    program += "print('held', flush=True); time.sleep(60)"
    states.diagnose(directory_target, {}, False)  # all are there
    monkeypatch.setattr(files, "PATIENCE_S", 0.2)
    monkeypatch.setattr(lease, "PATIENCE_S", 0.2)
    for name in ("open.lock", "lease.lock", "lock"):
        argv = [sys.executable, "-c", program, str(home / name)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
            assert holder.stdout and holder.stdout.readline() == b"held\n"
            named = rf"process {holder.pid} \(`{argv[0]} -c import fcntl.*\.\.\.`, since 20\d\d-.*Z\)"
            with pytest.raises(Refusal, match=rf"{named}.*nothing was touched") as why:
                states.diagnose(directory_target, {}, False)
            assert str(home / name) in str(why.value)
            holder.kill()
    states.diagnose(directory_target, {}, False)


# --- declared paths --------------------------------------------------------------------------------------------------

KEYS = ("home", "mount_dir", "directory", "image_dir", "containers")
WRONG = ["", "../x", "/a/../b", "~nobodyatall/x", "/a/{{ b }}", "/a\x1b[2J", "/\u202e", "/" + "x" * 1024, 7]


def test_a_path_that_could_be_read_otherwise_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    inventory = tmp_path / "inventory/group_vars/all/target.yml"
    inventory.parent.mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    spec = {"name": "local", "kind": "directory", "home": str(tmp_path / "home"), "directory": str(tmp_path / "place")}
    allowed = "a path that begins with / or ~/, without '..', templates and control characters, is wanted"
    for key, value in itertools.product(KEYS, WRONG):
        with pytest.raises(Refusal) as why:
            claim.create({**spec, key: value}, {}, False)
        said = str(why.value)
        assert f"fsage_target.{key} is " in said and (allowed in said or (value == 7 and "text is wanted" in said))
        assert said.isprintable() and len(said) < 400
        inventory.write_text(yaml.safe_dump({"fsage_target": {**spec, key: value}}))
        with pytest.raises(StudyError, match=rf"target\.yml(.|\n)*{key}"):
            load_target(tmp_path / "inventory")
    assert {path.name for path in tmp_path.iterdir()} == {"inventory", "here"} and not list(Path().iterdir())


@given(st.sampled_from(KEYS), st.text(max_size=40) | st.from_regex(r"[/~.a\n-]{1,12}", fullmatch=True))
def test_every_path_is_plain_or_refused(key, value):
    try:
        path = complete({"name": "local", key: value})[key]
    except Refusal as why:
        assert str(why).isprintable() and key in str(why)
        return
    assert path == os.path.normpath(path) and path.startswith("/") and not path.startswith("//")
    assert path.isprintable() and ".." not in Path(value).parts
    assert complete({"name": "local", key: path})[key] == path


@root
@pytest.mark.parametrize("kind", ["devtmpfs", "ramfs", "tmpfs"])
def test_memory_of_any_kind_is_no_place_for_images(new_target, tmp_path, kind):
    point = tmp_path / "memory"
    point.mkdir()
    mounting.mount_call("none", str(point), kind, 0, "")
    name = f"fsage-test-{os.getpid()}"
    try:
        for declared in (point, point / name):  # devtmpfs is one for the whole machine
            with pytest.raises(Refusal, match=rf"is on {kind}, which is memory, not a disk.*fsage_target.image_dir"):
                claim.create({**new_target, "image_dir": str(declared)}, {}, False)
        assert not (point / name).exists() and not list(point.glob("fsage-*"))
    finally:
        mounting.unmount(point)


@pytest.mark.long
def test_an_image_whose_name_is_an_option_is_read_as_an_image(tmp_path):
    image = "-V.img"
    subprocess.run(["truncate", "-s", "8M", "--", image], cwd=tmp_path, check=True)
    subprocess.run(["mkfs.ext4", "-q", f"./{image}"], cwd=tmp_path, check=True)
    argv = [sys.executable, "-m", "fsage", "evidence", "--json", "--", image]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["stores"][0]["filesystem"] == "ext4"


# --- whose claim it is -----------------------------------------------------------------------------------------------


@pytest.mark.long
@root
def test_a_loop_targets_claim_is_believed_on_its_own_host_only(spec, directory_target, place):
    """Clients share the home of a directory."""
    elsewhere = ("unshare", "--uts", "sh", "-c", 'hostname another && exec "$@"', "sh")
    notes = Path(spec["home"]).rglob("*.json")
    before = {path: path.read_text() for path in notes if path.name != "lease.json"}
    for verb in ("claim", "create", "release", "remove", "diagnose"):
        code, answer = agent(verb, spec, *elsewhere)
        assert code == 1 and f"was written on {os.uname().nodename}" in answer["msg"], (verb, answer)
    assert {path: path.read_text() for path in before} == before
    assert states.diagnose(spec, {}, False)["msg"]
    code, answer = agent("diagnose", directory_target, *elsewhere)
    assert code == 0, answer


def test_an_agent_that_runs_from_memory_sends_itself_on(tmp_path):
    (tmp_path / "fsage.py").write_text("raise SystemExit('from the current directory')")
    program = BOOT + "from fsage.host.system import library; sys.stdout.buffer.write(library.packed())"
    argv = [sys.executable, "-I", "-S", "-c", program]
    assert (
        subprocess.run(argv, input=sent(packed()), stdout=subprocess.PIPE, check=True, cwd=tmp_path).stdout == packed()
    )


def test_a_folder_that_another_version_left_hides_no_module_from_hosts(tmp_path, monkeypatch):
    """git leaves a folder in which Python keeps its bytecode."""
    (tmp_path / "model" / "__pycache__").mkdir(parents=True)
    (tmp_path / "model.py").touch()
    monkeypatch.setattr(plugins, "studies", lambda: ["left"])
    monkeypatch.setattr(plugins, "folder", lambda study: tmp_path)
    with zipfile.ZipFile(io.BytesIO(packed())) as sent_on:
        assert "fsage/studies/left/model.py" in sent_on.namelist()
        assert "fsage/studies/left/model/__init__.py" not in sent_on.namelist()
