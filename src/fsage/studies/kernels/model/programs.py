"""Which kernels are here: unpacked from packages, installed, or named by a path; and whether each works.

F2FS and BFQ are no part of Debian's kernels, but modules. A guest has no modprobe, so what a module needs is read from
modules.dep.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Collection
from functools import cache
from pathlib import Path

from fsage.api.model import Failure, Misuse, Refusal, filesystems

from . import run
from .boot import Kernel, boot, check, disk, folder

PACKAGES = ("user-mode-linux", "libc6")
PROGRAM = "linux.uml"
INTERPRETER = b"/lib64/ld-linux-x86-64.so.2\0"
OURS = b"ld.so\0"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
TRIAL_BYTES = 512 << 20
PRIVATE = (
    "Dir::Cache::pkgcache=",
    "Dir::Cache::srcpkgcache=",
    "Debug::NoLocking=1",
    "APT::Sandbox::User=root",
)
"""Options of apt for a user whose lists and packages are in folders of their own."""
HOW = "`fsage kernels --fetch bookworm` unpacks Debian's, without an administrator"
VIRTUAL = ("UML_TIME_TRAVEL_SUPPORT", "HIGH_RES_TIMERS", "FUSE_FS", "BLK_DEV_LOOP", "MQ_IOSCHED_DEADLINE")
"""What virtual seconds need, built in: a clock that jumps, to the nanosecond, and a disk that is a process."""
USED = ("f2fs", "bfq")
BESIDE = {"f2fs": ("crc32_generic",)}
"""What a module asks for only when it is used: modules.dep does not name it (F2FS: "Cannot load crc32 driver")."""
INDEX = "modules.dep"
HOW_VIRTUAL = "`fsage kernels --build linux-source-6.1` makes one in 10 to 30 minutes"


def unpacked() -> Path:
    """Where kernels are unpacked: in the environment, in the folder that a new set-up leaves as it is."""
    return Path(os.environ.get("FSAGE_VENV") or Path.home() / ".cache/fsage") / "programs/kernels"


def here() -> list[Kernel]:
    """All that are unpacked or installed, the oldest first."""
    kernels = list(map(of, unpacked().glob("*/linux")))
    installed = shutil.which(PROGRAM)
    if installed:
        versions = [path.name for path in (Path(installed).resolve().parents[1] / "lib/uml/modules").glob("*")]
        kernels.append(Kernel(versions[0] if len(versions) == 1 else "installed", Path(installed).resolve()))
    return sorted(kernels, key=lambda kernel: _release(kernel.name))


def _release(name: str) -> list[int]:
    return list(map(int, re.findall(r"\d+", name)))


def _there() -> str:
    return f"there is {', '.join(kernel.name for kernel in here()) or 'none'} here"


def named(name: str) -> Kernel:
    """The kernel of this path, release or beginning of a release (6.1). Raises Refusal."""
    if "/" in name or Path(name).is_file():
        return Kernel(name, Path(name).resolve())
    for kernel in here():
        if f"{kernel.name}.".startswith(f"{name}."):
            return kernel
    raise Refusal(f"kernel {name!r}: {_there()}. Name the path of a program, or {HOW}")


def why_absent(names: Collection[str], virtual: bool) -> str | None:
    """Which of these kernels are not here, which there are, and what to do; None where all are.

    Where seconds are `virtual`, also why one that is here cannot give them.
    """
    absent = []
    for name in sorted(names, key=_release):
        try:
            kernel = named(name)
        except Refusal:
            absent.append(name)
            continue
        why = why_not_virtual(kernel) if virtual else None
        if why:
            return why
    if not absent:
        return None
    return (
        f"kernel {', '.join(absent)}: {_there()}. `fsage kernels --fetch RELEASE` unpacks that of a release of Debian "
        "(bullseye, bookworm, trixie, sid), --build makes one, and --config 'only={kernel: [...]}' leaves cells out"
    )


def some(name: str | None, virtual: bool = False) -> Kernel:
    """The named one, else the newest that is here; its seconds can be `virtual`, if need be. Raises Refusal."""
    if name:
        kernel = named(name)
        why = why_not_virtual(kernel) if virtual else None
        if why:
            raise Refusal(why)
        return kernel
    able = [kernel for kernel in here() if not virtual or not why_not_virtual(kernel)]
    if able:
        return able[-1]
    if virtual:
        raise Refusal(f"device_model virtual needs a kernel with time travel; {_there()}: {HOW_VIRTUAL}")
    raise Refusal(f"no kernel that is a program is here: {HOW}")


@cache
def why_not_virtual(kernel: Kernel) -> str | None:
    """Why a kernel cannot give virtual seconds of a disk, by its own configuration; None where it can."""
    try:
        check(kernel)
        words = ["env", f"LD_LIBRARY_PATH={kernel.libraries}", str(kernel.program), "--showconfig"]
        lines = run(words, kernel.program.parent).splitlines()
    except (Refusal, Failure) as why:
        return str(why)
    missing = [f"CONFIG_{key}" for key in VIRTUAL if f"CONFIG_{key}=y" not in lines]
    if missing:
        return f"kernel {kernel.name} has no virtual time: {', '.join(missing)} is not built in; {HOW_VIRTUAL}"
    return None


def of(program: Path) -> Kernel:
    """The kernel in a folder of its own, which has its name."""
    return Kernel(program.parent.name, program)


def fetch(release: str) -> Kernel:
    """Unpack the kernel of a release of this distribution, and the C library that it wants. Raises Failure.

    The package's program names the machine's own loader; it gets one that lies beside it, found from its folder.
    """
    if not re.fullmatch(r"[a-z][a-z0-9.-]*", release):
        raise Misuse(f"--fetch {release!r}: the name of a release is wanted, such as bookworm or sid")
    unpacked().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=unpacked(), prefix=".") as name:
        place = Path(name)
        if KEYRING.exists():
            signed = f"[signed-by={KEYRING}] "
        else:
            signed = ""
        (place / "sources.list").write_text(f"deb {signed}{_mirror()} {release} main\n", encoding="utf-8")
        apt = _apt(
            place,
            f"Dir::Etc::sourcelist={place}/sources.list",
            "Dir::Etc::sourceparts=-",
            "Dir::State::status=/dev/null",  # or apt wants the version that is installed
        )
        run([*apt, "download", *PACKAGES], place / "packages")
        _extract(place / "packages", place / "root")
        return _put(place / "root")


def _apt(place: Path, *options: str) -> list[str]:
    """The words that start apt with these options, whose lists and packages are below a folder; the lists are read.

    Raises Failure with what apt says of the archive, and not with its forty words.
    """
    for part in ("lists/partial", "packages/partial"):
        (place / part).mkdir(parents=True)
    apt = ["apt-get", "-qq"]
    for option in (f"Dir::State::Lists={place}/lists", *options, *PRIVATE):
        apt += ["-o", option]
    try:
        run([*apt, "update"], place)
    except Failure as why:
        said = str(why).partition("E: ")[2]
        raise Failure(f"apt cannot read what there is to unpack: {said}" if said else str(why)) from why
    return apt


def _extract(packages: Path, to: Path) -> None:
    """Unpack all packages of a folder."""
    for package in sorted(packages.glob("*.deb")):
        run(["dpkg-deb", "--extract", str(package), str(to)], packages)


def _put(root: Path) -> Kernel:
    """Put what a kernel needs of unpacked packages into a folder named after its version. Raises Failure."""
    programs = list(root.glob(f"usr/bin/{PROGRAM}"))
    libraries = list(root.glob("**/libc.so.6"))
    releases = list(root.glob("usr/lib/uml/modules/*"))
    if not (programs and libraries and releases):
        raise Failure(f"the packages {', '.join(PACKAGES)} do not have a {PROGRAM}, a libc.so.6 and modules")
    made = root / "made"
    shutil.copytree(libraries[0].parent, made / "lib", symlinks=True)
    shutil.copy2(made / "lib/ld-linux-x86-64.so.2", made / "ld.so")
    program = programs[0].read_bytes()
    if program.count(INTERPRETER) != 1:
        raise Failure(f"{PROGRAM} of the package does not name {INTERPRETER[:-1].decode()} as its loader")
    (made / "linux").write_bytes(program.replace(INTERPRETER, OURS.ljust(len(INTERPRETER), b"\0")))
    (made / "linux").chmod(0o755)
    _copy_modules(releases[0], made / "modules")
    place = unpacked() / releases[0].name
    shutil.rmtree(place, ignore_errors=True)
    made.rename(place)
    return of(place / "linux")


def fetch_mkfs() -> list[str]:
    """Unpack programs of file systems that only guests have, as far as they are not here: their names. Raises Failure.

    They are this machine's own distribution's, and come with the libraries that are not installed.
    """
    systems = map(filesystems.named, filesystems.names(guests=True))
    lacking = [system for system in systems if system.guests_only and not shutil.which(f"mkfs.{system.name}")]
    for system in lacking:
        place = unpacked().parent / system.package
        shutil.rmtree(place, ignore_errors=True)
        apt = _apt(place, f"Dir::Cache::Archives={place}/packages")
        run([*apt, "install", "-y", "--no-install-recommends", "--download-only", "--reinstall", system.package], place)
        _extract(place / "packages", place)
        [program] = place.glob(f"**/sbin/mkfs.{system.name}")
        libraries = ":".join(sorted({str(path.parent) for path in place.glob("**/*.so*")}))
        launcher = unpacked().parent / program.name
        found = f"LD_LIBRARY_PATH={shlex.quote(libraries)} exec {shlex.quote(str(program))}"
        launcher.write_text(f'#!/bin/sh\n{found} "$@"\n', encoding="utf-8")
        launcher.chmod(0o755)
    return [system.package for system in lacking]


def _mirror() -> str:
    """The archive that this machine's apt uses: no address stands in fsage. Raises Failure."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main"]
    found = run([*words, "Origin: Debian"], Path("/")).split()
    if not found:
        raise Failure("apt knows no archive of Debian here: have its lists read (apt-get update), or name a program")
    return found[0]


