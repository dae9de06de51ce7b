"""fio, IOR, mdtest and BLAST from Apptainer images, where a target declares their folder (`fsage_target.containers`).

Nothing else runs in a container: neither the agent, nor mkfs and mount, nor the MPI launcher, which starts the
container on each rank (the hybrid model). Of the host a container sees what Apptainer shows it (devices among that)
and the target's mounts.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fsage.host import tools
from fsage.model.claim import Claim
from fsage.model.errors import Refusal

NEEDED = "fio"  # calibrates every target; the others are used where they are
ANALYSIS = "analysis"  # what reports are made in, by Snakemake


def command(tool: str, folder: str | None, mounts: Iterable[str] = ()) -> list[str]:
    """The words that start a tool, its own options to follow: its name, in front of it what puts it into its image.

    >>> command("fio", "/images", ["/mnt/0"])
    ['apptainer', 'exec', '--bind', '/mnt/0', '/images/fio.sif', 'fio']
    >>> command("fio", None, ["/mnt/0"])
    ['fio']
    """
    image = tools.of(tool).image
    if folder is None or image is None:
        return [tool]
    binds = [word for mount in mounts for word in ("--bind", mount)]
    return ["apptainer", "exec", *binds, f"{folder}/{image}", tool]


def start(claim: Mapping[str, Any], tool: str, *folders: str) -> list[str]:
    """`command` on a claimed target, whose mounts the container sees; other folders too where they are named."""
    return command(tool, claim.get("containers"), [*(store["mount"] for store in claim["stores"]), *folders])


def digests(folder: str | None) -> dict[str, str]:
    """Path -> SHA-256 of each image for measuring that is there."""
    images = {image for image in (tools.of(name).image for name in tools.names()) if image}
    paths = sorted(Path(folder, image) for image in images) if folder else []
    return {str(path): _sha256(path, path.stat().st_mtime_ns) for path in paths if path.is_file()}


def missing(folder: str | None, image: str = NEEDED) -> list[str]:
    """What this host lacks for running an image of the folder, and how it comes; empty where no folder is declared."""
    if folder is None:
        return []
    path, lacking = Path(folder, f"{image}.sif"), []
    if not shutil.which("apptainer"):
        lacking.append("apptainer: install the package that holds it, or declare no fsage_target.containers")
    if not path.is_file():
        lacking.append(f"{path}: build it with `apptainer build {path} envs/{image}.def`, where Apptainer may build")
    return lacking


def check(folder: str | None, image: str = NEEDED) -> None:
    """`Refusal` where this host cannot run an image of the folder that is declared."""
    if lacking := missing(folder, image):
        raise Refusal(
            f"fsage_target.containers is {folder}, and {os.uname().nodename} lacks {'; '.join(lacking)}; "
            "nothing was touched"
        )


def verify(claim: Claim) -> None:
    """`Refusal` unless the images are those with which the target was claimed and calibrated."""
    check(claim.get("containers"))
    now = digests(claim.get("containers"))
    for path in sorted(now.keys() | claim.get("images", {}).keys()):
        before, found = claim["images"].get(path, "none"), now.get(path, "none")
        if before != found:
            raise Refusal(
                f"{path} on {os.uname().nodename} is another image (SHA-256 {found}) than when target "
                f"{claim['target']} was claimed ({before}): put that one back, or release the target and claim it again"
            )


@functools.cache
def _sha256(path: Path, modified_ns: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as image:
        while block := image.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def versions(images: str | None) -> dict[str, str | None]:
    """The version that each measuring tool gives of itself, from its image if there are; None where there is none."""
    return {name: _version(name, [*command(name, images), *tools.of(name).options]) for name in tools.names()}


def version_in(tool: str, said: str) -> str | None:
    """The version in what a tool says of itself; None if it is not there.

    >>> version_in("ior", "IOR-4.1.0+dev: MPI Coordinated Test of Parallel I/O")
    '4.1.0+dev'
    >>> version_in("blastn", "blastn: 2.12.0+\\n Package: blast 2.12.0, build Feb 17 2022 10:04:48")
    '2.12.0+'
    """
    named = tools.of(tool).before
    match = re.search(rf"^{named}(\d+\.\d[\w.+-]*)" if named else r"(\d+\.\d[\w.+-]*)", said, re.MULTILINE)
    return match[1] if match else None


def _version(tool: str, argv: list[str]) -> str | None:
    if not shutil.which(argv[0]):
        return None
    place = tempfile.TemporaryDirectory(prefix="fsage-probe-") if tools.of(tool).writes else contextlib.nullcontext("/")
    with place as directory:
        try:
            done = subprocess.run(
                argv,
                cwd=directory,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=20,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
    return version_in(tool, done.stdout + done.stderr)
