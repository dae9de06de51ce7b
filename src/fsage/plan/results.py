"""Where results lie. One class knows the paths; the DAG and the commands ask it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from fsage import seam
from fsage.base import Json, Refusal, message, typed
from fsage.study.cells import Cell

T = TypeVar("T")
REMEDY = "move it away and give the same command again"


class Row(TypedDict):
    """What a manifest says of a cell: it has a record, or `why` it has none."""

    cell: str
    params: Json
    why: str | None


class Manifest(TypedDict):
    """What a plan reads of the manifest of a state (fsage.records.store)."""

    cells: list[Row]


@dataclass(frozen=True)
class Results:
    """The results of one study on one target below `root`."""

    root: Path
    target: str
    study: str

    def _below(self, folder: str, *names: str) -> Path:
        return self.root.joinpath(folder, self.target, self.study, *names)

    @property
    def claim(self) -> Path:
        """Copy of the target's claim."""
        return self.root / "targets" / f"{self.target}.json"

    @property
    def last_claim(self) -> Path:
        """Copy of the claim, or, of a released target, of its last claim."""
        if self.claim.exists():
            return self.claim
        return self.claim.with_suffix(".released.json")

    @property
    def seed(self) -> Path:
        """The seed that was drawn for a study that declares none."""
        return self.root / "seeds" / self.target / f"{self.study}.json"

    @property
    def amount(self) -> Path:
        """How much each task moves in a study that copies layouts (fsage.run.request)."""
        return self.root / "amounts" / self.target / f"{self.study}.json"

    def state(self, state: str) -> Path:
        """Evidence of a state when it was first reached."""
        return self._below("states", f"{state}.json")

    def manifest(self, state: str, cells: Iterable[Cell]) -> Path:
        """The manifest of a state with these planned cells (fsage.records.store): what its job makes for Snakemake.

        More cells, or others, are another file.
        """
        planned = [[cell.name, cell.params] for cell in cells]
        digest = hashlib.sha256(json.dumps(planned, sort_keys=True).encode()).hexdigest()[:12]
        return self.manifests / f"{state}.{digest}.json"

    @property
    def manifests(self) -> Path:
        """The folder of all manifests."""
        return self._below("manifests")

    def manifests_of(self, state: str) -> list[Path]:
        """Those of a state, for whatever cells, the last one that was written last."""
        found = [path for path in self.manifests.glob("*.json") if path.stem.rpartition(".")[0] == state]
        return sorted(found, key=lambda path: path.stat().st_mtime)

    def skipped(self, state: str) -> dict[str, Row]:
        """The rows of a state's manifests that say why a cell was not measured, by its name."""
        rows: dict[str, Row] = {}
        for path in self.manifests_of(state):
            manifest = read_as(Manifest, path)
            for row in manifest["cells"] if manifest else ():
                if row["why"]:
                    rows[row["cell"]] = row
        return rows

    def records(self, state: str) -> Path:
        """Folder of a state's records."""
        return self._below("records", state)

    def record(self, state: str, cell: str) -> Path:
        """One cell's record."""
        return Path(f"{self.root}/records/{self.target}/{self.study}/{state}/{cell}.json")  # called thousands of times

    def raw(self, state: str, cell: str, attempt: int) -> Path:
        """One observation, write-once."""
        return self._below("raw", state, f"{cell}.{attempt}.json")

    def attempts(self, state: str, cell: str) -> int:
        """How often a cell was measured so far."""
        number = 0
        while self.raw(state, cell, number + 1).exists():
            number += 1
        return number

    def bundle(self, state: str) -> Path:
        """Where a play leaves what it fetched."""
        return self.root / "incoming" / self.target / f"{self.study}.{state}.tar"

    def log(self, name: str) -> Path:
        """Log of one job."""
        return self._below("logs", f"{name}.log")

    def benchmark(self, name: str) -> Path:
        """Time and memory of one job, as Snakemake takes them."""
        return self._below("benchmarks", f"{name}.tsv")

    def requested(self, state: str) -> Path:
        """The requests to the target in a state, of all runs (fsage.records.messages)."""
        return self._below("requested", f"{state}.json")

    def refused(self, name: str) -> Path:
        """What a host sent and nobody takes, kept as it came."""
        return self.root / "refused" / self.target / name

    def request(self, name: str) -> Path:
        """The request of one job."""
        return self._below("requests", f"{name}.json")

    @property
    def report(self) -> Path:
        """Folder of the report."""
        return self._below("report")

    @property
    def counts(self) -> Path:
        """Folder of what was counted in the study's states, with its page."""
        return self._below("counts")

    def recorded(self, state: str) -> set[str]:
        """Names of the cells of a state that have a record; one look into its folder, for speed at parse time."""
        try:
            return {name[:-5] for name in os.listdir(self.records(state)) if name.endswith(".json")}
        except FileNotFoundError:
            return set()


def check(root: Path | None) -> None:
    """Raise ValueError for results that others than root could have prepared, where root is to write into them.

    What root makes from now on others cannot write to either, whatever the umask (None: that alone). A user's results
    are his own affair.
    """
    if os.geteuid() != 0:
        return
    os.umask(os.umask(0o077) | 0o022)
    if root is None:
        return
    root = Path(os.path.abspath(root))
    try:
        seam.check_place(root)
        for folder in sorted(root.iterdir()) if root.is_dir() else ():
            if folder.is_symlink() or folder.is_dir():
                seam.check_place(folder)
    except Refusal as why:
        raise ValueError(f"results: {why}; `--results FOLDER` names another") from None


def stored(folder: Path) -> list[Path]:
    """All JSON files below a folder, sorted. Raises OSError for a folder that cannot be read, which glob leaves out."""

    def refuse(error: OSError) -> None:
        raise error

    if not folder.exists():
        return []
    files = []
    for place, _, names in os.walk(folder, onerror=refuse):
        files += [Path(place, name) for name in names if name.endswith(".json")]
    return sorted(files)


def read(path: Path) -> Any:
    """JSON of `path`, or None where the file does not exist. Raises ValueError naming the file when it is broken."""
    return _read(path, message.read)


def read_block(path: Path) -> Json | None:
    """The same of a file that holds a block of keys. Raises ValueError where it holds something else, too."""
    return _read(path, message.read_block)


def read_as(kind: type[T], path: Path) -> T | None:
    """The same of a file that holds a `kind` (fsage.base.typed), such as a record."""
    block = read_block(path)
    if block is None:
        return None
    try:
        return typed.read(kind, block)
    except message.Unacceptable as why:
        raise ValueError(f"{path}: {why}; {REMEDY}") from why


def _read(path: Path, reader: Callable[[bytes], Any]) -> Any:
    try:
        return reader(path.read_bytes())
    except FileNotFoundError:
        return None
    except message.Unacceptable as why:
        raise ValueError(f"{path} {why}; {REMEDY}") from why


def encoded(value: object) -> bytes:
    """The JSON that `write` writes."""
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def write(path: Path, value: object) -> None:
    """Write JSON whole or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with message.whole_file(path) as out:
        out.write(encoded(value))
