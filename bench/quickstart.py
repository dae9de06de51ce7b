"""Quickstart from a bare clone, as root: the whole, the set-up, the claim, and what a change of state takes.

Then once more as a plain user, for whom a kernel that is a program mounts the file systems, and nothing is timed.

A change of state lasts from the end of a state's last cell to the begin of the next one's first: an end and a start of
Ansible, all checks, building the state, and looking at it. A shell loop builds the same files on a file system of the
same size: it deletes, allocates, and mounts again. Goals: 75 s the whole, 5 s the claim, 3 s a change beyond the loop.

The target is one of its own, which goes in the end with its image.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from fsage.model import structure

ROOT = Path(__file__).resolve().parents[1]
NAME = f"bench{os.getpid()}"
USER = {name: os.environ[name] for name in ("HOME", "LANG", "SSH_AUTH_SOCK") if name in os.environ}
"""What a user's shell has, and this environment of Python does not change."""
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
LOOP = """
set -e
mount -o loop "$1" "$2"
mkdir -p "$2/filler"
cd "$2/filler"
{changes}
cd /
sync -f "$2"
umount "$2"
mount -o loop "$1" "$2"
umount "$2"
"""


def main() -> None:
    """A line for each."""
    place = Path(tempfile.mkdtemp(prefix="fsage-bench-", dir="/var/tmp"))
    clone = place / "clone"
    try:
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        declare(clone, place)
        began = time.monotonic()
        run(clone, "true")
        set_up_s = time.monotonic() - began
        run(clone, "fsage", "--target", NAME, "claim")
        claim_s = time.monotonic() - began - set_up_s
        run(clone, "fsage", "--target", NAME, "run", "quickstart")
        whole_s = time.monotonic() - began
        print(
            f"quickstart from a bare clone {whole_s:.0f} s, of which set-up {set_up_s:.1f} s and claim {claim_s:.1f} s"
        )
        changes(clone, place)
        print(f"quickstart from a bare clone as a plain user {as_user(place):.0f} s")
    finally:
        if (place / "home" / NAME / "claim.json").exists():
            run(clone, "fsage", "--target", NAME, "release", "--images")
        shutil.rmtree(place)


def as_user(place: Path) -> float:
    """Seconds from a clone of a user's own, in an empty home, to the end of quickstart."""
    home = place / "nobody"
    clone = home / "clone"
    place.chmod(0o711)
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    subprocess.run(["chown", "--recursive", "65534:65534", home], check=True)
    began = time.monotonic()
    run(clone, "fsage", "run", "quickstart", front=NOBODY, HOME=str(home))
    return time.monotonic() - began


def declare(clone: Path, place: Path) -> None:
    """Copy the inventory `local` for a target with all that it makes in `place`."""
    shutil.copytree(clone / "inventories/local", clone / "inventories" / NAME)
    path = clone / "inventories" / NAME / "group_vars/all/target.yml"
    spec = yaml.safe_load(path.read_text())
    spec["fsage_target"] |= {"name": NAME, "image_dir": f"{place}/images", "mount_dir": f"{place}/mnt"}
    spec["fsage_target"]["home"] = f"{place}/home"
    path.write_text(yaml.safe_dump(spec))


def run(clone: Path, *words: str, front: Sequence[str] = (), **variables: str) -> None:
    """What a user types behind ./run; `front`: words that make the present user another."""
    paths = [folder for folder in os.environ["PATH"].split(":") if not folder.startswith(str(ROOT))]
    env = {**USER, **variables, "PATH": ":".join(paths)}
    ran = subprocess.run(
        [*front, "./run", *words], cwd=clone, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if ran.returncode:
        raise SystemExit(f"./run {' '.join(words)}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")


def changes(clone: Path, place: Path) -> None:
    """Each change of state, and the shell loop that builds the same."""
    found = [json.loads(path.read_text()) for path in (clone / "results/records" / NAME).rglob("*.json")]
    records = sorted(found, key=lambda record: record["began"])
    image = place / "loop.img"
    size_bytes = next((place / "images").rglob("*.img")).stat().st_size
    with open(image, "wb") as file:
        file.truncate(size_bytes)
    subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", image], check=True)
    beyond_s = []
    there: set[str] = set()
    for before, after in zip([None, *records], records, strict=False):
        if before and before["state"] == after["state"]:
            continue
        wanted = filler(clone, after)
        loop_s = built(image, place / "loop", there, wanted)
        there = set(wanted)
        if not before:
            continue
        took_s = (moment(after["began"]) - moment(before["ended"])).total_seconds()
        beyond_s.append(took_s - loop_s)
        change = f"{before['state']} to {after['state']}"
        print(f"{change}: {took_s:.1f} s, a shell loop {loop_s:.1f} s: {took_s / loop_s:.1f}x")
    print(f"a change of state: {statistics.median(beyond_s):.1f} s beyond a shell loop (median of {len(beyond_s)})")


def moment(text: str) -> datetime:
    """A time of a record."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def filler(clone: Path, record: dict[str, Any]) -> dict[str, int]:
    """The files of a record's state: name -> bytes."""
    evidence = clone / "results/states" / NAME / "quickstart" / f"{record['state']}.json"
    known = json.loads(evidence.read_text())
    steps = structure.read_all(known["steps"])
    claim = json.loads((clone / "results/targets" / f"{NAME}.json").read_text())
    wanted = structure.expected(steps, claim["capacity_bytes"])
    return {f"g{generation}-{index}": size for (generation, index), size in wanted.items()}


def built(image: Path, mount: Path, there: set[str], wanted: dict[str, int]) -> float:
    """Seconds in which a shell loop makes the files that are wanted of those that are there."""
    mount.mkdir(exist_ok=True)
    words = [f"rm {name}" for name in sorted(there - wanted.keys())]
    words += [f"fallocate -l {size} {name}" for name, size in sorted(wanted.items()) if name not in there]
    began = time.monotonic()
    command = ["unshare", "--mount", "sh", "-c", LOOP.format(changes="\n".join(words)), "sh", image, mount]
    subprocess.run(command, check=True)
    return time.monotonic() - began


if __name__ == "__main__":
    main()
