"""What an administrator takes to a server: the wheel, installed without an index into an empty environment."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from small_filesystems import fragmented, small

import fsage
from fsage.layouts import __main__ as server

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "config" / "layouts" / "example.gz"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The command `fsage` of an environment that has its package and what that depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("server")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}

    def call(*words):
        ran = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, env=env, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr

    call("flit_core.wheel", "--outdir", folder)
    venv.create(folder / "env", symlinks=True)
    (packages,) = folder.glob("env/lib/*/site-packages")
    needed = importlib.metadata.distribution("prometheus_client")
    for name in {path.parts[0] for path in needed.files or ()}:
        shutil.copytree(str(needed.locate_file(name)), packages / name)
    python, wheel = folder / "env/bin/python", folder / f"fsage-{fsage.__version__}-py3-none-any.whl"
    call("pip", "--python", python, "install", "--no-compile", "--no-index", wheel)
    return folder / "env/bin/fsage"


def ran(*words):
    return subprocess.run(words, cwd="/", capture_output=True, text=True, check=True).stdout


def test_layouts_need_no_other_part_of_fsage_and_no_package():
    names = [path.stem for path in (ROOT / "src/fsage/layouts").glob("*.py") if path.stem != "monitoring"]
    words = "import importlib, sys; [importlib.import_module(f'fsage.layouts.{name}') for name in sys.argv[1:]]"
    words += "; print(*sorted({name.split('.')[1] for name in sys.modules if name.startswith('fsage.')}))"
    env = {"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-S", "-c", words, *names], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "base layouts\n" and len(names) > 20


@pytest.mark.long
def test_the_package_alone_reads_texts_and_says_what_it_is(installed):
    assert ran(installed, "--version") == f"fsage {fsage.__version__}\n"
    assert "128 groups, the largest" in ran(installed, "evidence", EXAMPLE)
    assert "fsage_free_bytes" in ran(installed, "evidence", "--openmetrics", EXAMPLE)
    wrong = subprocess.run([installed, "evidence", "/none"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr) == (1, "fsage: /none: No such file or directory\n")


@pytest.mark.root
def test_the_package_alone_looks_at_a_file_system(installed, tmp_path):
    with small("ext4", tmp_path / "mnt") as made:
        fragmented({made.point / "f": 40})
        os.sync()
        shown = json.loads(ran(installed, "fragments", made.point, "--json", "--seek-ms", "8", "--rate-mb-s", "200"))
        (store,) = json.loads(ran(installed, "evidence", made.point, "--json"))["stores"]
    assert shown["worst"][0]["path"].endswith("/f") and shown["worst"][0]["extents"] >= 40
    assert store["filesystem"] == "ext4" and store["free_extents"]["count"] > 0


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["evidence", "x", "--openmetrics", "--json"], 2, "--openmetrics stands alone"),
        (["evidence", "x", "--to", "y"], 2, "--to is where the metrics go"),
        (["fragments", "/none"], 1, "/none: No such file or directory"),
    ],
)
def test_what_cannot_be_is_a_sentence(words, code, complaint, capsys):
    assert server.main(words) == code and complaint in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--time-limit", "0"), ("--rate-mb-s", "inf"), ("--worst", "-1")])
def test_numbers_have_limits(option, capsys):
    with pytest.raises(SystemExit, match="2"):
        server.main(["evidence" if option[0] == "--time-limit" else "fragments", "x", *option])
    assert "is no " in capsys.readouterr().err
