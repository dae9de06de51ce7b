"""What a cell in a guest costs, beside a shell loop that does the same by hand: boot, copy, mount, write, filefrag.

Each of the loop's guests mounts a copy of the same image, writes the same file with dd, asks filefrag and halts. That
is what fsage's cell does, without its checks of the state, its counters and its record. Two guests run at a time, each
on a processor of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import cast

from fsage.base import Json
from fsage.host.verbs import checks
from fsage.studies.kernels import workloads as new_file
from fsage.studies.kernels.host import asked, uml
from fsage.studies.kernels.model import boot, images, programs, registers
from fsage.studies.paf.model import Populate

MIB = 1 << 20
FILE_MIB = 64
ALONE = """
mount -t proc none /proc
mkdir /dev/state && mount /dev/ubda /dev/state
dd if=/dev/zero of=/dev/state/new bs=16M count={count} oflag=direct status=none
filefrag /dev/state/new >{said}
umount /dev/state
echo o >/proc/sysrq-trigger
sleep 60
"""


def ask(spec: Json, verb: str, **request: object) -> Json:
    """The answer of a target of guests."""
    answer = uml.Uml.answered(verb, {"target": spec, "request": request}, checks.checked(request, None), False)
    return cast(Json, answer)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def by_hand(kernel: boot.Kernel, image: images.Image | None, number: int, place: Path) -> None:
    """One guest that a shell script drives. Without an image it only starts and halts."""
    own = place / f"hand{number}"
    own.mkdir()
    words = [f"./{kernel.program.name}"]
    if registers.are_hidden(kernel.name, kernel.program):
        words = [*registers.FRONT, *words, *registers.WITHOUT_AVX]
    words += ["mem=384M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "quiet"]
    words += ["con=null", "con0=null,fd:2", "ssl=null", f"uml_dir={own}/", "init=/bin/sh"]
    script = "mount -t proc none /proc\necho o >/proc/sysrq-trigger\nsleep 60\n"
    if image:
        script = ALONE.format(count=FILE_MIB // 16, said=own / "said")
        subprocess.run(["cp", "--sparse=always", image.path, own / "copy"], check=True)
        (own / "copy").chmod(0o600)
        words.append(f"ubda={own / 'copy'}")
    (own / "script").write_text(script)
    environment = {**os.environ, "TMPDIR": "/dev/shm", "LD_LIBRARY_PATH": str(kernel.libraries)}
    command = [*words, "--", str(own / "script")]
    allowed = os.sched_getaffinity(0)
    with boot.processor(Event()) as processor:
        os.sched_setaffinity(0, {processor})  # of this thread, and what it starts
        subprocess.run(command, cwd=kernel.program.parent, env=environment, capture_output=True, check=True)
        os.sched_setaffinity(0, allowed)
    if image and "extent" not in (own / "said").read_text():
        raise SystemExit(f"the guest by hand wrote no file: {own}")
    shutil.rmtree(own)


def cells_of(claim: Json, names: range) -> list[Json]:
    """Cells that each write one new file."""
    params = new_file.Params(file_size=FILE_MIB * MIB, transfer_size=16 * MIB, iteration=1)
    phases = new_file.commands(params, claim)  # type: ignore[arg-type] # as a guest gives it
    about = {"kind": "planned", "attempt": 1, "order": 1, "params": params.model_dump(), "phases": phases}
    return [{"name": f"cell{name}", **about} for name in names]


def main(count: int) -> None:
    """Print ratios of `count` cells."""
    kernel = programs.some(None)
    with tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/var/tmp") as folder:
        place = Path(folder)
        os.environ["XDG_CACHE_HOME"] = str(place / "cache")
        boots = [seconds(lambda: boot.boot(kernel, [], [])) for _ in range(3)]
        bare = [seconds(partial(by_hand, kernel, None, number, place)) for number in range(3)]
        print(f"a boot with Python: {min(boots):.2f} s, {min(boots) / min(bare):.2f} times a boot of a shell")

        spec = {"name": "bench", "kind": "uml", "size_gib": 2, "amount_mib": 64, "home": str(place / "home")}
        claim = ask(spec, "claim")["claim"]
        steps = [Populate(1, 60, (4 * MIB,), 1, "fallocate", MIB, 4).to_json()]
        about = {"study": "bench", "state": "60.00", "steps": steps, "claim": claim["id"]}
        ask(spec, "scrub", **about)
        [image] = (place / "cache/fsage/images").glob("*.img")
        with ThreadPoolExecutor(asked.GUESTS) as pool:
            hand_s = seconds(
                lambda: list(pool.map(lambda n: by_hand(kernel, images.Image(image, {}), n, place), range(count)))
            )
        fsage_s = seconds(lambda: ask(spec, "measure", **about, cells=cells_of(claim, range(count))))
        print(
            f"{count} cells, two guests at a time: {fsage_s / count:.2f} s a cell, {fsage_s / hand_s:.2f} times the "
            f"loop's {hand_s / count:.2f} s; {asked.TOGETHER} cells share a guest, and a loop's have one each"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
