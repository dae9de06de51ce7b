"""fio, IOR, mdtest and BLAST from Apptainer images, where a target declares their folder (`fsage_target.containers`).

Nothing else runs in a container: neither the agent, nor mkfs and mount, nor the MPI launcher, which starts the
container on each rank (the hybrid model). A container sees of the host what Apptainer shows it (devices among that)
and the target's mounts.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

from fsage.base import Json, Refusal
from fsage.host.system import commands
from fsage.model import tools
from fsage.model.claim import Claim

OF_MPI = ("OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory", "TMPDIR")
"""Variables that have Open MPI 4 and 5 make its files in a folder of fsage's: a process alone leaves them behind."""
VERSION_S = 20  # within which a program names its version
SHOWN = 200  # characters of its output
NEEDED = "fio"  # calibrates every target; the others are used where they are


def digests(folder: str | None) -> dict[str, str]:
    """Path -> SHA-256 of each image for measuring that is there."""
    found: dict[str, str] = {}
    if not folder:
        return found
    for name in tools.names():
        image = tools.named(name).image
        if image and Path(folder, image).is_file():
            path = Path(folder, image)
            found[str(path)] = _sha256(path, path.stat().st_mtime_ns)
    return found


def missing(folder: str | None, image: str = NEEDED) -> list[str]:
    """What this host lacks for running an image of the folder, and how it comes; empty where no folder is declared."""
    if folder is None:
        return []
    path = Path(folder, f"{image}.sif")
    lacking = []
    if not shutil.which("apptainer"):
        lacking.append("apptainer: install the package apptainer, or declare no fsage_target.containers")
    if not path.is_file():
        lacking.append(f"{path}: build it with `apptainer build {path} envs/{image}.def`, where Apptainer may build")
    return lacking


def check(folder: str | None, image: str = NEEDED) -> None:
    """`Refusal` where this host cannot run an image of the folder that is declared."""
    lacking = missing(folder, image)
    if lacking:
        raise Refusal(
            f"fsage_target.containers is {folder}, and {os.uname().nodename} lacks {'; '.join(lacking)}; "
            "nothing was touched"
        )


def verify(claim: Claim) -> None:
    """`Refusal` unless the images are those with which the target was claimed and calibrated."""
    check(claim.get("containers"))
    now = digests(claim.get("containers"))
    for path in sorted(now.keys() | claim.get("images", {}).keys()):
        before = claim["images"].get(path, "none")
        digest = now.get(path, "none")
        if before != digest:
            raise Refusal(
                f"{path} on {os.uname().nodename} is another image (SHA-256 {digest}) than when target "
                f"{claim['target']} was claimed ({before}): put that one back, or release the target and claim it again"
            )


@functools.cache
def _sha256(path: Path, modified_ns: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as image:
        while block := image.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def versions(images: str | None, launcher: str) -> dict[str, str | None]:
    """The version that each measuring tool gives of itself, from its image if there are; None where there is none.

    srun is asked only where it launches: without Slurm's configuration it may wait for long.
    """
    found = {}
    for name in tools.names():
        asked = name != "srun" or launcher == name
        found[name] = _version(name, [*tools.command(name, images), *tools.named(name).options]) if asked else None
    return found


def why_unusable(images: str | None) -> str | None:
    """Why fio cannot be used on this host, found by having it name its version; None where it can."""
    argv = [*tools.command(NEEDED, images), *tools.named(NEEDED).options]
    place = shutil.which(argv[0])
    if not place:
        return f"{argv[0]} is not installed on {os.uname().nodename}: install the package {argv[0]}"
    asked = " ".join([place, *argv[1:]])
    answer = _answer(NEEDED, argv)
    output = (answer["stdout"] + answer["stderr"]).strip()
    if answer["timed_out"]:
        why = f"did not end within {VERSION_S} s"
    elif answer["rc"] < 0:
        why = f"was ended by signal {-answer['rc']} ({signal.strsignal(-answer['rc'])})"
    elif answer["rc"]:
        why = f"ended with status {answer['rc']}: {output[-SHOWN:] or 'it printed nothing'}"
    elif tools.version_in(NEEDED, output) is None:
        why = f"names no version of {NEEDED}, but prints {output[:SHOWN]!r}"
    else:
        return None
    return f"`{asked}`{_behind(place)} {why}. Repair it, or name another one for ./run: FSAGE_FIO=/path/to/fio"


def found() -> str:
    """The program that this host takes for fio, links followed, with its version, where it is usable."""
    place = str(shutil.which(NEEDED))
    return f"{place}{_behind(place)} ({NEEDED} {_version(NEEDED, [NEEDED, *tools.named(NEEDED).options])})"


def _behind(place: str) -> str:
    """What a link leads to, such as the one that ./run keeps of FSAGE_FIO."""
    behind = os.path.realpath(place)
    if behind == place:
        return ""
    return f", which is {behind},"


def _version(tool: str, argv: list[str]) -> str | None:
    if not shutil.which(argv[0]):
        return None
    answer = _answer(tool, argv)
    if answer["timed_out"]:
        return None
    return tools.version_in(tool, answer["stdout"] + answer["stderr"])


def _answer(tool: str, argv: list[str]) -> Json:
    """What a tool says that is to name its version, within a time limit."""
    writes = tools.named(tool).writes
    with tempfile.TemporaryDirectory(prefix="fsage-probe-") if writes else contextlib.nullcontext("/") as directory:
        env = {**os.environ, **{name: directory for name in OF_MPI}} if writes else None
        (answer,) = commands.run([argv], lambda: None, VERSION_S, cwd=directory, env=env)
    return answer
