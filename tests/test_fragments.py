"""`fsage fragments` on real file systems, and the commands that it prints, run by a shell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_filesystems import MIB, Small, fragmented, small

from fsage.cli import main
from fsage.host.defragmentation.bound import Device
from fsage.host.evidence import fiemap
from fsage.host.stores import filesystems
from fsage.model import filesystems as known
from fsage.model.evidence import fragmentation

ODD_NAME = "it's $HOME \\ \n\udcff1 f"


@pytest.fixture(scope="module", params=known.names())
def mounted(request, tmp_path_factory):
    with small(request.param, tmp_path_factory.mktemp("small") / "mnt") as made:
        yield made


@pytest.fixture
def fsage(tmp_path, monkeypatch, capfd):
    """The command: exit status, what it prints, what it complains of."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fsage", "--results", str(tmp_path), *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "160")
        with pytest.raises(SystemExit) as ended:
            main()
        return (int(ended.value.code or 0), *capfd.readouterr())

    return run


@pytest.mark.root
def test_what_is_found_and_what_the_printed_command_does(mounted: Small, tmp_path: Path, fsage) -> None:
    folder = mounted.point / "mine"
    folder.mkdir()
    fragmented({folder / name: pieces for name, pieces in (("f 0", 48), (ODD_NAME, 49), ("-f 2", 50))})
    (folder / "contiguous \udcff").write_bytes(os.urandom(16 * MIB))  # no UTF-8
    held = {path: path.read_bytes() for path in folder.iterdir()}
    os.sync()

    found = json.loads(fsage("fragments", folder, "--json", "--worst", 2)[1])
    assert [Path(one["path"]).name for one in found["worst"]] == ["-f 2", ODD_NAME]
    assert found["all"]["files"] == 4 and found["all"]["extents"] >= 148 and found["files_in_pieces"] >= 3
    assert found["device"]["seek_s"] > 0 and found["device"]["bytes_per_s"] > 1e6
    assert found["worst"][0]["gain_s_at_most"] == pytest.approx(49 * found["device"]["seek_s"])
    assert sum(one["files"] for one in found["histogram"]) == 4
    (command,) = found["commands"]
    assert (command["filesystem"], command["files"]) == (mounted.filesystem, 2)
    assert command["gain_s_at_most"] == pytest.approx((49 + 48) * found["device"]["seek_s"])
    assert (command["risk"] is not None) == (mounted.filesystem == "xfs")
    code, said, _ = fsage("fragments", folder / "f 0", "--seek-ms", 10, "--rate-mb-s", 100)
    assert code == 0 and "0.47 s at most" in said and "no forecast" in said and "nothing was changed" in said
    tool = " ".join(filesystems.named(mounted.filesystem).defragmenter.command)
    assert said.splitlines()[-1] == f"{tool} '{folder / 'f 0'}'"

    subprocess.run(["bash", "-c", command["command"]], check=True, cwd="/", stdin=subprocess.DEVNULL)
    extents = {path.name: fragmentation.of_file(fiemap.extents(path)).extents for path in held}
    assert extents["-f 2"] <= 2 and extents[ODD_NAME] <= 2 and extents["f 0"] >= 48
    assert {path: path.read_bytes() for path in folder.iterdir()} == held
    shutil.rmtree(folder)


def test_wrong_input_is_said_in_a_sentence(tmp_path: Path, fsage) -> None:
    for arguments, words in (
        (["fragments", tmp_path / "gone"], f"{tmp_path}/gone: No such file"),
        (["fragments", tmp_path, "--by", "size"], "there are extents, ratio"),
        (["fragments", tmp_path, "--seek-ms", "0"], "--seek-ms 0.0: allowed is a number above 0"),
    ):
        code, _, complaint = fsage(*arguments)
        assert code == 1 and words in complaint


@pytest.mark.root
def test_what_a_loss_of_power_risks_is_known(tmp_path: Path) -> None:
    for name, options in (("with", "rmapbt=1"), ("without", "rmapbt=0")):
        with small("xfs", tmp_path / name, "-m", options) as made:
            risk = filesystems.named("xfs").risk(str(made.point))
            assert (risk is None) == (name == "with"), risk


def test_the_bound_is_the_model() -> None:
    device = Device(0.01, 1e8, "given")
    file = fragmentation.Fragmentation(1, 100, 2, 10**8)
    assert device.read_s(file) == pytest.approx(2.0)
    assert device.gain_s(file) == pytest.approx(0.98)
    assert device.ratio(file) == pytest.approx(2 / 1.02)
    assert device.ratio(fragmentation.NONE) == 1
