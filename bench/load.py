"""Loading 100 000 records into one table, against reading the same files and doing nothing with them. Goal: 10 s."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import orjson

from fsage import dataset
from fsage.study.files import load_study

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from records import make_records, store  # noqa: E402 - the tests' records, as the agent leaves them

COUNT = 100_000


def main() -> None:
    """One line: seconds of both, and their ratio."""
    study = load_study(ROOT / "config/series1.yaml")
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="fsage-bench-") as folder:
        paths: list[Path] = []
        for number in range(COUNT // 2000):
            records = make_records(study, seed=number)[: COUNT - len(paths)]
            paths += store([record | {"target": f"target{number}"} for record in records], Path(folder))
        paths = paths[:COUNT]
        began = time.monotonic()
        for path in paths:
            orjson.loads(path.read_bytes())
        read_s = time.monotonic() - began
        began = time.monotonic()
        frame = dataset.load(paths)
        load_s = time.monotonic() - began
        assert len(frame) == len(paths) and set(frame["status"]) == {"valid"}
        print(
            f"{len(paths)} records of {sum(path.stat().st_size for path in paths) / len(paths):.0f} bytes: "
            f"{load_s:.1f} s into a table, {read_s:.1f} s to read and parse alone: {load_s / read_s:.1f}x"
        )


if __name__ == "__main__":
    main()
