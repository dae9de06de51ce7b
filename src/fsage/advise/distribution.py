"""Which files the advice is for: how many of which size, from a small table, a list of sizes, or a folder."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import yaml

from fsage.base import message
from fsage.base.sizes import LARGEST_BYTES, parse_size
from fsage.layouts.machine import regular_files
from fsage.text import yaml_text
from fsage.text.strict import show

MOST_TABLE_BYTES = 16 << 20
"""Most rows of a table; a list of sizes, a line each, may be as long as it likes."""
LONGEST_LINE = 1000
MOST_SIZES = 1_000_000
MOST_COUNT = 1e15
AMOUNTS = ("count", "weight")
"""How many files of a size there are, in numbers or in shares: the scale does not matter."""


@dataclass(frozen=True)
class Distribution:
    """`files`: size in bytes -> how many, in numbers or shares. `empty`: those without a byte, which cost no time."""

    files: Mapping[int, float]
    source: str
    empty: float = 0.0

    @property
    def bytes(self) -> float:
        """All their bytes."""
        return math.fsum(size * count for size, count in self.files.items())

    def share_of_bytes(self, sizes: Iterable[int]) -> float:
        """The share of all bytes that lies in files of these sizes, 0 to 1."""
        return math.fsum(size * self.files[size] for size in sizes) / self.bytes

    def share_of_files(self, below_bytes: int) -> float:
        """The share of all files that are smaller than this, 0 to 1; the empty ones are."""
        smaller = math.fsum(count for size, count in self.files.items() if size < below_bytes)
        return (smaller + self.empty) / (math.fsum(self.files.values()) + self.empty)


def single_size(size_bytes: int) -> Distribution:
    """One file: that of the study."""
    return Distribution({size_bytes: 1.0}, "the file that the study measured")


def read(what: str) -> Distribution:
    """The files of a folder, or of a table: `.yaml` or `.csv` with size and count (or weight), else a size a line.

    `-` is standard input, a size a line, as `find DIR -type f -printf '%s\\n'` prints. Raises ValueError for what
    cannot be read, with the place of the first line that is wrong.
    """
    path = Path(what)
    try:
        if what != "-" and path.is_dir():
            return _made(((str(file), file.lstat().st_size, 1) for file in regular_files(path)), what)
        if what == "-":
            return _made(_of_lines(sys.stdin.buffer, "standard input"), "standard input")
        rows = {".yaml": _of_yaml, ".yml": _of_yaml, ".csv": _of_csv}.get(path.suffix.lower())
        with message.open_file(path) as stream:
            if rows is None:
                return _made(_of_lines(stream, what), what)
            return _made(rows(message.bounded(stream, MOST_TABLE_BYTES).decode(UTF_8), what), what)
    except OSError as error:
        raise ValueError(f"--files {error.filename or what}: {error.strerror}") from error
    except message.NotTaken as error:
        raise ValueError(f"--files {what}: {error}") from error
    except csv.Error as error:
        raise ValueError(f"--files {what}: is no CSV: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"--files {what}: is not text in UTF-8") from error


UTF_8 = "utf-8-sig"
"""As spreadsheets write it, with a mark before the first line, or without."""
Row = tuple[str, object, object]
"""Where it stands, size, count."""


def _of_lines(stream: IO[bytes], what: str) -> Iterator[Row]:
    for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE), b""), 1):
        if line.strip():
            yield f"{what}, line {number}", line.decode(UTF_8).rstrip("\r\n"), 1


def _of_csv(text: str, what: str) -> Iterator[Row]:
    table = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    heads = [name.strip() for name in table.fieldnames or []]
    amount = _amount(heads, f"{what}, line 1")
    table.fieldnames = heads
    for row in table:
        where = f"{what}, line {table.line_num}"
        if None in row:
            raise ValueError(f"--files {where}: has more values than {', '.join(heads)}; write numbers without commas")
        yield where, row["size"], row[amount]


def _of_yaml(text: str, what: str) -> Iterator[Row]:
    try:
        document = yaml_text.load(text)
    except yaml.YAMLError as error:
        raise ValueError(
            f"--files {what}: is not YAML: {yaml_text.explain(error).removeprefix('not YAML: ')}"
        ) from error
    if not isinstance(document, list) or not all(isinstance(row, dict) for row in document):
        raise ValueError(f"--files {what}: {show(document)} is not a list such as [{{size: 64M, count: 10}}, ...]")
    for number, row in enumerate(document, 1):
        amount = _amount(list(map(str, row)), f"{what}, entry {number}")
        yield f"{what}, entry {number}", row["size"], row[amount]


def _amount(heads: list[str], where: str) -> str:
    named = [name for name in AMOUNTS if name in heads]
    if len(named) != 1 or sorted(heads) != sorted(["size", *named]):
        raise ValueError(f"--files {where}: has {', '.join(heads) or 'nothing'}; allowed: size and count, or weight")
    return named[0]


def _made(rows: Iterable[Row], source: str) -> Distribution:
    files: Counter[int] = Counter()
    empty = 0.0
    for where, size, count in rows:
        try:
            size_bytes = _size(size)
            number = _number(count)
        except ValueError as error:
            raise ValueError(f"--files {where}: {error}") from error
        if size_bytes:
            files[size_bytes] += number  # type: ignore[assignment]  # Counter is typed for whole numbers only
        else:
            empty += number
        if len(files) > MOST_SIZES:
            raise ValueError(f"--files {source}: has more than {MOST_SIZES:,} different sizes: round them first")
    files = Counter({size: count for size, count in files.items() if count})
    if not files:
        raise ValueError(f"--files {source}: names no file with a byte in it: there is nothing to advise on")
    return Distribution(dict(sorted(files.items())), source, empty)


def _size(value: object) -> int:
    """Bytes, or text with its unit; 0 is an empty file."""
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else None
    if text is None or text.startswith("-"):
        raise ValueError(f"size {show(value)} is not a number of bytes from 0 to {LARGEST_BYTES}, nor one such as 64M")
    if text.strip("0") == "" and text:
        return 0
    return parse_size(text)


def _number(value: object) -> float:
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            number = float(value)
        else:
            number = math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= MOST_COUNT:
        raise ValueError(f"{show(value)} files of a size: a number from 0 to 10^15 is allowed")
    return number
