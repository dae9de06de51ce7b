"""The agent as one zip from which Python can run it, for hosts that have nothing of fsage."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from fsage.host.system.privilege import digest_of
from fsage.model import plugins

PACKAGE = Path(__file__).absolute().parents[2]  # not resolved: a file without a name has no other path than this
# It lies in memory, in a file without a name: there is nothing on disk that others could have put there. Its path is by
# process number, so that the agent's own programs find it while the agent lives.
BOOT = (
    "import os, sys; read = sys.stdin.buffer; fd = os.memfd_create('fsage'); "
    "open(fd, 'wb', closefd=False).write(read.read(int(read.readline()))); "
    "sys.path.insert(0, f'/proc/{os.getpid()}/fd/{fd}'); "
)
"""What `python3 -c` runs on another host, followed by what it shall do: the agent is read from standard input."""


@contextlib.contextmanager
def in_memory(content: bytes) -> Iterator[int]:
    """A file without a name; a program that inherits its number (`pass_fds`) finds it at `path_of`, whoever runs it.

    It is a copy of its own for each program: who runs that may write to it, and the agent's own code is root's.
    """
    number = os.memfd_create("fsage")
    try:
        with open(number, "wb", closefd=False) as file:
            file.write(content)
        yield number
    finally:
        os.close(number)


def path_of(number: int) -> str:
    """Where it is for who has inherited it."""
    return f"/proc/self/fd/{number}"


@contextlib.contextmanager
def at_hand(argv: Sequence[str], files: Mapping[str, str]) -> Iterator[tuple[list[str], list[int]]]:
    """A command whose files are in memory, and the descriptors that it must inherit to read them.

    In the command `{files}/NAME` is one of `files`, `{agent}` the whole agent, and `{python}` the present Python. So a
    program of the agent's own is `env PYTHONPATH={agent} {python} -m ...`.
    """
    texts = {f"{{files}}/{name}": text.encode() for name, text in files.items()}
    if any("{agent}" in word for word in argv):
        texts["{agent}"] = packed()
    words = [word.replace("{python}", sys.executable) for word in argv]
    with contextlib.ExitStack() as opened:
        numbers = []
        for name, content in texts.items():
            numbers.append(opened.enter_context(in_memory(content)))
            words = [word.replace(name, path_of(numbers[-1])) for word in words]
        yield words, numbers


def sent(code: bytes) -> bytes:
    """An agent as BOOT reads it, before all else on its standard input."""
    return f"{len(code)}\n".encode() + code


def packed() -> bytes:
    """All of the agent: the zip that it runs from, else one made of its files (the same files give the same bytes)."""
    if (whole := PACKAGE.parent).is_file():
        return whole.read_bytes()
    return zipped(_contents())


def zipped(contents: Mapping[str, bytes]) -> bytes:
    """Files, by their names, as a zip: compressed fast, because each task on another host sends it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(contents):
            archive.writestr(zipfile.ZipInfo(name), contents[name], zipfile.ZIP_DEFLATED, compresslevel=1)
    return buffer.getvalue()


given_digest = ""
"""The digest as who started this process took it. To read all files takes a guest as long as half a cell."""


def digest() -> str:
    """A digest of all that hosts run of fsage, 12 digits: what measured a cell, whatever its version is called."""
    return given_digest or _own_digest()


@cache
def _own_digest() -> str:
    return digest_of(_contents())[:12]


def _contents() -> dict[str, bytes]:
    """What hosts run of fsage, by its name in the zip: of the zip that it runs from, else of its files."""
    whole = PACKAGE.parent
    if whole.is_file():
        with zipfile.ZipFile(whole) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    return {name: path.read_bytes() if path.exists() else b"" for name, path in _files().items()}


def _files() -> dict[str, Path]:
    """Name in the zip -> file, which may be missing: what hosts run of fsage, its studies and an extension."""
    places = {"fsage": PACKAGE, "fsage/studies": PACKAGE / "studies"}
    files = {f"{name}/__init__.py": folder / "__init__.py" for name, folder in places.items()}
    for part in ("base", "layouts", "model", "host"):
        files |= {f"fsage/{path.relative_to(PACKAGE)}": path for path in (PACKAGE / part).rglob("*.py")}
    for name in ("__init__", "helper", "host", "model", "target"):
        files[f"fsage/api/{name}.py"] = PACKAGE / f"api/{name}.py"
    for study in plugins.studies():
        folder = plugins.folder(study)
        parts = [folder / "__init__.py"]  # a package is found in a zip by its __init__ alone
        for part in plugins.OF_HOSTS:
            package = folder / part
            parts += folder.glob(f"{part}.py")
            sources = list(package.rglob("*.py"))
            if sources:  # a folder of another version, left without any, is none
                parts += [package / "__init__.py", *sources]
        files |= {f"fsage/studies/{study}/{path.relative_to(folder)}": path for path in parts}
    return files