_why_not: dict[tuple[Kernel, str], str | None] = {}
"""What was tried in this process: why a kernel cannot serve targets of a file system."""


def attempt(kernel: Kernel, names: tuple[str, ...] = ()) -> tuple[str, dict[str, str | None]]:
    """Boot a kernel, and have it make, mount and read file systems, or all: its release, and why not by file system.

    Raises Refusal, Failure.
    """
    names = names or tuple(filesystems.names(guests=True))
    with folder() as place:
        disks = [disk(place / name, TRIAL_BYTES) for name in names]
        work = [{"do": "try", "filesystem": name, "disk": number} for number, name in enumerate(names)]
        ended = boot(kernel, work, disks)
    if ended.why:
        raise Failure(ended.why)
    reasons = {name: answer.get("error", answer.get("why_not")) for name, answer in zip(names, ended.answers)}
    for name, why in reasons.items():
        _why_not[kernel, name] = f"kernel {kernel.name}: {name}: {why}" if why else None
    return ended.answers[0]["kernel"], reasons


def why_not(kernel: Kernel, filesystem: str) -> str | None:
    """Why a kernel cannot serve a target of this file system; None where it can. Tried once a process."""
    if (kernel, filesystem) not in _why_not:
        try:
            attempt(kernel, (filesystem,))
        except (Refusal, Failure) as why:
            _why_not[kernel, filesystem] = str(why)
    return _why_not[kernel, filesystem]


def module_places(program: Path, release: str) -> list[Path]:
    """Where the modules of a kernel may be: beside it, where it was unpacked, and where its package has them."""
    return [program.parent / "modules", program.parent.parent / "lib/uml/modules" / release]


def module_files(place: Path, name: str) -> list[Path]:
    """The files of a module and of all that it needs, in the order in which they are loaded; none: there is none."""
    if not (place / INDEX).exists():
        return []
    needed = {}
    for line in (place / INDEX).read_text(encoding="utf-8").splitlines():
        module, _, others = line.partition(":")
        needed[module.rpartition("/")[2].partition(".")[0]] = [*reversed(others.split()), module]
    if name not in needed:
        return []
    return [place / path for module in (*BESIDE.get(name, ()), name) for path in needed.get(module, ())]


def _copy_modules(place: Path, to: Path) -> None:
    """Copy the modules that are used, and the list of what they need."""
    to.mkdir()
    for name in USED:
        for path in module_files(place, name):
            kept = to / path.relative_to(place)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, kept)
    if (place / INDEX).exists():
        shutil.copy2(place / INDEX, to / INDEX)
