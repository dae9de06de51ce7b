"""`fsage fragments` on real file systems, and the commands that it prints, run by a shell."""

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from session import PREFIX
from small_filesystems import MIB, fragmented, small

from fsage.cli import main
from fsage.host import filesystems
from fsage.layouts import __main__ as server
from fsage.layouts import fiemap, fragmentation, machine
from fsage.layouts.fragments import Device
from fsage.layouts.inspect import inspect
from fsage.model import filesystems as known

ODD_NAME = "it's $HOME \\ \n\udcff1 f"


@pytest.fixture(scope="module", params=known.names())
def mounted(request, tmp_path_factory):
    with small(request.param, tmp_path_factory.mktemp("small") / "mnt") as made:
        yield made


@pytest.fixture
def fsage(tmp_path, monkeypatch, capfd):
    """The command: exit status, what it prints, what it complains of."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["fsage", "--results", str(tmp_path), *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "160")
        with pytest.raises(SystemExit) as ended:
            main()
        return (int(ended.value.code or 0), *capfd.readouterr())

    return run


@pytest.mark.root
def test_what_is_found_and_what_the_printed_command_does(mounted, tmp_path, fsage):
    folder = mounted.point / "mine"
    folder.mkdir()
    fragmented({folder / name: pieces for name, pieces in (("f 0", 48), (ODD_NAME, 49), ("-f 2", 50))})
    (folder / "contiguous \udcff").write_bytes(os.urandom(16 * MIB))  # no UTF-8
    contents = {path: path.read_bytes() for path in folder.iterdir()}
    os.sync()

    found = json.loads(fsage("fragments", folder, "--json", "--worst", 2)[1])
    assert [Path(each["path"]).name for each in found["worst"]] == ["-f 2", ODD_NAME]
    assert found["all"]["files"] == 4 and found["all"]["extents"] >= 148 and found["files_in_pieces"] >= 3
    assert found["device"]["seek_s"] > 0 and found["device"]["bytes_per_s"] > 1e6
    assert sum(row["files"] for row in found["histogram"]) == 4
    (command,) = found["commands"]
    assert (command["filesystem"], command["files"]) == (mounted.filesystem, 2)
    assert command["gain_s_at_most"] == pytest.approx((49 + 48) * found["device"]["seek_s"])
    assert (command["risk"] is not None) == (mounted.filesystem == "xfs")
    code, said, _ = fsage("fragments", folder / "f 0", "--seek-ms", 10, "--rate-mb-s", 100)
    assert code == 0 and "0.47 s at most" in said and "no forecast" in said and "nothing was changed" in said
    tool = " ".join(filesystems.named(mounted.filesystem).defragmenter.command)
    assert said.splitlines()[-1] == f"{tool} '{folder / 'f 0'}'"

    subprocess.run(["bash", "-c", command["command"]], check=True, cwd="/", stdin=subprocess.DEVNULL)
    extents = {path.name: fragmentation.of_file(fiemap.extents(path)).extents for path in contents}
    assert extents["-f 2"] <= 2 and extents[ODD_NAME] <= 2 and extents["f 0"] >= 48
    assert {path: path.read_bytes() for path in folder.iterdir()} == contents
    shutil.rmtree(folder)


def test_wrong_input_is_said_in_a_sentence(tmp_path, fsage):
    for words, ends_with, said in (
        ([tmp_path / "gone"], 1, f"{tmp_path}/gone: No such file"),
        ([tmp_path, "--by", "size"], 2, "there are extents, ratio"),
        ([tmp_path, "--seek-ms", "0"], 2, "--seek-ms 0.0: allowed is a number above 0"),
    ):
        code, _, complaint = fsage("fragments", *words)
        assert code == ends_with and said in complaint


@pytest.mark.root
def test_what_a_user_cannot_read_is_counted_and_named_and_is_not_none(capsys):
    with (
        tempfile.TemporaryDirectory(prefix=f"fsage-test-{PREFIX}user-", dir="/var/tmp") as place,
        contextlib.ExitStack() as made,
    ):
        os.chmod(place, 0o755)
        point, disk = Path(place) / "mnt", Path(place) / "disk"
        made.enter_context(small("ext4", point))
        for folder, mode in (("secret", 0o700), ("listed", 0o744), ("open", 0o755)):
            (point / folder).mkdir()
            (point / folder / "file").write_bytes(b"x" * MIB)
            (point / folder).chmod(mode)
        (point / "empty").mkdir()
        os.mknod(disk, 0o600 | stat.S_IFBLK, os.makedev(240, 0))
        image = Path(place) / "image"
        image.touch(0o600)
        device = machine.mount_of(point).source
        os.sync()
        as_root = inspect(device, 0)["stores"][0]
        denied = "Permission denied; give the command as root, or name what this user may read"
        os.seteuid(65534)
        made.callback(os.seteuid, 0)
        for command, what, code, sentence in (
            ("evidence", point / "secret", 1, f"1 folder could not be read, the last {point}/secret: {denied}"),
            ("evidence", point / "listed", 1, f"1 file could not be read, the last {point}/listed/file: {denied}"),
            ("fragments", point / "secret", 1, f"1 folder could not be read, the last {point}/secret: {denied}"),
            ("fragments", point / "listed", 1, f"1 file could not be read, the last {point}/listed/file: {denied}"),
            ("evidence", point / "empty", 0, "Files found, by FIEMAP\n  files               0"),
            ("fragments", point / "empty", 0, "No file was found."),
            ("evidence", point, 0, "by FIEMAP; 2 folders and 1 file could not be read, the last"),
            ("fragments", point, 0, "2 folders and 1 files, the last"),
            ("evidence", disk, 1, f"{disk}: reading {disk} needs root: give the command as root"),
            ("evidence", image, 1, f"{image}: {denied}"),
            ("fragments", point / "secret/file", 1, f"{point}/secret/file: {denied}"),
        ):
            assert server.main([command, str(what)]) == code
            assert sentence in "".join(capsys.readouterr()), (command, what)
        (by_kernel,) = inspect(str(point), 0)["stores"]
        assert by_kernel["absent"]["groups"] == f"reading {device} needs root: give the command as root"
        assert by_kernel["device_bytes"] == as_root["device_bytes"] and by_kernel["block_bytes"] == 4096
        assert 0 < by_kernel["free_bytes"] <= as_root["free_bytes"]
        os.seteuid(0)
        assert server.main(["evidence", str(disk)]) == 1
        assert f"there is no {disk} here, as in a container: give the command on the machine" in capsys.readouterr().err


@pytest.mark.root
def test_what_a_loss_of_power_risks_is_known(tmp_path):
    for name, options in (("with", "rmapbt=1"), ("without", "rmapbt=0")):
        with small("xfs", tmp_path / name, "-m", options) as made:
            risk = filesystems.named("xfs").risk(str(made.point))
            assert (risk is None) == (name == "with"), risk


def test_the_bound_is_the_model():
    device = Device(0.01, 1e8, "given")
    file = fragmentation.Fragmentation(1, 100, 2, 10**8)
    assert (device.read_s(file), device.gain_s(file)) == pytest.approx((2.0, 0.98))
    assert device.ratio(file) == pytest.approx(2 / 1.02) and device.ratio(fragmentation.NONE) == 1
