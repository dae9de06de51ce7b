"""Preallocation: what may be asked, against the recorded kernel; simulated OSTs; XFS on a real loop device."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import preloaded
import pytest
from local_targets import claimed
from lustre_site import Site, lustre_target, recorded, site_in
from test_playbooks import inventory_of

from fsage.base import MIB, Failure, Refusal
from fsage.host.filesystems.xfs import ExtentSize
from fsage.host.system import files, settings
from fsage.host.targets import preallocation as requested
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim, preallocation
from fsage.model.declaration import complete
from fsage.studies.lustre.host import ldiskfs
from fsage.studies.lustre.instruments import others

ROOT = Path(__file__).resolve().parents[1]
HINT = ExtentSize()
DEFAULT = "4 8 16 32 64 128 256 512 1024 2048"
SIZE_4M = "256 512 1024"
SIZE_8M = "256 512 1024 2048"
ASKED = "lctl get_param osd-ldiskfs.lustre-OST*.mntdev"


def test_what_the_kernel_refused_or_read_otherwise_is_refused_and_nothing_else():
    """As recorded. 32768 is larger than a group, which is not known before a server is asked."""
    said = re.findall(
        r'^# (?:echo|printf) ["\']?(.*?)["\']? > /proc/fs/ldiskfs/vdc/prealloc_table\n(?:.*\n)*?\[rc=(\d)\]$'
        r"(?:\n# cat .*\n(.*)\n\[rc=0\])?",
        recorded("prealloc_table_writes.txt"),
        re.M,
    )
    texts = [row for row in said if row[0] not in ("", "32768") and not row[0].startswith("$(seq")]
    assert len(texts) == 17
    for text, code, table in texts:
        as_it_stands = code == "0" and table.strip() in ("", text) and text not in ("abc", "0")
        with contextlib.nullcontext() if as_it_stands else pytest.raises(Refusal, match="tune_prealloc_table "):
            asked = requested.read({"table": text}).table
            assert ldiskfs.table_words(asked) == text


@pytest.mark.parametrize(
    ("says", "tables"),
    [
        (
            "whole numbers of blocks of 4 KiB are wanted, with one blank between two",
            [
                "256, 512",
                "256\t512",
                "256\n512",
                "256  512",
                " 256",
                "256KiB",
                "256.0",
                "256 ٣",
                [256, "512"],
                [True],
                256.5,
            ],
        ),
        ("larger than the one before", ["512 256"]),
        ("500, which is no power of two", ["256 500"]),
    ],
)
def test_every_trap_of_the_table_is_refused(says, tables):
    for table in tables:
        with pytest.raises(Refusal, match=says):
            requested.read({"table": table})


@pytest.mark.parametrize(
    "size", ["4", "4096", 4, 4 * MIB, "4MB", "4 mib", "3MiB", "0MiB", "-4MiB", "32KiB", "2GiB", "x"]
)
def test_a_size_needs_its_unit_and_is_a_power_of_two(size):
    with pytest.raises(Refusal, match="a power of two from 64KiB to 1GiB is wanted, with its unit, such as 4MiB"):
        requested.read({"size": size})


def test_the_studys_tables_are_known_and_no_others():
    tables = {size: ldiskfs.table_of(requested.read({"size": size})) for size in ("1MiB", "2M", "4 MiB", "8MiB")}
    assert tables == {
        "1MiB": (32, 64, 128),
        "2M": (128, 256, 512),
        "4 MiB": (256, 512, 1024),
        "8MiB": (256, 512, 1024, 2048),
    }
    with pytest.raises(Refusal, match="give one"):
        requested.read({"size": "4MiB", "table": "256"})
    for group in ("12abc", "-1", "01", True, 1.5):
        with pytest.raises(Refusal, match="the number of a block group"):
            requested.read({"group": group})
    assert requested.wanted({"size": "", "table": [], "group": 0}, {}) == {"group": 0}


class Server:
    """A server of two OSTs, whose /proc/fs/ldiskfs is a folder."""

    def __init__(self, site: Site, place: Path, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.proc = place / "ldiskfs"
        self.write = ldiskfs.write
        self.writes: list[str] = []
        site.answer(ASKED, "".join(f"osd-ldiskfs.lustre-OST000{n}.mntdev=/dev/vd{'cd'[n]}\n" for n in (0, 1)))
        for device in ("vdc", "vdd"):
            site.answer(f"dumpe2fs -h /dev/{device}", recorded("dumpe2fs_h.txt"))
            self.mount(device)

    def mount(self, device: str) -> None:
        """The values of a mount."""
        place = self.proc / device
        place.mkdir(parents=True, exist_ok=True)
        (place / "prealloc_table").write_text(f"{DEFAULT} \n")
        (place / "mb_last_group").write_text("0\n")

    def kernel(self, path: Path, text: str) -> None:
        """In place of one write(2)."""
        self.writes.append(f"{path.parent.name}/{path.name} {text}")
        self.write(path, f"0# {text}\n1# {text}" if path.name == "mb_last_groups" else f"{text} ")

    def ask(self, check: bool = False, **asked: Any) -> dict[str, Any]:
        """The verb on this server."""
        self.writes.clear()
        return ldiskfs.prealloc_osts(self.spec, {"prealloc": {"state": "set", "proc": str(self.proc), **asked}}, check)

    def tables(self) -> list[str]:
        """What the OSTs have."""
        return [(self.proc / device / "prealloc_table").read_text().strip() for device in ("vdc", "vdd")]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return site_in(tmp_path, monkeypatch, "lctl", "lfs", "findmnt", "dumpe2fs")


@pytest.fixture
def server(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server(site, tmp_path, lustre_target(tmp_path, site))
    monkeypatch.setattr(ldiskfs, "write", server.kernel)
    return server


def test_set_again_after_a_remount_and_restored(server):
    tried = server.ask(check=True, size="4MiB", group="20")
    assert tried["changed"] and server.writes == []
    assert f"lustre-OST0001 (/dev/vdd): prealloc_table {DEFAULT} -> {SIZE_4M}" in tried["proof"]
    assert "lustre-OST0000 (/dev/vdc): mb_last_group 0 -> 20" in tried["proof"]
    made = server.ask(size="4MiB", group="20")
    assert made["changed"] and server.tables() == [SIZE_4M] * 2 and len(server.writes) == 4
    assert made["osts"]["lustre-OST0000"]["now"] == {"prealloc_table": SIZE_4M, "mb_last_group": 20}
    assert not server.ask(size="4MiB", group="20")["changed"] and server.writes == []
    server.mount("vdd")
    assert server.ask()["changed"] and all(write.startswith("vdd/") for write in server.writes)
    assert server.tables() == [SIZE_4M] * 2
    assert server.ask(check=True, state="restored")["changed"] and server.writes == []
    assert server.ask(state="restored")["changed"] and server.tables() == [DEFAULT] * 2
    assert not Path(server.spec["home"]).exists() and not settings.NOTE.exists(), "nothing stays, no empty folder"
    assert not server.ask(state="restored")["changed"]
    with pytest.raises(Refusal, match="nothing is requested, and nothing was before"):
        server.ask()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"table": "32768"}, r"32768 blocks, and a group of lustre-OST0000 \(/dev/vdc\) holds at most 31742"),
        ({"size": "4MiB", "group": 64}, "has groups 0 to 63"),
        ({"size": "4MiB", "osts": ["vdb"]}, r"names vdb, which is no OST of lustre .*OST0000 on /dev/vdc, .*OST0001"),
        ({"size": "16MiB"}, r"no table is known \(1MiB: 32 64 128.*give tune_prealloc_table"),
        ({"size": "4MiB", "proc": "/proc/fs/no-ldiskfs"}, r"/dev/vdc, and .*vdc/prealloc_table does not exist"),
    ],
)
def test_refused_before_anything_is_written(server, asked, says):
    with pytest.raises(Refusal, match=says):
        server.ask(**asked)
    assert server.writes == [] and not (Path(server.spec["home"]) / "scratch/prealloc.json").exists()


def test_one_ost_alone(server):
    server.ask(size="8MiB", osts=["/dev/vdd"])
    server.ask(size="1MiB", osts=["lustre-OST0000"])
    assert server.tables() == ["32 64 128", SIZE_8M]
    server.ask(state="restored")
    assert server.tables() == [DEFAULT] * 2


def test_of_two_targets_the_last_one_restores_the_tables_that_were_there_first(server):
    """Tuned one after another, released in either order; until then those of who is left are in force."""
    other = {**server.spec, "name": "other"}

    def ask(spec: dict[str, Any], **asked: Any) -> list[str]:
        ldiskfs.prealloc_osts(spec, {"prealloc": {"state": "set", "proc": str(server.proc), **asked}}, False)
        return server.tables()

    ask(server.spec, size="4MiB")
    assert ask(other, size="8MiB") == [SIZE_8M] * 2
    said = others.of_server(complete(server.spec))
    assert len(said) == 2 and "prealloc_table of" in said[0] and "is 256 512 1024 2048, was 4 8 16" in said[0]
    assert "target scratch has not set it: target other of user" in said[0] and others.of_server(complete(other)) == []
    assert ask(other, state="restored") == [SIZE_4M] * 2
    ask(other, size="8MiB")
    assert ask(server.spec, state="restored") == [SIZE_8M] * 2
    assert ask(other, state="restored") == [DEFAULT] * 2 and not settings.NOTE.exists()


def test_a_server_without_osts_is_passed_over(server, site):
    site.answer(ASKED, stderr="error: get_param: param_path 'osd-ldiskfs/...': No such file or directory\n", rc=2)
    for asked in ({"size": "4MiB"}, {}):
        assert server.ask(**asked) == {
            "changed": False,
            "msg": f"{os.uname().nodename} serves no ldiskfs OST of lustre",
            "osts": {},
        }


def test_an_ost_with_other_blocks_is_refused(server, site):
    header = recorded("dumpe2fs_h.txt").replace("Block size:               4096", "Block size:               1024")
    site.answer("dumpe2fs -h /dev/vdd", header)
    with pytest.raises(Refusal, match="has blocks of 1024 bytes"):
        server.ask(size="4MiB")
    assert server.writes == []


@pytest.mark.parametrize("taken", ["256", "", None], ids=["another table", "switched off", "refused"])
def test_what_the_second_ost_does_not_take_is_put_back_on_the_first(server, monkeypatch, taken):
    def kernel(path: Path, text: str) -> None:
        spoilt = path.parent.name == "vdd" and text == SIZE_4M
        if spoilt and taken is None:
            raise Failure(f"{path}: {text!r} was refused (Invalid argument)")
        server.write(path, taken if spoilt else text)

    monkeypatch.setattr(ldiskfs, "write", kernel)
    with pytest.raises(Failure, match=r"vdd/prealloc_table.*restored on lustre-OST0000, lustre-OST0001"):
        server.ask(size="4MiB")
    assert server.tables() == [DEFAULT] * 2


@pytest.mark.parametrize("pointer", ["mb_last_groups", None])
def test_newer_series_have_several_pointers_and_older_ones_none(server, pointer):
    for device in ("vdc", "vdd"):
        (server.proc / device / "mb_last_group").unlink()
        if pointer:
            (server.proc / device / pointer).write_text("0# 7\n1# 7\n" if device == "vdc" else "0# 7\n1# 9\n")
    made = server.ask(size="4MiB", group=20)["osts"]["lustre-OST0001"]
    assert server.tables() == [SIZE_4M] * 2
    if pointer is None:
        assert made["now"]["mb_last_group"].startswith("unsupported: ")
        return
    assert made["before"]["mb_last_group"] == "several: 7, 9" and made["now"]["mb_last_group"] == 20
    server.ask(state="restored")
    assert (server.proc / "vdc" / pointer).read_text() == "0# 7\n1# 7\n"
    assert (server.proc / "vdd" / pointer).read_text() == "0# 20\n1# 20\n", "several cannot be written again"


def test_a_write_is_one_and_its_error_is_said(tmp_path):
    path = tmp_path / "prealloc_table"
    path.write_text("4 8 16 32 64 128 256 512 1024 2048\n")
    ldiskfs.write(path, "256")
    assert path.read_text() == "256\n"
    with pytest.raises(Failure, match=r"'256' was refused \(No space left"):
        ldiskfs.write(Path("/dev/full"), "256")


@pytest.mark.long
@pytest.mark.root
def test_the_playbook_from_the_launcher_to_the_servers_and_back(tmp_path, server):
    claim.claim(server.spec, {}, False)
    inventory = inventory_of(tmp_path / "inventory", server.spec, servers=("oss1",))

    proc = ("-e", f"tune_prealloc_proc={server.proc}")

    def play(extra: str, *words: str) -> str:
        done = preloaded.call("ansible-playbook", "-i", inventory, "tune_prealloc.yml", *words, "-e", extra, *proc)
        assert done.returncode == 0 and "Traceback" not in done.stdout + done.stderr
        return done.stdout

    size = "tune_prealloc_size=4MiB"
    assert f"prealloc_table {DEFAULT} -> {SIZE_4M}" in play(size, "--check")
    assert server.tables() == [DEFAULT] * 2
    twice = play(size, "tune_prealloc.yml")
    assert re.findall(r"changed=(\d+)", twice)[-2:] == ["1", "1"], twice  # of both runs together
    note = Path(server.spec["home"]) / "scratch/tunables.json"
    entry = files.read_json(note)["preallocation"]
    assert server.tables() == [SIZE_4M] * 2 and entry["asked"] == {"size": "4MiB"}
    assert entry["now"]["lustre-OST0001"]["prealloc_table"] == SIZE_4M
    play("tune_prealloc_state=restored")
    assert server.tables() == [DEFAULT] * 2 and not files.read_json(note)


def ask(spec: dict[str, Any], check: bool = False, **asked: Any) -> dict[str, Any]:
    return preallocation.prealloc(spec, {"prealloc": {"state": "set", **asked}}, check)


@pytest.mark.long
@pytest.mark.root
def test_xfs_gives_files_what_was_asked_for_over_mounts_and_formats(local_target):
    local_target["filesystem"] = "xfs"
    target = claimed(local_target)
    mount = target.mounts[0]
    folder = mount / "filler/g1"
    folder.mkdir(parents=True)
    assert ask(local_target, check=True, size="1MiB")["changed"] and HINT.size_at(mount) == 0
    assert ask(local_target, size="1MiB")["changed"] and not ask(local_target, size="1MiB")["changed"]
    assert HINT.size_at(mount) == HINT.size_at(folder) == MIB and HINT.size_at(mount / ".fsage") == 0
    with open(folder / "a", "wb", buffering=0) as first, open(folder / "b", "wb", buffering=0) as second:
        for _ in range(64):  # written at once, 64 KiB at a time
            for file in (first, second):
                file.write(bytes(64 << 10))
                os.fsync(file)
    said = subprocess.run(["filefrag", folder / "a"], capture_output=True, text=True, check=True).stdout
    assert int(said.split(": ")[1].split()[0]) <= 4, "4 MiB in pieces of at least 1 MiB"
    entry = files.read_json(target.home / "tunables.json")["preallocation"]
    assert entry["asked"] == {"size": "1MiB"} and entry["now"] == "extsize=1048576 allocsize=1024k"
    target.format()
    again = open_target(local_target)
    assert again.notes == [] and HINT.size_at(mount) == MIB
    assert "allocsize=1024k" in again.mount_options()[0].split(",")
    for wrong, says in (({"size": "1GiB"}, "nothing was changed"), ({"table": "256"}, "XFS has one size")):
        with pytest.raises(Refusal, match=says):
            ask(local_target, **wrong)
    assert ask(local_target, state="restored")["changed"] and not ask(local_target, state="restored")["changed"]
    assert HINT.size_at(mount) == 0 and "allocsize" not in target.mount_options()[0]


@pytest.mark.root
def test_ext4_has_no_such_knob_and_the_record_says_so(local_target):
    claimed(local_target)
    made = ask(local_target, size="4MiB")
    assert (
        "neither prealloc_table nor mb_last_group: the structure itself is laid out at the granularity" in made["msg"]
    )
    noted = files.read_json(open_target(local_target).home / "tunables.json")["preallocation"]
    assert noted["asked"] == {"size": "4MiB"} and noted["unsupported"].startswith("mainline ext4")
    assert not ask(local_target, size="4MiB")["changed"]
