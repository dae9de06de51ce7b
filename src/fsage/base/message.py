"""What others hand us, files and JSON: read within limits, or refused in a sentence; and how people are told.

Only regular files are opened, so that none hangs, and no more is read than allowed. What is read is data and nothing
else: its words name no file before they were compared with NAME.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

DEPTH = 32  # deeper than anything that fsage writes
DIGITS = 20  # of a whole number: 2^64 has 20
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.,+@=-]{0,199}"
"""What a study, a state, a cell or an identity may be called: no part of a path, no space, no control character."""


class _Output(io.FileIO):
    """Standard output, which names itself where it cannot be written."""

    def write(self, data: Any) -> Any:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


@contextlib.contextmanager
def whole_output() -> Iterator[None]:
    """Raise OSError naming standard output where what was printed is not written. Closed input is an empty one."""
    out = sys.stdout
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # as long as the process
    if out is None:
        raise OSError(errno.EBADF, "it is closed, and the answer goes there", "standard output")
    if id(out) == id(sys.__stdout__):  # not a test's
        raw = io.BufferedWriter(_Output(out.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(raw, out.encoding, out.errors, line_buffering=out.isatty())
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python tries again at its end
            if not isinstance(error, BrokenPipeError):  # of a reader that has enough, such as head
                raise


class Unacceptable(ValueError):
    """What came is not to be used; the text says why, without its beginning: "{what came} {text}"."""


def read(text: bytes | str, most_bytes: float = math.inf) -> object:
    """The value of a JSON text. Raises Unacceptable: too large, too deep, not JSON, or with what JSON has not."""
    if len(text) > most_bytes:
        raise Unacceptable(f"has {len(text)} bytes, and at most {most_bytes} are taken")
    try:
        value = json.loads(text, parse_constant=_no_number, parse_int=_whole)
    except RecursionError:
        raise Unacceptable(f"is nested deeper than {DEPTH} levels") from None
    except Unacceptable:
        raise
    except ValueError as error:  # UnicodeDecodeError too
        if not text.strip():
            raise Unacceptable("is empty: what was to write it has failed, and said why") from None
        raise Unacceptable(f"is not JSON ({error})") from None
    check(value)
    return value


def read_block(text: bytes | str, most_bytes: float = math.inf) -> dict[str, Any]:
    """`read` of a JSON object."""
    value = read(text, most_bytes)
    if not isinstance(value, dict):
        raise Unacceptable(f"is {shown(value)}, and a block of keys is wanted")
    return value


def check(value: object) -> None:
    """Raise Unacceptable for what is nested too deep, for infinite numbers, and for text that has no bytes in UTF-8."""
    level = [value]
    for _ in range(DEPTH):
        below: list[object] = []
        for block in level:
            if isinstance(block, dict):
                below += block.keys()
                below += block.values()
            elif isinstance(block, list):
                below += block
            elif isinstance(block, float) and not math.isfinite(block):
                _no_number(str(block))
            elif isinstance(block, str):
                _text(block)
        if not below:
            return
        level = below
    raise Unacceptable(f"is nested deeper than {DEPTH} levels")


def is_name(value: object) -> bool:
    """Whether a value is a name that a file may have."""
    return isinstance(value, str) and re.fullmatch(NAME, value) is not None


def shown(value: object) -> str:
    """A value for a message: short, and with no character that a terminal obeys."""
    text = ascii(value)
    if len(text) <= 80:
        return text
    return f"{text[:77]}..."


def printable(text: str, keep: str = "") -> str:
    """The text with whatever is no printable character written as in Python: '\\x1b[2J', '\\n', '\\udcff'.

    That is what steers a terminal: control characters, those that change the direction of writing, and bytes that are
    no UTF-8.
    """
    return "".join(
        character if character.isprintable() or character in keep else ascii(character)[1:-1] for character in text
    )


def lines(text: str) -> str:
    """A text of several lines, printable (`printable`)."""
    return printable(text, keep="\n")


CLEAR = "\r\x1b[K"
"""What empties the line of a terminal: another job's progress may stand in it."""


def say(text: str) -> None:
    """To people, beside what a command prints: on standard error, in place of a line that changes there."""
    clear = CLEAR if sys.stderr.isatty() else ""
    print(clear + lines(f"fsage: {text}"), file=sys.stderr)


def below(folder: Path, path: Path) -> bool:
    """Whether a path, its links followed, lies in a folder."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _no_number(word: str) -> NoReturn:
    raise Unacceptable(f"has the number {word}, which is none")


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > DIGITS:
        raise Unacceptable(f"has a whole number of {len(digits)} digits")
    return int(digits)


def _text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unacceptable(f"has text that is no UTF-8: {shown(text)}") from None


KINDS_OF_FILE = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a FIFO",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


class NotTaken(ValueError):
    """Content is not read: why, as the end of a sentence that begins with its name."""


def open_file(path: Path | str, follow: bool = True) -> io.BufferedReader:
    """Open a regular file. Raises NotTaken for what is none, and OSError.

    It is looked at before it is opened, since opening moves some devices, and again when it is open.
    """
    check_regular(os.stat(path, follow_symlinks=follow).st_mode)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        check_regular(os.fstat(fd).st_mode)
    except NotTaken:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb")


def check_regular(mode: int) -> None:
    """Raise NotTaken for the mode of what is no regular file."""
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in KINDS_OF_FILE.items() if is_kind(mode)), "a link")
        raise NotTaken(f"it is {kind}, where a file is expected")


def check_place(path: Path) -> None:
    """Raise ValueError where no file is put: a folder, a device, a pipe or a link is there.

    A file that is renamed into its place would take the place of /dev/stdout too, for all of the machine.
    """
    try:
        check_regular(path.lstat().st_mode)
    except OSError:  # nothing is there, or whoever writes says why that cannot be
        return
    except NotTaken as why:
        raise ValueError(f"{path}: {why}; it is left as it is") from None


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its place once it is written whole. Raises OSError that names it; what was there then stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as out:
            yield out
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text whole or not at all. Raises OSError."""
    with whole_file(path) as out:
        out.write(text.encode())


def bounded(stream: IO[bytes], most_bytes: int) -> bytes:
    """All of a stream. Raises NotTaken when there is more than allowed."""
    content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise NotTaken(f"it is longer than {most_bytes:,} bytes, the most that is read")
    return content


def read_file(path: Path | str, most_bytes: int) -> bytes:
    """All of a regular file. Raises NotTaken, OSError."""
    with open_file(path) as stream:
        return bounded(stream, most_bytes)
