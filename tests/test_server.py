"""What an administrator takes to a server: the wheel, installed without an index into an empty environment."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from small_filesystems import fragmented, small

import fsage
from fsage.layouts import __main__ as server

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "config" / "layouts" / "example.gz"


def wheel_of(name: str, folder: Path) -> None:
    """The wheel that an installed package came from, made again of its files."""
    package = importlib.metadata.distribution(name)
    kept = [
        path for path in package.files or () if path.name not in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
    ]
    kept = [path for path in kept if path.suffix != ".pyc" and ".." not in path.parts]
    record = next(path for path in package.files or () if path.name == "RECORD")
    with zipfile.ZipFile(folder / f"{name}-{package.version}-py3-none-any.whl", "w") as archive:
        rows = []
        for path in kept:
            content = path.read_binary()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            archive.writestr(str(path), content)
            rows.append(f"{path},sha256={digest},{len(content)}")
        archive.writestr(str(record), "\n".join([*rows, f"{record},,", ""]))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `fsage` of an environment that has its package and what that depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("server")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "FSAGE_"))}

    def call(*words: str | Path) -> None:
        ran = subprocess.run(
            [sys.executable, "-m", *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr

    call("flit_core.wheel", "--outdir", folder)
    wheel_of("prometheus_client", folder)
    venv.create(folder / "env", symlinks=True)
    python, wheel = folder / "env/bin/python", folder / f"fsage-{fsage.__version__}-py3-none-any.whl"
    call("pip", "--python", python, "install", "--no-compile", "--no-index", "--find-links", folder, wheel)
    return folder / "env/bin/fsage"


def ran(*words: str | Path) -> str:
    return subprocess.run(words, cwd="/", capture_output=True, text=True, check=True).stdout


def test_layouts_need_no_other_part_of_fsage_and_no_package() -> None:
    names = [path.stem for path in (ROOT / "src/fsage/layouts").glob("*.py") if path.stem != "monitoring"]
    words = "import importlib, sys; [importlib.import_module(f'fsage.layouts.{name}') for name in sys.argv[1:]]"
    words += "; print(*sorted({name.split('.')[1] for name in sys.modules if name.startswith('fsage.')}))"
    env = {"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-S", "-c", words, *names], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "base layouts\n" and len(names) > 20


@pytest.mark.long
def test_the_package_alone_reads_texts_and_says_what_it_is(installed: Path) -> None:
    assert ran(installed, "--version") == f"fsage {fsage.__version__}\n"
    assert "128 groups, the largest" in ran(installed, "evidence", EXAMPLE)
    assert "fsage_free_bytes" in ran(installed, "evidence", "--openmetrics", EXAMPLE)
    wrong = subprocess.run([installed, "evidence", "/none"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr) == (1, "fsage: /none: No such file or directory\n")


@pytest.mark.root
def test_the_package_alone_looks_at_a_file_system(installed: Path, tmp_path: Path) -> None:
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
def test_what_cannot_be_is_a_sentence(
    words: list[str], code: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server.main(words) == code and complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["evidence", "x", "--time-limit", "0"],
        ["fragments", "x", "--rate-mb-s", "inf"],
        ["fragments", "x", "--worst", "-1"],
    ],
)
def test_numbers_have_limits(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        server.main(words)
    assert "is no " in capsys.readouterr().err
