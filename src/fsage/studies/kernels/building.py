"""Making a kernel that is a program (ARCH=um) from its source, with the configuration that fsage keeps.

A source is a package `linux-source-*`, a tarball, a folder, or a git tree at a commit. It is copied and never changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from fsage.api.model import Failure, Refusal

from .model import programs, run
from .model.boot import Kernel

CONFIG = Path(__file__).parent / "kernel.config"
NEEDED = {"make": "make", "gcc": "gcc", "flex": "flex", "bison": "bison", "bc": "bc", "xz": "xz-utils", "tar": "tar"}
"""Programs, and the packages of Debian that have them."""
PACKAGE = re.compile(r"linux-source-[\d.]+")


def build(source: str) -> Kernel:
    """Build a kernel and keep it with those that are unpacked. Raises Refusal, Failure."""
    refuse_unready()
    roomy = os.environ.get("TMPDIR", "/var/tmp")  # a source and what is compiled of it take 4 GiB
    with tempfile.TemporaryDirectory(prefix="fsage-kernel-", dir=roomy) as name:
        place = Path(name)
        tree, suffix = _unpacked(source, place)
        return made(tree, place / "out", suffix)


def refuse_unready() -> None:
    """Raise Refusal where this machine cannot compile a kernel."""
    lacking = [package for program, package in NEEDED.items() if not shutil.which(program)]
    if lacking:
        raise Refusal(f"building a kernel needs {', '.join(lacking)}: `apt install {' '.join(lacking)}`")


def made(tree: Path, out: Path, suffix: str) -> Kernel:
    """Compile a tree in the folder `out`, where what did not change since stays; the kernel is kept by its release.

    `suffix` is added to its name. Raises Failure, Refusal.
    """
    out.mkdir(exist_ok=True)
    make = ["make", "-C", str(tree), f"O={out}", "ARCH=um"]
    if not (tree / "arch/um/Makefile").exists():
        raise Refusal(f"{tree} is no source of Linux: arch/um is not there")
    if not (out / ".config").exists():
        run([*make, "defconfig"])
        merge = [str(tree / "scripts/kconfig/merge_config.sh"), "-m", "-O", str(out), str(out / ".config"), str(CONFIG)]
        run(merge, place=out)
    run([*make, "olddefconfig"])
    _refuse_without(out / ".config")
    run([*make, f"-j{os.cpu_count()}", "linux"])
    release = run([*make, "-s", "kernelrelease"]).split()[-1]
    place = programs.unpacked() / f"{release}{suffix}"
    place.mkdir(parents=True, exist_ok=True)
    part = place / f"linux.{os.getpid()}"
    run(["strip", "-g", "-o", str(part), str(out / "linux")])
    shutil.copyfile(out / ".config", place / "config")
    part.rename(place / "linux")
    return programs.of(place / "linux")


def _refuse_without(config: Path) -> None:
    """Raise Failure where a source does not know what fsage cannot do without: file systems of its own, and hostfs."""
    lines = set(config.read_text(encoding="utf-8").splitlines())
    wanted = [line for line in CONFIG.read_text(encoding="utf-8").splitlines() if line.endswith("=y")]
    missing = [line.removesuffix("=y") for line in wanted if line not in lines]
    if {"CONFIG_HOSTFS", "CONFIG_EXT4_FS", "CONFIG_BLK_DEV_UBD"} & set(missing):
        raise Failure(f"this source cannot be configured as a kernel for fsage: it lacks {', '.join(missing)}")


def _unpacked(source: str, place: Path) -> tuple[Path, str]:
    """The source's own copy below a folder, and what its name gets. Raises Refusal, Failure."""
    tree = place / "source"
    path, _, commit = (source, "", "") if Path(source).exists() else source.partition("@")
    if PACKAGE.fullmatch(source):
        run(["apt-get", "download", source], place)
        [package] = place.glob("*.deb")
        run(["dpkg-deb", "--extract", str(package), str(place / "package")])
        [path] = map(str, (place / "package/usr/src").glob("linux-source-*.tar.*"))
    if Path(path).is_file():
        tree.mkdir()
        run(["tar", "-x", "-f", str(Path(path).absolute()), "--strip-components=1", "-C", str(tree)])
        return tree, ""
    if commit or (Path(path) / ".git").exists():
        whole = commit_of(Path(path), commit or "HEAD")
        checked_out(Path(path), whole, tree)
        return tree, suffix_of(whole)
    if Path(path).is_dir():
        run(["cp", "-a", "--reflink=auto", path, str(tree)])
        run(["make", "-C", str(tree), "ARCH=um", "mrproper"])
        return tree, ""
    raise Refusal(f"--build {source}: a package linux-source-VERSION, a tarball, a folder, or TREE@COMMIT is wanted")


def suffix_of(commit: str) -> str:
    """What the name of a kernel gets that is built of a commit."""
    return f"-{commit[:12]}"


def of_commit(commit: str) -> Kernel | None:
    """The kernel that was built of a commit before."""
    built = programs.unpacked().glob(f"*{suffix_of(commit)}/linux")
    return next(map(programs.of, built), None)


def commit_of(tree: Path, name: str) -> str:
    """The whole name of a commit of a git tree. Raises Refusal."""
    if not tree.is_dir():
        raise Refusal(f"{tree}: there is no such folder; a git tree of Linux is wanted")
    command = ["git", "-C", str(tree), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refusal(f"{tree} has no commit {name}: {done.stderr.strip() or 'git does not know it'}")
    return done.stdout.strip()


def checked_out(tree: Path, commit: str, to: Path) -> None:
    """Bring a folder to a commit of a git tree; files that it has already alike stay as they are. Raises Failure."""
    if not to.exists():
        run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(tree.absolute()), str(to)])
    run(["git", "-C", str(to), "checkout", "--quiet", "--detach", commit])
